"""Model families: how each lays out, prepares and encodes media, and runs its forward pass.

Knows nothing of requests, queues or HTTP. `models.processing` and `models.checkpoint` need no torch; the
rest does.
"""
