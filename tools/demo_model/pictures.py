"""Cached pictures: drawn once in shards, read back as arrays padded to the largest grid.

`python -m tools.demo_model.pictures FIRST LAST` draws shards FIRST to LAST - 1 (4,096 pictures each).
"""

import pickle
import random
import sys
from pathlib import Path

import numpy as np

from tools.demo_model.draw import PATCH, Drawing, draw, letter_width
from tools.demo_model.scene import (
    GRIDS,
    Scene,
    sample_background,
    sample_number,
    sample_shapes,
    sample_text,
)
from tools.demo_model.words import sample_printed

CACHE = Path(__file__).parent / ".cache"
SHARD = 4096
MAX_PATCHES = 196
PATCH_VALUES = 3 * PATCH * PATCH


READING = 4  # all but every fourth shard are mostly printed text, and mostly words that are in no list


def sample_scene(rng: random.Random, reading: bool = False) -> Scene:
    """A scene of any kind, in the proportions of training."""
    if reading and rng.random() < 0.7:
        if rng.random() < 0.45:
            return sample_text(
                rng, "number", "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, 5)))
            )
        return sample_text(rng, "word", sample_printed(rng, listed=0.15))
    pick = rng.random()
    if pick < 0.5:
        return sample_shapes(rng)
    if pick < 0.72:
        return sample_text(rng, "number", sample_number(rng))
    if pick < 0.88:
        return sample_text(rng, "word", sample_printed(rng, listed=0.4))
    background, paper = sample_background(rng)
    blank = background is not None and pick > 0.965
    return Scene("blank" if blank else "foreign", rng.choice(GRIDS), background, paper)


def to_patches(pixels: np.ndarray) -> np.ndarray:
    """(height, width, 3) to (patches, 3 * 8 * 8), ordered as the image processor does: 2 x 2 groups,
    channel first.
    """
    height, width, _ = pixels.shape
    rows, columns = height // (2 * PATCH), width // (2 * PATCH)
    grouped = pixels.reshape(rows, 2, PATCH, columns, 2, PATCH, 3)
    return grouped.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns * 4, PATCH_VALUES)


def to_patch_order(labels: np.ndarray) -> np.ndarray:
    """(rows, columns, values) a patch to (patches, values), in the order of `to_patches`."""
    rows, columns, values = labels.shape
    return labels.reshape(rows // 2, 2, columns // 2, 2, values).transpose(0, 2, 1, 3, 4).reshape(-1, values)


def from_patch_order(labels: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """The reverse of `to_patch_order`, for labels that may be padded."""
    rows, columns = grid
    grouped = labels[: rows * columns].reshape(rows // 2, columns // 2, 2, 2, -1)
    return grouped.transpose(0, 2, 1, 3, 4).reshape(rows, columns, -1)


def padded(drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    patches = np.zeros((MAX_PATCHES, PATCH_VALUES), np.uint8)
    labels = np.full((MAX_PATCHES, 2), 255, np.uint8)
    flat = to_patches(drawing.pixels)
    patches[: len(flat)] = flat
    labels[: len(flat)] = to_patch_order(drawing.labels)
    return patches, labels


def draw_shard(index: int) -> None:
    """Draw one shard into the cache, unless it is there."""
    target = CACHE / f"pictures-{index:03d}.npz"
    if target.exists():
        return
    rng = random.Random(f"pictures {index}")
    scenes = [sample_scene(rng, index % READING > 0) for _ in range(SHARD)]
    drawn = [padded(draw(scene, rng)) for scene in scenes]
    CACHE.mkdir(exist_ok=True)
    np.save(CACHE / f"patches-{index:03d}.npy", np.stack([patches for patches, _ in drawn]))
    partial = target.with_suffix(".part.npz")
    np.savez(partial, labels=np.stack([labels for _, labels in drawn]), scenes=pickle.dumps(scenes))
    partial.rename(target)


class Pictures:
    """All shards drawn so far, memory-mapped: `scenes[i]`, `patches(i)`, `labels(i)`."""

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self._patches: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        for path in sorted(CACHE.glob("pictures-???.npz")):
            with np.load(path) as shard:
                scenes, labels = pickle.loads(shard["scenes"].tobytes()), shard["labels"]
            for scene, flat in zip(scenes, labels, strict=True):
                if scene.text:
                    scene.letter_width = letter_width(scene, from_patch_order(flat, scene.grid))
            self.scenes += scenes
            self._labels.append(labels)
            self._patches.append(np.load(CACHE / f"patches-{path.stem[-3:]}.npy", mmap_mode="r"))

    def __len__(self) -> int:
        return len(self.scenes)

    def patches(self, index: int) -> np.ndarray:
        return self._patches[index // SHARD][index % SHARD]

    def labels(self, index: int) -> np.ndarray:
        return self._labels[index // SHARD][index % SHARD]


if __name__ == "__main__":
    for shard in range(int(sys.argv[1]), int(sys.argv[2])):
        draw_shard(shard)
        print(f"shard {shard} drawn", flush=True)
