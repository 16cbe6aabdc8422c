"""The built dashboard is that of its sources, whole, light, and asks no other host."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
WEB = ROOT / "src" / "neoserve" / "faces" / "web"
DASHBOARD = ROOT / "dashboard"
SOURCES = ("lib", "pages", "public", "styles", "ui", "package-lock.json")  # as next.config.mjs
VIEWS = ("index", "plan", "cost", "campaign", "evidence", "ledger", "agent", "hardware")
FIRST_VIEW_BYTES = 300_000


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for below in sorted(path.iterdir(), key=lambda item: item.name):
        yield from _files(below)


def _build_id() -> str:
    digest = hashlib.sha256()
    for name in SOURCES:
        for file in _files(DASHBOARD / name):
            digest.update(file.relative_to(DASHBOARD).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def test_the_built_pages_are_those_of_the_sources() -> None:
    built = WEB / "_next" / "static" / _build_id() / "_buildManifest.js"
    assert built.is_file(), "dashboard/ has changed since it was built: run make web"


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_a_page_whose_files_are_there(view: str) -> None:
    html = (WEB / f"{view}.html").read_text()
    names = re.findall(r'(?:src|href)="(/[^"]+\.[a-z0-9]+)"', html)
    assert len(names) > 5
    assert [name for name in names if not (WEB / name[1:]).is_file()] == []
    assert '<html lang="en">' in html


def test_the_first_view_is_light() -> None:
    html = (WEB / "index.html").read_text()
    names = set(re.findall(r'(?:src|href)="/(_next/[^"]+)"', html))
    files = [WEB / "index.html", *(WEB / name for name in names)]
    packed = sum(len(gzip.compress(file.read_bytes())) for file in files)
    fonts = sum(file.stat().st_size for file in WEB.rglob("*.woff2"))
    assert 50_000 < packed + fonts <= FIRST_VIEW_BYTES


def test_nothing_is_loaded_from_elsewhere() -> None:
    loads = re.compile(rb"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//([a-z0-9.-]+)""")
    found = {
        host.decode()
        for file in WEB.rglob("*")
        if file.suffix in (".html", ".css")
        for host in loads.findall(file.read_bytes())
    }
    assert found <= {"www.w3.org"}  # the namespace of an image in the style sheet


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (DASHBOARD / "package-lock.json").read_text()


def test_the_cases_of_the_pages_tests_are_what_python_computes_today() -> None:
    file = DASHBOARD / "test" / "make_cases.py"
    spec = importlib.util.spec_from_file_location("make_cases", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (file.parent / "python.json").read_text() == module.text_of_cases(), "run make unit-web"
