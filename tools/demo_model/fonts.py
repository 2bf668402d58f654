"""More fonts than Debian has: @fontsource's packages on npm, each a family under the Open Font License or the
Apache License. A model that reads thirty families reads the thirty-first badly; what helps is many.

`python -m tools.demo_model.fonts` fetches what is not there yet into .cache/fonts. Fonts are drawn
with, never shipped.
"""

import io
import json
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from tools.demo_model.words import words

FONTS = Path(__file__).parent / ".cache" / "fonts"
REGISTRY = "https://registry.npmjs.org/@fontsource"
STYLES = ("latin-400-normal.woff2", "latin-700-normal.woff2", "latin-400-italic.woff2")

SANS = words(
    "montserrat poppins oswald raleway nunito rubik work-sans mulish barlow ibm-plex-sans karla exo-2 "
    "archivo heebo dm-sans titillium-web hind assistant red-hat-display figtree outfit urbanist lexend "
    "space-grotesk sora public-sans overpass asap catamaran signika varela-round questrial didact-gothic "
    "muli abel archivo-narrow maven-pro encode-sans kanit prompt sarabun chivo fredoka baloo-2 comfortaa "
    "jost albert-sans plus-jakarta-sans be-vietnam-pro epilogue syne tenor-sans josefin-sans poiret-one "
    "pontano-sans istok-web pt-sans source-sans-3 ubuntu-sans atkinson-hyperlegible andika gudea news- "
    "cycle francois-one pathway-gothic-one russo-one orbitron michroma rajdhani teko anton fjalla-one "
    "passion-one saira yantramanav khand monda metrophobic puritan cuprum philosopher"
)
SERIF = words(
    "merriweather lora pt-serif playfair-display bitter crimson-text libre-baskerville arvo domine "
    "vollkorn spectral zilla-slab alegreya cormorant-garamond cardo rokkitt noticia-text source-serif-4 "
    "ibm-plex-serif frank-ruhl-libre gelasio bodoni-moda abril-fatface dm-serif-display dm-serif-text "
    "libre-caslon-text cinzel prata old-standard-tt rozha-one playfair-display-sc alfa-slab-one josefin- "
    "slab crete-round patua-one slabo-27px tinos neuton unna volkhov gupter newsreader literata fraunces "
    "gloock young-serif libre-bodoni yeseva-one oranienbaum marcellus gilda-display italiana cormorant- "
    "infant faustina petrona inknut-antiqua eczar coustard holtwood-one-sc ultra chonburi suranna trirong "
    "taviraj"
)
MONO = words(
    "jetbrains-mono source-code-pro ibm-plex-mono space-mono fira-mono anonymous-pro share-tech-mono "
    "cousine overpass-mono red-hat-mono pt-mono nova-mono cutive-mono oxygen-mono dm-mono vt323 b612-mono"
)
DRAWN = words(
    "pacifico caveat patrick-hand indie-flower shadows-into-light amatic-sc permanent-marker handlee "
    "kalam architects-daughter gloria-hallelujah neucha coming-soon schoolbell bangers luckiest-guy "
    "righteous bungee black-ops-one carter-one chewy boogaloo acme audiowide special-elite press-start-2p "
    "concert-one titan-one lilita-one staatliches squada-one fugaz-one paytone-one sigmar-one modak "
    "bowlby-one kaushan-script courgette"
)
FETCHED = SANS + SERIF + MONO + DRAWN


def fetch(family: str) -> None:
    """The family's regular, bold and italic as far as it has them, unless they are there."""
    folder = FONTS / family
    if folder.exists():
        return
    with urllib.request.urlopen(f"{REGISTRY}%2f{family}/latest") as answer:
        archive = json.load(answer)["dist"]["tarball"]
    with urllib.request.urlopen(archive) as answer:
        packed = io.BytesIO(answer.read())
    partial = folder.with_suffix(".part")
    partial.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=packed) as members:
        for member in members:
            if member.name.endswith(STYLES) and (data := members.extractfile(member)):
                (partial / Path(member.name).name).write_bytes(data.read())
    partial.rename(folder)


def main() -> None:
    for i, family in enumerate(FETCHED, 1):
        try:
            fetch(family)
        except urllib.error.HTTPError as fault:
            print(f"{family}: {fault}", file=sys.stderr)
        print(f"\r{i} of {len(FETCHED)} families", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
