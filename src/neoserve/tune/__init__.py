"""DECIDES: what to try, what to accept, when to stop."""
