"""A scripted OpenAI-compatible server whose latencies are planned, so the truth is known."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Truth:
    """The plan, and what was asked. `script` names what happens to request i (0: the probe)."""

    ttft_s: float = 0.05
    itl_s: float = 0.01
    script: Callable[[int], str] = lambda _: "ok"
    template_tokens: int = 0
    tokens_per_word: int = 1
    knows_ignore_eos: bool = True
    cached_share: float = 0.0  # of each prompt, as `usage` tells it
    slots: int = 0  # answers at once, the others wait; 0: any number
    asked: list[dict] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    url: str = ""
    _free: asyncio.Semaphore | None = None

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "truth"}]})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        start = asyncio.get_running_loop().time()
        body = await request.json()
        self.keys.add(request.headers.get("Authorization", ""))
        act = self.script(len(self.asked))
        self.asked.append(body)
        if not self.knows_ignore_eos and "ignore_eos" in body:
            return web.Response(status=400, text="unknown field ignore_eos")
        if act == "refuse":
            return web.Response(status=503, text="busy", headers={"Retry-After": "1"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if act == "garbage":
            await response.write(b"data: {not json\n\n")
            return response
        if act == "stall":
            await asyncio.sleep(30)
        while act == "loris":  # a byte now and then
            await response.write(b" ")
            await asyncio.sleep(0.2)
        with suppress(ConnectionResetError):  # the client has gone
            await self._stream(request, response, body, act, start)
        return response

    async def _stream(
        self, request: web.Request, response: web.StreamResponse, body: dict, act: str, start: float
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        if self.slots:
            self._free = self._free or asyncio.Semaphore(self.slots)
            async with self._free:
                return await self._tokens(request, response, body, act, loop.time())
        return await self._tokens(request, response, body, act, start)

    async def _tokens(
        self, request: web.Request, response: web.StreamResponse, body: dict, act: str, start: float
    ) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        chat = "messages" in body
        num_tokens = body["max_tokens"] - (act == "short")
        for i in range(num_tokens):
            await asyncio.sleep(start + self.ttft_s + i * self.itl_s - loop.time())
            if act == "break" and i == 1:
                request.transport.abort()
                return response
            await response.write(_event({"choices": [_choice(chat, f" t{i}")]}))
        if act == "half":
            return response
        end = _choice(chat, "") | {"finish_reason": "length"}
        await response.write(_event({"choices": [end]}))
        text = body["messages"][0]["content"] if chat else body["prompt"]
        prompt_tokens = len(text.split()) * self.tokens_per_word + self.template_tokens
        cached = {"cached_tokens": round(self.cached_share * prompt_tokens)}
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": num_tokens,
                 "prompt_tokens_details": cached}  # fmt: skip
        if act != "no usage":
            await response.write(_event({"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response


def _choice(chat: bool, text: str) -> dict:
    said = {"delta": {"content": text}} if chat else {"text": text}
    return said | {"index": 0, "finish_reason": None}


def _event(data: dict) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@contextmanager
def serving(truth: Truth) -> Iterator[Truth]:
    """Serve in a thread of its own until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(_start(truth), loop).result(10)
    try:
        yield truth
    finally:
        asyncio.run_coroutine_threadsafe(_end(runner), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(runner: web.AppRunner) -> None:
    """Whoever still waits for an answer, or for a free slot, is sent away first."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await runner.cleanup()


async def _start(truth: Truth) -> web.AppRunner:
    app = web.Application()
    app.router.add_get("/v1/models", truth.models)
    app.router.add_post("/v1/completions", truth.answer)
    app.router.add_post("/v1/chat/completions", truth.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    truth.url = f"http://127.0.0.1:{port}"
    return runner
