"""A decoder's layers for few rows in C, built on first use by the system's compiler, called without the GIL."""
