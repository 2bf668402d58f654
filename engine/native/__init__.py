"""A decoder's layers in C, built on first use by the system's compiler and called without the GIL."""
