"""One file a family: weights' names, encoder, merge. Everything that needs torch."""
