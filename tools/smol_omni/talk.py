"""What people ask an assistant aloud: questions of general knowledge, requests, small talk.

None of `held_out` is among them, though some are of the same pattern.
"""

from tools.smol_omni.lexicon import phrases

KINDS_OF = phrases(
    "animal, bird, fish, ocean, lake, city, country, island, desert, mountain, building, number"
)
BOOKS = phrases("Hamlet, Macbeth, War and Peace, The Odyssey, Don Quixote, Robinson Crusoe, Oliver Twist")
INVENTIONS = phrases(
    "telephone, light bulb, airplane, steam engine, computer, radio, printing press, bicycle, camera"
)
PLURALS = phrases(
    "cats, dogs, birds, horses, cows, sheep, lions, bears, rabbits, elephants, monkeys, frogs, sharks"
)
SKILLS = phrases(
    "swim, cook, draw, sing, dance, drive a car, play chess, play the guitar, speak French, write a letter, "
    "sleep better, save money, lose weight, learn English, make a cake, grow tomatoes, tie a tie, read faster"
)
OPPOSITES = phrases(
    "big, small, cold, warm, fast, slow, good, bad, light, dark, high, low, old, young, rich, poor, happy, "
    "sad, early, late, open, full, wet, hard, strong, left, up, in, day, black, before, love, war, yes"
)
SLOTS = {
    "kind": KINDS_OF,
    "book": BOOKS,
    "invention": INVENTIONS,
    "animals": PLURALS,
    "skill": SKILLS,
    "opposite": OPPOSITES,
}
QUESTIONS = (
    "What is the capital of {place}?",
    "What is the capital city of {place}?",
    "Which city is the capital of {place}?",
    "Can you tell me the capital of {place}?",
    "What language do they speak in {place}?",
    "What language do people speak in {place}?",
    "What is the population of {place}?",
    "Where is {place}?",
    "What is {place} famous for?",
    "What do people eat in {place}?",
    "What is the largest {kind} in the world?",
    "What is the smallest {kind} in the world?",
    "What is the largest {kind}?",
    "What is the tallest {kind}?",
    "Who wrote {book}?",
    "Who is the author of {book}?",
    "Who invented the {invention}?",
    "When was the {invention} invented?",
    "How does a {invention} work?",
    "What is {food} made of?",
    "What is a {thing} made of?",
    "What do {animals} eat?",
    "What do {animals} make?",
    "Where do {animals} live?",
    "How long do {animals} live?",
    "Are {animals} dangerous?",
    "What is the opposite of {opposite}?",
    "Tell me the opposite of {opposite}.",
    "How do I {skill}?",
    "How can I learn to {skill}?",
    "Can you teach me to {skill}?",
    "What is {number} plus {number}?",
    "What is {number} times {number}?",
    "What comes after {number}?",
    "What is {subject}?",
    "Why is {subject} important?",
    "Tell me about {subject}.",
    "Tell me something about {place}.",
    "Explain {subject} to me.",
    "Explain {subject} in simple words.",
    "What colour is {food}?",
    "Is {food} healthy?",
    "How do you make {food}?",
    "Give me a recipe for {food}.",
    "Write a poem about the {thing}.",
    "Write a story about a {animal}.",
    "Tell me a story about a {person}.",
    "Tell me a joke about {animals}.",
    "Give me {number} names for a {animal}.",
    "What should I do {time}?",
    "What can I give my {person}?",
    "Translate {thing} into Spanish.",
)
FIXED = phrases(
    "How many days are in a year?, How many months are in a year?, How many hours are in a day?, "
    "How many legs does a spider have?, How many continents are there?, What is the speed of light?, "
    "What is the closest star?, What is the moon made of?, What is the sun?, What is the longest river?, "
    "What is the highest mountain?, Who was the first man on the moon?, Who painted the Mona Lisa?, "
    "Who discovered America?, Who was Albert Einstein?, Who was Isaac Newton?, Who is the president?, "
    "When did the war end?, What year is it?, What day is today?, What time is it?, Why is the sky blue?, "
    "Why is the sea salty?, Why do we sleep?, Why do leaves fall?, How do planes fly?, How do fish breathe?, "
    "What is two plus two?, What is your name?, Who are you?, Who made you?, What can you do?, How are you?, "
    "How old are you?, Where are you from?, Are you a robot?, Can you hear me?, Can you help me?, "
    "Do you understand me?, Tell me a joke., Tell me a story., Sing a song., Good morning., Good evening., "
    "Good night., Hello., Hello there., Hi., Nice to meet you., Thank you., Thank you very much., Goodbye., "
    "See you tomorrow., I am hungry., I am tired., I am bored., I am happy today., I need your help., "
    "I have a question., What is the meaning of life?, What is love?, What is water?, What is ice?, "
    "What is a computer?, What is the internet?, What is music?, What is a planet?, What is a bee?, "
    "Name three colours., Name three animals., Name three fruits., Count to five., Say hello., "
    "What do you think?, What is your favourite colour?, What is the weather like?, Is it going to rain?"
)
