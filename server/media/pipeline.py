"""The one path from a request's media parts to identities, layouts and prepared arrays.

    part -> encoded bytes + digest -> MediaKey -> layout known?  yes: done, nothing is decoded
                                                  no: header within limits -> decode -> layout, remembered
    later, if the engine asks: decoded item (kept, or decoded anew) -> prepared arrays

All that is remembered or shared is named by (namespace, key), so tenants never meet. Worker threads prepare,
and have processes decode. Knows nothing of prompts or of HTTP requests.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from kvcache.keys import MediaKey, media_key
from models.processing.base import MediaError, MediaLayout, PreparedMedia, Processing
from server.errors import Unavailable
from server.media.decoded import DecodedStore
from server.media.decoders import BYTES_PER_SAMPLE, Decoders
from server.media.flights import Flights
from server.media.image import BYTES_PER_PIXEL
from server.media.item import MediaPart, ResolvedMedia
from server.media.limits import MediaLimits, RequestBudget
from server.media.named import Name, NamedMedia
from server.media.source import Encoded, SourceReader, has_data
from server.media.unreadable import too_slow
from server.media.workers import Job, Workers


class _Name(NamedTuple):
    namespace: bytes
    key: MediaKey


class _Encoded(NamedTuple):
    tenant: str
    """At whose turn it is decoded and prepared."""
    kind: str
    data: bytes
    options: str


class _Known(NamedTuple):
    """amount: pixels or seconds, what the item costs of a request's budget."""

    layout: MediaLayout
    amount: float


class _Decoded(NamedTuple):
    item: Any
    known: _Known
    num_bytes: int


class MediaPipeline:
    """One for the process; lives on one event loop. The num_* counters only rise."""

    def __init__(
        self, processing: Processing, limits: MediaLimits | None = None, reader: SourceReader | None = None
    ) -> None:
        self.limits = limits or MediaLimits()
        self.num_decoded = 0
        self.num_prepared = 0
        self.num_layout_hits = 0
        self._processing = processing
        self._reader = reader or SourceReader()
        self._workers = Workers(self.limits.num_workers, self.limits.decode_timeout_s, self.limits.max_wait_s)
        self._decoders = Decoders(self.limits, processing)
        self._named = NamedMedia(self.limits.max_named_bytes, self.limits.max_names)
        self._decoded = DecodedStore(self.limits.max_decoded_bytes)
        self._layouts: OrderedDict[_Name, _Known] = OrderedDict()
        self._sightings: Flights[_Known] = Flights()
        self._preparations: Flights[PreparedMedia] = Flights()
        self._holders: Counter[_Name] = Counter()

    @property
    def decoded_bytes(self) -> int:
        """Bytes of decoded media held or being made; 0 when no request is open."""
        return self._decoded.used_bytes

    def request(self, namespace: bytes, tenant: str = "") -> "RequestMedia":
        """The media of one request, as an async context manager: what it holds is let go at its end."""
        return RequestMedia(self, namespace, tenant)

    def close(self) -> None:
        self._workers.close()
        self._decoders.close()

    async def _first_sight(self, name: _Name, encoded: _Encoded, reserve_bytes: int) -> _Known:
        decoded = await self._decode(encoded, reserve_bytes)
        self._decoded.keep(name, decoded.item, decoded.num_bytes)
        self._layouts[name] = decoded.known
        while len(self._layouts) > self.limits.max_layouts:
            self._layouts.popitem(last=False)
        return decoded.known

    async def _decode(self, encoded: _Encoded, reserve_bytes: int) -> _Decoded:
        """Returns the item with its reservation."""
        reserved = await self._reserve(reserve_bytes, encoded.tenant)
        job = self._workers.start(
            lambda is_cancelled: self._decode_in_thread(encoded, is_cancelled), encoded.tenant
        )
        try:
            item, known, num_bytes = await self._result(job, encoded.kind)
        except BaseException:
            job.on_finish(lambda: self._decoded.release(reserved))
            raise
        kept = min(num_bytes, reserved)
        self._decoded.release(reserved - kept)
        self.num_decoded += 1
        return _Decoded(item, known, kept)

    async def _reserve(self, num_bytes: int, tenant: str) -> int:
        try:
            async with asyncio.timeout(self.limits.max_wait_s):
                return await self._decoded.reserve(num_bytes, tenant)
        except TimeoutError:
            raise Unavailable("Too many pictures and sounds are held; try again shortly.") from None

    def _decode_in_thread(self, encoded: _Encoded, is_cancelled: Callable[[], bool]) -> _Decoded:
        if encoded.kind == "image":
            image = self._decoders.decode_image(encoded.data, is_cancelled)
            layout = self._processing.image_layout(*image.size, encoded.options)
            num_pixels = image.width * image.height
            return _Decoded(image, _Known(layout, num_pixels), num_pixels * BYTES_PER_PIXEL)
        samples = self._decoders.decode_audio(encoded.data, is_cancelled)
        layout = self._processing.audio_layout(len(samples))
        seconds = len(samples) / self._processing.sampling_rate
        return _Decoded(samples, _Known(layout, seconds), samples.nbytes)

    async def _prepare(self, name: _Name, encoded: _Encoded) -> PreparedMedia:
        kept = self._decoded.take(name)
        if kept is None:
            decoded = await self._decode(encoded, await self._cost(encoded))
            item, num_bytes = decoded.item, decoded.num_bytes
        else:
            item, num_bytes = kept
        job = self._workers.start(lambda _: self._prepare_in_thread(item, encoded), encoded.tenant)
        job.on_finish(lambda: self._decoded.release(num_bytes))
        prepared = await self._result(job, encoded.kind)
        self.num_prepared += 1
        return prepared

    def _prepare_in_thread(self, item: Any, encoded: _Encoded) -> PreparedMedia:
        if encoded.kind == "image":
            return self._processing.prepare_image(item, encoded.options)
        return self._processing.prepare_audio(item)

    async def _cost(self, encoded: _Encoded, charge: Callable[[float], None] = lambda _: None) -> int:
        """Bytes that decoding takes at most. charge(pixels) is called once they are known; a sound's length
        never is beforehand."""
        if encoded.kind == "audio":
            return int(self.limits.max_audio_seconds * self._processing.sampling_rate) * BYTES_PER_SAMPLE
        job = self._workers.start(
            lambda is_cancelled: self._decoders.read_header(encoded.data, is_cancelled), encoded.tenant
        )
        header = await self._result(job, encoded.kind)
        charge(header.width * header.height)
        return header.decoding_bytes

    async def _result(self, job: Job[Any], kind: str) -> Any:
        try:
            return await job.result()
        except TimeoutError:
            raise too_slow(kind) from None

    def _recall(self, name: _Name) -> _Known | None:
        known = self._layouts.get(name)
        if known is not None:
            self._layouts.move_to_end(name)
            self.num_layout_hits += 1
        return known

    def _hold(self, name: _Name) -> None:
        self._holders[name] += 1

    def _let_go(self, name: _Name) -> None:
        self._holders[name] -= 1
        if not self._holders[name]:
            del self._holders[name]
            self._decoded.drop(name)


class RequestMedia:
    """One request's media. Encoded bytes are kept until its end, since a preempted request may need them
    again."""

    def __init__(self, pipeline: MediaPipeline, namespace: bytes, tenant: str) -> None:
        self._pipeline = pipeline
        self._namespace, self._tenant = namespace, tenant
        self._budget = RequestBudget(pipeline.limits)
        self._encoded: dict[bytes, _Encoded] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for key in self._encoded:
            self._pipeline._let_go(_Name(self._namespace, MediaKey(key)))
        self._encoded.clear()

    async def resolve(self, part: MediaPart) -> ResolvedMedia:
        """Identity and layout of one part. MediaError with a published code for what this server or model
        can't take, Unavailable where others hold all that it would be read with."""
        pipeline, processing = self._pipeline, self._pipeline._processing
        if part.kind not in processing.kinds:
            raise MediaError(f"This model takes no {part.kind}.", "unsupported_media")
        source = await self._source(part)
        options = part.options if part.options in processing.image_options else ""
        encoded = _Encoded(self._tenant, part.kind, source.data, options)
        name = _Name(self._namespace, media_key(part.kind, source.digest, processing.fingerprint, options))
        if name.key not in self._encoded:
            self._encoded[name.key] = encoded
            pipeline._hold(name)
        known = pipeline._recall(name)
        if known is not None:
            self._budget.charge_decoded(part.kind, known.amount)
        else:
            known = await self._first_sight(name, encoded)
        if part.uuid is not None:
            pipeline._named.bind(Name(self._namespace, part.kind, part.uuid), source)
        return ResolvedMedia(part.kind, name.key, known.layout)

    async def _source(self, part: MediaPart) -> Encoded:
        """What the part brings along, or what it names."""
        pipeline = self._pipeline
        if part.uuid is None or has_data(part):
            return await pipeline._reader.read(
                part, pipeline.limits.max_encoded_bytes, self._budget.charge_encoded
            )
        source = pipeline._named.find(Name(self._namespace, part.kind, part.uuid))
        self._budget.charge_encoded(len(source.data))
        return source

    async def _first_sight(self, name: _Name, encoded: _Encoded) -> _Known:
        """Charged to this request before (pictures) or after (sounds) joining a flight that others may
        share."""
        pipeline = self._pipeline
        reserve_bytes = await pipeline._cost(
            encoded, lambda pixels: self._budget.charge_decoded("image", pixels)
        )
        # Others' flight may have landed while this one's header was read.
        known = pipeline._layouts.get(name) or await pipeline._sightings.join(
            name, lambda: pipeline._first_sight(name, encoded, reserve_bytes)
        )
        if encoded.kind == "audio":
            self._budget.charge_decoded("audio", known.amount)
        return known

    async def prepare(self, key: bytes) -> PreparedMedia:
        """The arrays of an item that this request resolved (KeyError otherwise). MediaError if it can't be
        prepared, with the engine's code "overloaded" if it can't be now."""
        pipeline, encoded = self._pipeline, self._encoded[key]
        name = _Name(self._namespace, MediaKey(key))
        try:
            return await pipeline._preparations.join(name, lambda: pipeline._prepare(name, encoded))
        except Unavailable as error:
            raise MediaError(error.message, "overloaded") from None
