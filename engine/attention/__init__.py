"""Paged attention back ends: one interface, one layout of the pages, any mix of prefill and decode rows."""
