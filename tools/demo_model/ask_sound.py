"""Questions about one sound and their true answers."""

import random

from tools.demo_model.ask_text import misread
from tools.demo_model.sounds import Sound
from tools.demo_model.wording import NUMBERS, QA, UNSURE
from tools.demo_model.words import DIGITS, SPOKEN, number_in_words

SPEECH = ("digits", "word", "command", "unknown")
CAPTION = (
    "What do you hear?", "Describe the sound.", "What is in the recording?", "What is this sound?",
    "What can you hear?", "Describe what you hear.", "What is this?", "What is in this recording?",
    "Tell me what you hear.", "Describe the recording.",
    "What is in the audio?", "Describe the audio.", "What did you hear?",
)  # fmt: skip
NUMBER = (
    "What number do you hear?", "Which number is spoken?", "What number was said?", "What digit do you hear?",
    "What digit is spoken?", "What number is this?", "Which digit was said?", "What is the number?",
)  # fmt: skip
WORD = (
    "What word do you hear?", "Which word is spoken?", "What word was said?", "What is the word?",
    "What word is spoken?",
)  # fmt: skip
TRANSCRIBE = (
    "Transcribe the recording.", "Transcribe the audio.", "Write down what is said.",
    "Transcribe the speech.",
    "Transcribe this.", "What was said?", "What does the speaker say?",
    "What is said in the recording?", "What does the audio say?",
)  # fmt: skip
SPEAKING = ("Is anyone speaking?", "Is someone speaking?", "Do you hear a voice?", "Is there speech?")
BEEPS = ("How many beeps do you hear?", "How many beeps are there?", "Count the beeps.")
HIGH_LOW = ("Is the tone high or low?", "Is the sound high or low?", "Is it a high or a low tone?")
RISING = ("Is the tone rising or falling?", "Does the tone rise or fall?", "Is it rising or falling?")
SILENT = ("Is it silent?", "Is the recording silent?")


def spoken(sound: Sound) -> str:
    """What is said, in words."""
    if sound.kind != "digits":
        return sound.text
    return number_in_words(sound.text) if sound.whole else " ".join(DIGITS[int(d)] for d in sound.text)


def heard(sound: Sound) -> str:
    """The whole sentence that says what the sound is."""
    match sound.kind:
        case "digits":
            return f"I hear the number {sound.text}."
        case "word":
            return f'I hear the word "{sound.text}".'
        case "command":
            return f'I hear the words "{sound.text}".'
        case "beeps":
            beeps = f"beep{'' if sound.text == '1' else 's'}"
            if sound.pitch == "middle":
                return f"I hear {NUMBERS[int(sound.text)]} {beeps} of middle pitch."
            return f"I hear {NUMBERS[int(sound.text)]} {sound.pitch} {beeps}."
        case "tone" | "sweep":
            return (
                "I hear a tone of middle pitch."
                if sound.pitch == "middle"
                else f"I hear a {sound.pitch} tone."
            )
        case "noise":
            return "I hear only noise."
        case "silence":
            return "I hear nothing."
    return UNSURE


def ask_speech(sound: Sound, rng: random.Random) -> list[QA]:
    category = "spoken number" if sound.kind == "digits" else "spoken words"
    asked = (
        (NUMBER, NUMBER) if sound.kind == "digits" else (WORD, WORD if sound.kind == "word" else TRANSCRIBE)
    )
    found = [
        QA(category, rng.choice(asked[0]), heard(sound)),
        QA(category, rng.choice(CAPTION), heard(sound)),
    ]
    found.append(QA(category, rng.choice(TRANSCRIBE), spoken(sound)))
    if sound.kind == "digits":
        found.append(QA(category, rng.choice(NUMBER), heard(sound)))
        if not sound.whole:
            count = f"{NUMBERS[len(sound.text)]} {'digit' if len(sound.text) == 1 else 'digits'}"
            found.append(QA("sound count", "How many digits do you hear?", f"I hear {count}."))
        guess = sound.text if rng.random() < 0.5 else misread("number", sound.text, rng)
        found.append(QA("sound yes/no", f"Is the number {guess}?", heard(sound)))
    else:
        found.append(QA("sound absent", rng.choice(NUMBER), "I hear no number."))
        if sound.kind == "word":
            guess = sound.text if rng.random() < 0.5 else rng.choice(SPOKEN)
            found.append(QA("sound yes/no", f'Is the word "{guess}"?', heard(sound)))
    return found


def ask_tones(sound: Sound, rng: random.Random) -> list[QA]:
    category = {"beeps": "beeps", "silence": "silence"}.get(sound.kind, "tones")
    found = [QA(category, q, heard(sound)) for q in rng.sample(CAPTION, 2)]
    found.append(QA("sound absent", rng.choice(TRANSCRIBE), "Nobody is speaking."))
    found.append(QA("sound absent", rng.choice(NUMBER), "I hear no number."))
    found.append(QA("sound absent", rng.choice(WORD), "I hear no word."))
    if sound.kind == "beeps":
        beeps = "beep" if sound.text == "1" else "beeps"
        found += [QA("beeps", q, f"I hear {NUMBERS[int(sound.text)]} {beeps}.") for q in rng.sample(BEEPS, 2)]
    else:
        found.append(QA("beeps", rng.choice(BEEPS), "I hear no beeps."))
    if sound.kind in ("beeps", "tone"):
        name = "beep" if sound.kind == "beeps" else "tone"
        pitch = "neither high nor low" if sound.pitch == "middle" else sound.pitch
        answer = f"The {name} is {pitch}." if sound.text in ("", "1") else f"The beeps are {pitch}."
        found.append(QA("tones", rng.choice(HIGH_LOW), answer))
    if sound.kind == "sweep":
        found += [QA("tones", q, f"The tone is {sound.pitch}.") for q in rng.sample(RISING, 2)]
    return found


def ask_sound(sound: Sound, rng: random.Random) -> list[QA]:
    """Every kind of question that fits the sound, in random order."""
    if sound.kind in ("unknown", "foreign"):
        groups = (CAPTION, CAPTION, CAPTION, WORD, TRANSCRIBE, TRANSCRIBE) + (
            (NUMBER,) if sound.kind == "foreign" else ()
        )
        found = [QA("foreign sound", rng.choice(group), UNSURE) for group in groups]
    else:
        found = ask_speech(sound, rng) if sound.kind in SPEECH else ask_tones(sound, rng)
    if sound.kind != "foreign":
        speaking = "Yes, someone is speaking." if sound.kind in SPEECH else "No, nobody is speaking."
        found.append(QA("sound yes/no", rng.choice(SPEAKING), speaking))
        silent = "Yes, it is silent." if sound.kind == "silence" else "No, it is not silent."
        found.append(QA("sound yes/no", rng.choice(SILENT), silent))
    rng.shuffle(found)
    return found
