"""The manager against a naive model: random steps in small pools, every block's content known.

The model writes down, for each place in the pool, what was computed there: the token and all that came before
it, media by content. Whatever the manager hands out must hold just what the sequence would have computed
itself.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvcache.keys import MediaKey
from kvcache.manager import KVCacheManager
from kvcache.match import BlockCopy
from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan

BLOCK = 4
PICTURE, SOUND = MediaKey(b"picture" * 4), MediaKey(b"sound" * 4)
TEXTS = [(1, 1, 1, 1), (2, 1)]
MEDIA = [(PICTURE, 0, 5), (PICTURE, 2, 3), (SOUND, 0, 5)]
PIECES = st.lists(st.sampled_from([*TEXTS, *MEDIA]), min_size=1, max_size=3)


def sequence_of(pieces) -> TokenSequence:
    ids, spans = [], []
    for piece in pieces:
        if piece in TEXTS:
            ids += piece
        else:
            key, offset, length = piece
            spans.append(MediaSpan(len(ids), len(ids) + length, key, offset))
            ids += [0] * length
    return TokenSequence(ids, spans)


PREFIXES: dict[tuple, int] = {}
"""A number for each (number of what came before, token): equal numbers, equal prefixes."""


def prefixes(tokens: TokenSequence, namespace: bytes) -> list[int]:
    """For each token the number of the prefix that ends with it: text by id, media by content and its
    part."""
    units: list = list(tokens.ids)
    for span in tokens.spans:
        for position in range(span.start, span.end):
            units[position] = (span.key, span.offset + position - span.start)
    numbers, number = [], PREFIXES.setdefault((namespace,), len(PREFIXES))
    for unit in units:
        number = PREFIXES.setdefault((number, unit), len(PREFIXES))
        numbers.append(number)
    return numbers


class Waiting:
    def __init__(self, tokens: TokenSequence, namespace: bytes, indivisible: tuple) -> None:
        self.tokens = tokens
        self.namespace = namespace
        self.indivisible = indivisible
        self.content = prefixes(tokens, namespace)


class Running:
    def __init__(self, request: Waiting, num_computed: int) -> None:
        self.tokens = request.tokens
        self.namespace = request.namespace
        self.content = list(request.content)
        self.promised = self.content[: len(self.content) // BLOCK * BLOCK]
        self.num_computed = num_computed
        self.target: int | None = None  # tokens computed once the step in flight succeeds

    @property
    def num_left(self) -> int:
        return len(self.tokens) - self.num_computed

    def append(self, token: int) -> None:
        self.tokens.append(token)
        self.content.append(PREFIXES.setdefault((self.content[-1], token), len(PREFIXES)))


class ManagerMachine(RuleBasedStateMachine):
    hash_bits = 128

    @initialize(num_blocks=st.integers(3, 24))
    def start(self, num_blocks):
        self.manager = KVCacheManager(num_blocks, BLOCK, self.hash_bits)
        self.places: dict[tuple[int, int], int | None] = {}
        self.copies: list[BlockCopy] = []
        self.running: dict[int, Running] = {}
        self.waiting: list[Waiting] = []
        self.asked: list[tuple] = [()]
        self.published: set[int] = set()
        self.staged: set[int] = set()
        self.beginnings: set[int] = set()  # first tokens of published blocks
        self.regular = True
        self.num_owners = 0

    @rule(
        base=st.integers(0, 4),
        cut=st.integers(0, 6),
        pieces=PIECES,
        namespace=st.sampled_from([b"a", b"a", b"a", b"b"]),
        whole=st.booleans(),
        chunk=st.integers(1, 30),
        patient=st.booleans(),
    )
    def ask(self, base, cut, pieces, namespace, whole, chunk, patient):
        """A new prompt that begins like an earlier one."""
        pieces = (*self.asked[-1 - base % len(self.asked)][:cut], *pieces)
        self.asked.append(pieces)
        tokens = sequence_of(pieces)
        indivisible = tuple((span.start, span.end) for span in tokens.spans) if whole else ()
        self.admit(Waiting(tokens, namespace, indivisible), chunk, patient)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), chunk=st.integers(1, 30), patient=st.booleans())
    def ask_again(self, data, chunk, patient):
        self.admit(self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1))), chunk, patient)

    def admit(self, request: Waiting, chunk: int, patient: bool) -> None:
        match = self.manager.match(request.tokens, request.namespace, request.indivisible)
        self.check_match(request, match)
        end = min(len(request.tokens), match.num_tokens + chunk)
        num_free, owner = self.manager.num_free_blocks, self.num_owners
        self.num_owners += 1
        if patient and match.awaits_promise:
            self.waiting.append(request)
        elif self.manager.allocate(owner, request.tokens, request.namespace, match, end):
            self.running[owner] = Running(request, match.num_tokens)
            self.copies += self.manager.take_copies()
            self.put_into_step(owner, end)
        else:
            assert self.manager.num_free_blocks == num_free
            self.waiting.append(request)

    @precondition(lambda self: self.idle())
    @rule(chunk=st.integers(1, 30), most=st.integers(1, 4))
    def advance(self, chunk, most):
        for owner in self.idle()[:most]:
            held = self.running[owner]
            end = min(len(held.tokens), held.num_computed + chunk)
            num_free = self.manager.num_free_blocks
            if self.manager.grow(owner, end):
                self.put_into_step(owner, end)
            else:
                assert self.manager.num_free_blocks == num_free

    @precondition(lambda self: self.finished())
    @rule(tokens=st.lists(st.sampled_from([1, 2]), min_size=1, max_size=5))
    def generate(self, tokens):
        for held in self.finished():
            for token in tokens:
                held.append(token)

    @precondition(lambda self: self.running)
    @rule(chunk=st.integers(4, 30))
    def whole_step(self, chunk):
        if self.idle():
            self.advance(chunk, 4)
        self.commit()

    @precondition(lambda self: self.in_step())
    @rule()
    def commit(self):
        self.copy()
        for owner, held in self.running.items():
            if held.target is not None:
                self.write(owner, held, failed=False)
        restart = self.manager.commit_step()
        assert set(restart) <= self.running.keys()
        assert not (self.regular and restart), "somebody must start again though nobody was freed in the step"
        for owner in restart:
            self.drop(owner)
        for held in self.running.values():
            if held.target is not None:
                held.num_computed, held.target = held.target, None
                self.beginnings.update(held.content[: held.num_computed // BLOCK * BLOCK : BLOCK])
        self.published |= self.staged
        self.staged = set()

    @precondition(lambda self: self.in_step())
    @rule(sure=st.sampled_from([True, False, False]))
    def roll_back(self, sure):
        if not sure:
            return self.commit()
        self.regular &= not self.staged
        self.copy()
        for owner, held in self.running.items():
            if held.target is not None:
                self.write(owner, held, failed=True)
                held.target = None
        for owner in self.manager.rollback_step():
            self.drop(owner)
        self.staged = set()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def free(self, data):
        """Finished, aborted or preempted; within a step, the step then goes without it."""
        owner = data.draw(st.sampled_from(sorted(self.running)))
        self.regular &= self.running[owner].target is None
        self.drop(owner)
        self.manager.free(owner)

    @invariant()
    def holds_what_it_should(self):
        if not hasattr(self, "manager"):
            return
        self.manager.check_integrity()
        contents = self.contents()
        for owner, held in self.running.items():
            table = self.manager.block_table(owner)
            assert len(table) * BLOCK >= held.num_computed
            assert len(set(table)) == len(table)
            for position in range(held.num_computed):
                place = (table[position // BLOCK], position % BLOCK)
                assert self.is_restarting(owner) or contents[place] == held.content[position]

    def teardown(self):
        if hasattr(self, "manager"):
            for owner in list(self.running):
                self.drop(owner)
            self.manager.commit_step()
            self.manager.check_integrity()
            assert self.manager.num_free_blocks == self.manager.num_blocks

    def idle(self) -> list[int]:
        return [o for o, held in self.running.items() if held.target is None and held.num_left]

    def finished(self) -> list[Running]:
        return [held for held in self.running.values() if not held.num_left]

    def in_step(self) -> bool:
        return any(held.target is not None for held in self.running.values())

    def is_restarting(self, owner: int) -> bool:
        """Has matched what a freed owner had staged: the manager reports it when the step ends."""
        return self.manager._owners[owner].orphaned

    def places_of_step(self):
        for owner, held in self.running.items():
            if held.target is not None:
                table = self.manager.block_table(owner)
                for position in range(held.num_computed, held.target):
                    yield (table[position // BLOCK], position % BLOCK), held.content[position]

    def copy(self) -> None:
        """All at once, before anything is written."""
        self.places |= dict(self.copied())
        self.copies = []

    def copied(self):
        for source, target in self.copies:
            for at in range(BLOCK):
                yield (target, at), self.places.get((source, at))

    def contents(self) -> dict:
        """What the pool holds once the step in flight succeeds."""
        return self.places | dict(self.copied()) | dict(self.places_of_step())

    def put_into_step(self, owner: int, end: int) -> None:
        held = self.running[owner]
        self.manager.stage(owner, end)
        held.target = end
        self.staged.update(held.content[BLOCK - 1 : end : BLOCK])

    def write(self, owner: int, held: Running, failed: bool) -> None:
        table = self.manager.block_table(owner)
        for position in range(held.num_computed, held.target):
            place = (table[position // BLOCK], position % BLOCK)
            self.places[place] = None if failed else held.content[position]

    def drop(self, owner: int) -> None:
        self.manager.free(owner)
        del self.running[owner]

    def check_match(self, request: Waiting, match) -> None:
        own = request.content
        assert match.num_tokens < len(own)
        assert len(match.blocks) == match.num_tokens // BLOCK
        assert bool(match.donor) == bool(match.num_tokens % BLOCK)
        assert not any(start < match.num_tokens < end for start, end in request.indivisible)
        contents = self.contents()
        blocks = [*match.blocks, match.donor.block] if match.donor else match.blocks
        for position in range(match.num_tokens):
            at, offset = divmod(position, BLOCK)
            known = contents if at < len(match.blocks) else self.places  # a donor's are there already
            assert known[blocks[at], offset] == own[position]
        if self.regular and not self.manager.num_evicted_blocks:
            self.check_reach(request, match)

    def check_reach(self, request: Waiting, match) -> None:
        """Nothing was lost so far: at least the full blocks that were computed are found, and what is
        promised beyond is waited for."""
        own = request.content
        found = 0
        while found + BLOCK < len(own) and own[found + BLOCK - 1] in self.published | self.staged:
            found += BLOCK
        inside = [range(start + 1, stop) for start, stop in request.indivisible]
        ends = [end for end in range(len(own)) if not any(end in span for span in inside)]
        assert match.num_tokens >= max(end for end in ends[: found + 1] if end <= found and end % BLOCK == 0)
        if own[found : found + 1] and own[found] in self.beginnings and found in ends and found + 1 in ends:
            assert match.num_tokens > found or len(own) == found + 1
        reached = {end: max(e for e in ends if e <= end) for end in range(found + BLOCK, len(own), BLOCK)}
        goals = [end for end, least in reached.items() if least > match.num_tokens]
        promised = goals and any(
            held.promised[: goals[0]] == own[: goals[0]] for held in self.running.values()
        )
        assert match.awaits_promise == bool(promised)


class CollidingManagerMachine(ManagerMachine):
    """With 256 keys for all blocks, so that most buckets hold more than one."""

    hash_bits = 8


TestManager = ManagerMachine.TestCase
TestCollidingManager = CollidingManagerMachine.TestCase
TestManager.settings = TestCollidingManager.settings = settings(
    max_examples=250, stateful_step_count=60, deadline=None, derandomize=True
)
