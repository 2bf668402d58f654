"""One command that says all a first run on a new GPU should say, in less than eight minutes.

    python -m benchmarks.gpu_check [--seconds 450] [--out gpu_check.json]

Writes FILE, and a summary beside it that ends in .md. Needs the project's dependencies, psutil and pytest;
without a network, from wheels: `pip install --no-index --find-links DIR --no-build-isolation --editable .`

Each section runs in a process of its own, with a limit of its own: one that fails, hangs or takes the
device's context with it costs the others nothing, and what it had found until then is kept. Without a GPU
everything runs at toy sizes: that shows that the check works, its figures mean nothing.
"""
