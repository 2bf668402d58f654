"""Which shapes of message content and arguments a chat template takes, found out by trying, and messages put
into those shapes.

Some templates take a list of parts, some only a string, some only lists; the names that they test a picture
or a sound by differ too. Knows nothing of tokens.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from server.template import ChatTemplate, TemplateError

_PROBE, _ANOTHER = "probe5d1c", "probe90b7"
_ANY_ID, _SHORT_ID = "call_5d1c90b75d1c90b75d1c90b7", "id5d1c90b"
_MEDIA_PARTS: dict[str, list[dict[str, Any]]] = {
    kind: [
        {"type": kind, kind: kind},
        {"type": f"{kind}_url", f"{kind}_url": {"url": kind}},
        {"type": kind, kind: ""},
    ]
    for kind in ("image", "audio")
}
_MEDIA_PARTS["audio"].append({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})


class ContentShapes(NamedTuple):
    """What one role's content may be. parts: a list of several, all of which the template writes.
    media_parts: by kind, the part that the template writes a marker for."""

    strings: bool
    parts: bool
    media_parts: Mapping[str, dict[str, Any]]


class ContentAdapter:
    """Turns messages with `{"type": "text"}`, `{"type": "image"}` and `{"type": "audio"}` parts into what the
    template takes. markers: by kind, the text that stands for one media item."""

    def __init__(self, template: ChatTemplate, markers: Mapping[str, str]) -> None:
        self._template = template
        self._markers = markers
        self._user = self._probe([])
        self._assistant = self._probe([], "assistant")
        self._system = self._probe([], "system")
        self._takes_developer = "developer" in template.source
        self._takes_text_arguments = _PROBE in self._probe_call(_SHORT_ID, _PROBE)
        self._takes_any_id = bool(self._probe_call(_ANY_ID, {})) or not self._probe_call(_SHORT_ID, {})

    def adapt(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A new message. Absent where a value is None, as templates test for presence."""
        adapted = {name: value for name, value in message.items() if value is not None}
        if adapted.get("role") == "developer" and not self._takes_developer:
            adapted["role"] = "system"
        reasoning = next(
            (adapted[n] for n in ("reasoning_content", "thinking", "reasoning") if n in adapted), None
        )
        if reasoning is not None:
            adapted = {"thinking": reasoning, **adapted, "reasoning_content": reasoning}
        if "content" in adapted:
            adapted["content"] = self._content(adapted["content"], str(adapted.get("role")))
        if "tool_calls" in adapted:
            adapted["tool_calls"] = [self._call(call) for call in adapted["tool_calls"]]
        if "tool_call_id" in adapted:
            adapted["tool_call_id"] = self._id(adapted["tool_call_id"])
        return adapted

    def _id(self, call_id: str) -> str:
        """Mistral's templates refuse others than those of nine letters and digits."""
        if self._takes_any_id or (len(call_id) == len(_SHORT_ID) and call_id.isalnum()):
            return call_id
        return hashlib.sha256(call_id.encode()).hexdigest()[: len(_SHORT_ID)]

    def _call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments that are no object become one where the template looks into them."""
        call = {**call, "id": self._id(call["id"])} if "id" in call else call
        function = call["function"]
        if self._takes_text_arguments or not isinstance(function["arguments"], str):
            return call
        return {**call, "function": {**function, "arguments": {"arguments": function["arguments"]}}}

    def _content(self, content: Any, role: str) -> Any:
        shapes = {"assistant": self._assistant, "system": self._system}.get(role, self._user)
        if isinstance(content, str):
            return content if shapes.strings or not shapes.parts else [{"type": "text", "text": content}]
        takes_all = all(part["type"] == "text" or part["type"] in shapes.media_parts for part in content)
        if shapes.parts and takes_all and role != "tool":
            return [shapes.media_parts.get(part["type"], part) for part in content]
        flat = "\n".join(
            part["text"] if part["type"] == "text" else self._markers[part["type"]] for part in content
        )
        return flat if shapes.strings or not shapes.parts else [{"type": "text", "text": flat}]

    def _probe_call(self, call_id: str, arguments: Any) -> str:
        """A call as the template writes it; empty where it refuses it."""
        function = {"name": "f", "arguments": arguments}
        call = {"id": call_id, "type": "function", "function": function}
        messages = [
            {"role": "user", "content": _ask(self._user)},
            {"role": "assistant", "content": self._content("", "assistant"), "tool_calls": [call]},
        ]
        try:
            return self._template.render(messages, add_generation_prompt=False)
        except TemplateError:
            return ""

    def _probe(self, before: Sequence[dict[str, Any]], role: str = "user") -> ContentShapes:
        def rendered(content: Any) -> str:
            messages = [*before, {"role": role, "content": content}]
            if role == "assistant":
                messages.insert(0, {"role": "user", "content": _ask(self._user)})
            if role == "system":
                messages.append({"role": "user", "content": _ask(self._user)})
            try:
                return self._template.render(messages, add_generation_prompt=False)
            except TemplateError:
                return ""

        def shows_probe(text: str) -> bool:
            return _PROBE in text and f"'{_PROBE}'" not in text and f'"{_PROBE}"' not in text

        text = {"type": "text", "text": _PROBE}
        media: dict[str, dict[str, Any]] = {}
        for kind, marker in self._markers.items():
            for part in _MEDIA_PARTS[kind]:
                shown = rendered([part, text])
                if shown.count(marker) == 1 and shows_probe(shown):
                    media[kind] = part
                    break
        several = rendered([text, {"type": "text", "text": _ANOTHER}])
        takes_parts = shows_probe(several) and _ANOTHER in several
        return ContentShapes(shows_probe(rendered(_PROBE)), takes_parts, media)


def _ask(shapes: ContentShapes) -> Any:
    return "Hi" if shapes.strings or not shapes.parts else [{"type": "text", "text": "Hi"}]
