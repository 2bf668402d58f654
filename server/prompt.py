"""From messages to the token sequence that the engine is asked to continue.

The one place where media spans are made: from the markers that the template wrote, never by scanning token
ids. Text from a client can't become a control or placeholder token (see `server.lookalikes`). Knows nothing
of HTTP, nor of the content behind a media item.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kvcache.sequence import TokenSequence
from kvcache.spans import MediaSpan
from models.checkpoint import Checkpoint
from models.processing.base import MediaError, MediaLayout, Placeholder, Processing
from server.content import ContentAdapter
from server.lookalikes import HiddenText, Lookalikes, TooManyLookalikes, longest_match
from server.media.item import ResolvedMedia
from server.template import ChatTemplate, TemplateError
from server.tokenizer import Tokenizer


class PromptError(ValueError):
    """The messages give no prompt for this model. The text is fit for a client."""


class PromptTooLong(PromptError):
    def __init__(self, num_characters: int) -> None:
        super().__init__(f"The prompt has {num_characters} characters.")
        self.num_characters = num_characters


class RenderedPrompt(NamedTuple):
    """media[i] is the item behind sequence.spans[i] (the same one for several spans, where break tokens
    divide it).

    The counts add up to the sequence's length: placeholders that stand for content, and all other tokens.
    """

    sequence: TokenSequence
    media: list[ResolvedMedia]
    num_text_tokens: int
    num_image_tokens: int
    num_audio_tokens: int


class _Template(NamedTuple):
    chat: ChatTemplate
    content: ContentAdapter


class PromptBuilder:
    """Prompts for one checkpoint. Safe to share between threads."""

    def __init__(self, checkpoint: Checkpoint, tokenizer: Tokenizer, processing: Processing) -> None:
        self._tokenizer = tokenizer
        self._processing = processing
        self._markers = {kind: processing.marker(kind) for kind in sorted(processing.kinds)}
        self._kinds = {marker: kind for kind, marker in self._markers.items()}
        marks = [*tokenizer.control_tokens, *self._kinds]
        self._lookalikes = Lookalikes(marks)
        self._marks = re.compile(longest_match(marks) if marks else r"(?!)")
        self._media_ids = _media_ids(processing, tokenizer, checkpoint.eos_token_ids)
        media_tokens = [
            text for text, token in tokenizer.control_tokens.items() if token.id in self._media_ids
        ]
        self._media_lookalikes = Lookalikes([*self._kinds, *media_tokens])
        self._template = self._loaded(checkpoint.chat_template)
        self._tool_template = (
            self._template
            if checkpoint.tool_template == checkpoint.chat_template
            else self._loaded(checkpoint.tool_template)
        )

    def _loaded(self, source: str | None) -> "_Template | None":
        if source is None:
            return None
        template = ChatTemplate(source, self._tokenizer.special_tokens)
        return _Template(template, ContentAdapter(template, self._markers))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        items: Sequence[ResolvedMedia] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
        max_characters: int | None = None,
    ) -> RenderedPrompt:
        """messages: plain data, roles already validated, content a string or a list of text, image and audio
        parts, the arguments of calls as objects, or as text that is none. items: the media of those parts,
        in order. max_characters: of text, beyond which nothing is tokenised.
        Raises PromptError (PromptTooLong among them) or TemplateError."""
        template = self._tool_template if tools else self._template
        if template is None:
            raise PromptError(
                "This model has no chat template, so it takes no messages; use /v1/completions."
            )
        if not messages:
            raise PromptError("At least one message is needed.")
        self._check_items(items)
        hidden = HiddenText(self._lookalikes)
        try:
            rendered = template.chat.render(
                [template.content.adapt(_hide_message(message, hidden)) for message in messages],
                tools=_hide(tools, hidden),
                add_generation_prompt=add_generation_prompt,
                kwargs=_hide(template_kwargs or {}, hidden, inner=False),
            )
        except TemplateError as error:
            raise TemplateError(hidden.restore(str(error))) from None
        except TooManyLookalikes as error:
            raise PromptError(str(error)) from None
        except RecursionError:
            raise PromptError("The messages or tools are nested too deeply.") from None
        stretches = list(self._split(self._with_margins(rendered)))
        num_characters = sum(len(text) for _, text, _ in stretches)
        if max_characters is not None and num_characters > max_characters:
            raise PromptTooLong(num_characters)
        return self._assemble(rendered, stretches, items, hidden)

    def render_text(self, prompt: str) -> RenderedPrompt:
        """A raw prompt, whose author plays the template's part: control tokens count, but media markers stay
        text."""
        hidden = HiddenText(self._media_lookalikes)
        try:
            text = hidden.hide(prompt, inner=False)
        except TooManyLookalikes as error:
            raise PromptError(str(error)) from None
        if text == prompt:
            ids = self._tokenizer.encode(prompt, add_special_tokens=True)
        else:
            ids = self._tokenizer.encode("", add_special_tokens=True)
            for start, stretch, mark in self._split(text):
                ids += self._tokenizer.encode_plain(hidden.restore(stretch), continued=start > 0)
                ids += [self._tokenizer.control_tokens[mark].id] if mark else []
        return RenderedPrompt(TokenSequence(ids), [], len(ids), 0, 0)

    def render_ids(self, ids: Sequence[int]) -> RenderedPrompt:
        """A prompt given as token ids. PromptError for ids that are none or that stand for media."""
        for token_id in ids:
            if not 0 <= token_id < self._tokenizer.vocab_size:
                raise PromptError(f"{token_id} is not a token id of this model.")
            if token_id in self._media_ids:
                raise PromptError(
                    f"Token id {token_id} stands for media, which a prompt of token ids can't carry."
                )
        return RenderedPrompt(TokenSequence(ids), [], len(ids), 0, 0)

    def _before(self, rendered: str) -> list[int]:
        begins = self._tokenizer.bos_token is not None and rendered.startswith(self._tokenizer.bos_token)
        if begins or not self._processing.completes_prompts:
            return []
        return self._tokenizer.encode("", add_special_tokens=True)

    def _with_margins(self, rendered: str) -> str:
        margin = self._processing.media_margin
        for marker in self._kinds if margin else ():
            rendered = rendered.replace(marker, f"{margin}{marker}{margin}")
        return rendered

    def _assemble(
        self,
        rendered: str,
        stretches: Sequence[tuple[int, str, str | None]],
        items: Sequence[ResolvedMedia],
        hidden: HiddenText,
    ) -> RenderedPrompt:
        waiting = {kind: deque(item for item in items if item.kind == kind) for kind in self._markers}
        ids = self._before(rendered)
        spans: list[MediaSpan] = []
        media: list[ResolvedMedia] = []
        num_markers = Counter[str]()
        for start, stretch, mark in stretches:
            ids += self._tokenizer.encode_plain(hidden.restore(stretch), continued=start > 0)
            kind = self._kinds.get(mark or "")
            if kind is not None:
                num_markers[kind] += 1
                if waiting[kind]:
                    item = waiting[kind].popleft()
                    placed = _spans(self._processing.placeholder(kind, item.layout), len(ids), item)
                    ids += placed.ids
                    spans += placed.spans
                    media += [item] * len(placed.spans)
            elif mark is not None:
                ids.append(self._tokenizer.control_tokens[mark].id)
        for kind in self._markers:
            _check_count(kind, num_markers[kind], sum(item.kind == kind for item in items))
        counts = Counter[str]()
        for span, item in zip(spans, media, strict=True):
            counts[item.kind] += span.num_tokens
        num_text_tokens = len(ids) - counts.total()
        return RenderedPrompt(
            TokenSequence(ids, spans), media, num_text_tokens, counts["image"], counts["audio"]
        )

    def _split(self, text: str) -> Iterator[tuple[int, str, str | None]]:
        """(where it starts, a stretch of ordinary text, the mark that ends it); the last stretch has no
        mark."""
        done = 0
        for match in self._marks.finditer(text):
            token = self._tokenizer.control_tokens.get(match[0])
            if match.start() < done or (token and token.single_word and _inside_word(text, match)):
                continue
            stretch = text[done : match.start()]
            yield done, stretch.rstrip() if token and token.lstrip else stretch, match[0]
            done = _end_of_space(text, match.end()) if token and token.rstrip else match.end()
        yield done, text[done:], None

    def _check_items(self, items: Sequence[ResolvedMedia]) -> None:
        for item in items:
            if item.kind not in self._markers:
                raise PromptError(f"This model takes no {item.kind}.")


class _Placed(NamedTuple):
    ids: list[int]
    spans: list[MediaSpan]


def _spans(placeholder: Placeholder, start: int, item: ResolvedMedia) -> _Placed:
    spans, offset = [], 0
    for first, last in placeholder.runs:
        spans.append(MediaSpan(start + first, start + last, item.key, offset))
        offset += last - first
    return _Placed(placeholder.ids, spans)


def _check_count(kind: str, num_markers: int, num_items: int) -> None:
    if num_markers != num_items:
        raise PromptError(
            f"The chat template has {num_markers} places for {kind} content, the messages hold {num_items}."
        )


def _hide_message(message: Mapping[str, Any], hidden: HiddenText) -> dict[str, Any]:
    """The message with all that the client wrote hidden where needed. The role is one of the API's own
    words."""
    safe = {name: _hide(value, hidden) for name, value in message.items() if name not in ("role", "content")}
    if "role" in message:
        safe["role"] = message["role"]
    if "content" in message:
        safe["content"] = _hide_content(message["content"], hidden)
    return safe


def _hide_content(content: Any, hidden: HiddenText) -> Any:
    if not isinstance(content, list):
        return _hide(content, hidden)
    return [
        {"type": "text", "text": hidden.hide(part["text"])}
        if part["type"] == "text"
        else {"type": part["type"]}
        for part in content
    ]


def _hide(value: Any, hidden: HiddenText, inner: bool = True) -> Any:
    if isinstance(value, str):
        return hidden.hide(value, inner)
    if isinstance(value, Mapping):
        return {hidden.hide(str(key), inner): _hide(item, hidden, inner) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(item, hidden, inner) for item in value]
    return value


def _media_ids(processing: Processing, tokenizer: Tokenizer, eos_ids: Iterable[int]) -> frozenset[int]:
    """Ids that stand for media in a prompt, from a sample of each kind."""
    ids: set[int] = set()
    for kind in processing.kinds:
        marker = tokenizer.control_tokens.get(processing.marker(kind))
        ids |= {marker.id} if marker else set()
        sample = _sample_layout(processing, kind)
        if sample is not None:
            placeholder = processing.placeholder(kind, sample)
            ids |= {token_id for first, last in placeholder.runs for token_id in placeholder.ids[first:last]}
    return frozenset(ids - set(eos_ids))


def _sample_layout(processing: Processing, kind: str) -> MediaLayout | None:
    for size in (224, 448, 64):
        try:
            if kind == "image":
                return processing.image_layout(size, size)
            return processing.audio_layout(processing.sampling_rate * size // 64)
        except MediaError:
            continue
    return None


def _inside_word(text: str, match: re.Match[str]) -> bool:
    before, after = text[: match.start()][-1:], text[match.end() :][:1]
    return bool(re.match(r"\w", before) or re.match(r"\w", after))


def _end_of_space(text: str, start: int) -> int:
    match = re.compile(r"\s*").match(text, start)
    return match.end() if match else start
