"""OBSERVES: whatever reads a clock, a socket, a process or a file."""
