"""The outline of each named shape, and of a few that have no name here, as polygons around a centre."""

import math
import random

from tools.demo_model.scene import Thing

Points = list[tuple[float, float]]


def regular(corners: int, start: float = -90) -> Points:
    angles = (math.radians(start + 360 * i / corners) for i in range(corners))
    return [(math.cos(a), math.sin(a)) for a in angles]


def star(points: int = 5, waist: float = 0.42) -> Points:
    ring = regular(2 * points)
    return [(x * waist, y * waist) if i % 2 else (x, y) for i, (x, y) in enumerate(ring)]


def heart() -> Points:
    curve = []
    for i in range(40):
        t = 2 * math.pi * i / 40
        x = 16 * math.sin(t) ** 3
        y = 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)
        curve.append((x / 17, -(y + 2.5) / 17))
    return curve


def cross(arm: float = 0.3) -> Points:
    a = arm
    corners = [
        (-a, -1),
        (a, -1),
        (a, -a),
        (1, -a),
        (1, a),
        (a, a),
        (a, 1),
        (-a, 1),
        (-a, a),
        (-1, a),
        (-1, -a),
        (-a, -a),
    ]
    return [(0.95 * x, 0.95 * y) for x, y in corners]


def box(half_width: float, half_height: float) -> Points:
    w, h = half_width, half_height
    return [(-w, -h), (w, -h), (w, h), (-w, h)]


def unit_outline(shape: str, rng: random.Random) -> Points:
    """The shape within the unit circle; proportions vary a little where the name allows it."""
    match shape:
        case "circle":
            return regular(48)
        case "square":
            return box(0.72, 0.72)
        case "triangle":
            return [(x, y + 0.15) for x, y in regular(3)]
        case "star":
            return star(5, rng.uniform(0.38, 0.5))
        case "heart":
            return heart()
        case "cross":
            return cross(rng.uniform(0.22, 0.36))
        case "rectangle":
            w, h = 0.9, rng.uniform(0.36, 0.5)
            return box(w, h) if rng.random() < 0.6 else box(h, w)
    raise ValueError(f"no outline for {shape}")


def nameless_outline(rng: random.Random) -> Points:
    """Something that is none of the named shapes: crescent, arrow, many-pointed star, blob or zigzag."""
    pick = rng.randrange(5)
    if pick == 0:
        inner = [(0.75 * x + 0.45, 0.8 * y) for x, y in regular(30)]
        return regular(30) + inner[::-1]
    if pick == 1:
        return [(-1, -0.25), (0.1, -0.25), (0.1, -0.7), (1, 0), (0.1, 0.7), (0.1, 0.25), (-1, 0.25)]
    if pick == 2:
        return star(rng.randrange(8, 14), rng.uniform(0.6, 0.85))
    if pick == 3:
        return [(x * (r := rng.uniform(0.35, 1)), y * r) for x, y in regular(rng.randrange(7, 13))]
    return [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(rng.randrange(5, 9))]


def outline(thing: Thing, scale: float, rng: random.Random) -> Points:
    """The thing's corners in pixels at `scale` pixels a patch."""
    return place_outline(unit_outline(thing.shape, rng), thing.x, thing.y, thing.radius, thing.turn, scale)


def place_outline(points: Points, x: float, y: float, radius: float, turn: float, scale: float) -> Points:
    sin, cos = math.sin(math.radians(turn)), math.cos(math.radians(turn))
    return [
        ((x + radius * (a * cos - b * sin)) * scale, (y + radius * (a * sin + b * cos)) * scale)
        for a, b in points
    ]
