"""The making of the small checkpoint in models/demo: draw, speak, train, evaluate, export."""
