"""Opening a checkpoint's directory: what is found, and what is refused."""

import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.utils import filter_repo_objects

from models import checkpoint as checkpoint_module
from models.checkpoint import Checkpoint, CheckpointError
from tests.checkpoints import CHAT_TEMPLATE, tiny_llama, write_json, write_tokenizer


def bare(directory: Path, **files: dict) -> Checkpoint:
    """A checkpoint of JSON files alone; config.json is there in any case."""
    for name, content in {"config": {"architectures": ["LlamaForCausalLM"]}, **files}.items():
        write_json(directory / f"{name}.json", content)
    return Checkpoint.open(str(directory))


def test_a_directory_in_the_published_layout(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tiny_llama(tmp_path)))
    assert checkpoint.architecture == "LlamaForCausalLM"
    assert checkpoint.chat_template == CHAT_TEMPLATE
    assert checkpoint.tokenizer_file == tmp_path / "tokenizer.json"
    assert checkpoint.eos_token_ids == (302,)
    assert checkpoint.weight_files == [tmp_path / "model.safetensors"]
    assert checkpoint.read_json("preprocessor_config.json") is None


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        Checkpoint.open(str(tmp_path))


@pytest.mark.parametrize("content", ["{", "[]", '"text"', ""])
def test_a_broken_configuration(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        Checkpoint.open(str(tmp_path))


@pytest.mark.parametrize("architectures", [None, [], "LlamaForCausalLM", [3]])
def test_no_architecture(architectures: object, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="architecture"):
        _ = bare(tmp_path, config={"architectures": architectures}).architecture


@pytest.mark.parametrize("name", ["./no/such/directory", "/no/such/directory", "a b", ""])
def test_a_name_that_is_no_model(name: str) -> None:
    with pytest.raises(CheckpointError, match="hub"):
        Checkpoint.open(name)


def test_a_model_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_llama(tmp_path)
    calls: list[dict] = []

    def download(name: str, **options: object) -> str:
        calls.append({"name": name, **options})
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert Checkpoint.open("owner/model", revision="v2").path == tmp_path
    assert [(call["name"], call["revision"]) for call in calls] == [("owner/model", "v2")]
    assert "*.safetensors" in calls[0]["allow_patterns"]
    Checkpoint.open("owner/model", weights=False)
    assert "*.safetensors" not in calls[1]["allow_patterns"]


def test_a_hub_without_safetensors_gives_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare(tmp_path)
    asked: list[list[str]] = []

    def download(name: str, allow_patterns: list[str], **options: object) -> str:
        asked.append(allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    Checkpoint.open("owner/model")
    assert ["*.safetensors" in patterns for patterns in asked] == [True, False]
    assert "pytorch_model*.bin" in asked[1]


def test_weights_that_a_hub_has_twice_are_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mistral's repositories hold them in their makers' form too, Whisper's in float32 too."""
    published = ["config.json", "model-00001-of-00002.safetensors", "consolidated.safetensors"]
    published += ["model.fp32-00001-of-00002.safetensors", "original/consolidated.00.safetensors"]
    published += ["original/params.json", "original/tokenizer.model", "onnx/model.safetensors"]
    fetched: list[str] = []

    def download(name: str, allow_patterns: list[str], ignore_patterns: list[str], **options: object) -> str:
        fetched.extend(
            filter_repo_objects(published, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns)
        )
        for file in fetched:
            (tmp_path / file).write_bytes(b"")
        write_json(tmp_path / "config.json", {})
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    Checkpoint.open("owner/model")
    assert fetched == published[:2]


def test_weights_in_their_makers_form_are_left_aside(tmp_path: Path) -> None:
    (tmp_path / "model-a.safetensors").write_bytes(b"")
    (tmp_path / "consolidated.safetensors").write_bytes(b"")
    assert bare(tmp_path).weight_files == [tmp_path / "model-a.safetensors"]


def test_templates_from_every_published_place(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "list"}]
    assert bare(tmp_path).chat_template is None
    assert bare(tmp_path, tokenizer_config={"chat_template": named}).chat_template == "list"
    assert bare(tmp_path, tokenizer_config={"chat_template": named[:1]}).chat_template is None
    assert bare(tmp_path, tokenizer_config={"chat_template": "string"}).chat_template == "string"
    assert bare(tmp_path, chat_template={"chat_template": "file"}).chat_template == "file"
    (tmp_path / "chat_template.jinja").write_text("jinja ü", "utf-8")
    assert bare(tmp_path).chat_template == "jinja ü"


def test_a_template_of_its_own_for_tools(tmp_path: Path) -> None:
    def templates(checkpoint: Checkpoint) -> tuple[str | None, str | None]:
        return checkpoint.chat_template, checkpoint.tool_template

    assert templates(bare(tmp_path)) == (None, None)
    assert templates(bare(tmp_path, tokenizer_config={"chat_template": "one"})) == ("one", "one")
    named = [{"name": "default", "template": "list"}, {"name": "tool_use", "template": "tools"}]
    assert templates(bare(tmp_path, tokenizer_config={"chat_template": named})) == ("list", "tools")
    (tmp_path / "chat_template.jinja").write_text("jinja")
    assert templates(bare(tmp_path)) == ("jinja", "jinja")
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text("jinja for tools")
    assert templates(bare(tmp_path)) == ("jinja", "jinja for tools")


def test_a_hub_s_template_for_tools_is_fetched() -> None:
    fetched = filter_repo_objects(
        ["additional_chat_templates/tool_use.jinja"],
        allow_patterns=checkpoint_module._CONFIG_PATTERNS,
        ignore_patterns=checkpoint_module._LEFT_OUT,
    )
    assert list(fetched)


def test_end_tokens_from_every_published_place(tmp_path: Path) -> None:
    ids = write_tokenizer(tmp_path)
    checkpoint = bare(
        tmp_path,
        generation_config={"eos_token_id": [7, 8]},
        config={"eos_token_id": 7, "thinker_config": {"text_config": {"eos_token_id": 9}}},
    )
    assert checkpoint.eos_token_ids == (7, 8, 9, ids["<|im_end|>"])


def test_end_token_that_only_the_tokenizer_s_settings_spell_out(tmp_path: Path) -> None:
    settings = {
        "eos_token": {"content": "</s>"},
        "added_tokens_decoder": {"2": {"content": "</s>"}, "1": {"content": "<s>"}},
    }
    assert bare(tmp_path, tokenizer_config=settings).eos_token_ids == (2,)


def test_an_index_names_the_shards(tmp_path: Path) -> None:
    tiny_llama(tmp_path, max_shard_size="200KB")
    files = Checkpoint.open(str(tmp_path)).weight_files
    assert len(files) > 1
    assert all(path.suffix == ".safetensors" for path in files)
    files[1].unlink()
    with pytest.raises(CheckpointError, match=files[1].name):
        _ = Checkpoint.open(str(tmp_path)).weight_files


def test_an_index_may_not_lead_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.safetensors"
    outside.touch()
    inside = tmp_path / "inside"
    inside.mkdir()
    index = {"weight_map": {"a": "../outside.safetensors"}}
    with pytest.raises(CheckpointError, match="outside"):
        _ = bare(inside, **{"model.safetensors.index": index}).weight_files


def test_no_weights(tmp_path: Path) -> None:
    assert bare(tmp_path).weight_files == []


def test_a_checkpoint_that_another_names(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    bare(tmp_path / "inner", config={"architectures": ["Inner"]})
    assert bare(tmp_path).referred("inner").architecture == "Inner"


def test_opening_needs_neither_torch_nor_transformers(tmp_path: Path) -> None:
    """The server's process opens a checkpoint and its processing; heavy imports would cost it seconds."""
    directory = tiny_llama(tmp_path)
    code = (
        "import sys\nfrom models.checkpoint import Checkpoint\n"
        "from models.registry import load_processing, FAMILIES\n"
        f"c = Checkpoint.open({str(directory)!r}); c.eos_token_ids, c.chat_template; load_processing(c)\n"
        "from importlib import import_module\n"
        "[import_module(family.processing.split(':')[0]) for family in FAMILIES.values()]\n"
        "sys.exit(', '.join({'torch', 'transformers'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
