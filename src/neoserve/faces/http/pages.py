"""The built dashboard, read once: what is not among its files does not exist here."""

from __future__ import annotations

import base64
import gzip
import hashlib
import mimetypes
import re
from pathlib import Path
from typing import NamedTuple

WEB = Path(__file__).parent.parent / "web"
_INLINE = re.compile(rb"<(script|style)\b([^>]*)>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
_TEXT = ("text/", "application/json", "application/javascript", "image/svg+xml")
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".woff2": "font/woff2",
          ".svg": "image/svg+xml", ".txt": "text/plain", ".webmanifest":
          "application/manifest+json"}  # fmt: skip
_POLICY = (
    "default-src 'none'; script-src 'self'{scripts}; style-src 'self'{styles}; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Page(NamedTuple):
    """One file as it is sent."""

    body: bytes
    packed: bytes  # gzip; b"" where that is no shorter
    type: str
    etag: str
    policy: str  # Content-Security-Policy
    is_lasting: bool  # its name holds a digest of it


def read_pages(folder: Path = WEB) -> dict[str, Page]:
    """Every file by the paths that it answers to."""
    found: dict[str, Page] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        name = file.relative_to(folder).as_posix()
        page = _page(name, file.read_bytes())
        for path in _paths(name):
            found.setdefault(path, page)
    return found


def _paths(name: str) -> list[str]:
    """``plan.html`` and ``plan/index.html`` answer to /plan and /plan/ too."""
    paths = [f"/{name}"]
    if name.endswith(".html"):
        stem = name.removesuffix("index.html").removesuffix(".html").rstrip("/")
        paths += [f"/{stem}", f"/{stem}/"] if stem else ["/"]
    return paths


def _page(name: str, body: bytes) -> Page:
    suffix = Path(name).suffix
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    packed = gzip.compress(body, mtime=0) if kind.startswith(_TEXT) else b""
    return Page(
        body=body,
        packed=packed if len(packed) < len(body) else b"",
        type=f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        policy=policy(body if suffix == ".html" else b""),
        is_lasting="/static/" in f"/{name}",
    )


def policy(html: bytes) -> str:
    """What a page may load: files of this server, and the inline scripts that it was built with."""
    hashes: dict[str, list[str]] = {"script": [], "style": []}
    for tag, attributes, text in _INLINE.findall(html):
        if text and b"src=" not in attributes:
            digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
            hashes[tag.decode().lower()].append(f" 'sha256-{digest}'")
    return _POLICY.format(scripts="".join(dict.fromkeys(hashes["script"])),
                          styles="".join(dict.fromkeys(hashes["style"])))  # fmt: skip
