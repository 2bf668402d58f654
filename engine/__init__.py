"""Continuous batching: requests, one scheduling step, attention back ends, sampling, the loop and its
process.

Knows nothing of HTTP or of OpenAI's field names. `engine.client` and `engine.messages` need no torch.
"""
