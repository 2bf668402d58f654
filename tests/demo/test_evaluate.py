"""The evaluation asks what it means to ask."""

import random

import numpy as np

from tools.demo_model import evaluate
from tools.demo_model.draw import Drawing


def test_a_conversation_ends_with_the_question_and_without_its_answer(monkeypatch) -> None:
    blank = Drawing(np.zeros((96, 96, 3), np.uint8), np.zeros((12, 12, 2), np.uint8))
    monkeypatch.setattr(evaluate, "draw", lambda *given, **named: blank)
    for seed in range(5):
        # all cases first and then their turns, as the evaluation itself may do
        for qa, turns in list(evaluate.turn_cases(random.Random(seed))):
            assert [role for role, _ in turns] == ["user", "assistant", "user"]
            assert turns[-1][1][-1] == qa.question
