"""Bookkeeping for paged, content-addressed attention caches: tokens, media spans, blocks and their identity.

Knows nothing of requests, HTTP or any model; only `pages` touches tensors.
"""
