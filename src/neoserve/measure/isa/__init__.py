"""Which matrix instructions a binary holds: read from the file, never run."""
