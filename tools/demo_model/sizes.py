"""The sizes of the three networks, and of what they are fed."""

VISION = {"hidden": 128, "depth": 5, "heads": 4, "inner": 352, "patch": 8, "merge": 2, "temporal": 2}
AUDIO = {"hidden": 384, "depth": 2, "heads": 6, "inner": 1536, "mels": 80, "window": 100}
# A picture's width turns the slowest frequencies of M-RoPE, the last of the sections. With the usual base of
# ten thousand or more and heads this small, left and right would look the same; with 20, one column is a turn
# of 3 to 9 degrees.
LANGUAGE = {
    "hidden": 256,
    "depth": 5,
    "heads": 8,
    "kv_heads": 4,
    "head": 32,
    "inner": 640,
    "theta": 20.0,
    "sections": (4, 6, 6),
}
MAX_PATCHES = 196
CHUNK_FRAMES = 2 * AUDIO["window"]
CHUNK_TOKENS = CHUNK_FRAMES // 4
MIN_PIXELS, MAX_PIXELS = 96 * 96, 112 * 112
