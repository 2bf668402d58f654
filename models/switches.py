"""What torch is told once, for the whole process. Nothing of it touches a CPU."""

import torch


def set_switches() -> None:
    """float32 is float32: by default convolutions on a GPU keep 10 bits of what they multiply.

    Attention without cuDNN, which torch prefers on Hopper and Blackwell. It builds a plan, tens of
    milliseconds of the host's time, for every number of rows and keys that it has not seen: a new one in
    nearly every step, and for every size of a picture. The kernels that are left take sizes as they come.
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_cudnn_sdp(False)
