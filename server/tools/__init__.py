"""Tool calls: from a model's text to OpenAI's deltas, and the grammar that forces a call."""
