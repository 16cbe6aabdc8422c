"""SHOWS: a face translates, it never decides."""
