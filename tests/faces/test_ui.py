"""`neoserve ui` and `neoserve mcp` as programs, and what they refuse before they listen."""

from __future__ import annotations

import http.client
import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from neoserve import __version__
from neoserve.evidence.run import Run
from neoserve.faces.accuracy_page import accuracy_page
from neoserve.faces.cli import COMMANDS, parser_of
from neoserve.faces.ui import rules_of
from neoserve.schema.answers import Listening

from .serving import CANONICAL, ROOT, RUN, command, environment, listening

Refused = Callable[..., str]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ui", "/none/such"), "/none/such is no folder"),
        (("mcp", "--results", "/none/such"), "/none/such is no folder"),
        (("ui", "--token", "short"), "--token has 5 characters; expected at least 16"),
        (("ui", "--token", "has a blank in it, see"), "printable ASCII"),
        (("ui", "--token", "ü" * 20), "printable ASCII"),
        (("mcp", "--json"), "--json goes with --http"),
        (("ui", "--port", "70000"), "--port is 70000; expected 0 to 65535"),
    ],
)  # fmt: skip
def test_a_bad_ask(words: tuple[str, ...], said: str, refused: Refused) -> None:
    assert said in refused(*words)


def test_an_address_that_is_taken_or_not_ours(refused: Refused) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port} cannot be listened on" in refused(
            "ui", str(CANONICAL), "--port", port
        )
    assert "cannot be listened on" in refused("mcp", "--http", "--host", "192.0.2.1")


@pytest.mark.parametrize(
    ("words", "missing", "said"),
    [(("ui",), "fastapi", "pip install 'neoserve[ui]'"),
     (("mcp",), "mcp", "pip install 'neoserve[mcp]'")],
)  # fmt: skip
def test_what_is_not_installed_is_told(
    words: tuple[str, ...], missing: str, said: str, refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *a: None if name == missing else find(name, *a)
    )
    sentence = refused(*words)
    assert f"this needs {missing}" in sentence or f", {missing}" in sentence
    assert said in sentence


def test_other_commands_load_none_of_it() -> None:
    code = ("import sys; from neoserve.faces.cli import main; main(['--help']); "
            "print([m for m in ('mcp', 'fastapi', 'uvicorn') if m in sys.modules])")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=environment())  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_page_follows_a_run_as_it_grows(tmp_path: Path) -> None:
    """A real server: lines as they are written, the heartbeat, the end."""
    folder = tmp_path / "one"
    shutil.copytree(CANONICAL / RUN, folder)
    lines = (folder / "ledger.jsonl").read_bytes().splitlines()
    with listening("ui", str(tmp_path)) as server:
        address = urlsplit(server.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        connection.request("GET", f"/api/runs/one/events?after={len(lines) - 1}")
        answer = connection.getresponse()
        assert answer.getheader("content-type").startswith("text/event-stream")
        assert answer.getheader("cache-control") == "no-store"
        assert _event(answer) == {"id": str(len(lines)), "event": "entry",
                                  "data": lines[-1].decode()}  # fmt: skip
        Run.open(folder).record("note", {"said": "more"})
        added = _event(answer)
        assert added["id"] == str(len(lines) + 1)
        assert json.loads(added["data"])["body"] == {"said": "more"}
        connection.close()
        again = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
        again.request("GET", "/api/runs/one/events", headers={"last-event-id": str(len(lines))})
        assert _event(again.getresponse()) == added
        again.close()
        began_s = time.monotonic()
    assert server.process.returncode in (0, 130)
    assert time.monotonic() - began_s < 30


def _event(answer: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    while line := answer.readline().decode().rstrip("\r\n"):
        name, _, value = line.partition(": ")
        found[name] = value
    return found


@pytest.mark.parametrize(
    ("words", "needed"),
    [(("--allow-tune",), True), (("--host", "0.0.0.0"), True), ((), False),
     (("--host", "::1"), False)],
)  # fmt: skip
def test_a_token_is_made_up_where_one_is_needed(words: tuple[str, ...], needed: bool) -> None:
    ui = next(c for c in COMMANDS if c.name == "ui")
    first, second = (rules_of(parser_of(ui).parse_args(list(words))).token for _ in range(2))
    assert bool(first) is needed
    assert len(first) >= 40 or not needed
    assert first != second or not needed


def test_the_token_comes_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ui = parser_of(next(c for c in COMMANDS if c.name == "ui"))
    monkeypatch.setenv("NEOSERVE_TOKEN", "from-the-environment")
    assert rules_of(ui.parse_args([])).token == "from-the-environment"
    given = ui.parse_args(["--token", "from-the-command-line"])
    assert rules_of(given).token == "from-the-command-line"


def test_the_address_that_is_printed_is_one_to_open(tmp_path: Path) -> None:
    with listening("ui", str(tmp_path), "--allow-tune") as server:
        assert len(server.token) >= 40
        body = b'{"slo": "ttft:mean<3s"}'
        for token, status in ((server.token, 200), ("x" * 43, 401)):
            address = urlsplit(server.url)
            asked = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
            asked.request("POST", "/api/session", body, {"authorization": f"Bearer {token}"})
            assert asked.getresponse().status == status
            asked.close()


def test_a_program_reads_where_the_server_is(tmp_path: Path) -> None:
    process = subprocess.Popen(command("ui", "--json", "--port", "0", "--allow-tune"), text=True,
                               stdout=subprocess.PIPE, env=environment(), cwd=tmp_path)  # fmt: skip
    try:
        said = "".join(iter(process.stdout.readline, "}\n")) + "}"
        found = Listening.parse_json(said, "stdout")
        assert found.url.endswith(f"/#token={found.token}")
        address = urlsplit(found.url)
        with socket.create_connection((address.hostname, address.port), timeout=30):
            pass
    finally:
        process.send_signal(2)
        process.wait(60)
        process.stdout.close()


def test_the_registrys_file_starts_this_program() -> None:
    """Its rules: names, lengths, exact versions (server.schema.json of 2025-12-11)."""
    found = json.loads((ROOT / "server.json").read_text())
    assert found["$schema"].endswith("/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", found["name"])
    assert 1 <= len(found["description"]) <= 100
    assert set(found) <= {"$schema", "name", "title", "description", "version", "packages"}
    [package] = found["packages"]
    assert found["version"] == package["version"] == __version__
    assert (package["registryType"], package["identifier"]) == ("pypi", "neoserve")
    assert package["transport"] == {"type": "stdio"}
    [runtime] = package["runtimeArguments"]
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert (runtime["type"], runtime["name"]) == ("named", "--with")
    assert runtime["value"].startswith(extra["mcp"][0])
    words = []
    for argument in package["packageArguments"]:
        assert argument["type"] in ("positional", "named")
        if argument["type"] == "named":
            words += [argument["name"], argument.get("value", argument.get("default", "x"))]
        else:
            words.append(argument["value"])
    mcp = next(c for c in COMMANDS if c.name == words[0])
    assert parser_of(mcp).parse_args(words[1:]).results


def test_snippets_in_the_documentation_start_this_program() -> None:
    text = (ROOT / "docs" / "agents.md").read_text()
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    started = [server for block in blocks for server in block.get("mcpServers", {}).values()
               if "command" in server]  # fmt: skip
    assert started
    mcp = next(c for c in COMMANDS if c.name == "mcp")
    for server in started:
        words = server["args"]
        parser_of(mcp).parse_args(words[words.index("mcp") + 1 :])


def test_the_accuracy_page_comes_along_or_says_that_it_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from neoserve.errors import AskError
    from neoserve.faces import accuracy_page as module

    assert accuracy_page().startswith("# How right")
    shipped = tmp_path / "accuracy.md"
    monkeypatch.setattr(module, "_SHIPPED", shipped)
    monkeypatch.setattr(module, "_SOURCE", tmp_path / "none.md")
    with pytest.raises(AskError, match="not part of this installation"):
        accuracy_page()
    shipped.write_text("shipped")
    assert accuracy_page() == "shipped"
