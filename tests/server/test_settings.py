"""Settings: one model behind flags, environment and file; the pages made from the code are the ones in
docs/."""

import argparse
import socket
from pathlib import Path

import pytest

from server import flags, reference
from server.cli import main
from server.flags import SettingsError
from server.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


def parse(*argv: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    flags.add_flags(parser)
    return vars(parser.parse_args(argv))


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_the_pages_are_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == reference.pages()[name], "run `intarsia docs`"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "intarsia.toml"
    file.write_text('port = 1\nmax_queue = 1\nmax_num_seqs = 1\napi_key = ["a", "b"]\n')
    env = {"INTARSIA_PORT": "2", "INTARSIA_MAX_QUEUE": "2", "INTARSIA_SERVED_MODEL_NAME": "x, y"}
    settings = flags.load(parse("--port", "3"), env, str(file))
    assert (settings.port, settings.max_queue, settings.max_num_seqs) == (3, 2, 1)
    assert settings.api_key == ("a", "b")
    assert settings.served_names == ("x", "y")


def test_every_setting_is_a_flag() -> None:
    args = [
        "model/dir",
        "--kv-cache-memory",
        "2GiB",
        "--api-key",
        "t:k",
        "--api-key",
        "z",
        "--deterministic",
        "--no-debug",
    ]
    settings = flags.load(parse(*args), {}, None)
    assert settings.kv_cache_memory == 2 << 30
    assert settings.tenants == (("t", "k"), ("key z", "z"))
    assert settings.deterministic
    assert settings.served_names == ("dir", "model/dir")
    page = flags.reference_page()
    assert all(name.upper() in page for name in Settings.model_fields)


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--port", "99999"], "--port"),
        (["--kv-cache-memory", "lots"], "--kv-cache-memory"),
        (["--dtype", "int3"], "--dtype"),
        (["--max-queue", "-1"], "--max-queue"),
        (["--config", "/nonexistent.toml"], "--config"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(
    argv: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *argv]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "keys", [[""], ["  "], ["good", ""], ["team:"], ["good", "team: "], [":key"], ["team: key"], "", " , "]
)
def test_a_key_that_went_missing_opens_nothing(
    keys: list[str] | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "intarsia.toml"
    file.write_text(f"api_key = {keys!r}\n".replace("'", '"'))
    with pytest.raises(SettingsError, match=r"intarsia\.toml: api_key: "):
        flags.load({}, {}, str(file))
    source = "--api-key: "
    if isinstance(keys, str):
        source = "INTARSIA_API_KEY: "
        monkeypatch.setenv("INTARSIA_API_KEY", keys)
        keys = []
    assert main(["serve", *(f"--api-key={key}" for key in keys)]) == 2
    error = capsys.readouterr().err
    assert source in error
    assert "good" not in error, "a log is no place for keys"


def test_keys_in_the_environment() -> None:
    assert flags.load({}, {"INTARSIA_API_KEY": "a, team:b,"}, None).tenants == (("key a", "a"), ("team", "b"))
    assert not flags.load({}, {"INTARSIA_PORT": ""}, None).tenants


@pytest.mark.parametrize("name", ["config", "host", "allowed-media-path", "served-model-name"])
def test_an_empty_flag_is_no_wish_for_everything(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as all interfaces, the working directory, or whatever a file would have forbidden."""
    assert main(["serve", f"--{name}", ""]) == 2
    assert f"--{name}" in capsys.readouterr().err


def test_names_to_serve_under(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names(model: str) -> tuple[str, ...]:
        return flags.load({"model": model}, {}, None).served_names

    (tmp_path / "some" / "model").mkdir(parents=True)
    (tmp_path / "current").symlink_to(tmp_path / "some" / "model")
    monkeypatch.chdir(tmp_path / "some" / "model")
    assert names(".") == names("../model/") == names(str(tmp_path / "some" / "model")) == ("model",)
    assert names("..") == ("some",)
    assert names(str(tmp_path / "current")) == ("current",)
    assert names("/") == ("model",)
    assert names("Qwen/Qwen2.5-VL-3B-Instruct") == (
        "Qwen2.5-VL-3B-Instruct",
        "Qwen/Qwen2.5-VL-3B-Instruct",
    )
    assert names("gpt2") == ("gpt2",)


def test_unknown_settings_in_a_file_are_named(tmp_path: Path) -> None:
    file = tmp_path / "intarsia.toml"
    file.write_text("prot = 1\n")
    with pytest.raises(SettingsError, match=r"intarsia\.toml: prot: "):
        flags.load({}, {}, str(file))


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "can't listen" in capsys.readouterr().err
