import numpy as np
import pytest
import zmq

from engine.messages import MediaPrepared, Ping, Pong, TokenLogprobs, TokensGenerated
from engine.transport import (
    array_specs,
    decode_command,
    decode_events,
    encode_command,
    encode_events,
    pair,
    private_address,
)
from tests.engine.house import generate, media_item

ARRAYS = {
    "pixels": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "grid": np.array([[1, 2, 3]]),
    "mask": np.array([True, False]),
    "half": np.array([1.5], dtype=np.float16),
    "empty": np.zeros((0, 3), dtype=np.int64),
    "strided": np.arange(12).reshape(3, 4)[:, ::2],
    "scalar": np.array(3),
}


def test_arrays_arrive_as_they_were() -> None:
    command = MediaPrepared(b"n", b"k" * 32, array_specs(ARRAYS))
    received, arrays = decode_command(encode_command(command, ARRAYS))
    assert received == command
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


def test_commands_and_events_survive() -> None:
    request = generate("r", [2, media_item("a", 5), 3], logit_bias={4: 1.5}, stop_token_ids=(7,))
    assert decode_command(encode_command(request)) == (request, {})
    assert decode_command(encode_command(Ping())) == (Ping(), {})
    events = [Pong(), TokensGenerated("r", 0, (5,), "stop", 3, (TokenLogprobs(-0.5, ((5, -0.5),)),))]
    assert decode_events(encode_events(events)) == events


@pytest.mark.parametrize("frames", [0, 2])
def test_frames_must_match_the_message(frames) -> None:
    message = encode_command(MediaPrepared(b"n", b"k", array_specs({"a": np.zeros(2)})))
    with pytest.raises(ValueError, match="announced"):
        decode_command([*message, *[bytes(16)] * frames])


def test_over_a_socket() -> None:
    with (
        private_address() as address,
        zmq.Context() as context,
        pair(context, address, bind=True) as server,
        pair(context, address, bind=False) as engine,
    ):
        command = MediaPrepared(b"n", b"k", array_specs(ARRAYS))
        server.send_multipart(encode_command(command, ARRAYS), copy=False)
        received, arrays = decode_command(engine.recv_multipart(copy=False))
        assert received == command
        np.testing.assert_array_equal(arrays["pixels"], ARRAYS["pixels"])
