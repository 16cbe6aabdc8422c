"""Engines: programs that NeoServe starts, watches and stops."""
