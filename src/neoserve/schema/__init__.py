"""NAMES: every document that crosses a room, a wire or a disk."""
