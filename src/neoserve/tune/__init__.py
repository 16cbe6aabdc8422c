"""DECIDES: what to measure next, when to stop, what to accept."""
