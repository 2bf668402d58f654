"""Words that sentences are composed from."""

from pathlib import Path


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


DIGITS = words("zero one two three four five six seven eight nine")
NUMBERS = (
    *DIGITS,
    *words("ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty"),
    *words("forty fifty sixty seventy eighty ninety"),
    "a hundred",
    "a thousand",
    "a million",
)
PLACES = phrases(
    "France, Germany, Italy, Spain, England, Japan, China, India, Russia, Canada, Mexico, Brazil, Egypt, "
    "Greece, Turkey, Poland, Sweden, Norway, Ireland, Australia, Africa, Europe, Asia, America, Paris, "
    "London, Berlin, Rome, Madrid, Tokyo, Moscow, New York, Chicago, Boston, Texas, California"
)
NAMES = words(
    "John Mary Peter Anna David Sarah Michael Emma Robert Lisa James Julia Thomas Maria George Alice "
    "Henry Susan Daniel Laura Mark Helen Paul Jane Martin Kate Tom Lucy Jack Sam"
)
ANIMALS = words(
    "cat dog bird fish horse cow sheep lion tiger bear mouse rabbit elephant monkey snake frog duck "
    "chicken wolf fox bee spider whale shark goat pig"
)
FOODS = words(
    "bread butter cheese coffee tea sugar water milk rice soup cake chocolate salt pepper meat salad "
    "fruit apples bananas oranges potatoes tomatoes eggs pizza pasta beer wine juice breakfast lunch "
    "dinner"
)
COLOURS = words("red orange yellow green blue purple pink brown black white grey golden")
THINGS = words(
    "house garden window kitchen table chair door street river mountain island forest car train bicycle "
    "airplane computer telephone camera book paper picture letter box bag bottle cup glass knife spoon "
    "plate lamp clock watch ring key lock wall floor roof bridge road school church hospital office shop "
    "market station airport hotel restaurant museum library theatre park beach lake sea ocean sky sun "
    "moon star cloud rain snow wind fire stone tree flower grass leaf boat ship bus truck engine wheel "
    "machine tool hammer rope shirt coat hat shoe dress pocket button mirror bed room bath soap towel "
    "piano guitar song film game ball team radio television phone screen map ticket passport money coin "
    "bank price job letter question answer idea story word name problem"
)
PEOPLE = words(
    "mother father sister brother son daughter uncle aunt friend neighbour doctor teacher nurse farmer "
    "driver king queen president soldier lawyer writer singer child baby boy girl man woman student boss "
    "customer stranger"
)
ADJECTIVES = words(
    "old new big small large little long short tall high low good bad great best fast slow warm cold hot "
    "cool dry wet clean dirty dark bright heavy light easy hard rich poor young happy sad angry tired "
    "hungry busy free full empty strong weak quiet loud beautiful ugly strange simple important famous "
    "expensive cheap open closed broken ready early late wide narrow deep soft sweet fresh safe dangerous"
)
PAST = words(
    "saw found bought sold opened closed made broke moved painted wanted needed liked loved took gave "
    "left lost kept carried dropped pushed pulled washed cleaned used watched forgot remembered brought "
    "sent showed held built hit"
)
VERBS = words(
    "open close start stop find buy sell make break move paint take bring send show hold build clean wash "
    "check read write play call count draw watch help turn fix carry drop push pull save delete copy "
    "print"
)
TIMES = phrases(
    "today, tomorrow, yesterday, now, tonight, this morning, this evening, last night, last week, last "
    "year, next week, next month, on Monday, on Tuesday, on Wednesday, on Thursday, on Friday, on "
    "Saturday, on Sunday, in January, in February, in March, in April, in May, in June, in July, in "
    "August, in September, in October, in November, in December, in spring, in summer, in autumn, in "
    "winter, at noon, at night, before dinner, after lunch, every day"
)
SUBJECTS = words(
    "music history science art football tennis chess cooking weather health law politics business travel "
    "language English French German Spanish mathematics physics chemistry biology space time war peace "
    "love death life energy electricity gravity water air gold silver iron oil bread democracy religion "
    "philosophy medicine education"
)
OPENERS = words(
    "The A My Our This Some We You They He She It In When If And That Your His Her These No All For But So"
)
LINKS = words(
    "the a of and to in is was for on with as by at from or an be this that which not are but had have "
    "has were they he she it his her their we you my can will would could should what when where who how "
    "there then than more most some any no so if up out about into over after before through between "
    "under again very only other such"
)
FREQUENT = words((Path(__file__).parent / "frequent.txt").read_text())
"""Whole words of the language model's vocabulary, the more frequent ones first; then everyday ones."""
EVERYDAY = (
    *FREQUENT[:700],
    *FREQUENT[3000:],
    *ANIMALS,
    *FOODS,
    *COLOURS,
    *THINGS,
    *PEOPLE,
    *ADJECTIVES,
    *PAST,
    *VERBS,
    *NUMBERS,
)
