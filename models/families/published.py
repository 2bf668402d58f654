"""Where the parts of a checkpoint lie that joins a language model to a tower, as saved over the years."""

TEXT_PREFIXES = ("language_model.model.", "model.language_model.", "language_model.")
VISION_PREFIXES = ("vision_tower.vision_model.", "vision_tower.")
"""Both also below "model.", where a family looks there."""
