"""On a GPU that is only pretended (tensors know their device and have no content) families compute where they
should, by few kernels, and in the room that there is."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from PIL import Image
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from engine.attention.triton_backend import TritonBackend
from engine.attention.triton_kernels import attend, join, write
from engine.decode_graphs import DecodeStep
from kvcache.pages import KVPages
from models import loader
from models.checkpoint import Checkpoint
from models.families.qwen_vision import QwenVision
from models.families.qwen_vision_config import VisionConfig
from models.interface import EncoderInput, ForwardBatch, MediaRows, ServedModel
from models.weights import Weights
from tests.engine.recording import HostWaits, NoWaits
from tests.live_bytes import LiveBytes
from tests.proof.families import FAMILIES, directory

SIDE = 224
QWEN2_5_VISION = VisionConfig(
    depth=2,
    width=1280,
    num_heads=16,
    mlp_width=3420,
    out_width=3584,
    patch_shape=(3, 2, 14, 14),
    merge=2,
    activation="silu",
    gated=True,
    split_qkv=False,
    window=4,
    full_layers=frozenset({1}),
)


class Kernels(TorchDispatchMode):
    """Counts the operations that a GPU would be sent for."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        if not function.is_view and not name.startswith(("prim.", "aten.empty")):
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))


class Shapes:
    """A source of weights that has every name and no content."""

    total_bytes = 0

    def has(self, name: str) -> bool:
        return True

    def read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.empty(shape)


class Nameless(Weights):
    """Of them, for a model that is made up."""

    def publishes(self, name: str) -> bool:
        return False


class Attention:
    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.empty(q.shape, dtype=q.dtype, device=q.device)


@contextmanager
def pretended(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedModel]:
    checkpoint = Checkpoint.open(str(directory(name)))
    monkeypatch.setattr(loader, "RandomWeights", lambda _, dtype, device: Nameless(Shapes(), dtype, device))
    with FakeTensorMode(), torch.no_grad():
        yield loader.load_model(checkpoint, dtype="bfloat16", device="cuda", load_format="random")


def encoded(model: ServedModel) -> list[torch.Tensor]:
    """One medium of each kind that the model takes."""
    processing, items = model.processing, []
    if "image" in processing.kinds:
        picture = processing.prepare_image(Image.new("RGB", (SIDE, SIDE)))
        items.append(("image", picture, processing.image_layout(SIDE, SIDE)))
    if "audio" in processing.kinds:
        silence = np.zeros(3 * processing.sampling_rate, np.float32)
        items.append(("audio", processing.prepare_audio(silence), processing.audio_layout(len(silence))))
    encodings = []
    for kind, prepared, layout in items:
        arrays = {
            key: torch.empty(array.shape, dtype=getattr(torch, str(array.dtype)), device="cuda")
            for key, array in prepared.items()
        }
        (encoding,) = model.encode(kind, [EncoderInput(arrays, layout)])
        assert encoding.shape == (layout.num_tokens, model.encoding_width)
        encodings.append(encoding)
    return encodings


def logits(model: ServedModel, encodings: list[torch.Tensor]) -> torch.Tensor:
    """Of the last row of a prompt of these and a few tokens."""
    media, at = [], 0
    for encoding in encodings:
        media.append(MediaRows(at, at := at + len(encoding), encoding))
    num_axes = model.processing.positions(5, (), ()).ids.shape[0]
    ids, read = (torch.zeros(n, dtype=torch.int64, device="cuda") for n in (at + 5, 1))
    positions = torch.zeros(num_axes, at + 5, dtype=torch.int64, device="cuda")
    return model.logits(model.forward(ForwardBatch(ids, positions, media, read), Attention()))


@pytest.mark.parametrize("name", FAMILIES)
def test_everything_is_computed_where_the_model_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant left behind on the CPU would fail here, as a mix of devices does there."""
    with pretended(name, monkeypatch) as model:
        assert model.device.type == "cuda"
        encodings = encoded(model)
        assert all(encoding.is_cuda and encoding.dtype == torch.bfloat16 for encoding in encodings)
        assert (result := logits(model, encodings)).is_cuda
        assert result.dtype == torch.float32


@pytest.mark.parametrize(("name", "most"), [("qwen2", 17), ("qwen3", 20), ("gemma3_text", 33)])
def test_a_layer_takes_few_kernels_beside_attention(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small steps are bound by launching them."""
    with pretended(name, monkeypatch) as model:
        layers = model.attention.num_layers
        with Kernels() as kernels:
            logits(model, [])
    beside = 28  # rotary tables, embedding, final norm, head
    assert kernels.counts.total() <= layers * most + beside, kernels.counts


@pytest.mark.parametrize("name", FAMILIES)
def test_a_decode_step_never_waits_for_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it can't be recorded. Of attention all but the kernels runs."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    launched: Counter[object] = Counter()
    for module in (attend, join, write):
        monkeypatch.setattr(module, "launch", lambda kernel, *_, **__: launched.update([kernel]))
    with pretended(name, monkeypatch) as model:
        spec = model.attention
        pages = KVPages(spec.num_layers, 9, spec.num_kv_heads, spec.head_dim, model.dtype, "cuda")
        layers = [pages.layer(index) for index in range(spec.num_layers)]
        backend = TritonBackend(spec, *map(list, zip(*layers, strict=True)))
        step = DecodeStep(model, backend, 4, 8)
        with NoWaits():
            hidden = step.run()
        assert hidden.is_cuda
        assert hidden.shape[0] == 4
    assert launched == dict.fromkeys(launched, spec.num_layers)
    assert len(launched) == 3


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        (torch.Tensor.cpu, HostWaits),
        (torch.Tensor.nonzero, HostWaits),
        (lambda x: x[0].item(), HostWaits),
        (lambda x: x + torch.ones(3).to(x.device), HostWaits),
        (torch.Tensor.tolist, RuntimeError),  # of the pretended tensors themselves
    ],
    ids=["cpu", "nonzero", "item", "constant", "tolist"],
)
def test_a_wait_would_be_found(wait: Callable[[torch.Tensor], object], error: type[Exception]) -> None:
    with FakeTensorMode():
        x = torch.ones(3, device="cuda")
        with NoWaits(), pytest.raises(error):
            wait(x)


def test_a_picture_takes_no_more_than_a_card_has_left() -> None:
    """1.5 GiB for the largest one, of 2 ** 16 patches: of a card of 24 GB 1.9 GB are kept for this."""
    config, rows = QWEN2_5_VISION, 64
    values = np.linspace(-1, 1, 256, dtype=np.float32)[:, None].repeat(3, axis=1)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.inference_mode():
        tower = QwenVision(config, Weights(Shapes(), torch.bfloat16, torch.device("cuda")), values)
        patches = torch.empty(rows**2, 588, dtype=torch.uint8, device="cuda")
        tower(patches, (1, rows, rows))  # tables are made only once
        with LiveBytes() as live:
            tower(patches, (1, rows, rows))
    assert live.peak / rows**2 * 2**16 <= 1.5 * 2**30
