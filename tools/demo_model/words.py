"""The words that are printed and spoken. Only the spoken vocabulary is closed; printed words are read
by letter.
"""

import random


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TEENS = words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
TENS = words("twenty thirty forty fifty sixty seventy eighty ninety")

SPOKEN = words(
    "red orange yellow green blue purple pink brown black white grey circle square triangle star heart "
    "cross rectangle yes no hello goodbye please thanks sorry stop start open close up down left right on "
    "off in out north south east west monday tuesday wednesday thursday friday saturday sunday january "
    "february march april may june july august september october november december cat dog bird fish "
    "horse cow sheep lion tiger bear mouse rabbit apple banana cherry lemon bread butter cheese coffee "
    "sugar water milk house garden window kitchen table chair door street river mountain island forest "
    "mother father sister brother doctor teacher king queen summer winter morning evening music paper "
    "picture number letter answer question car train bicycle airplane computer telephone camera"
)

COMMANDS = (
    *tuple(
        f"{verb} the {thing}"
        for verb, things in {
            "open": ("door", "window"),
            "close": ("door", "window"),
            "start": ("car", "music", "computer"),
            "stop": ("car", "music", "train"),
            "turn on": ("camera", "computer", "telephone"),
            "turn off": ("camera", "computer", "telephone"),
            "bring": ("coffee", "milk", "water", "bread"),
        }.items()
        for thing in things
    ),
    "turn left",
    "turn right",
    "good morning",
    "good evening",
    "yes please",
    "no thanks",
)

# Spoken to teach "I cannot tell.": none of these is in the vocabulary above.
UNKNOWN_SPEECH = (
    *words(
        "elephant umbrella guitar pencil carpet lantern pepper jacket engine pillow rocket candle dragon "
        "hammer village marble oxygen pumpkin sailor thunder velvet wizard zebra anchor basket canyon desert "
        "falcon gravity harvest insect jungle kettle ladder magnet needle ocean parrot quartz ribbon saddle "
        "tunnel unicorn volcano walnut yogurt blanket chimney diamond feather glacier helmet igloo jasmine "
        "kingdom lobster mustard nephew orchard penguin raccoon shadow tobacco uncle vinegar whisper bottle "
        "cushion democracy philosophy strawberry laboratory hospital dictionary tomorrow yesterday between "
        "nothing"
    ),
    "the weather will change before noon",
    "she sold her old boat last year",
    "nobody knew why the engine failed",
    "we should meet at the station",
    "his uncle repairs wooden clocks",
    "prices rose by half a percent",
    "please describe your favourite holiday",
    "the committee postponed its decision",
)

PRINTED = SPOKEN + words(
    "stop exit open sale taxi hotel menu cafe bus bank shop price total sugar zoo apex jump quiz wolf "
    "yard voice globe flame crown brick cloud drink earth frost grape hotel ivory jelly knife lemon metal "
    "night olive piano queen radio salad tiger under vivid wagon young amber beach candy daisy eagle "
    "fancy giant happy image juice karma light magic novel ocean party quick robot smile toast unity "
    "video world xenon yacht zebra button castle dinner engine flower golden hammer insect jungle kitten "
    "legend market nature orange planet rabbit silver ticket unique violet winter yellow airport balance "
    "captain diamond example factory gallery history journey kitchen library message nothing outside "
    "package quality station theatre uniform victory weather welcome danger push pull free new hot cold "
    "fire ice box key map pen sun toy van"
)

PRINTED_HELD_OUT = words(
    "school bridge pocket travel warning velvet puzzle zipper wheel ghost lamp coin book fox jazz vanilla "
    "parking closed office speed phone quartz oxide mango thunder bakery guitar helmet"
)

# Asked for in pictures to teach "I cannot tell.": none of these is ever drawn by name.
UNSEEN = words(
    "dog cat house tree car person man woman child face bird fish flower moon boat plane chair table ball "
    "book cup phone computer horse bus bicycle apple banana pizza cake hand shoe hat road river sign "
    "clock cloud hexagon diamond oval pentagon arrow ring spiral moustache window door bottle screen "
    "keyboard bridge cow"
)
UNSEEN_HELD_OUT = words("lion umbrella train guitar mountain crescent lamp spoon truck pyramid")

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def number_in_words(digits: str) -> str:
    """ "42" to "forty two". digits: two, the first not 0."""
    ten, one = int(digits[0]), int(digits[1])
    if ten == 1:
        return TEENS[one]
    return TENS[ten - 2] + (f" {DIGITS[one]}" if one else "")


def babble(rng: random.Random) -> str:
    """One to four words of random syllables, which mean nothing."""

    def word() -> str:
        return "".join(
            rng.choice("bdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randrange(2, 5))
        )

    return " ".join(word() for _ in range(rng.choice((1, 1, 2, 3, 4))))


def sample_printed(rng: random.Random, listed: float) -> str:
    """A listed word (that share of the time), one with letters exchanged, or random letters."""
    pick = rng.random()
    if pick < listed:
        return rng.choice(PRINTED).upper()
    if pick < listed + 0.25:
        letters = list(rng.choice(PRINTED).upper())
        for _ in range(rng.randrange(1, 4)):
            letters[rng.randrange(len(letters))] = rng.choice(LETTERS)
        return "".join(letters)
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(2, 8)))
