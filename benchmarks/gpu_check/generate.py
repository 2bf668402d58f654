"""The peer of the server on text: transformers' own generation, in batches that stay as they begin."""

import time

import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

from benchmarks.gpu_check.made import checkpoint
from benchmarks.gpu_check.record import Record
from benchmarks.gpu_check.sections import Work
from benchmarks.workloads import WORKLOADS, chats

WORKLOAD = "text"


@torch.inference_mode()
def measure(work: Work, record: Record) -> None:
    directory = checkpoint(work, 0)
    model = AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.bfloat16).to(work.device)
    tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")
    num_tokens = WORKLOADS[WORKLOAD].max_tokens

    def run(users: int, count: int) -> float:
        inputs = tokenizer.apply_chat_template(
            chats(WORKLOAD, users, users),
            add_generation_prompt=True,
            padding=True,
            return_dict=True,
            return_tensors="pt",
        ).to(work.device)
        start = time.perf_counter()
        model.generate(**inputs, do_sample=False, max_new_tokens=count, min_new_tokens=count).tolist()
        return time.perf_counter() - start

    run(1, 2)  # what happens once
    for users in work.plan.users:
        if record.time_left_s:
            wall_s = run(users, num_tokens)
            record.row("cells", users=users, wall_s=wall_s, output_tokens_per_s=users * num_tokens / wall_s)
