"""The field table of POST /v1/audio/transcriptions, in the form of `server.schema.field`."""

from server.schema.field import Field, Section

_ONE_SPEAKER = "speakers are not told apart"

TRANSCRIPTION = Section(
    "POST /v1/audio/transcriptions",
    (
        Field("file", "honoured", "WAV, FLAC, Ogg or MP3, told from the bytes"),
        Field("model", "honoured", "one of the served names, exactly; it must take audio"),
        Field("prompt", "honoured", "follows the operator's instruction (`--transcription-prompt`)"),
        Field("language", "honoured", "a language tag such as `en`, added to the instruction"),
        Field(
            "response_format",
            "honoured",
            "`json` or `text`; `verbose_json`, `srt`, `vtt` and `diarized_json` are refused: "
            "the model gives no times and no speakers",
        ),
        Field("temperature", "honoured", "0 to 1, default 0"),
        Field("stream", "honoured", "with `json` only"),
        Field("include", "honoured", "`logprobs`, with `json` only"),
        Field("timestamp_granularities", "refused", "the model gives no times"),
        Field("chunking_strategy", "refused", "a sound is transcribed as a whole"),
        Field("known_speaker_names", "refused", _ONE_SPEAKER),
        Field("known_speaker_references", "refused", _ONE_SPEAKER),
        Field("keywords", "refused", "write them into `prompt`"),
        Field("languages", "refused", "give one `language`, or write them into `prompt`"),
        Field("cache_salt", "honoured", "as for chat", extension=True),
    ),
)

SECTIONS = (TRANSCRIPTION,)
