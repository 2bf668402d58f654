"""Wire types: what arrives as JSON, one file an endpoint, and `fields`, the table of every published
field."""
