"""A transcription is a chat of one turn: a sound, and the instruction to write down what is said in it."""

from collections.abc import Mapping
from typing import Any

from server.chat_format import WholeAnswer
from server.choice import Piece
from server.conversation import check_media
from server.errors import BadRequest, ContextTooLong
from server.generation import Answering
from server.schema.sampling import SamplingFields
from server.schema.transcriptions import TranscriptionRequest
from server.settings import Settings
from server.validate import answer_options, check_model
from server.validated import AS_MANY_AS_FIT, Conversation, MediaRef, ModelFacts, ValidatedChat

INSTRUCTION = "Transcribe the speech in this audio word for word. Answer with the transcript only."


def instruction(settings: Settings, generation_config: Mapping[str, Any]) -> str:
    """What a sound is sent with: the operator's words, else the checkpoint's own, else those for any
    model."""
    own = generation_config.get("transcription_prompt")
    return settings.transcription_prompt or (own if isinstance(own, str) and own else INSTRUCTION)


def check_takes_audio(facts: ModelFacts) -> None:
    if "audio" not in facts.media_kinds:
        raise BadRequest(
            "This model does not take audio input, so it can't transcribe.", code="unsupported_model"
        )


def validate_transcription(
    request: TranscriptionRequest, facts: ModelFacts, max_media_items: int
) -> ValidatedChat:
    """BadRequest or NotFound, naming the field."""
    check_model(request.model, facts)
    if request.response_format == "text":
        for field, is_set in (("stream", request.stream), ("include", request.include)):
            if is_set:
                raise BadRequest(f"{field} needs response_format: json.", param=field)
    sampling = SamplingFields.model_construct(
        temperature=request.temperature, stream=request.stream, cache_salt=request.cache_salt
    )
    media = MediaRef("audio", request.file, None, "", "file")
    check_media([media], facts, max_media_items)
    text = facts.transcription_prompt
    if request.language is not None:
        text += f" The language is {request.language}."
    if request.prompt is not None:
        text += f"\n{request.prompt}"
    content = [{"type": "audio"}, {"type": "text", "text": text}]
    return ValidatedChat(
        conversation=Conversation(
            [{"role": "user", "content": content}],
            (media,),
            tools=None,
            template_kwargs={},
            param="file",
        ),
        options=answer_options(sampling, facts, AS_MANY_AS_FIT, 0 if request.include else None),
        model=request.model,
        grammar=None,
        grammar_param="",
        single_tool_call=False,
    )


class TranscriptForm:
    """The transcript as it grows, and as JSON. One without its end is an error: no field could say so."""

    def __init__(self, with_logprobs: bool) -> None:
        self._with_logprobs = with_logprobs
        self._answer = WholeAnswer()

    @property
    def text(self) -> str:
        return self._answer.piece.content

    def add(self, piece: Piece) -> dict[str, Any] | None:
        """The event to be sent, if any. ContextTooLong where the transcript is cut off."""
        self._answer.add(piece)
        if piece.finish_reason == "length":
            raise ContextTooLong("The sound and its transcript do not fit the model's context.", param="file")
        if not piece.content:
            return None
        return {"type": "transcript.text.delta", "delta": piece.content, **self._logprobs(piece)}

    def done(self, answering: Answering) -> dict[str, Any]:
        return {"type": "transcript.text.done", **self.whole(answering)}

    def whole(self, answering: Answering) -> dict[str, Any]:
        piece = self._answer.piece
        return {"text": piece.content, **self._logprobs(piece), "usage": _usage(answering)}

    def _logprobs(self, piece: Piece) -> dict[str, Any]:
        if not self._with_logprobs:
            return {}
        tokens = [token.chat() for token in piece.tokens]
        return {
            "logprobs": [{name: token[name] for name in ("token", "logprob", "bytes")} for token in tokens]
        }


def _usage(answering: Answering) -> dict[str, Any]:
    prompt = answering.asked.prompt_tokens
    return {
        "type": "tokens",
        "input_tokens": prompt.total,
        "input_token_details": {
            "text_tokens": prompt.text,
            "audio_tokens": prompt.audio,
            "cached_tokens": answering.num_cached_tokens,
        },
        "output_tokens": answering.num_tokens,
        "total_tokens": prompt.total + answering.num_tokens,
    }
