"""Fonts: which are drawn with, which are kept for the evaluation, and text fitted into a box."""

import random
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

from tools.demo_model.fonts import FONTS
from tools.demo_model.words import words

ROOTS = (Path("/usr/share/fonts"),)
FAMILIES = words(
    "DejaVuSans Liberation Go- B612 BebasNeue Cabin Cantarell ComicNeue CourierPrime Dosis EBGaramond "
    "FiraCode GFSDidot Inter- Lato LeagueSpartan Lobster Play Caladea Carlito ClearSans Inconsolata "
    "OpenSans Quicksand Hack NotoSans- NotoSerif- NotoMono OldStandard"
)
HELD_OUT = words("Roboto Manrope NotoSansMono NotoSerifDisplay")
TOO_THIN = ("Thin", "ExtraLight", "Hairline", "Math", "SmallCaps", "Smallcaps", "Condensed")


@lru_cache
def font_files(held_out: bool) -> tuple[Path, ...]:
    """Paths of the training fonts, or of those that only the evaluation uses, in a fixed order."""
    wanted = HELD_OUT if held_out else FAMILIES
    found = {
        path.name: path
        for root in ROOTS
        for path in root.rglob("*.[to]tf")
        if path.name.replace(" ", "").startswith(tuple(wanted)) and not any(w in path.name for w in TOO_THIN)
    }
    fetched = () if held_out else sorted(FONTS.glob("*/*.woff2"))
    return (*(found[name] for name in sorted(found)), *fetched)


def family(path: Path) -> str:
    return path.parent.name if path.suffix == ".woff2" else path.name[:5]


@lru_cache
def families(held_out: bool) -> tuple[tuple[Path, ...], ...]:
    """The fonts by family, in a fixed order."""
    found: dict[str, list[Path]] = {}
    for path in font_files(held_out):
        found.setdefault(family(path), []).append(path)
    return tuple(tuple(found[name]) for name in sorted(found))


@lru_cache(4096)
def load(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, size)


def sample_font(rng: random.Random, held_out: bool) -> Path:
    """A font file; families weigh the same however many styles they have."""
    return rng.choice(rng.choice(families(held_out)))


def fit(path: Path, text: str, width: float, height: float) -> ImageFont.FreeTypeFont:
    """The font at the largest size at which the text fits into width x height pixels."""
    probe = load(path, 64)
    left, top, right, bottom = probe.getbbox(text)
    size = 64 * min(width / max(right - left, 1), height / max(bottom - top, 1))
    return load(path, max(6, int(size)))
