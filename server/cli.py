"""The command `intarsia`. Exit codes: 0 done, 1 failed, 2 the user's settings are at fault (one line says
which)."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from engine.client import EngineStartFailed
from models.checkpoint import CheckpointError
from server import demo, flags, reference
from server.flags import SettingsError
from server.launch import Launch, listen
from server.settings import Settings


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["bench"]:  # has options of its own
        from benchmarks.cli import main as bench

        return bench(words[1:])
    arguments = _parser().parse_args(words)
    if arguments.command == "docs":
        reference.write(Path(arguments.directory))
        return 0
    if arguments.command == "demo":
        return demo.run(arguments)
    try:
        _serve(flags.load(vars(arguments), os.environ, arguments.config))
    except (SettingsError, CheckpointError) as error:
        return _fail(str(error), 2)
    except EngineStartFailed as error:
        return _fail(str(error), error.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="intarsia", description="Serve multimodal models over the OpenAI API."
    )
    parser.add_argument("--version", action="version", version=f"intarsia {version('intarsia')}")
    commands = parser.add_subparsers(dest="command", required=True)
    flags.add_flags(commands.add_parser("serve", help="serve a model"))
    commands.add_parser("bench", help="measure this server, or any other (bench --help)", add_help=False)
    demo.add_flags(commands.add_parser("demo", help="make a larger example model"))
    docs = commands.add_parser("docs", help="write the generated reference pages")
    docs.add_argument("directory", nargs="?", default="docs")
    return parser


def _serve(settings: Settings) -> NoReturn:
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if settings.log_level == "info":  # it would tell of its own beginning and end, between ours
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
    listener = listen(settings)

    async def run() -> int:
        return await Launch(settings, listener).run()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        _end(runner.run(run()))


def _end(code: int) -> NoReturn:
    """At once. All requests have ended and the engine's process too; a thread that is still at something (a
    download, a picture) would be waited for otherwise."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody may be reading any more
            stream.flush()
    os._exit(code)


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop


def _fail(message: str, code: int) -> int:
    print(f"intarsia: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
