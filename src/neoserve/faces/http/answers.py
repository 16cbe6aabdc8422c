"""A document as JSON, a refusal as a sentence, a request's body as named values."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ...errors import EXIT_EVIDENCE_BROKEN, AskError, Error
from ..results import NoSuchRun


def document(found: Any) -> Response:
    """As the command line prints it, without blanks."""
    return Response(msgspec.json.encode(found), media_type="application/json")


def fault(status: int, sentence: str, exit_code: int = 2) -> Response:
    """What is wrong, and what to do."""
    body = msgspec.json.encode({"error": sentence, "exit_code": exit_code})
    return Response(body, status_code=status, media_type="application/json")


async def on_error(_: Request, error: Error) -> Response:
    """What NeoServe raises on purpose."""
    sentence = " ".join(str(error).split())
    if isinstance(error, NoSuchRun):
        return fault(404, sentence)
    status = 409 if error.exit_code == EXIT_EVIDENCE_BROKEN else 400
    return fault(status, sentence, error.exit_code)


async def on_http(_: Request, error: HTTPException) -> Response:
    """What the framework refuses."""
    said = {404: "there is no such page or route; /api/openapi.json lists them",
            405: "this route takes another method; /api/openapi.json says which"}  # fmt: skip
    return fault(error.status_code, said.get(error.status_code, str(error.detail)))


async def on_invalid(_: Request, error: RequestValidationError) -> Response:
    """A query that is not of its kind."""
    first = error.errors()[0]
    where = ".".join(map(str, first.get("loc", ())[1:]))
    return fault(400, f"{where or 'the request'}: {first.get('msg', 'not understood')}")


async def words_of(request: Request) -> dict[str, Any]:
    """The fields of a JSON body. A form of another site cannot say that it is JSON."""
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise AskError("the body has to be JSON: send Content-Type: application/json")
    try:
        data = msgspec.json.decode(await request.body() or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AskError(f"the body is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise AskError("the body has to be a JSON object of named values")
    return data
