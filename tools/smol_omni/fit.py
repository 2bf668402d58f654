"""Fits the projection in one stroke: `python -m tools.smol_omni.fit`.

CTC tells tokens apart by differences only, so its outputs may lie anywhere beside the rows that they stand
for. Least squares over all positions brings them to the rows themselves, at the cost of being told apart: the
projection is widened again, and training goes on.
"""

import random

import torch

from tools.smol_omni.network import Listener, nearness, read_language
from tools.smol_omni.stages import HEARING
from tools.smol_omni.train import load_samples

SOUNDS, RIDGE, WORDS, WIDENED = 1400, 1e-3, 2.0, 1.8
"""How many sounds; what weights cost beside errors; what a word counts beside nothing; how far outputs are
set apart afterwards, since least squares draws them together.
"""


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    language, state = read_language(), torch.load(HEARING)
    listener = Listener(language).eval()
    listener.load_state_dict(state["model"])
    samples = random.Random(0).sample(load_samples(language), SOUNDS)
    said = sorted({token for tokens, _ in samples for token in tokens} | {language.nothing})
    rows, nothing = language.rows[said], said.index(language.nothing)
    inputs: list[torch.Tensor] = []
    listener.proj.register_forward_pre_hook(lambda _, given: inputs.append(given[0][0].clone()))
    width = listener.proj.in_features + 1
    square, mixed, error = torch.zeros(width, width), torch.zeros(width, rows.shape[1]), 0.0
    for _, heard in samples:
        outputs = listener(torch.from_numpy(heard).float()[None], torch.tensor([len(heard)]))[0]
        meant = nearness(outputs, rows).argmax(1)
        given = torch.cat((inputs.pop(), torch.ones(len(meant), 1)), 1)
        weighted = given * torch.where(meant == nothing, 1.0, WORDS)[:, None]
        square += weighted.T @ given
        mixed += weighted.T @ rows[meant]
        error += (outputs - rows[meant]).pow(2).sum(1).mean().item() / SOUNDS
    square += RIDGE * square.trace() / width * torch.eye(width)
    solved = torch.linalg.solve(square, mixed)
    middle = language.rows[language.nothing]
    state["model"]["proj.weight"] = WIDENED * solved[:-1].T.contiguous()
    state["model"]["proj.bias"] = middle + WIDENED * (solved[-1] - middle)
    torch.save(state, HEARING)
    print(f"squared distance to the rows before: {error:.0f}")


if __name__ == "__main__":
    main()
