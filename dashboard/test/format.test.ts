import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, duration, plain, significant, usd } from "../lib/format";
import cases from "./python.json" with { type: "json" };

test("numbers read as the command line prints them", () => {
  for (const { value, text } of cases.significant) assert.equal(significant(value), text);
  for (const { value, text } of cases.duration) assert.equal(duration(value), text);
  for (const { value, text } of cases.bytes) assert.equal(bytes(value), text);
  for (const { value, text } of cases.usd) assert.equal(usd(value), text);
});

test("marks of an axis lose their zeros, whole numbers do not", () => {
  assert.deepEqual(["2.00 s", "$0.300", "$1,000", "10.0", "500 ms", "1.25 k", "$30.0"].map(plain),
    ["2 s", "$0.3", "$1,000", "10", "500 ms", "1.25 k", "$30"]);
});
