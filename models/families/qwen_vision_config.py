"""Sizes and flags of the vision towers of the Qwen-VL families, from their transformers configurations."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from models.activations import ACTIVATIONS
from models.checkpoint import CheckpointError

ROTARY_BASE = 10000.0


class VisionNames(NamedTuple):
    """What a family calls the maps of a plain MLP, and the parts of a merger."""

    mlp_in: str
    mlp_out: str
    merger_norm: str
    merger_in: str
    merger_out: str


_QWEN2 = VisionNames("fc1", "fc2", "ln_q", "mlp.0", "mlp.2")
_QWEN3 = VisionNames("linear_fc1", "linear_fc2", "norm", "linear_fc1", "linear_fc2")


@dataclass(frozen=True)
class VisionConfig:
    """One tower. window: side in merged patches, 0 for a tower without windows."""

    depth: int
    width: int
    num_heads: int
    mlp_width: int
    out_width: int
    patch_shape: tuple[int, int, int, int]
    merge: int
    activation: str
    gated: bool
    """Qwen2.5's blocks: RMS norms and a gated MLP, instead of layer norms and a plain one."""
    split_qkv: bool
    """Queries, keys and values are published apart (Omni)."""
    window: int
    full_layers: frozenset[int]
    names: VisionNames = _QWEN2
    patch_bias: bool = False
    num_positions: int = 0
    """Rows of the square table of learned positions, 0 for a tower without one."""
    deepstack: tuple[tuple[int, int], ...] = ()
    """(layer, number of the merger): after which layers rows are given out too, in order."""

    @classmethod
    def of(cls, vision: Any) -> "VisionConfig":
        """vision: the vision part of a configuration of Qwen2-VL, Qwen2.5-VL, Qwen2.5-Omni or Qwen3-VL.

        CheckpointError for what the tower doesn't compute."""
        if vision.in_channels != 3:
            raise CheckpointError(
                f"A vision tower of {vision.in_channels} channels instead of 3 is not supported"
            )
        if (vision.rope_parameters or {}).get("rope_theta", ROTARY_BASE) != ROTARY_BASE:
            raise CheckpointError(
                f"A vision tower whose rotary positions have another base than {ROTARY_BASE} is not supported"
            )
        makers = {"qwen2_vl_vision": cls._plain, "qwen3_vl_vision": cls._deep}
        return makers.get(vision.model_type, cls._windowed)(vision)

    @classmethod
    def _plain(cls, vision: Any) -> "VisionConfig":
        return cls(
            depth=vision.depth,
            width=vision.embed_dim,
            num_heads=vision.num_heads,
            mlp_width=int(vision.embed_dim * vision.mlp_ratio),
            out_width=vision.hidden_size,
            patch_shape=_patch_shape(vision),
            merge=vision.spatial_merge_size,
            activation=_activation(vision, "quick_gelu"),
            gated=False,
            split_qkv=False,
            window=0,
            full_layers=frozenset(range(vision.depth)),
        )

    @classmethod
    def _windowed(cls, vision: Any) -> "VisionConfig":
        return cls(
            depth=vision.depth,
            width=vision.hidden_size,
            num_heads=vision.num_heads,
            mlp_width=vision.intermediate_size,
            out_width=vision.out_hidden_size,
            patch_shape=_patch_shape(vision),
            merge=vision.spatial_merge_size,
            activation=_activation(vision, "silu"),
            gated=True,
            split_qkv=vision.model_type == "qwen2_5_omni_vision_encoder",
            window=vision.window_size // vision.spatial_merge_size // vision.patch_size,
            full_layers=frozenset(vision.fullatt_block_indexes),
        )

    @classmethod
    def _deep(cls, vision: Any) -> "VisionConfig":
        outputs = list(vision.deepstack_visual_indexes)
        return cls(
            depth=vision.depth,
            width=vision.hidden_size,
            num_heads=vision.num_heads,
            mlp_width=vision.intermediate_size,
            out_width=vision.out_hidden_size,
            patch_shape=_patch_shape(vision),
            merge=vision.spatial_merge_size,
            activation=_activation(vision, *ACTIVATIONS),
            gated=False,
            split_qkv=False,
            window=0,
            full_layers=frozenset(range(vision.depth)),
            names=_QWEN3,
            patch_bias=True,
            num_positions=vision.num_position_embeddings,
            deepstack=tuple(
                (layer, outputs.index(layer)) for layer in range(vision.depth) if layer in outputs
            ),
        )

    @property
    def head_dim(self) -> int:
        return self.width // self.num_heads

    @property
    def merged_width(self) -> int:
        return self.width * self.merge**2

    @property
    def output_width(self) -> int:
        """Of a row that the tower gives out."""
        return self.out_width * (1 + len(self.deepstack))


def _patch_shape(vision: Any) -> tuple[int, int, int, int]:
    return vision.in_channels, vision.temporal_patch_size, vision.patch_size, vision.patch_size


def _activation(vision: Any, *known: str) -> str:
    if vision.hidden_act not in known:
        raise CheckpointError(
            f"A vision tower with the activation {vision.hidden_act!r} instead of "
            f"{' or '.join(map(repr, known))} is not supported"
        )
    return vision.hidden_act
