"""NeoServe: which serving configuration gives tokens cheapest, at your traffic and your SLO."""

__version__ = "0.1.0"
