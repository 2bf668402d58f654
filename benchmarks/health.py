"""How long health checks take while large bodies come in at once: `python -m benchmarks.health URL MODEL`.

Says the median and the worst of checks made every 10 ms on one connection. The bodies are pictures of zeros,
which are read, parsed and decoded as far as base64, and then refused.
"""

import argparse
import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

CHUNK = b"A" * (1 << 20)


def send(address: tuple[str, int], model: str, megabytes: int) -> None:
    start = f'{{"model": "{model}", "messages": [{{"role": "user", "content": [{{"type": "image_url", '
    start += '"image_url": {"url": "data:image/png;base64,'
    head, tail = start.encode(), b'"}}]}]}'
    length = len(head) + megabytes * len(CHUNK) + len(tail)
    with socket.create_connection(address, timeout=300) as connection:
        request = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        with contextlib.suppress(ConnectionError):  # one that is refused is not read to its end
            connection.sendall(
                f"{request}connection: close\r\ncontent-length: {length}\r\n\r\n".encode() + head
            )
            for _ in range(megabytes):
                connection.sendall(CHUNK)
            connection.sendall(tail)
            while connection.recv(1 << 16):
                pass


def check(address: tuple[str, int], busy: Callable[[], bool]) -> list[float]:
    """Seconds that each of many checks took, one every 10 ms while `busy` says so."""
    taken: list[float] = []
    with socket.create_connection(address, timeout=300) as connection:
        while busy():
            started = time.perf_counter()
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            received = b""
            while b'{"status":"ok"}' not in received:
                received += connection.recv(4096)
            taken.append(time.perf_counter() - started)
            time.sleep(0.01)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of the server, without /v1")
    parser.add_argument("model")
    parser.add_argument("--bodies", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=40)
    arguments = parser.parse_args()
    parts = urlsplit(arguments.url)
    address = (str(parts.hostname), int(parts.port or 80))
    senders = [
        threading.Thread(target=send, args=(address, arguments.model, arguments.megabytes))
        for _ in range(arguments.bodies)
    ]
    for sender in senders:
        sender.start()
    taken = check(address, lambda: any(sender.is_alive() for sender in senders))
    late = sum(seconds > 0.1 for seconds in taken)
    usual, worst = statistics.median(taken) * 1000, max(taken) * 1000
    print(f"{len(taken)} checks: median {usual:.0f} ms, worst {worst:.0f} ms, {late} over 100 ms")


if __name__ == "__main__":
    main()
