"""What the language model answers to the sentences of the cache: `python -m tools.smol_omni.answers`."""

import re
from collections import defaultdict

import torch
from transformers import LlamaForCausalLM

from tools.smol_omni import CACHE
from tools.smol_omni.held_out import QUESTIONS
from tools.smol_omni.network import read_language
from tools.smol_omni.sentences import OPENINGS
from tools.smol_omni.speaker import AFTER, BEFORE, END, read_speaker
from tools.smol_omni.speech import load_speech

ANSWERS = CACHE / "answers.pt"  # the first tokens of the answer, by text
TOKENS, BATCH = 12, 32


def is_addressed(text: str) -> bool:
    """To whoever answers, rather than words in no order or a statement; and not what the evaluation asks."""
    opens = re.match(rf"({'|'.join(OPENINGS)})\b", text) is not None
    return text not in QUESTIONS and (text.endswith("?") or (opens and len(text.split()) < 12))


@torch.inference_mode()
def answer(speaker: LlamaForCausalLM, prompts: list[list[int]]) -> list[list[int]]:
    """Greedy; of prompts of one length. Each ends with the end of the turn, if it came in time."""
    asked = torch.tensor(prompts)
    found = speaker.generate(asked, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, eos_token_id=END)
    answers = found[:, asked.shape[1] :].tolist()  # type: ignore[index]
    return [one[: one.index(END) + 1] if END in one else one for one in answers]


def main() -> None:
    torch.set_num_threads(1)
    language, speaker = read_language(), read_speaker().bfloat16()
    known: dict[str, list[int]] = torch.load(ANSWERS) if ANSWERS.exists() else {}
    texts = sorted({text for text, _ in load_speech() if is_addressed(text)} - known.keys())
    by_length: dict[int, list[tuple[str, list[int]]]] = defaultdict(list)
    for text in texts:
        ids = language.tokens.encode(BEFORE + text + AFTER).ids
        by_length[len(ids)].append((text, ids))
    for some in by_length.values():
        for first in range(0, len(some), BATCH):
            batch = some[first : first + BATCH]
            answers = answer(speaker, [ids for _, ids in batch])
            known |= {text: one for (text, _), one in zip(batch, answers, strict=True)}
        torch.save(known, ANSWERS)
        print(f"{len(known)} answers", flush=True)


if __name__ == "__main__":
    main()
