"""A checkpoint's directory: its configuration, templates, tokenizer and weight files by name.

Reads JSON and lists files. Knows neither tensors nor any model family, and needs neither torch nor
transformers, so that the server's process can open a checkpoint in milliseconds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

_CONFIG_PATTERNS = ["*.json", "*.jinja", "*.txt", "tokenizer.model"]
_SAFETENSORS, _PICKLED = ["*.safetensors"], ["pytorch_model*.bin"]
_LEFT_OUT = ["*/*.json", "*/*.txt", "*/*.safetensors", "consolidated*", "*.fp32*", "*.fp16*"]
"""What lies below the top, but for chat templates, and the same weights once more: in their makers' form, in
another dtype."""


class CheckpointError(Exception):
    """A checkpoint that can't be served: missing, incomplete, or of a kind that isn't supported."""


class _AddedToken(msgspec.Struct):
    id: int
    content: str


class _TokenizerHead(msgspec.Struct):
    """The one list of tokenizer.json that is needed here; its megabytes of merges are skipped, not built."""

    added_tokens: list[_AddedToken] = []


@dataclass(frozen=True)
class Checkpoint:
    """path: a local directory in the published layout. config: its raw config.json."""

    path: Path
    config: dict[str, Any]

    @classmethod
    def open(cls, model: str, revision: str | None = None, weights: bool = True) -> "Checkpoint":
        """model: a local directory, or a hub id, downloaded unless it is in the hub's cache.

        weights: whether weight files are wanted too. Raises CheckpointError where there is no checkpoint.
        """
        path = Path(model).expanduser()
        if not model or not path.is_dir():
            path = _download(model, revision, weights)
        config = _read_json(path / "config.json")
        if config is None:
            raise CheckpointError(f"{path} is no checkpoint: it has no config.json")
        return cls(path, config)

    def referred(self, name: str, weights: bool = True) -> "Checkpoint":
        """Another checkpoint that this one names: a path within its own directory, or as in `open`."""
        inside = self.path / name
        return Checkpoint.open(str(inside) if inside.is_dir() else name, weights=weights)

    @property
    def architecture(self) -> str:
        """The class name that the checkpoint was published for."""
        names = self.config.get("architectures")
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            raise CheckpointError(f"{self.path / 'config.json'} names no architecture")
        return names[0]

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON object from the checkpoint's directory, None where there is no such file."""
        return _read_json(self.path / name)

    @cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        return self.read_json("tokenizer_config.json") or {}

    @cached_property
    def generation_config(self) -> dict[str, Any]:
        return self.read_json("generation_config.json") or {}

    @property
    def tokenizer_file(self) -> Path | None:
        path = self.path / "tokenizer.json"
        return path if path.is_file() else None

    @property
    def chat_template(self) -> str | None:
        """The Jinja source of the default chat template."""
        return self._chat_templates.get("default")

    @property
    def tool_template(self) -> str | None:
        """The one for conversations with tools: the default, unless another is published for them."""
        return self._chat_templates.get("tool_use", self.chat_template)

    @cached_property
    def _chat_templates(self) -> dict[str, str]:
        """Jinja sources by name, from whichever of the published places has the default."""
        jinja = self.path / "chat_template.jinja"
        if jinja.is_file():
            others = (self.path / "additional_chat_templates").glob("*.jinja")
            return {"default": _read_template(jinja)} | {path.stem: _read_template(path) for path in others}
        for name in ("chat_template.json", "processor_config.json", "tokenizer_config.json"):
            templates = _named_templates((self.read_json(name) or {}).get("chat_template"))
            if "default" in templates:
                return templates
        return {}

    @cached_property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every token that the checkpoint says ends an answer, in order of first mention."""
        found = list(_ids(self.generation_config.get("eos_token_id")))
        for config in _nested_configs(self.config):
            found += _ids(config.get("eos_token_id"))
        token = self.tokenizer_config.get("eos_token")
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            found += [i for i, text in self._added_tokens() if text == content]
        return tuple(dict.fromkeys(found))

    @property
    def weight_files(self) -> list[Path]:
        """Files that hold the weights: safetensors if there are any, else pickled ones; maybe none."""
        for index, single, pattern in (
            ("model.safetensors.index.json", "model.safetensors", "*.safetensors"),
            ("pytorch_model.bin.index.json", "pytorch_model.bin", "pytorch_model*.bin"),
        ):
            shards = (self.read_json(index) or {}).get("weight_map")
            if shards:
                return [self._shard(name) for name in sorted(set(shards.values()))]
            if (self.path / single).is_file():
                return [self.path / single]
            if found := sorted(self.path.glob(pattern)):
                return [path for path in found if not path.name.startswith(("adapter_", "consolidated"))]
        return []

    def _shard(self, name: str) -> Path:
        path = self.path / name
        if Path(name).name != name or not path.is_file():
            raise CheckpointError(f"{self.path} is incomplete: its index names {name}, which is not there")
        return path

    def _added_tokens(self) -> Iterator[tuple[int, str]]:
        for token_id, token in (self.tokenizer_config.get("added_tokens_decoder") or {}).items():
            yield int(token_id), token["content"] if isinstance(token, dict) else token
        if self.tokenizer_file is not None:
            head = msgspec.json.decode(self.tokenizer_file.read_bytes(), type=_TokenizerHead)
            yield from ((token.id, token.content) for token in head.added_tokens)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return content


def _read_template(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"the chat template {path} can't be read: {error}") from error


def _named_templates(value: object) -> dict[str, str]:
    """A template is published as one string, or as a list of named ones (or a mapping) with a "default"."""
    if isinstance(value, str):
        return {"default": value}
    if isinstance(value, list):
        value = {item.get("name"): item.get("template") for item in value if isinstance(item, dict)}
    if not isinstance(value, dict):
        return {}
    return {str(name): source for name, source in value.items() if isinstance(source, str)}


def _nested_configs(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield config
    for name in ("text_config", "thinker_config"):
        if isinstance(config.get(name), dict):
            yield from _nested_configs(config[name])


def _ids(value: object) -> Iterable[int]:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, int)]
    return [value] if isinstance(value, int) else []


def _download(model: str, revision: str | None, weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    def fetch(patterns: list[str]) -> Path:
        folder = snapshot_download(
            model, revision=revision, allow_patterns=patterns, ignore_patterns=_LEFT_OUT
        )
        return Path(folder)

    try:
        path = fetch(_CONFIG_PATTERNS + (_SAFETENSORS if weights else []))
        if weights and not any(path.glob("*.safetensors")):
            path = fetch(_CONFIG_PATTERNS + _PICKLED)
    except HFValidationError:
        raise CheckpointError(
            f"{model!r} is neither a directory nor the name of a model on the hub"
        ) from None
    except Exception as error:  # the hub's client raises its own, httpx's and the file system's errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"{model!r} is no directory, and the hub did not give it: {reason}") from error
    return path
