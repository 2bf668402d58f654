"""A checkpoint's own response template: how the text that its model writes is taken apart into thought,
answer and tool calls. The form is the one that `transformers` publishes as a tokenizer's `response_template`.
"""
