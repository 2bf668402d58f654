"""Numbers from the host to the device without a wait, and back with one."""

import numpy as np
import torch


def sent(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """The array on the device, where it comes before whatever is launched next; on a CPU the array itself."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def fetched(*tensors: torch.Tensor) -> list[np.ndarray]:
    """Tensors of one device on the host, which waits once for all of them."""
    copies = [tensor.to("cpu", non_blocking=True) for tensor in tensors]
    if tensors[0].is_cuda:
        torch.cuda.current_stream(tensors[0].device).synchronize()
    return [copy.numpy() for copy in copies]
