"""Small questions to a server over HTTP; the load has a client of its own."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from ...errors import AskError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_usual = urllib.request.build_opener()


class Api(NamedTuple):
    """One server."""

    url: str  # without the route, "http://127.0.0.1:8000"
    key: str = ""

    def text(self, route: str, timeout_s: float = 10.0, body: bytes | None = None) -> str:
        """What a GET gives, or a POST of `body`. Raises OSError, of which HTTPError is one."""
        request = urllib.request.Request(self.url + route, data=body)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        is_here = urllib.parse.urlsplit(self.url).hostname in _LOOPBACK
        with (_direct if is_here else _usual).open(request, timeout=timeout_s) as response:
            return str(response.read().decode(errors="replace"))

    def answers(self, route: str) -> bool:
        """Whether it answers with success, soon."""
        try:
            self.text(route, timeout_s=2.0)
        except (OSError, ValueError):
            return False
        return True

    def data(self, route: str) -> Any:
        """The JSON document; None where the server has none."""
        try:
            return json.loads(self.text(route))
        except (OSError, ValueError):
            return None

    def post(self, route: str, asked: Any, timeout_s: float = 10.0) -> Any:
        """The JSON answer to a JSON question. Raises OSError or ValueError."""
        return json.loads(self.text(route, timeout_s, json.dumps(asked).encode()))

    def models(self) -> list[dict[str, Any]]:
        """What it serves, by ``/v1/models``. Raises OSError or ValueError."""
        answer = json.loads(self.text("/v1/models"))
        listed = answer.get("data") if isinstance(answer, dict) else None
        return [entry for entry in listed or () if isinstance(entry, dict)]


def local_port(url: str) -> int | None:
    """The TCP port of a server on this host; None for one of another. Raises AskError."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AskError(f"{url} is no URL of a server: {error}") from None
    if parts.hostname not in _LOOPBACK:
        return None
    return port or (443 if parts.scheme == "https" else 80)


def base_url(url: str) -> str:
    """``"host:8000/v1/"`` → ``"http://host:8000"``."""
    text = url if "://" in url else f"http://{url}"
    return text.rstrip("/").removesuffix("/v1").rstrip("/")
