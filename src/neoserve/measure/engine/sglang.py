"""SGLang: ``python -m sglang.launch_server``."""

from __future__ import annotations

from .driver import Driver


class SglangDriver(Driver):
    """To come."""

    name = "sglang"
