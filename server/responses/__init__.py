"""POST /v1/responses: items as a conversation, an answer as items and events. Nothing is stored."""
