"""Every server that the benchmark knows can be installed, and is started on what it is told."""

import re
from pathlib import Path

import pytest

from benchmarks.peers import SERVERS, launch

MAKEFILE = Path(__file__).parents[2] / "Makefile"
CHECKPOINT = Path("/nowhere/some-checkpoint")


@pytest.mark.parametrize("name", SERVERS)
def test_server_is_started_on_the_checkpoint_and_port(name):
    words = launch(name, CHECKPOINT, 8765).argv
    assert any(word.startswith(str(CHECKPOINT)) for word in words)
    assert words[words.index("--port") + 1] == "8765"


@pytest.mark.parametrize("name", SERVERS)
def test_server_goes_by_the_name_it_is_asked_for(name):
    how = launch(name, CHECKPOINT, 8765)
    assert how.model in how.argv


def test_each_peer_has_a_target_that_installs_it():
    targets = re.findall(r"^peer-([\w-]+):", MAKEFILE.read_text(), re.MULTILINE)
    assert sorted(targets) == sorted(set(SERVERS) - {"intarsia"})


def test_unknown_server_is_refused():
    with pytest.raises(ValueError, match="no-such-server"):
        launch("no-such-server", CHECKPOINT, 8765)


def test_llama_server_reads_what_its_preparation_writes():
    how = launch("llama-server", CHECKPOINT, 8765)
    assert how.preparation is not None
    written, command = how.preparation
    assert how.argv[how.argv.index("--model") + 1] == str(written)
    assert command[-1] == str(CHECKPOINT)
