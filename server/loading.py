"""From settings to a loaded model: the checkpoint's half that the server needs, and the engine's process
beside it."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from engine.client import EngineClient
from engine.config import EngineConfig
from engine.messages import LoadProgress
from engine.process_client import ProcessClient
from models.checkpoint import Checkpoint, CheckpointError
from models.processing.base import Processing
from models.registry import load_processing
from server import reasoning
from server.detokenizer import Detokenizer
from server.flags import SettingsError
from server.media.fetch import FetchRules
from server.media.limits import MediaLimits
from server.media.pipeline import MediaPipeline
from server.media.source import SourceReader
from server.prompt import PromptBuilder
from server.reasoning import ThinkTokens
from server.response_template.call_form import call_form
from server.response_template.delimiter import ResponseTemplateError
from server.response_template.known_form import known_form
from server.response_template.template import ResponseTemplate
from server.runtime import Runtime
from server.settings import Settings
from server.template import variables_of
from server.tokenizer import Tokenizer
from server.tools.form import TAGGED, CallForm
from server.tools.grammar import TAGS
from server.transcription import instruction
from server.validated import ModelFacts

logger = logging.getLogger("intarsia")


def engine_config(settings: Settings, model: str) -> EngineConfig:
    """SettingsError where settings contradict each other."""
    try:
        return EngineConfig(
            model=model,
            load_format=settings.load_format,
            dtype=settings.dtype,
            device=settings.device,
            kv_cache_bytes=0 if settings.kv_cache_memory == "auto" else int(settings.kv_cache_memory),
            encoder_cache_bytes=0
            if settings.encoder_cache_memory == "auto"
            else int(settings.encoder_cache_memory),
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            max_model_len=settings.max_model_len or 0,
            num_threads=settings.threads,
            deterministic=settings.deterministic,
            attention_backend=settings.attention_backend,
            cuda_graphs=settings.cuda_graphs,
            debug=settings.debug,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


async def load(settings: Settings, on_progress: Callable[[LoadProgress], None] | None = None) -> Runtime:
    """Raises CheckpointError or SettingsError for what the user can mend, EngineStartFailed for the rest."""
    checkpoint = await asyncio.to_thread(
        Checkpoint.open, settings.model_path, weights=settings.load_format != "random"
    )
    front = await asyncio.to_thread(_read, checkpoint)
    engine = await ProcessClient.start(engine_config(settings, str(checkpoint.path)), on_progress)
    try:
        return _runtime(settings, checkpoint, front, engine)
    except BaseException:
        await engine.close()
        raise


class _Front(NamedTuple):
    """What the server's process needs of a checkpoint."""

    processing: Processing
    tokenizer: Tokenizer
    prompts: PromptBuilder
    response_template: ResponseTemplate | None
    call_form: CallForm | None


def _read(checkpoint: Checkpoint) -> _Front:
    """Before any weight is read. CheckpointError if it can't be used."""
    template, form = _response_template(checkpoint)
    try:
        processing = load_processing(checkpoint)
        tokenizer = Tokenizer.from_checkpoint(checkpoint)
        return _Front(processing, tokenizer, PromptBuilder(checkpoint, tokenizer, processing), template, form)
    except CheckpointError:
        raise
    except Exception as error:  # whatever the libraries that read these files have to say
        logger.debug("reading the checkpoint", exc_info=True)
        raise CheckpointError(
            f"the tokenizer, chat template or media processor of {checkpoint.path} can't be used: "
            f"{' '.join(str(error).split())[:300] or type(error).__name__}"
        ) from error


def _response_template(checkpoint: Checkpoint) -> tuple[ResponseTemplate | None, CallForm | None]:
    """How answers are read, and the form of calls: as the checkpoint says, or its chat template shows."""
    data = checkpoint.tokenizer_config.get("response_template")
    if data is None:
        return known_form(checkpoint.tool_template or "") or (None, TAGGED)
    try:
        template = ResponseTemplate.load(data)
        return template, call_form(template)
    except ResponseTemplateError as error:
        raise CheckpointError(f"the response template of {checkpoint.path} can't be used: {error}") from None


def _runtime(settings: Settings, checkpoint: Checkpoint, front: _Front, engine: EngineClient) -> Runtime:
    chat_template, template = checkpoint.chat_template or "", front.response_template
    tool_template = checkpoint.tool_template or ""
    tokenizer = front.tokenizer
    template_tags = [
        tag for tag in tokenizer.added_tokens if tag not in TAGS and template and template.mentions(tag)
    ]
    eos_token_ids = frozenset(checkpoint.eos_token_ids)
    tag_ids = {
        tag: tokenizer.added_tokens[tag] for tag in (*TAGS, *template_tags) if tag in tokenizer.added_tokens
    }
    facts = ModelFacts(
        names=settings.served_names,
        vocab_size=min(engine.info.vocab_size, tokenizer.vocab_size),
        eos_token_ids=eos_token_ids,
        media_kinds=front.processing.kinds,
        supports_tools="tools" in tool_template,
        max_token_chars=tokenizer.max_token_chars,
        tag_ids={tag: token_id for tag, token_id in tag_ids.items() if token_id not in eos_token_ids},
        template_variables=variables_of(chat_template) | variables_of(tool_template),
        call_form=front.call_form,
        transcription_prompt=instruction(settings, checkpoint.generation_config),
    )
    return Runtime(
        engine=engine,
        prompts=front.prompts,
        media=_media(settings, front.processing),
        vocabulary=tokenizer,
        make_decoder=lambda shown_ids: Detokenizer(tokenizer, shown_ids),
        facts=facts,
        think=_think_tokens(tokenizer, chat_template),
        created=int(time.time()),
        response_template=template,
        template_ids=frozenset(tokenizer.added_tokens[tag] for tag in template_tags),
    )


def _think_tokens(tokenizer: Tokenizer, template: str) -> ThinkTokens | None:
    opening, closing = tokenizer.token_id(reasoning.OPEN), tokenizer.token_id(reasoning.CLOSE)
    if opening is None or closing is None or reasoning.CLOSE not in template:
        return None
    return ThinkTokens(opening, closing)


def _media(settings: Settings, processing: Processing) -> MediaPipeline:
    limits = MediaLimits(
        max_encoded_bytes=int(settings.max_media_bytes),
        max_image_pixels=settings.max_image_pixels,
        max_request_pixels=settings.max_request_pixels,
        max_audio_seconds=settings.max_audio_seconds,
        max_named_bytes=int(settings.named_media_memory),
    )
    rules = FetchRules(allowed_hosts=frozenset(settings.allowed_media_domains))
    return MediaPipeline(processing, limits, SourceReader(rules, settings.allowed_media_path))
