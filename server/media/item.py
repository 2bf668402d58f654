"""One picture or sound of a request: as the client names it, and as it is known once resolved."""

from typing import NamedTuple

from kvcache.keys import MediaKey
from models.processing.base import MediaLayout


class MediaPart(NamedTuple):
    """What the client sent.

    kind: "image" or "audio". source: a URL (`data:`, and where allowed `http:`, `https:`, `file:`), with a
    `format` the bare base64 data of an `input_audio` part, or an uploaded file's bytes.
    options: canonical text of what the client asked for, "" or "detail=low"; a model may honour none of it.
    uuid: the name that the client gave to this content. With a name the source may be without data.
    """

    kind: str
    source: str | bytes
    format: str | None = None
    options: str = ""
    uuid: str | None = None


class ResolvedMedia(NamedTuple):
    """Identity and size: all that a prompt needs to know of it."""

    kind: str
    key: MediaKey
    layout: MediaLayout
