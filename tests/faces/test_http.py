"""The server's routes: the documents of the command line, and who is refused."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from starlette.testclient import TestClient

from neoserve.evidence.verify import verify_run
from neoserve.faces.http import app as app_module
from neoserve.faces.http.app import Served, make_app
from neoserve.faces.http.guard import COOKIE, MAX_BODY_BYTES, Rules, rules_for
from neoserve.faces.http.pages import policy, read_pages
from neoserve.faces.mcp import make_server
from neoserve.faces.results import Results
from neoserve.faces.tool import Desk

from .conftest import Cli
from .serving import CANONICAL, QUESTION, RUN

TOKEN = "0123456789abcdef0123"
HERE = "http://127.0.0.1:8765"


def client(rules: Rules, base_url: str = HERE, **more: Any) -> TestClient:
    desk = Desk(Results([CANONICAL]), opens_files=False, asks_hub=False)
    app = make_app(Served(desk, rules, make_server(desk), **more))
    return TestClient(app, base_url=base_url)


@pytest.fixture(scope="module")
def here() -> Iterator[TestClient]:
    with client(rules_for("127.0.0.1", TOKEN)) as found:
        yield found


@pytest.fixture(scope="module")
def away() -> Iterator[TestClient]:
    """A server on an address that others reach."""
    with client(rules_for("0.0.0.0", TOKEN, ["serve.example"]), "http://10.1.2.3:8765") as found:
        yield found


@pytest.mark.parametrize(
    ("route", "given", "words"),
    [
        ("predict", QUESTION, ("predict", "Qwen/Qwen3-8B", "--on", "L4")),
        ("plan", {**QUESTION, "on": ["L4", "L40S"]},
         ("plan", "Qwen/Qwen3-8B", "--on", "L4,L40S")),
        ("compare_hardware", {**QUESTION, "on": "L4,T4"},
         ("compare", "Qwen/Qwen3-8B", "--on", "L4,T4")),
        ("cost", {**QUESTION, "output_tokens_per_month": 5e9},
         ("cost", "Qwen/Qwen3-8B", "--on", "L4", "--output-tokens-per-month", "5e9")),
    ],
)  # fmt: skip
def test_a_question_gets_the_command_lines_document(
    here: TestClient, cli: Cli, route: str, given: dict[str, Any], words: tuple[str, ...]
) -> None:
    more = [f"--{name.replace('_', '-')}={given[name]}"
            for name in ("isl", "osl", "request_rate", "slo", "max_model_len")]  # fmt: skip
    answer = here.post(f"/api/{route}", json=given)
    assert answer.status_code == 200
    assert answer.json() == cli(*words, *more, "--json").document


def test_runs_are_served_as_the_command_line_has_them(here: TestClient, cli: Cli) -> None:
    assert [r["id"] for r in here.get("/api/runs").json()["runs"]] == [RUN, "llamacpp-smollm2"]
    view = here.get(f"/api/runs/{RUN}").json()
    assert len(view["trials"]) == view["run"]["num_trials"] == 18
    folder = str(CANONICAL / RUN)
    assert here.get(f"/api/runs/{RUN}/verify").json() == cli("verify", folder, "--json").document
    made = here.get(f"/api/runs/{RUN}/recipe?to=compose").json()
    assert made == cli("recipe", folder, "--to", "compose", "--json").document
    assert made["texts"]["compose.yaml"] == (CANONICAL / RUN / "recipe/compose.yaml").read_text()
    assert here.get(f"/api/runs/{RUN}/trials/3").json()["line"] == view["trials"][2]["line"]
    assert here.get(f"/api/runs/{RUN}/recommendation").json() == view["recommendation"]


def test_the_ledger_and_files_are_served_byte_for_byte(here: TestClient) -> None:
    raw = (CANONICAL / RUN / "ledger.jsonl").read_bytes()
    served = here.get(f"/api/runs/{RUN}/ledger")
    assert served.content == raw
    assert served.headers["content-type"] == "text/plain; charset=utf-8"
    digest = here.get(f"/api/runs/{RUN}").json()["trials"][0]["rows"].removeprefix("sha256:")
    blob = here.get(f"/api/runs/{RUN}/files/blobs/{digest}")
    assert hashlib.sha256(blob.content).hexdigest() == digest
    assert blob.headers["x-content-sha256"] == digest
    assert blob.headers["content-type"] == "application/gzip"
    for answer in (served, blob):
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    manifest = here.get(f"/api/runs/{RUN}/files/manifest.json")
    assert manifest.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    ["files/..%2f..%2f..%2fREADME.md", "files/%2e%2e/%2e%2e/README.md", "files/%2Fetc%2Fpasswd",
     "files//etc/passwd", "files/..%5c..%5cx", "files/%00", "files/recipe", "files/",
     "files/blobs/..%2fmanifest.json", "files/%252e%252e/x"],
)  # fmt: skip
def test_no_path_leads_out(here: TestClient, path: str) -> None:
    answer = here.get(f"/api/runs/{RUN}/{path}")
    assert answer.status_code == 404
    assert answer.json()["exit_code"] == 2


@pytest.mark.parametrize("run", ["..", "%2e%2e", "%2e%2e%2fcanonical", "none", "..%2f..", "%00"])
def test_no_name_leads_out(here: TestClient, run: str) -> None:
    for path in ("", "/ledger", "/verify", "/log", "/files/x", "/events", "/recipe"):
        assert here.get(f"/api/runs/{run}{path}").status_code == 404


def test_a_log_is_followed(here: TestClient) -> None:
    raw = (CANONICAL / RUN / "logs" / "engine.log").read_bytes()
    tail = here.get(f"/api/runs/{RUN}/log").json()
    assert tail["text"].encode() == raw[-65536:]
    assert tail["next"] == len(raw)
    again = here.get(f"/api/runs/{RUN}/log?after={tail['next'] - 5}").json()
    assert again["text"].encode() == raw[-5:]
    done = here.get(f"/api/runs/{RUN}/log?after={tail['next']}").json()
    assert (done["text"], done["next"]) == ("", len(raw))
    assert here.get(f"/api/runs/{RUN}/log?name=logs/none.log").json()["text"] == ""
    for name in ("ledger.jsonl", "../x", "logs/../../x"):
        answer = here.get(f"/api/runs/{RUN}/log", params={"name": name})
        assert answer.status_code == 400 or answer.json()["text"] == ""


def test_broken_evidence_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(CANONICAL / RUN, folder)
    blob = next((folder / "blobs").iterdir())
    blob.write_bytes(b"forged")
    desk = Desk(Results([tmp_path]), opens_files=False, asks_hub=False)
    with TestClient(make_app(Served(desk, rules_for("127.0.0.1", ""))), base_url=HERE) as found:
        answer = found.get("/api/runs/broken/verify")
        assert (answer.status_code, answer.json()["exit_code"]) == (409, 5)
        assert blob.name in answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421), ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example:8765"}, 421), ({"host": ""}, 421),
        ({"host": "10.0.0.1:8765"}, 421), ({"host": "[::ffff:7f00:1]"}, 421),
        ({"host": "evil.example#127.0.0.1"}, 421), ({"host": "127.0.0.1@evil.example"}, 421),
        ({"host": "LOCALHOST:1"}, 200), ({"host": "[::1]:8765"}, 200),
        ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403), ({"origin": "http://localhost:8765"}, 403),
        ({"origin": f"{HERE}.evil.example"}, 403), ({"origin": "file://"}, 403),
        ({"origin": HERE}, 200), ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403), ({"sec-fetch-site": "same-origin"}, 200),
    ],
)  # fmt: skip
def test_a_page_of_another_site_gets_nothing(
    here: TestClient, headers: dict[str, str], status: int
) -> None:
    assert here.get("/api/runs", headers=headers).status_code == status
    answer = here.post("/api/predict", json=QUESTION, headers=headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers
    if status != 200:
        assert set(answer.json()) == {"error", "exit_code"}


def test_two_hosts_are_one_too_many(here: TestClient) -> None:
    answer = here.get("/api/runs", headers=[("host", "127.0.0.1"), ("host", "evil.example")])
    assert answer.status_code == 421


@pytest.mark.parametrize(
    ("host", "status"),
    [("10.1.2.3:8765", 401), ("192.168.0.9", 401), ("[2001:db8::1]:8765", 401),
     ("serve.example:8765", 401), ("evil.example", 421)],
)  # fmt: skip
def test_elsewhere_a_name_may_be_an_address_or_a_given_one(
    away: TestClient, host: str, status: int
) -> None:
    assert away.get("/api/runs", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401), ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer  {TOKEN}"}, 200), ({"authorization": TOKEN}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401), ({"authorization": "Bearer "}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401), ({"authorization": "Bearer \xff"}, 401),
        ({"cookie": f"{COOKIE}={TOKEN}"}, 401), ({"cookie": "x=1; =; y"}, 401),
        ({"cookie": f"a=b; {COOKIE}={rules_for('0.0.0.0', TOKEN).session}"}, 200),
    ],
)  # fmt: skip
def test_elsewhere_the_token_is_needed(
    away: TestClient, headers: dict[str, str], status: int
) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    for path in ("/api/runs", "/api/openapi.json", f"/api/runs/{RUN}/ledger"):
        answer = away.get(path, headers=raw)
        assert answer.status_code == status
        assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    mcp = away.post("/mcp", json={}, headers=raw)
    assert (mcp.status_code == 401) == (status == 401)
    assert away.get("/").status_code == 200  # the page itself, which asks for it


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(away: TestClient) -> None:
    assert away.post("/api/session").status_code == 401
    assert away.get("/api/status").json()["needs_token"] is True
    answer = away.post("/api/session", headers={"authorization": f"Bearer {TOKEN}"})
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert away.get("/api/status").json()["has_token"] is True  # the client kept it
    assert away.get("/api/runs").status_code == 200
    away.cookies.clear()


def test_a_token_that_is_not_set_opens_nothing() -> None:
    rules = rules_for("0.0.0.0", "")
    assert not rules.is_trusted("Bearer ", f"{COOKIE}={rules.session}")
    assert not rules.is_trusted("", "")


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("localhost", True), ("::1", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("myhost", False)],
)  # fmt: skip
def test_which_addresses_are_this_host_alone(host: str, is_loopback: bool) -> None:
    assert rules_for(host, "").is_loopback is is_loopback


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"{}", "text/plain", "send Content-Type: application/json"),
        (b"model=x&on=L4", "application/x-www-form-urlencoded", "send Content-Type"),
        (b"{", "application/json", "the body is no JSON"),
        (b"\xff", "application/json", "the body is no JSON"),
        (b"[" * 100_000, "application/json", "the body is no JSON"),
        (b"[]", "application/json", "a JSON object"),
        (b"", "application/json", "predict needs model and on"),
        (b'{"model": "Qwen/Qwen3-8B", "on": "L4", "isl": 1e99}', "application/json", "isl"),
        (b'{"model": {"a": 1}, "on": "L4"}', "application/json", "expected text"),
    ],
)  # fmt: skip
def test_a_body_that_is_none(here: TestClient, body: bytes, kind: str, said: str) -> None:
    answer = here.post("/api/predict", content=body, headers={"content-type": kind})
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_sizes_are_bounded(here: TestClient) -> None:
    big = b" " * (MAX_BODY_BYTES + 1)
    headers = {"content-type": "application/json"}
    assert here.post("/api/predict", content=big, headers=headers).status_code == 413
    chunks = (b" " * 65536 for _ in range(20))  # does not say how long it is
    assert here.post("/api/predict", content=chunks, headers=headers).status_code == 413
    lied = here.post("/api/predict", content=b"{}", headers=headers | {"content-length": "-5"})
    assert lied.status_code == 413
    assert here.post("/mcp", content=big, headers=headers).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/none", 404), ("GET", "/api/predict", 404), ("PUT", "/api/runs", 405),
     ("GET", "/none", 404), ("GET", "/../../etc/passwd", 404), ("GET", "/index.html/x", 404),
     ("GET", "/api/hardware?limit=x", 400), ("GET", "/api/hardware?limit=0", 400),
     ("GET", "/api/hardware?name=zzzzzz", 400), ("GET", "/api/runs/x/trials/abc", 400),
     ("POST", "/api/tune", 405), ("GET", "/docs", 404), ("GET", "/redoc", 404)],
)  # fmt: skip
def test_what_is_not_there(here: TestClient, method: str, path: str, status: int) -> None:
    answer = here.request(method, path)
    assert answer.status_code == status
    if path.startswith("/api"):
        assert set(answer.json()) == {"error", "exit_code"}
    else:
        assert "There is no such page" in answer.text


def test_long_answers_are_packed_and_short_ones_are_not(here: TestClient) -> None:
    packed = here.get("/api/hardware", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == here.get("/api/hardware", headers={"accept-encoding": ""}).json()
    plain = here.get("/api/status", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers


def test_lookups(here: TestClient) -> None:
    found = here.get("/api/hardware?name=graviton4&kind=cpu").json()
    assert found["hardware"][0]["id"] == "graviton4"
    assert here.get("/api/models?name=Qwen3-8B").json()["models"][0]["kind"] == "dense"
    points = here.get("/api/published?hardware=H200&limit=2").json()
    assert len(points["points"]) == 2 < points["num_matching"]


def test_openapi_describes_every_route_and_its_answers(here: TestClient) -> None:
    described = here.get("/api/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    for path in ("/api/predict", "/api/runs/{run}/events", "/api/hardware", "/api/runs/{run}"):
        assert path in described["paths"]
    answer = here.post("/api/predict", json=QUESTION).json()
    schema = {"$ref": "#/components/schemas/Prediction", "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate(answer)
    body = described["paths"]["/api/predict"]["post"]["requestBody"]["content"]
    asked = body["application/json"]["schema"]
    jsonschema.Draft202012Validator(asked).validate(QUESTION)
    assert "trace" not in asked["properties"]
    refs = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(described)))
    assert refs <= set(described["components"]["schemas"])


def test_too_many_questions_wait_or_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_WAITING", 0)
    with client(rules_for("127.0.0.1", "")) as found:
        assert found.post("/api/predict", json=QUESTION).status_code == 429


def test_pages(tmp_path: Path) -> None:
    script, style = "self.x=1", "a{color:red}"
    (tmp_path / "_next" / "static").mkdir(parents=True)
    (tmp_path / "_next" / "static" / "a.js").write_text("1;" * 999)
    (tmp_path / "index.html").write_text(
        f"<script>{script}</script><style>{style}</style><script src='/_next/a.js'></script>"
    )
    (tmp_path / "plan.html").write_text("plan")
    (tmp_path / "cost").mkdir()
    (tmp_path / "cost" / "index.html").write_text("cost")
    (tmp_path / "404.html").write_text("lost")
    (tmp_path / "link.html").symlink_to("/etc/passwd")
    with client(rules_for("127.0.0.1", ""), web=tmp_path) as found:
        home = found.get("/", headers={"accept-encoding": "identity"})
        said = home.headers["content-security-policy"]
        for kind, text in (("script", script), ("style", style)):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert f"{kind}-src 'self' 'sha256-{digest}';" in said
        assert "default-src 'none'" in said
        assert "unsafe-eval" not in said
        assert "script-src 'self' 'unsafe-inline'" not in said
        assert home.headers["cache-control"] == "no-cache"
        assert [found.get(path).text for path in ("/plan", "/plan.html", "/cost", "/cost/")] == [
            "plan", "plan", "cost", "cost"]  # fmt: skip
        lost = found.get("/none")
        assert (lost.status_code, lost.text) == (404, "lost")
        assert found.get("/link.html").status_code == 404
        assert found.get("/api/none").json()["exit_code"] == 2
        js = found.get("/_next/static/a.js")
        assert js.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in js.headers["cache-control"]
        assert js.headers["content-encoding"] == "gzip"
        assert js.text == "1;" * 999
        again = found.get("/", headers={"if-none-match": home.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert found.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_the_shipped_pages_ask_nobody_else() -> None:
    pages = read_pages()
    assert "/" in pages
    for path, page in pages.items():
        assert gzip.decompress(page.packed) == page.body if page.packed else True
        if path.endswith(".html"):
            assert not re.search(rb"""(?:src|href)=["']?(?:https?:)?//""", page.body), path
    assert "sha256" not in policy(b"<script src='a.js'></script><style></style>")


def test_a_verified_run_is_what_verify_says(here: TestClient) -> None:
    head = verify_run(CANONICAL / RUN).head
    assert here.get(f"/api/runs/{RUN}/verify?head={head}").json()["head"] == head
    wrong = here.get(f"/api/runs/{RUN}/verify?head={'0' * 64}")
    assert (wrong.status_code, wrong.json()["exit_code"]) == (409, 5)
    assert msgspec.json.decode(wrong.content)["error"]
