"""What holds for every test."""

import os

import hypothesis

# Triton reads this when it is first imported, whoever does: its kernels run as Python, on the CPU.
os.environ["TRITON_INTERPRET"] = "1"

hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
