"""The HTTP front end: OpenAI's wire format, media, chat templates, tenants, streaming, metrics.

Knows nothing of tensors: neither torch nor transformers is ever imported in this process.
"""

import os

# Read by numpy when something below brings it in. The threads of its matrix products spin for a tenth of a
# second after each, on cores that the engine wants: the first token after a new sound took twice as long.
for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
