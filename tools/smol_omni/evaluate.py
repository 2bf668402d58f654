"""How well a served smol-omni hears: `python -m tools.smol_omni.evaluate URL [RECORDING WORDS]...`.

Over HTTP, as anyone would ask; the chat template must let sounds through for it. The same questions are asked
in writing: what it does not know there, it can't know from hearing.
"""

import base64
import io
import sys
from pathlib import Path

import httpx
import numpy as np
import soundfile

from tools.demo_model.answer import load_sound
from tools.demo_model.speak import RATE
from tools.smol_omni.held_out import COMMANDS, QUESTIONS, SENTENCES
from tools.smol_omni.probe import spoken
from tools.smol_omni.score import error_rate

TOKENS = 40
TRANSCRIBE = "Repeat the sentence above word for word."  # which the language model knows best


class Server:
    """url: with its /v1."""

    def __init__(self, url: str) -> None:
        self.client = httpx.Client(base_url=url, timeout=300)
        self.model = self.client.get("/models").json()["data"][0]["id"]

    def answer(self, *parts: str | np.ndarray) -> str:
        content = [
            {"type": "text", "text": part} if isinstance(part, str) else _sound_part(part) for part in parts
        ]
        asked = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": TOKENS,
        }
        reply = self.client.post("/chat/completions", json=asked).raise_for_status()
        return reply.json()["choices"][0]["message"]["content"]


def _sound_part(samples: np.ndarray) -> dict:
    file = io.BytesIO()
    soundfile.write(file, samples, RATE, format="wav")
    data = base64.b64encode(file.getvalue()).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def transcripts(server: Server, kind: str, sounds: list[tuple[str, np.ndarray]]) -> None:
    pairs = [(text, server.answer(sound, TRANSCRIBE)) for text, sound in sounds]
    for text, heard in pairs:
        print(f"    {text} | {heard!r}")
    print(f"{kind}: {error_rate(pairs):.2f} of the words wrong, {len(pairs)} sounds", flush=True)


def questions(server: Server) -> None:
    right = {"in writing": 0, "spoken": 0}
    for text, sound in spoken(tuple(QUESTIONS), "questions"):
        answers = {"in writing": server.answer(text), "spoken": server.answer(sound)}
        for way, answer in answers.items():
            right[way] += QUESTIONS[text].lower() in answer.lower()
        print(f"    {text} | {answers['in writing']!r} | {answers['spoken']!r}")
    print(f"questions: {right} of {len(QUESTIONS)}", flush=True)


def main(url: str, recordings: list[str]) -> None:
    server = Server(url)
    transcripts(server, "sentences", spoken(SENTENCES, "sentences"))
    transcripts(server, "commands", spoken(COMMANDS, "commands"))
    questions(server)
    pairs = zip(recordings[::2], recordings[1::2], strict=True)
    if sounds := [(text, load_sound(Path(name))) for name, text in pairs]:
        transcripts(server, "recordings", sounds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
