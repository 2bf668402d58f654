"""Messages between the two processes: msgpack structures, the contents of arrays as raw frames beside them.

A message to the engine is [command, array, array, ...]; a message from it is [list of events], one for each
step. Sockets are a private pair on one machine; they never drop a message and `send` never blocks.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import zmq

from engine.messages import ArraySpec, Command, Event, MediaPrepared
from models.processing.base import PreparedMedia

_encoder = msgspec.msgpack.Encoder()
_commands = msgspec.msgpack.Decoder(Command)
_events = msgspec.msgpack.Decoder(list[Event])


def array_specs(arrays: PreparedMedia) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(name, array.dtype.str, array.shape) for name, array in arrays.items())


def encode_command(command: Command, arrays: PreparedMedia | None = None) -> list[bytes | memoryview]:
    """arrays: those that a MediaPrepared names, in its order."""
    raw = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in (arrays or {}).values()]
    return [_encoder.encode(command), *raw]


def decode_command(frames: Sequence[zmq.Frame | bytes | memoryview]) -> tuple[Command, PreparedMedia]:
    """The arrays are read-only views of the frames. ValueError if frames and message don't agree."""
    command = _commands.decode(_buffer(frames[0]))
    specs = command.arrays if isinstance(command, MediaPrepared) else ()
    if len(specs) != len(frames) - 1:
        raise ValueError(f"{len(specs)} arrays announced, {len(frames) - 1} sent")
    arrays = {}
    for spec, frame in zip(specs, frames[1:], strict=True):
        arrays[spec.name] = np.frombuffer(_buffer(frame), dtype=np.dtype(spec.dtype)).reshape(spec.shape)
    return command, arrays


def encode_events(events: list[Event]) -> bytes:
    return _encoder.encode(events)


def decode_events(frame: bytes) -> list[Event]:
    return _events.decode(frame)


@contextmanager
def private_address() -> Iterator[str]:
    """An address that only this user can reach; it is gone when the context ends."""
    with TemporaryDirectory(prefix="intarsia-") as directory:
        yield f"ipc://{Path(directory) / 'engine'}"


def pair(context: zmq.Context, address: str, bind: bool) -> zmq.Socket:
    socket = context.socket(zmq.PAIR)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.LINGER, 200)
    try:
        (socket.bind if bind else socket.connect)(address)
    except zmq.ZMQError:
        socket.close()
        raise
    return socket


def has_message(socket: zmq.Socket) -> bool:
    """Asking costs a fraction of the exception that receiving nothing raises, and both sides ask at each
    token."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


def _buffer(frame: zmq.Frame | bytes | memoryview) -> bytes | memoryview:
    return frame.buffer if isinstance(frame, zmq.Frame) else frame
