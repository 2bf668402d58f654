"""Questions about a picture and a sound together, about what is not there, and about nothing at all."""

import random

from tools.demo_model import ask_sound, wording
from tools.demo_model.ask_picture import ask_picture
from tools.demo_model.ask_sound import heard
from tools.demo_model.palette import COLOURS
from tools.demo_model.scene import SHAPES, Scene
from tools.demo_model.sounds import Sound
from tools.demo_model.wording import QA, UNSURE

MATCH = (
    "Does the number in the picture match the one you hear?",
    "Is the number in the picture the one you hear?",
    "Do the picture and the sound show the same number?",
    "Are the number you see and the number you hear the same?",
    "Do the two numbers match?",
)  # fmt: skip
SEE_AND_HEAR = (
    "What do you see and hear?",
    "Describe the picture and the sound.",
    "What do you see and what do you hear?",
)
ABILITY = (
    "I can name drawn shapes and colours, read a printed number or word, and tell a spoken digit or a tone."
)
ONLY = "I can only answer questions about pictures and sounds."
GREETING = "Hello! Show me a picture or play me a sound."

SMALL_TALK = {
    GREETING: ("Hello", "Hello!", "Hi", "Hi!", "Hey", "Hello there!", "Good morning", "Good morning!",
    "hello", "hi"),
    ABILITY: (
        "What can you do?", "What can you do for me?", "How can you help me?", "Help",
        "What are you able to do?",
        "What can I ask you?", "What are you good at?", "Can you help me?", "What do you do?",
    ),
    "I am a small model that looks at pictures and listens to sounds.": (
        "Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Are you a robot?",
    ),
    "You are welcome.": ("Thank you.", "Thanks!", "Thank you!", "Thanks", "Thank you very much."),
    "Goodbye!": ("Goodbye", "Bye", "Bye!", "Goodbye!", "See you later."),
    ONLY: (
        "What is the capital of France?", "Tell me a joke.", "Write a poem.", "What is two plus two?",
        "Who is the president?",
        "What time is it?", "How is the weather?", "Why is the sky blue?", "Write a story about a dragon.",
        "What is love?",
        "How old are you?", "Translate this into German.", "Write a Python function.", "Explain gravity.",
        "Count to 10.",
        "Who wrote Hamlet?", "Say something.", "What is 12 times 7?", "Summarise the news.",
        "How do I cook rice?",
        "Solve this equation.", "Give me a recipe.", "What year is it?", "Tell me about the history of Rome.",
        "What should I do today?", "How far is the moon?", "Sing a song.", "What is the meaning of life?",
    ),
}  # fmt: skip

DESCRIBED = ("caption", "foreign picture", "small print")  # categories of answers that describe a picture


def small_talk(rng: random.Random) -> QA:
    answer = rng.choices(list(SMALL_TALK), (3, 3, 2, 1, 1, 4))[0]
    return QA("text", rng.choice(SMALL_TALK[answer]), answer)


def about_no_picture(rng: random.Random) -> QA:
    groups = (("Describe the picture.", "What is in the picture?", "What do you see?",
    "What does the picture show?",
               "What's in this picture?", "Describe what you see.", "Is there a picture?",
               "Can you see anything?"),
              wording.SHAPE, wording.COUNT, wording.BACKGROUND, wording.TEXT,
              ("What number is in the picture?", "Which number do you see?", "What word is in the picture?"),
              ("What colour is the circle?", "Where is the star?", "Is there a red square?"))  # fmt: skip
    return wording.reworded(QA("no picture", rng.choice(rng.choice(groups)), "There is no picture."), rng)


def about_no_sound(rng: random.Random) -> QA:
    groups = (("What do you hear?", "Describe the sound.", "What is in the recording?", "What can you hear?",
               "Describe the recording.", "Is there a sound?"),
              ("What number do you hear?", "Which number is spoken?", "What digit do you hear?"),
              ("What word do you hear?", "Which word is spoken?"),
              ask_sound.TRANSCRIBE, ask_sound.SPEAKING, ask_sound.BEEPS, ask_sound.HIGH_LOW,
              ask_sound.RISING)  # fmt: skip
    return QA("no sound", rng.choice(rng.choice(groups)), "There is no sound.")


def caption(scene: Scene, rng: random.Random) -> str | None:
    """The scene's caption, where it has one."""
    captions = [qa.answer for qa in ask_picture(scene, rng) if qa.category in DESCRIBED]
    return captions[0] if captions else None


def about_one_of_two(scene: Scene, which: int, rng: random.Random) -> QA | None:
    """A question about the first (0) or second (1) of two pictures in one message; None if there is no one
    way to describe it.
    """
    if (described := caption(scene, rng)) is None:
        return None
    asked = rng.choice(
        ("What is in the {} picture?", "Describe the {} picture.", "What does the {} picture show?")
    )
    qa = QA("two pictures", asked.format(("first", "second")[which]), described)
    return wording.reworded(qa, rng)


def explicit_sound_question(qa: QA) -> bool:
    """Whether the question asks for the sound even where a picture is there too."""
    return any(
        word in qa.question
        for word in ("hear", "sound", "recording", "audio", "speak", "spoken", "said", "beep", "Transcribe")
    )


def explicit_picture_question(qa: QA) -> bool:
    return any(
        word in qa.question
        for word in ("picture", "image", "see", "shape", "background", "written", "shown", "Where")
    )


def ask_both(scene: Scene, sound: Sound, rng: random.Random) -> list[QA]:
    """Questions that need both, and a few that need one while the other is there to distract."""
    found = []
    if scene.kind == "number" and sound.kind == "digits":
        answer = f"I see {scene.text} and hear {sound.text}."
        found += [QA("picture and sound", q, answer) for q in rng.sample(MATCH, 3)]
    elif "foreign" in (scene.kind, sound.kind) or sound.kind == "unknown":
        found.append(QA("picture and sound", rng.choice(MATCH), UNSURE))
    elif sound.kind != "digits":
        found.append(QA("picture and sound", rng.choice(MATCH), "I hear no number."))
    elif scene.kind != "number":
        found.append(QA("picture and sound", rng.choice(MATCH), "There is no number in the picture."))
    names = {t.shape for t in scene.things} | {t.colour for t in scene.things}
    if sound.kind == "word" and scene.things and sound.text in (*SHAPES, *COLOURS):
        there = "Yes, I see" if sound.text in names else "No, I do not see"
        what = "a" if sound.text in SHAPES else "something"
        question = rng.choice(("Is what you hear in the picture?", "Do you see what you hear?"))
        found.append(QA("picture and sound", question, f"{there} {what} {sound.text}."))
    seen = caption(scene, rng)
    if seen and UNSURE not in (seen, heard(sound)):
        found += [QA("picture and sound", rng.choice(SEE_AND_HEAR), f"{seen} {heard(sound)}")] * 2
    found += [qa for qa in ask_picture(scene, rng) if explicit_picture_question(qa)][:2]
    found += [qa for qa in ask_sound.ask_sound(sound, rng) if explicit_sound_question(qa)][:3]
    rng.shuffle(found)
    return found
