"""Sentences to be spoken: questions, commands, statements, digits, and words in no order.

Words in no order teach what each sounds like, without letting its neighbours tell.
"""

import random
import re

from tools.smol_omni import held_out, talk
from tools.smol_omni.lexicon import (
    ADJECTIVES,
    ANIMALS,
    COLOURS,
    DIGITS,
    EVERYDAY,
    FOODS,
    FREQUENT,
    LINKS,
    NAMES,
    NUMBERS,
    OPENERS,
    PAST,
    PEOPLE,
    PLACES,
    SUBJECTS,
    THINGS,
    TIMES,
    VERBS,
    words,
)

SLOTS = {
    "adj": ADJECTIVES,
    "animal": ANIMALS,
    "colour": COLOURS,
    "digit": DIGITS,
    "food": FOODS,
    "name": NAMES,
    "number": NUMBERS,
    "past": PAST,
    "person": PEOPLE,
    "place": PLACES,
    "subject": SUBJECTS,
    "thing": THINGS,
    "time": TIMES,
    "verb": VERBS,
    **talk.SLOTS,
}

QUESTIONS = (
    "What is the capital of {place}?",
    "What is the capital city of {place}?",
    "Where is {place}?",
    "What is {number} plus {number}?",
    "What is {number} minus {number}?",
    "What is {number} times {number}?",
    "How many legs does a {animal} have?",
    "What does a {animal} eat?",
    "What sound does a {animal} make?",
    "What colour is the {thing}?",
    "What colour is a {animal}?",
    "What color is the {thing}?",
    "How do you make {food}?",
    "How do I cook {food}?",
    "Is {food} good for you?",
    "Where does {food} come from?",
    "Who was the first president of {place}?",
    "What language do people speak in {place}?",
    "What is {subject}?",
    "Tell me about {subject}.",
    "Tell me about {place}.",
    "Tell me a story about a {animal}.",
    "Tell me a joke about a {person}.",
    "Why is the {thing} {adj}?",
    "What is the opposite of {adj}?",
    "Write a poem about {subject}.",
    "Write a short story about a {adj} {thing}.",
    "Explain {subject} to a child.",
    "How far is it from {place} to {place}?",
    "How big is {place}?",
    "How old is the {person}?",
    "What can I do in {place} {time}?",
    "What is the weather like in {place} {time}?",
    "What time is it in {place}?",
    "Can you help me with {subject}?",
    "Can you {verb} the {thing}?",
    "Could you please {verb} the {adj} {thing}?",
    "Do you like {food}?",
    "Who are you?",
    "What is your name?",
    "How are you {time}?",
    "What can you do?",
    "How do you say {thing} in {place}?",
    "What is a {thing}?",
    "What is a {animal}?",
    "What is the meaning of {adj}?",
    "Give me {number} ideas for {subject}.",
    "Give me a recipe for {food}.",
    "Name {number} animals.",
    "Who wrote the {adj} {thing}?",
    "When did the {person} come to {place}?",
    "Which is bigger, a {animal} or a {animal}?",
    "What comes after {number}?",
    "How many days are there in a week?",
    "How many hours are in a day?",
)
COMMANDS = (
    "{verb} the {thing}.",
    "{verb} the {adj} {thing}.",
    "Please {verb} the {thing} {time}.",
    "Turn on the {thing}.",
    "Turn off the {thing}.",
    "Turn left at the {thing}.",
    "Turn right after the {thing}.",
    "Go to the {thing}.",
    "Go back to {place}.",
    "Set a timer for {number} minutes.",
    "Set an alarm for {number} o'clock.",
    "Call {name} {time}.",
    "Call my {person}.",
    "Send a message to {name}.",
    "Play some music.",
    "Stop.",
    "Stop it now.",
    "Go {number} steps forward.",
    "Move back {number} feet.",
    "Remind me to {verb} the {thing} {time}.",
    "Good morning.",
    "Good evening, {name}.",
    "Hello.",
    "Hello, {name}.",
    "Goodbye.",
    "Thank you very much.",
    "Yes, please.",
    "No, thanks.",
    "Add {food} to my list.",
    "Read the {thing} to me.",
    "Repeat after me.",
    "Say it again.",
    "Wait a moment.",
    "Yes.",
    "No.",
)
STATEMENTS = (
    "The {person} {past} the {thing} {time}.",
    "The {adj} {person} {past} a {adj} {thing}.",
    "My {person} {past} {number} {food} {time}.",
    "{name} and {name} went to {place} {time}.",
    "I {past} a {colour} {thing} in {place}.",
    "We {past} the {animal} near the {thing}.",
    "There is a {adj} {thing} on the {thing}.",
    "There are {number} people in the {thing}.",
    "The {thing} is {adj} and {adj}.",
    "The {animal} is {colour}.",
    "She said that the {thing} was too {adj}.",
    "He could not {verb} the {thing} because it was {adj}.",
    "They will {verb} the {thing} {time}.",
    "I would like some {food}, please.",
    "I don't like {food}.",
    "I think that {subject} is {adj}.",
    "It was a {adj} day, and the {thing} was {adj}.",
    "{name} is a {person} from {place}.",
    "When I was {adj}, I {past} a {animal}.",
    "If you {verb} the {thing}, the {person} will be {adj}.",
    "Nobody {past} the {adj} {thing}.",
    "You should {verb} the {thing} before you go to {place}.",
    "The {person} of {place} {past} our {thing} {time}.",
    "It takes {number} hours to get to {place}.",
    "I have {number} {colour} shoes.",
    "Our {person} has a {adj} {animal}.",
    "{number} {adj} men came to the {thing}.",
)
OPENINGS = words(
    "What Where How Who Why Which When Tell Write Explain Can Could Is Are Do Give Name Set Call Send Play "
    "Turn Go Remind Good Hello Hi Thank Yes No Add Read Repeat Say Wait Stop Move Translate Count Sing Nice "
    "See I"
)
"""Of what is said to somebody who is to answer."""
KINDS = {QUESTIONS: 0.16, STATEMENTS: 0.14, COMMANDS: 0.1}
DIGITS_SHARE = 0.06  # what is left are words in no order


def filled(template: str, rng: random.Random) -> str:
    text = re.sub(r"\{(\w+)\}", lambda slot: rng.choice(SLOTS[slot[1]]), template)
    return re.sub(r"\ba (?=[aeio])", "an ", text[0].upper() + text[1:])


def shuffled_words(rng: random.Random) -> str:
    def pick() -> str:
        at = rng.random()
        return rng.choice(LINKS if at < 0.25 else EVERYDAY if at < 0.8 else FREQUENT)

    return " ".join([rng.choice(OPENERS), *(pick() for _ in range(rng.randrange(2, 10)))]) + "."


def digits(rng: random.Random) -> str:
    count = rng.choice((1, 1, 2, 3, 4, 5))
    return rng.choice((" ", ", ")).join(rng.choice(DIGITS) for _ in range(count)).capitalize() + "."


def compose_talk(rng: random.Random) -> str:
    """What an assistant is asked, but for what the evaluation asks."""
    while True:
        fixed = rng.random() < 0.2
        text = rng.choice(talk.FIXED) if fixed else filled(rng.choice(talk.QUESTIONS), rng)
        if text not in held_out.QUESTIONS:
            return text


def compose(rng: random.Random) -> str:
    at = rng.random()
    for templates, share in KINDS.items():
        if at < share:
            return filled(rng.choice(templates), rng)
        at -= share
    return digits(rng) if at < DIGITS_SHARE else shuffled_words(rng)
