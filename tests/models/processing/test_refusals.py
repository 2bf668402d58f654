"""What a family does not take is refused in one way, whichever family it is."""

import numpy as np
import pytest
from PIL import Image

from models.checkpoint import Checkpoint
from models.processing.base import MediaError, MediaLayout, Processing
from models.registry import load_processing
from tests.proof.families import FAMILIES, directory

ASKED = {
    "image": [
        lambda p: p.image_layout(64, 64),
        lambda p: p.prepare_image(Image.new("RGB", (64, 64))),
    ],
    "audio": [
        lambda p: p.audio_layout(16_000),
        lambda p: p.prepare_audio(np.zeros(16_000, np.float32)),
    ],
}
MISSING = [(name, kind) for name, family in FAMILIES.items() for kind in ASKED if kind not in family.kinds]


@pytest.mark.parametrize(("name", "kind"), MISSING)
def test_a_kind_that_is_not_taken(name: str, kind: str) -> None:
    processing: Processing = load_processing(Checkpoint.open(str(directory(name))))
    assert processing.kinds == set(FAMILIES[name].kinds)
    for ask in (
        *ASKED[kind],
        lambda p: p.marker(kind),
        lambda p: p.placeholder(kind, MediaLayout(1)),
    ):
        with pytest.raises(MediaError, match=f"takes no {kind}") as refusal:
            ask(processing)
        assert refusal.value.code == "unsupported_media"
