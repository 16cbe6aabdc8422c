"""OpenAPI: the documents' own schemas and the options' own words."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI

from ...schema.base import Document
from ...schema.campaign import Recommendation
from ...schema.runs import RunView
from ..tool import FILES
from ..tools import BY_NAME
from ..words import json_schema

POSTED = {  # route -> tool
    "predict": "predict", "plan": "recommend_config", "cost": "project_cost",
    "compare_hardware": "compare_hardware",
}  # fmt: skip
_ANSWERED: dict[str, type[Document]] = {
    **{path: BY_NAME[name].answer for path, name in POSTED.items()},
    "hardware": BY_NAME["list_hardware"].answer, "models": BY_NAME["list_models"].answer,
    "runs": BY_NAME["list_runs"].answer, "run": RunView, "recommendation": Recommendation,
    "trial": BY_NAME["explain_trial"].answer, "verify": BY_NAME["verify_ledger"].answer,
    "recipe": BY_NAME["get_serving_recipe"].answer,
}  # fmt: skip
_ERROR = {
    "type": "object", "required": ["error", "exit_code"],
    "properties": {"error": {"type": "string"}, "exit_code": {"type": "integer"}},
}  # fmt: skip


def describe(app: FastAPI) -> None:
    """Give an application its description."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_described(app))
        return made

    setattr(app, "openapi", openapi)  # noqa: B010 - the framework's own way to replace it


def _described(app: FastAPI) -> dict[str, Any]:
    from fastapi.openapi.utils import get_openapi

    found = get_openapi(title=app.title, version=app.version, routes=app.routes,
                        description="Every document is the one that the command line prints "
                                    "with --json.")  # fmt: skip
    types = list(dict.fromkeys(_ANSWERED.values()))
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip(types, schemas, strict=True))
    found["components"] = {"schemas": {**components, "Error": _ERROR}}
    for path in found["paths"].values():
        for operation in path.values():
            _describe(operation, by_type)
    return found


def _describe(operation: dict[str, Any], by_type: dict[Any, Any]) -> None:
    name = operation["operationId"]
    if name in POSTED:
        tool = BY_NAME[POSTED[name]]
        words = [option for option in tool.words if option.name not in FILES]
        operation["requestBody"] = {"required": True, "content": {
            "application/json": {"schema": json_schema(words, tool.required)}}}  # fmt: skip
    kind = {"events": "text/event-stream", "file": "application/octet-stream",
            "ledger": "text/plain"}.get(name, "application/json")  # fmt: skip
    schema = by_type[_ANSWERED[name]] if name in _ANSWERED else {}
    operation["responses"] = {
        "200": {"description": "The document", "content": {kind: {"schema": schema}}},
        "4XX": {"description": "A sentence that says what to do", "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}},
    }  # fmt: skip
