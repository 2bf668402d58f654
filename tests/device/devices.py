"""The devices that this machine has: what runs on a GPU is tested on the CPU too, and there always."""

import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch could use")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]
