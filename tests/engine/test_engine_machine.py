"""Whatever happens around a request, it gets exactly the tokens of a lone run, and nothing is left behind.

Tiny pools force preemption and eviction; prompts share prefixes; the same media appear at other places and
for other tenants; encoders and steps fail. The tables are checked after every rule.
"""

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.engine.house import House, generate, media_item

IMAGES = [media_item("a", 5), media_item("b", 9), media_item("c", 14)]
SOUNDS = [media_item("s", 6, "audio"), media_item("t", 11, "audio")]
STEMS = [[2, 3, 4, 5, 6, 7, 8, 9, 10], [2, 3, 4, 5, IMAGES[0], 11], [SOUNDS[0], 2, 3], [IMAGES[1], 4]]


class EngineMachine(RuleBasedStateMachine):
    @initialize(
        num_blocks=st.integers(12, 30),
        encoder_bytes=st.integers(14, 40),
        max_num_seqs=st.integers(1, 5),
        num_step_tokens=st.integers(18, 60),
        beside=st.integers(4, 30),
        budget=st.sampled_from([1, 30, 1000]),
    )
    def build(self, num_blocks, encoder_bytes, max_num_seqs, num_step_tokens, beside, budget) -> None:
        self.house = House(
            num_blocks,
            encoder_bytes,
            prompt_answers=False,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=num_step_tokens,
            max_prefill_tokens_beside_decodes=beside,
            max_encoder_tokens=budget,
            prepared_media_bytes=budget,
        )
        self.aborted: set[str] = set()
        self.doomed: set[str] = set()
        self.counter = 0

    @rule(
        stem=st.sampled_from(STEMS),
        rest=st.lists(st.one_of(st.integers(2, 4), st.sampled_from(IMAGES + SOUNDS)), max_size=5),
        max_tokens=st.integers(1, 14),
        namespace=st.sampled_from([b"n", b"n", b"m"]),
        choices=st.sampled_from([1, 1, 1, 3]),
        doom=st.sampled_from([None] * 8 + ["break", "fault"]),
    )
    def add(self, stem, rest, max_tokens, namespace, choices, doom) -> None:
        self.counter += 1
        request_id = f"r{self.counter}"
        if doom == "break":
            self.house.runner.break_on.add(request_id)
        if doom == "fault":
            self.house.runner.fault_on.add(request_id)
        if doom:
            self.doomed.add(request_id)
        self.house.add(generate(request_id, stem + rest, max_tokens, namespace, choices))
        if request_id in self.house.failures:
            assert self.house.failures[request_id].code in ("context_length_exceeded", "media_too_large")
            self.doomed.add(request_id)

    @rule(times=st.integers(1, 6))
    def step(self, times) -> None:
        for _ in range(times):
            self.house.step()

    @precondition(lambda self: self.house.asked)
    @rule(data=st.data())
    def answer(self, data) -> None:
        self.house.answer(data.draw(st.sampled_from(self.house.asked)))

    @precondition(lambda self: self.house.asked)
    @rule(data=st.data())
    def refuse(self, data) -> None:
        needed = data.draw(st.sampled_from(self.house.asked))
        self.doomed.add(needed.request_id)
        self.house.refuse(needed)

    @rule(data=st.data())
    def abort(self, data) -> None:
        if self.house.requests:
            request_id = data.draw(st.sampled_from(sorted(self.house.requests)))
            self.aborted.add(request_id)
            self.house.abort(request_id)

    @rule()
    def break_one_step(self) -> None:
        """The next step fails until it is repeated row by row: nobody fails for it."""
        self.house.runner.break_together = True
        self.house.step()
        self.house.runner.break_together = False

    @rule(item=st.sampled_from(IMAGES))
    def break_encoder(self, item) -> None:
        self.doomed |= {name for name, request in self.house.requests.items() if item in request.media}
        self.house.runner.fail_encoding = {item.key}
        self.house.step()
        self.house.runner.fail_encoding = set()

    def teardown(self) -> None:
        if not hasattr(self, "house"):
            return
        self.house.run()
        self.house.check_all_done(self.aborted)
        assert self.house.failures.keys() <= self.doomed, "failed with another"


EngineMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestEngineMachine = EngineMachine.TestCase
