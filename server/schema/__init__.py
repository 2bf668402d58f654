"""Wire types: what arrives as JSON, one file an endpoint, and `table`, the rows of every published
field."""
