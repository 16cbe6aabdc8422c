import assert from "node:assert/strict";
import { test } from "node:test";
import { breakEven, monthAt, usdPerMtok } from "../lib/cost";
import cases from "./python.json" with { type: "json" };

const near = (a: number, b: number): void => assert.ok(Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b)), `${a} and ${b}`);

test("price per million tokens as predict.cost has it", () => {
  for (const { usd_per_hour, tokens_per_s, usd } of cases.per_mtok) near(usdPerMtok(usd_per_hour, tokens_per_s), usd);
  assert.equal(usdPerMtok(1, 0), Infinity);
});

test("replicas, idle share and the month as predict.cost.fleet_for and faces.money have them", () => {
  assert.ok(cases.months.length > 100);
  for (const one of cases.months) {
    const found = monthAt(one.volume, one.capacity, one.usd_of_one);
    assert.equal(found.replicas, one.replicas);
    near(found.usdPerMonth, one.usd_per_month);
    assert.ok(Math.abs(found.idleShare - one.idle_share) < 1e-9);
    near(found.usdPerMtok, one.usd_per_mtok);
  }
});

test("break-even volumes as faces.money has them", () => {
  for (const one of cases.break_even) {
    const found = breakEven(one.usd_of_one, one.capacity, one.against);
    if (one.volume === null) assert.equal(found, null);
    else near(found as number, one.volume);
  }
});
