"""Messages as a chat template takes them, and the media among them, in order."""

import json
import re
from collections.abc import Sequence
from typing import Any

from server.errors import BadRequest
from server.schema.chat import (
    AssistantMessage,
    AudioUrlPart,
    ImagePart,
    InputAudioPart,
    Message,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)
from server.schema.response_items import InputText
from server.validated import Conversation, MediaRef, ModelFacts

_HALF_PAIR = re.compile("[\ud800-\udfff]")
RESERVED_KWARGS = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "chat_template", "bos_token", "eos_token"}
)


def conversation_of(
    messages: Sequence[Message],
    tools: list[dict[str, Any]] | None,
    template_kwargs: dict[str, Any] | None,
    facts: ModelFacts,
    max_media_items: int,
) -> Conversation:
    """BadRequest where messages do not fit together, or hold media that the model can't take."""
    kwargs = checked_kwargs(template_kwargs)
    media: list[MediaRef] = []
    rendered: list[dict[str, Any]] = []
    open_calls: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        match message:
            case SystemMessage():
                rendered.append({"role": message.role, "content": text_content(message.content)})
            case UserMessage():
                rendered.append({"role": "user", "content": _user_content(message, place, media)})
            case AssistantMessage():
                open_calls |= {call.id for call in message.tool_calls or ()}
                rendered.append(_assistant(message, place))
            case ToolMessage():
                if message.tool_call_id not in open_calls:
                    raise BadRequest(
                        f"{place}: answers a tool call that no earlier message made.",
                        param=f"{place}.tool_call_id",
                    )
                answer = text_content(message.content)
                rendered.append({"role": "tool", "content": answer, "tool_call_id": message.tool_call_id})
    check_media(media, facts, max_media_items)
    return Conversation(rendered, tuple(media), tools, kwargs)


def checked_kwargs(template_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """BadRequest for variables of the chat template that are the server's to set."""
    reserved = RESERVED_KWARGS & (template_kwargs or {}).keys()
    if reserved:
        raise BadRequest(f"chat_template_kwargs may not set `{min(reserved)}`.", param="chat_template_kwargs")
    return template_kwargs or {}


def text_content(content: str | Sequence[TextPart | InputText]) -> str | list[dict[str, str]]:
    return content if isinstance(content, str) else [{"type": "text", "text": part.text} for part in content]


def _user_content(message: UserMessage, place: str, media: list[MediaRef]) -> str | list[dict[str, str]]:
    if isinstance(message.content, str):
        return message.content
    parts: list[dict[str, str]] = []
    for index, part in enumerate(message.content):
        if isinstance(part, TextPart):
            parts.append({"type": "text", "text": part.text})
            continue
        ref = media_ref(part, f"{place}.content[{index}]")
        media.append(ref)
        parts.append({"type": ref.kind})
    return parts


def media_ref(part: ImagePart | InputAudioPart | AudioUrlPart, place: str) -> MediaRef:
    """BadRequest for a part with neither data nor a name."""
    param = f"{place}.{part.type}"
    match part:
        case ImagePart():
            image = part.image_url
            url = _data(image, image and image.url, part.uuid, param, "url")
            return image_ref(url, image.detail if image else "auto", param, part.uuid)
        case InputAudioPart():
            audio = part.input_audio
            data = _data(audio, audio and audio.data, part.uuid, param, "data")
            return MediaRef("audio", data, audio and audio.format, "", param, part.uuid)
        case AudioUrlPart():
            sound = part.audio_url
            url = _data(sound, sound and sound.url, part.uuid, param, "url")
            return MediaRef("audio", url, None, "", param, part.uuid)


def _data(holder: object, data: str | None, uuid: str | None, param: str, field: str) -> str:
    """Empty only where the client's own name stands for the data."""
    if data is None and uuid is None:
        missing = param if holder is None else f"{param}.{field}"
        raise BadRequest(f"{missing}: Field required.", param=missing, code="missing_required_parameter")
    return data or ""


def image_ref(url: str, detail: str, param: str, uuid: str | None = None) -> MediaRef:
    return MediaRef("image", url, None, "detail=low" if detail == "low" else "", param, uuid)


def check_media(media: list[MediaRef], facts: ModelFacts, max_media_items: int) -> None:
    """BadRequest for media that the model can't take, or too many."""
    for ref in media:
        if ref.kind not in facts.media_kinds:
            raise BadRequest(f"This model does not take {ref.kind} input.", param=ref.param)
    if len(media) > max_media_items:
        raise BadRequest(
            f"{len(media)} media items, but at most {max_media_items} in one request.",
            param=media[max_media_items].param,
            code="too_many_media",
        )


def _assistant(message: AssistantMessage, place: str) -> dict[str, Any]:
    says_nothing = message.content is None and message.refusal is None and message.reasoning_content is None
    if says_nothing and not message.tool_calls:
        raise BadRequest(
            f"{place}: content is missing.", param=f"{place}.content", code="missing_required_parameter"
        )
    parts = message.content if isinstance(message.content, list) else []
    texts = [part.refusal if isinstance(part, RefusalPart) else part.text for part in parts]
    content = message.content if isinstance(message.content, str) else "".join(texts)
    rendered: dict[str, Any] = {"role": "assistant", "content": content or message.refusal or ""}
    if message.reasoning_content:
        rendered["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        rendered["tool_calls"] = [
            tool_call(call.id, call.function.name, call.function.arguments) for call in message.tool_calls
        ]
    return rendered


def tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """As templates expect it. arguments: what a model wrote as such, well or not."""
    function = {"name": name, "arguments": _arguments(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _arguments(text: str) -> dict[str, Any] | str:
    """The object that the text is; where it is none, or one with numbers that JSON lacks, the text itself. An
    escape within it may write half of a surrogate pair, which no tokenizer takes: it becomes U+FFFD."""
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
        plain = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        if _HALF_PAIR.search(plain):
            arguments = json.loads(_HALF_PAIR.sub("\ufffd", plain))
    except (ValueError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text
