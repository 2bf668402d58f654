"""Colours by name: each name is a region of hue, saturation and brightness that people would call so.

Knows nothing of shapes or pictures. The regions leave gaps between names on purpose: a colour that two people
would name differently is never drawn, so every answer about a colour is one.
"""

import colorsys
import random

RGB = tuple[int, int, int]

# name -> one or more regions ((hue from, to) in degrees, (saturation from, to), (value from, to))
REGIONS = {
    "red": [((-8, 8), (0.78, 1.0), (0.76, 1.0))],
    "orange": [((23, 37), (0.85, 1.0), (0.9, 1.0))],
    "yellow": [((52, 62), (0.65, 1.0), (0.9, 1.0))],
    "green": [((92, 148), (0.5, 1.0), (0.42, 1.0))],
    "blue": [((207, 246), (0.65, 1.0), (0.5, 1.0))],
    "purple": [((268, 300), (0.5, 1.0), (0.42, 0.85))],
    "pink": [((325, 352), (0.22, 0.55), (0.93, 1.0)), ((315, 333), (0.45, 0.75), (0.93, 1.0))],
    "brown": [((14, 30), (0.6, 0.9), (0.3, 0.58)), ((0, 14), (0.55, 0.75), (0.3, 0.62))],
    "black": [((0, 360), (0.0, 0.3), (0.0, 0.1))],
    "white": [((0, 360), (0.0, 0.03), (0.96, 1.0))],
    "grey": [((0, 360), (0.0, 0.06), (0.42, 0.7))],
}
COLOURS = tuple(REGIONS)


def sample_colour(name: str, rng: random.Random) -> RGB:
    """One red, green, blue triple (0-255) that deserves the name."""
    hue, saturation, value = (rng.uniform(*bounds) for bounds in rng.choice(REGIONS[name]))
    red, green, blue = colorsys.hsv_to_rgb((hue % 360) / 360, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def distance(a: RGB, b: RGB) -> float:
    """How far apart two colours look, 0 to about 765, weighted as eyes weigh the primaries."""
    mean_red = (a[0] + b[0]) / 2
    red, green, blue = (x - y for x, y in zip(a, b, strict=True))
    return ((2 + mean_red / 256) * red**2 + 4 * green**2 + (2 + (255 - mean_red) / 256) * blue**2) ** 0.5
