import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { faultOf, mcpRequest, readBody } from "../lib/mcp";
import { frontier } from "../lib/pareto";
import { readRows, unpack } from "../lib/rows";
import cases from "./python.json" with { type: "json" };

test("the front of random points is what trying every pair leaves", () => {
  let seed = 7;
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const points = Array.from({ length: 400 }, () => ({ x: Math.round(random() * 60), y: Math.round(random() * 60) }));
  const beaten = (p: { x: number; y: number }): boolean =>
    points.some((q) => q.x <= p.x && q.y <= p.y && (q.x < p.x || q.y < p.y));
  const expected = new Set(points.filter((p) => !beaten(p)).map((p) => `${p.x} ${p.y}`));
  assert.deepEqual(new Set(frontier(points).map((p) => `${p.x} ${p.y}`)), expected);
});

test("raw rows give the latencies that Python's RequestRow gives", async () => {
  const data = new Uint8Array(readFileSync(`../results/canonical/${cases.rows.run}/blobs/${cases.rows.digest}`));
  const text = await unpack(data);
  assert.equal(text, execFileSync("gzip", ["-dc"], { input: data }).toString());
  const rows = readRows(text);
  assert.equal(rows.length, cases.rows.expected.length);
  rows.forEach((row, index) => {
    const expected = cases.rows.expected[index];
    assert.equal(row.phase, expected.phase);
    assert.equal(row.status, expected.status);
    for (const [found, wanted] of [[row.ttftS, expected.ttft_s], [row.tpotS, expected.tpot_s], [row.e2eS, expected.e2e_s], [row.lateS, expected.late_s]]) {
      if (wanted === null) assert.equal(found, null);
      else assert.ok(Math.abs((found as number) - (wanted as number)) < 2e-9);
    }
  });
});

test("a request names itself in headers and body alike", () => {
  const { headers, body } = mcpRequest(3, "tools/call", { name: "predict", arguments: { isl: 1 } });
  const params = body.params as Record<string, any>;
  assert.equal(headers["mcp-method"], "tools/call");
  assert.equal(headers["mcp-name"], "predict");
  assert.equal(params._meta["io.modelcontextprotocol/protocolVersion"], headers["mcp-protocol-version"]);
  assert.deepEqual(params.arguments, { isl: 1 });
});

test("answers come as JSON or as events; the last event is the answer", () => {
  assert.deepEqual(readBody("application/json", '{"a":1}'), { a: 1 });
  const stream = 'event: message\ndata: {"method":"progress"}\n\n: ping\n\ndata: {"id":1,\ndata: "b":2}\n\n';
  assert.deepEqual(readBody("text/event-stream; charset=utf-8", stream), { id: 1, b: 2 });
  assert.equal(readBody("application/json", ""), null);
});

test("faults of the protocol, of a tool and of the server are one sentence", () => {
  assert.equal(faultOf({ error: { code: -32602, message: "no tool" } }), "no tool");
  assert.equal(faultOf({ result: { isError: true, content: [{ text: "give a model" }] } }), "give a model");
  assert.equal(faultOf({ error: "wants its token", exit_code: 2 }), "wants its token");
  assert.equal(faultOf({ result: { content: [] } }), "");
});
