"""WRITES: text for other programs."""
