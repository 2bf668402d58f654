"""Items of a response's `input` as the messages that a chat template takes, and their media, in order.

An answer comes back as several items (a thought, a message, calls). Here they become one assistant message
again, so that the template writes what the model wrote and the cache finds it.
"""

from typing import Any

from server.conversation import check_media, checked_kwargs, image_ref, text_content, tool_call
from server.effort import with_effort
from server.errors import BadRequest
from server.responses.namespaces import flat_name
from server.schema.chat import RefusalPart
from server.schema.response_items import (
    FunctionCall,
    FunctionOutput,
    InputImage,
    InputItem,
    InputMessage,
    InputText,
    InstructionMessage,
    OutputMessage,
    ReasoningItem,
)
from server.schema.responses import ResponseRequest
from server.validated import Conversation, MediaRef, ModelFacts


def conversation_of(
    request: ResponseRequest, tools: list[dict[str, Any]] | None, facts: ModelFacts, max_media_items: int
) -> Conversation:
    """BadRequest where items do not fit together, or hold media that the model can't take."""
    effort = request.reasoning.effort if request.reasoning else None
    kwargs = checked_kwargs(
        with_effort(effort, request.chat_template_kwargs, facts.template_variables, "reasoning.effort")
    )
    messages = _Messages()
    if request.instructions:
        messages.add({"role": "system", "content": request.instructions})
    if isinstance(request.input, str):
        messages.add({"role": "user", "content": request.input})
    else:
        for index, item in enumerate(request.input):
            messages.add_item(item, f"input[{index}]")
    messages.close_turn()
    check_media(messages.media, facts, max_media_items)
    return Conversation(messages.done, tuple(messages.media), tools, kwargs, param="input")


class _Messages:
    """Messages so far, and the assistant's turn that following items may still belong to."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self.media: list[MediaRef] = []
        self._turn: dict[str, Any] = {}
        self._call_ids: set[str] = set()

    def add(self, message: dict[str, Any]) -> None:
        self.close_turn()
        self.done.append(message)

    def close_turn(self) -> None:
        """A thought that nothing follows is left out: it was cut off."""
        if self._has_spoken():
            self.done.append({"role": "assistant", "content": "", **self._turn})
        self._turn = {}

    def add_item(self, item: InputItem, place: str) -> None:
        match item:
            case InputMessage():
                self.add({"role": "user", "content": self._user_content(item, place)})
            case InstructionMessage():
                self.add({"role": item.role, "content": text_content(item.content)})
            case FunctionOutput():
                if item.call_id not in self._call_ids:
                    raise BadRequest(
                        f"{place}: answers a call that no earlier item made.", param=f"{place}.call_id"
                    )
                self.add({"role": "tool", "content": text_content(item.output), "tool_call_id": item.call_id})
            case ReasoningItem():
                self._begin_turn_if_spoken()
                thought = "".join(part.text for part in item.content or ())
                if thought:
                    self._turn["reasoning_content"] = self._turn.get("reasoning_content", "") + thought
            case OutputMessage():
                self._begin_turn_if_spoken()
                self._turn["content"] = _assistant_text(item)
            case FunctionCall():
                name = flat_name(item.namespace, item.name)
                call = tool_call(item.call_id, name, item.arguments)
                self._turn.setdefault("tool_calls", []).append(call)
                self._call_ids.add(item.call_id)

    def _begin_turn_if_spoken(self) -> None:
        if self._has_spoken():
            self.close_turn()

    def _has_spoken(self) -> bool:
        return "content" in self._turn or "tool_calls" in self._turn

    def _user_content(self, item: InputMessage, place: str) -> str | list[dict[str, str]]:
        if isinstance(item.content, str):
            return item.content
        parts: list[dict[str, str]] = []
        for index, part in enumerate(item.content):
            param = f"{place}.content[{index}]"
            if isinstance(part, InputText):
                parts.append({"type": "text", "text": part.text})
                continue
            if isinstance(part, InputImage):
                ref = image_ref(part.image_url, part.detail, f"{param}.image_url")
            else:
                audio = part.input_audio
                ref = MediaRef("audio", audio.data, audio.format, "", f"{param}.input_audio")
            self.media.append(ref)
            parts.append({"type": ref.kind})
        return parts


def _assistant_text(item: OutputMessage) -> str:
    if isinstance(item.content, str):
        return item.content
    return "".join(part.refusal if isinstance(part, RefusalPart) else part.text for part in item.content)
