"""Kernels for NVIDIA GPUs, each file one kernel and its launch. Importing them needs the package `triton`."""
