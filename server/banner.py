"""What a person sees at the terminal while the server starts. Log lines where there is no terminal."""

import contextlib
import json
import shlex
import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from engine.messages import EngineInfo, LoadProgress
from server.runtime import Runtime
from server.settings import Settings

_console = Console(stderr=True, highlight=False)


class LoadDisplay:
    """A progress bar from the first report until the model is loaded."""

    def __init__(self) -> None:
        columns = (TextColumn("loading"), BarColumn(), DownloadColumn())
        self._progress = Progress(
            *columns, console=_console, transient=True, disable=not _console.is_terminal
        )
        self._task = self._progress.add_task("loading", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def update(self, report: LoadProgress) -> None:
        self._progress.update(self._task, completed=report.done_bytes, total=report.total_bytes)


def print_banner(settings: Settings, port: int, runtime: Runtime) -> None:
    """To whoever listens: a log that is full or closed is no reason not to serve."""
    with contextlib.suppress(OSError):
        for line in banner(settings, port, runtime.engine.info, runtime.facts.names[0]):
            print(line, file=sys.stderr, flush=True)


def banner(settings: Settings, port: int, info: EngineInfo, name: str) -> list[str]:
    """What is served, how much fits, and a line to paste."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    num_tokens = info.num_blocks * info.block_size
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Hello!"}]})
    key = ' -H "Authorization: Bearer $INTARSIA_KEY"' if settings.api_key else ""
    return [
        f"{name}: {info.architecture}, {info.dtype} on {info.device}, attention: {info.attention_backend}",
        f"KV cache: {num_tokens} tokens, room for {num_tokens / info.max_model_len:.1f} sequences of "
        f"{info.max_model_len} tokens",
        f"ready at {url}/v1",
        f"curl {url}/v1/chat/completions{key} -H 'Content-Type: application/json' -d {shlex.quote(body)}",
    ]
