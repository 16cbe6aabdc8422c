"""`neoserve mcp`: the tools for agents, over stdio and streamable HTTP.

The SDK's plain server is used: its decorators would make schemas of Python signatures, and ours
are those of the documents and of the command line's options.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from .. import __version__
from ..errors import EXIT_BAD_ASK, EXIT_ENGINE_FAILED, AskError, Error
from ..schema.runs import CampaignState
from .accuracy_page import accuracy_page
from .agents import output_schema, told
from .http.guard import TRUSTED
from .results import open_file
from .run_view import list_runs, view_run
from .tool import Desk, Tool
from .tools import BY_NAME, TOOLS, WORK
from .words import namespace

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

SCHEME = "neoserve://"
ACCURACY = f"{SCHEME}accuracy"
MAX_AT_ONCE = 4  # questions that are computed; others wait
_RECIPE_BYTES = 2**20
_SCOPE = (
    "NeoServe predicts and measures LLM serving: KV capacity, TTFT, TPOT, throughput and cost of a "
    "model on hardware, and which configuration is cheapest within a latency SLO. Figures say "
    "whether they are predicted, measured or published. Start with recommend_config (predicted) "
    "or list_runs (measured here). Times are seconds, shares 0 to 1; text such as 8k, 24GiB, 60% "
    "and 'ttft:p95<3s; tpot:p95<200ms' is read. Tools that predict also read every other option "
    "of the command of their name (`neoserve predict --help`), with _ for -."
)
_log = logging.getLogger(__name__)


def make_server(desk: Desk) -> Server[Any]:
    """The tools and resources of a desk."""
    limiter = anyio.CapacityLimiter(MAX_AT_ONCE)
    offered = (*TOOLS, *WORK) if desk.campaigns else TOOLS

    async def list_tools(_: ServerRequestContext[Any, Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool, desk) for tool in offered])

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None or tool not in offered:
            raise MCPError(types.INVALID_PARAMS, f"no tool {params.name[:80]!r}; tools/list has "
                                                 "them all")  # fmt: skip
        given = params.arguments or {}
        if tool.is_work and not _may_start(ctx, desk):
            return failed("starting work over HTTP takes the server's token: send Authorization: "
                          "Bearer TOKEN")  # fmt: skip
        if tool.name == "start_tune":
            return await _started(ctx, tool, desk, given)
        return await anyio.to_thread.run_sync(answered, tool, desk, given, limiter=limiter)

    async def list_resources(
        _: ServerRequestContext[Any, Any], __: Any
    ) -> types.ListResourcesResult:
        found = await anyio.to_thread.run_sync(resources, desk)
        return types.ListResourcesResult(resources=found)

    async def list_templates(
        _: ServerRequestContext[Any, Any], __: Any
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=_templates())

    async def read_resource(
        _: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            contents = await anyio.to_thread.run_sync(read, desk, params.uri)
        except Error as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "neoserve", version=__version__, title="NeoServe", instructions=_SCOPE,
        on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
        on_list_resource_templates=list_templates, on_read_resource=read_resource,
    )  # fmt: skip


def described(tool: Tool, desk: Desk) -> types.Tool:
    """As tools/list has it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.help,
        input_schema=tool.schema(desk),
        output_schema=output_schema(tool.answer),
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=not tool.changes, destructive_hint=False,
            idempotent_hint=tool.is_repeatable, open_world_hint=tool.is_predicted and desk.asks_hub,
        ),
    )  # fmt: skip


def _may_start(ctx: ServerRequestContext[Any, Any], desk: Desk) -> bool:
    """On a pipe, whoever started the server with --allow-tune; over HTTP, who has its token."""
    if ctx.request is None:
        return desk.opens_files
    return bool(ctx.request.scope.get(TRUSTED))


async def _started(
    ctx: ServerRequestContext[Any, Any], tool: Tool, desk: Desk, given: dict[str, Any]
) -> types.CallToolResult:
    """A campaign from its start until it ends or `wait_s` is over; a cancelled call stops it."""
    assert desk.campaigns is not None
    try:
        wait_s = namespace(tool.words, {"wait_s": given.get("wait_s", 10)}).wait_s
        state = await anyio.to_thread.run_sync(tool.ask, desk, given)
    except Error as error:
        return failed(str(error))
    assert isinstance(state, CampaignState)
    try:
        while state.state != "ended" and state.elapsed_s < wait_s:
            await anyio.sleep(1.0)
            state = desk.campaigns.state(state.id)
            await ctx.session.report_progress(
                state.elapsed_s, float(wait_s), state.lines[-1].strip() if state.lines else None
            )
    except anyio.get_cancelled_exc_class():
        desk.campaigns.stop(state.id, 0.0)
        raise
    if state.exit_code in (EXIT_BAD_ASK, EXIT_ENGINE_FAILED):
        return failed(" ".join(state.lines[-3:]) or "the campaign ended at once")
    return shown(*told(state))


def answered(tool: Tool, desk: Desk, given: dict[str, Any]) -> types.CallToolResult:
    """A tool's answer; what goes wrong is told to the agent, which can then ask better."""
    try:
        sentence, document = told(tool.ask(desk, given))
    except Error as error:
        return failed(str(error))
    except Exception as error:  # told in words of our own: the agent has no traceback to read
        _log.exception("%s failed", tool.name)
        return failed(f"{tool.name} failed by a fault of NeoServe ({type(error).__name__}); ask "
                      "with fewer options, and report it")  # fmt: skip
    return shown(sentence, document)


def shown(sentence: str, document: dict[str, Any]) -> types.CallToolResult:
    """The sentence, and the document twice: as text for clients that read no structure."""
    text = msgspec.json.encode(document).decode()
    return types.CallToolResult(
        content=[types.TextContent(text=sentence), types.TextContent(text=text)],
        structured_content=msgspec.json.decode(text),
    )


def failed(sentence: str) -> types.CallToolResult:
    """A sentence that says what to do next."""
    text = " ".join(sentence.split())
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def resources(desk: Desk) -> list[types.Resource]:
    """Runs, the recipes of those that hold one, and how right predictions are."""
    found = [
        types.Resource(
            uri=ACCURACY, name="accuracy", title="How right the predictions are",
            description="Predictions against public measurements, by model, engine and device.",
            mime_type="text/markdown",
        )
    ]  # fmt: skip
    paths = desk.results.runs()
    for run in list_runs(desk.results).runs:
        uri = f"{SCHEME}runs/{quote(run.id, safe='~')}"
        found.append(
            types.Resource(uri=uri, name=run.id, title=f"Run {run.id}", description=run.summary,
                           mime_type="application/json")
        )  # fmt: skip
        readme = f"{uri}/recipe/README.md"
        if run.id in paths and (paths[run.id] / "recipe" / "README.md").is_file():
            found.append(
                types.Resource(uri=readme, name=f"{run.id}-recipe", title=f"Recipe of {run.id}",
                               description="What serves it, and what it rests on.",
                               mime_type="text/markdown")
            )  # fmt: skip
    return found


def _templates() -> list[types.ResourceTemplate]:
    return [
        types.ResourceTemplate(
            uri_template=f"{SCHEME}runs/{{run}}", name="run", title="A measured run",
            description="What was asked, where each candidate stands, every trial.",
            mime_type="application/json",
        ),
        types.ResourceTemplate(
            uri_template=f"{SCHEME}runs/{{run}}/trials/{{number}}", name="trial",
            title="One trial", description="What ran, under which load, what was proven.",
            mime_type="application/json",
        ),
        types.ResourceTemplate(
            uri_template=f"{SCHEME}runs/{{run}}/recipe/{{name}}", name="recipe",
            title="A file of a run's recipe", mime_type="text/plain",
        ),
    ]  # fmt: skip


def read(desk: Desk, uri: str) -> types.TextResourceContents:
    """A resource. Raises Error for one that is not there."""
    if uri == ACCURACY:
        return types.TextResourceContents(uri=uri, mime_type="text/markdown", text=accuracy_page())
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    parts = [unquote(part) for part in rest.split("/")]
    if not uri.startswith(SCHEME) or kind != "runs":
        raise AskError(f"no resource {uri[:120]!r}; resources/list has those that are there")
    if len(parts) == 1:
        return _json(uri, told(view_run(desk.results, parts[0])).document)
    if len(parts) == 3 and parts[1] == "trials":
        story = BY_NAME["explain_trial"].ask(desk, {"run": parts[0], "trial": parts[2]})
        return _json(uri, told(story).document)
    if len(parts) == 3 and parts[1] == "recipe":
        with open_file(desk.results.find(parts[0]), f"recipe/{parts[2]}") as file:
            text = file.read(_RECIPE_BYTES).decode(errors="replace")
        kind = "text/markdown" if parts[2].endswith(".md") else "text/plain"
        return types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    raise AskError(f"no resource {uri[:120]!r}; a run has trials/NUMBER and recipe/NAME")


def _json(uri: str, document: dict[str, Any]) -> types.TextResourceContents:
    text = msgspec.json.encode(document).decode()
    return types.TextResourceContents(uri=uri, mime_type="application/json", text=text)


def http_routes(server: Server[Any]) -> tuple[Any, list[Any]]:
    """The session manager, which has to run while requests come, and the route of /mcp.

    Hosts, origins and sizes are checked in front of it, as for every other route.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    app = server.streamable_http_app(
        streamable_http_path="/mcp",
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return server.session_manager, list(app.routes)


def serve_stdio(server: Server[Any]) -> None:
    """Until the client closes its end."""
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)
