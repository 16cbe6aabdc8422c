import assert from "node:assert/strict";
import { test } from "node:test";
import { canonical } from "../lib/canonical";
import cases from "./python.json" with { type: "json" };

test("the same text as Python's rfc8785 writes, for every case that it answered", () => {
  assert.ok(cases.canonical.length > 200);
  for (const { json, canonical: expected } of cases.canonical) {
    assert.equal(canonical(JSON.parse(json)), expected);
  }
});

test("the example of RFC 8785, section 3.2.2", () => {
  const given = '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],' +
    '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}';
  assert.equal(canonical(JSON.parse(given)),
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
    '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}');
});

test("keys are sorted by UTF-16 code units: RFC 8785, section 3.2.3", () => {
  const given = { "\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\u{1f600}": 5, "\u0080": 6, "\u00f6": 7 };
  assert.equal(canonical(given), '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"\u{1f600}":5,"\ufb33":3}');
});

test("what does not survive is refused", () => {
  for (const value of ["\ud800", "a\udc00", { "\ud83d": 1 }, [Infinity], NaN, undefined]) {
    assert.throws(() => canonical(value));
  }
});
