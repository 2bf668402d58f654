"""The half of a family that needs no weights: placeholder layout, preparation of media, positions. No torch
here."""
