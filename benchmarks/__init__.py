"""Measures any OpenAI-compatible server over HTTP, and this one beside its peers on the same work."""
