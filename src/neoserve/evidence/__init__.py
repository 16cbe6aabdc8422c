"""REMEMBERS: what must never change once written."""
