"""The HTTP front end: OpenAI's wire format, media, chat templates, tenants, streaming, metrics.

Knows nothing of tensors: neither torch nor transformers is ever imported in this process.
"""
