"""Who may ask: the Host and Origin of a request, its token, its size; the headers of answers.

A page of another site must not reach this server through a reader's browser. It can make the
browser send requests here, by name (DNS rebinding) or across sites, but it cannot choose Host and
Origin, and it does not know the token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "neoserve_session"
TRUSTED = "neoserve.trusted"  # in a request's scope: it carried the token
MAX_BODY_BYTES = 2**20
_TOO_LARGE = f"the request is larger than {MAX_BODY_BYTES // 2**20} MiB; ask for less at once"
_GUARDED = ("/api", "/mcp")
_OPEN = ("/api/status", "/api/session")  # say whether a token is needed, and take it
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_SANDBOX = b"default-src 'none'; frame-ancestors 'none'; sandbox"  # for what is no page of ours


class Refused(NamedTuple):
    """An answer instead of the one that was asked for."""

    status: int
    sentence: str


class Rules(NamedTuple):
    """How a server may be reached."""

    is_loopback: bool  # it listens on an address that only this host reaches
    hosts: frozenset[str]  # names that requests may use for it, lower case
    token: str = ""

    @property
    def session(self) -> str:
        """What a browser keeps instead of the token."""
        return hashlib.sha256(f"session {self.token}".encode()).hexdigest()

    def host_fault(self, host: str) -> Refused | None:
        """A name that somebody else may have pointed here."""
        name = _name_of(host)
        if name in self.hosts or (not self.is_loopback and _is_address(name)):
            return None
        known = ", ".join(sorted(self.hosts))
        return Refused(421, f"this server is not called {name[:80]!r}; use {known}, or start it "
                            "with --allow-host NAME")  # fmt: skip

    def origin_fault(self, host: str, origin: str, site: str) -> Refused | None:
        """A page that did not come from here."""
        scheme, _, rest = origin.partition("://")
        ours = scheme in ("http", "https") and rest.lower() == host.lower()
        if (origin and not ours) or site in ("cross-site", "same-site"):
            return Refused(403, "a page of another site asked; open the dashboard itself")
        return None

    def is_trusted(self, authorization: str, cookies: str) -> bool:
        """It carries the token, or the session that the token was exchanged for."""
        if not self.token:
            return False
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return True
        pairs = (part.strip().partition("=") for part in cookies.split(";"))
        return any(name == COOKIE and _same(value, self.session) for name, _, value in pairs)


def rules_for(host: str, token: str, also: Iterable[str] = ()) -> Rules:
    """The rules of a server that listens on `host`."""
    is_loopback = host == "localhost" or (_is_address(host) and _address(host).is_loopback)
    names = {*_LOOPBACK, host.strip("[]"), *also}
    if not is_loopback:
        names.add(socket.gethostname())
    return Rules(is_loopback, frozenset(name.lower() for name in names), token)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def _name_of(host: str) -> str:
    """Without its port."""
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[").lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        _address(name)
    except ValueError:
        return False
    return True


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(name.strip("[]"))


class Guard:
    """ASGI middleware that keeps to the rules."""

    def __init__(self, app: App, rules: Rules) -> None:
        self.app, self.rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        headers = _headers(scope)
        scope[TRUSTED] = self.rules.is_trusted(_one(headers, b"authorization"),
                                               _one(headers, b"cookie"))  # fmt: skip
        refused = self._fault(scope, headers)
        if refused is None and scope["method"] not in ("GET", "HEAD"):
            replayed = await _body(receive)
            refused = Refused(413, _TOO_LARGE) if replayed is None else None
            receive = replayed or receive
        if refused is None:
            await self.app(scope, receive, answer.send)
        else:
            await answer.refuse(refused)

    def _fault(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> Refused | None:
        if len(headers.get(b"host", ())) != 1:
            return Refused(421, "a request names exactly one Host")
        host, path = _one(headers, b"host"), scope["path"]
        if fault := self.rules.host_fault(host):
            return fault
        if not path.startswith(_GUARDED):
            return None
        fault = self.rules.origin_fault(
            host, _one(headers, b"origin"), _one(headers, b"sec-fetch-site")
        )
        if fault:
            return fault
        if not self.rules.is_loopback and path not in _OPEN and not scope[TRUSTED]:
            return Refused(401, "this server needs its token: Authorization: Bearer TOKEN")
        length = _one(headers, b"content-length")
        if length and (not length.isdecimal() or int(length) > MAX_BODY_BYTES):
            return Refused(413, _TOO_LARGE)
        return None


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def _one(headers: dict[bytes, list[bytes]], name: bytes) -> str:
    return b", ".join(headers.get(name, ())).decode("latin-1")


async def _body(receive: Receive) -> Receive | None:
    """Everything that is sent, to be received again; null where it is too much."""
    messages: list[Message] = []
    num_bytes, has_more = 0, True
    while has_more:
        message = await receive()
        messages.append(message)
        num_bytes += len(message.get("body", b""))
        if num_bytes > MAX_BODY_BYTES:
            return None
        has_more = message["type"] == "http.request" and message.get("more_body", False)

    async def replay() -> Message:
        return messages.pop(0) if messages else await receive()

    return replay


class _Answer:
    """What is sent, with the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [h for h in _HEADERS if h[0] not in given]
            if b"content-security-policy" not in given:
                more.append((b"content-security-policy", _SANDBOX))
            if b"cache-control" not in given:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await self._send(message)

    async def refuse(self, refused: Refused) -> None:
        body = json.dumps({"error": refused.sentence, "exit_code": 2}).encode()
        headers = [(b"content-type", b"application/json"),
                   (b"content-length", str(len(body)).encode())]  # fmt: skip
        if refused.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.send({"type": "http.response.start", "status": refused.status,
                         "headers": headers})  # fmt: skip
        await self.send({"type": "http.response.body", "body": body})
