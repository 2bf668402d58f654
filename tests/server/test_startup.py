"""What can be wrong when the server is started: one clear line and exit code 2, never a traceback."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from server.cli import main
from tests.checkpoints import tiny_llama

Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def fault(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a start which must fail ends with."""
    code = main(["serve", *map(str, arguments), "--threads", "1"])
    said = capfd.readouterr()
    assert code == 2, said.err
    (line,) = said.err.splitlines()
    assert line.startswith("intarsia: ")
    assert "Traceback" not in said.err
    return line


def config(**changes: object) -> Spoil:
    def spoil(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return spoil


def content(name: str, data: bytes) -> Spoil:
    return lambda directory: (directory / name).write_bytes(data)


def half(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def response_template(template: object) -> Spoil:
    def spoil(directory: Path) -> None:
        path = directory / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"response_template": template}))

    return spoil


def no_tokenizer(directory: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).unlink()


BROKEN: dict[str, tuple[Spoil, str]] = {
    "no config": (lambda directory: (directory / "config.json").unlink(), "no config.json"),
    "config is no JSON": (content("config.json", b"{not json"), "config.json is not valid JSON"),
    "config is no text": (content("config.json", b"\xff\x00\xfe"), "config.json is not valid JSON"),
    "config is a list": (content("config.json", b"[]"), "holds no JSON object"),
    "architecture unknown": (config(architectures=["NopeForX"]), "NopeForX, which is not supported"),
    "no architecture": (config(architectures=None), "names no architecture"),
    "tokenizer missing": (no_tokenizer, "tokenizer"),
    "tokenizer of another shape": (content("tokenizer.json", b'{"a": 1}'), "tokenizer"),
    "tokenizer no text": (content("tokenizer.json", b"\xff\xfe\x00"), "tokenizer"),
    "template broken": (content("chat_template.jinja", b"{% for x in %}"), "chat template"),
    "template no text": (content("chat_template.jinja", b"\xff\xfe"), "chat template"),
    "response template without fields": (response_template({"start_anchor": "a"}), "it has no fields"),
    "response template's pattern broken": (
        response_template({"start_anchor_pattern": "(", "fields": {"content": {}}}),
        "response template",
    ),
    "weights cut in half": (half, "model.safetensors can't be read"),
    "weights empty": (content("model.safetensors", b""), "model.safetensors can't be read"),
    "weights of another size": (config(intermediate_size=80), "has shape"),
    "no heads": (config(num_attention_heads=0), "config.json"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_checkpoint(
    sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    spoil, message = BROKEN[case]
    directory = Path(shutil.copytree(sound, tmp_path / "broken"))
    spoil(directory)
    assert message in fault(capfd, directory, "--port", 0)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--dtype", "int3"), "--dtype"),
        (("--port", "99999"), "--port"),
        (("--host", "192.0.2.1"), "can't listen on 192.0.2.1"),
        (("--kv-cache-memory", "lots"), "--kv-cache-memory"),
        (("--kv-cache-memory", "1KiB"), "kv_cache_memory must be at least"),
        (("--max-num-seqs", "64", "--max-num-batched-tokens", "64"), "max_num_batched_tokens"),
        (("--max-model-len", "999999"), "max_model_len is 999999"),
    ],
)
def test_settings_that_can_not_be(
    sound: Path, capfd: pytest.CaptureFixture[str], flags: tuple[str, ...], message: str
) -> None:
    port = () if "--port" in flags else ("--port", "0")
    assert message in fault(capfd, sound, *port, *flags)


def test_a_port_in_use(sound: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert f"can't listen on 127.0.0.1:{port}" in fault(capfd, sound, "--port", port)


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("port = ", "--config"),
        ("prot = 1", "settings.toml: prot: "),
        ('port = "x"', "settings.toml: port: "),
        ("[port]\na = 1", "settings.toml: port: "),
        ("host = [1]", "settings.toml: host: "),
        ("api_key = 5", "settings.toml: api_key: "),
        ("max_queue = 1.5", "settings.toml: max_queue: "),
    ],
)
def test_a_settings_file_that_is_wrong(
    sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], toml: str, message: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(toml)
    assert message in fault(capfd, sound, "--config", path)


@pytest.mark.parametrize(("name", "value"), [("PORT", "x"), ("DEBUG", "perhaps"), ("MAX_QUEUE", "-1")])
def test_an_environment_that_is_wrong(
    sound: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(f"INTARSIA_{name}", value)
    assert f"INTARSIA_{name}: " in fault(capfd, sound)
