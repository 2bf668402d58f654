"""The field table of POST /v1/audio/transcriptions, in the form of `server.schema.field`."""

from server.schema.field import Section, honoured, refused

_ONE_SPEAKER = "speakers are not told apart"

TRANSCRIPTION = Section(
    "POST /v1/audio/transcriptions",
    (
        honoured("file", "WAV, FLAC, Ogg or MP3, told from the bytes"),
        honoured("model", "one of the served names, exactly; it must take audio"),
        honoured("prompt", "follows the operator's instruction (`--transcription-prompt`)"),
        honoured("language", "a language tag such as `en`, added to the instruction"),
        honoured(
            "response_format",
            "`json` or `text`; `verbose_json`, `srt`, `vtt` and `diarized_json` are refused: "
            "the model gives no times and no speakers",
        ),
        honoured("temperature", "0 to 1, default 0"),
        honoured("stream", "with `json` only"),
        honoured("include", "`logprobs`, with `json` only"),
        refused("timestamp_granularities", "the model gives no times"),
        refused("chunking_strategy", "a sound is transcribed as a whole"),
        refused("known_speaker_names", _ONE_SPEAKER),
        refused("known_speaker_references", _ONE_SPEAKER),
        refused("keywords", "write them into `prompt`"),
        refused("languages", "give one `language`, or write them into `prompt`"),
        honoured("cache_salt", "as for chat", extension=True),
    ),
)

SECTIONS = (TRANSCRIPTION,)
