"""Tunes what stands around a sound in the prompt: `python -m tools.smol_omni.tune STEPS`.

The language model stays as it is. Only the rows of the tokens that bracket a sound, and of a few that follow
it, are searched (prompt tuning, Lester et al., 2021), so that it repeats what the listener gives where it is
asked to, and else answers as it answers the same words in writing.
"""

import random
import sys
import time

import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen2_5OmniThinkerForConditionalGeneration
from transformers.utils import logging

from models.smol_omni.tokens import HINTS
from tools.smol_omni import CACHE, CHECKPOINT
from tools.smol_omni.network import Listener, read_language
from tools.smol_omni.train import STATE as LISTENER
from tools.smol_omni.train import load_samples

STATE, ANSWERS = CACHE / "prompt.pt", CACHE / "answers.pt"
BATCH, RATE = 8, 0.03
STRENGTH = 0.3
"""Of a row beside a word's: the head is tied, and a weak row is never likely to be said."""
BEGUN_AS = "\n\nThese are my words."
ASKED = "Transcribe the recording."
NUM_ANSWERS, ANSWER_TOKENS = 96, 20


class Model:
    """The language model, without gradients, and its template cut where a sound stands."""

    def __init__(self) -> None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        load = Qwen2_5OmniThinkerForConditionalGeneration.from_pretrained
        self.whole = load(CHECKPOINT, dtype=torch.bfloat16, attn_implementation="eager").requires_grad_(False)
        self.tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
        self.rows: Tensor = self.whole.get_input_embeddings().weight

    def template(self, content: str) -> str:
        chat = [{"role": "user", "content": content}]
        return self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False).input_ids

    @torch.inference_mode()
    def answers(self, texts: list[str]) -> list[list[int]]:
        """What it says to the texts in writing, its end included if it comes in time."""
        found = []
        for text in texts:
            ids = torch.tensor([self.ids(self.template(text))])
            out = self.whole.generate(input_ids=ids, max_new_tokens=ANSWER_TOKENS, do_sample=False)
            found.append(out[0, ids.shape[1] :].tolist())
        return found

    def loss(self, prompts: list[Tensor], answers: list[list[int]]) -> Tensor:
        """Of the answers after the embedded prompts, (positions, width) each."""
        whole = [torch.cat((p, self.rows[a[:-1]])) for p, a in zip(prompts, answers, strict=True)]
        hidden = self.whole.model.language_model(
            inputs_embeds=nn.utils.rnn.pad_sequence(whole, batch_first=True), use_cache=False
        ).last_hidden_state
        spoken = [
            h[len(p) - 1 : len(p) - 1 + len(a)] for h, p, a in zip(hidden, prompts, answers, strict=True)
        ]
        logits = torch.cat(spoken) @ self.rows.T
        return nn.functional.cross_entropy(logits.float(), torch.tensor([t for a in answers for t in a]))


class Prompt(nn.Module):
    """Rows of the brackets, then of the hints."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        begun = [*model.ids("\n"), *model.ids("\n"), *model.ids(BEGUN_AS)[: len(HINTS)]]
        self.rows = nn.Parameter(model.rows[begun].float().clone())
        before, after = model.template("\0").split("\0")
        self.before, self.after = (
            model.rows[model.ids(before)],
            {asked: model.rows[model.ids(asked + after)] for asked in ("", ASKED)},
        )

    def around(self, sound: Tensor, asked: str) -> Tensor:
        rows = (STRENGTH * self.rows).to(sound.dtype)
        return torch.cat((self.before, rows[:1], sound, rows[1:], self.after[asked]))


def listened(count: int) -> list[tuple[list[int], Tensor]]:
    """Tokens of the words, and what the trained listener makes of the sound."""
    language = read_language()
    listener = Listener(language).eval()
    listener.load_state_dict(torch.load(LISTENER)["model"])
    samples = random.Random(7).sample(load_samples(language), count)
    found = []
    with torch.inference_mode():
        for tokens, heard in samples:
            positions = torch.from_numpy(heard).float()
            found.append(
                (tokens, listener(positions[None], torch.tensor([len(heard)]))[0].bfloat16().clone())
            )
    return found


def main(steps: int) -> None:
    torch.set_num_threads(1)
    model = Model()
    prompt = Prompt(model)
    sounds = listened(1024)
    asked = [(tokens, sound) for tokens, sound in sounds if model.tokenizer.decode(tokens).endswith("?")]
    asked = asked[:NUM_ANSWERS]
    if not ANSWERS.exists():
        torch.save(model.answers([model.tokenizer.decode(tokens) for tokens, _ in asked]), ANSWERS)
    answers = torch.load(ANSWERS)
    stop = model.ids("<|im_end|>")
    repeated = [(sound, ASKED, tokens + stop) for tokens, sound in sounds]
    answered = [(sound, "", answer) for (_, sound), answer in zip(asked, answers, strict=True)]
    optimiser, rng = torch.optim.Adam(prompt.parameters(), RATE, (0.9, 0.95)), random.Random(0)
    print(f"{len(repeated)} sounds, {len(answered)} questions", flush=True)
    mean, started = 0.0, time.process_time()
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = RATE * min(1, 1.2 - step / steps)
        batch = rng.sample(repeated, BATCH - BATCH // 4) + rng.sample(answered, BATCH // 4)
        prompts = [prompt.around(sound, words) for sound, words, _ in batch]
        loss = model.loss(prompts, [answer for _, _, answer in batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        mean += (loss.item() - mean) * max(0.1, 1 / (step + 1))
        print(f"{step + 1} loss {mean:.3f} {time.process_time() - started:.0f} s", flush=True)
        if step % 10 == 9 or step == steps - 1:
            torch.save((STRENGTH * prompt.rows).detach(), STATE)


if __name__ == "__main__":
    main(int(sys.argv[1]))
