// A real server, a real Chromium, and what every page is held to.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const ROOT = join(here, "..", "..");
export const SHOTS = join(here, "shots");
export const CANONICAL = join(ROOT, "results", "canonical");
export const WIDTHS = [[1440, 1000], [390, 844]];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(SHOTS, { recursive: true });

/** `neoserve ui` on a free port, with further words of its command line; resolves when it says its address. */
export function serve(...words) {
  const python = process.env.PYTHON ?? join(ROOT, ".venv", "bin", "python");
  const child = spawn(python, ["-m", "neoserve", "ui", ...words, "--port", "0"], {
    cwd: ROOT, env: { ...process.env, PYTHONPATH: join(ROOT, "src"), NO_COLOR: "1" },
  });
  return new Promise((resolve, reject) => {
    let said = "";
    const read = (data) => {
      said += data;
      const found = /http:\/\/\S+?:\d+/.exec(said);
      if (found) resolve({ url: found[0].replace("0.0.0.0", "127.0.0.1"), stop: () => child.kill("SIGINT") });
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => reject(new Error(`neoserve ui ended with ${code}: ${said}`)));
    child.on("error", reject);
  });
}

function launch() {
  const path = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);
  if (!path) throw new Error("no Chromium: apt-get install chromium, or name one in CHROMIUM");
  return chromium.launch({ executablePath: path, args: ["--no-sandbox"] });
}

/** One browser and one server on the canonical results for all tests of a file. */
export function shared() {
  const held = {};
  before(async () => {
    [held.browser, held.server] = await Promise.all([launch(), serve(CANONICAL)]);
  });
  after(async () => {
    await held.browser?.close();
    held.server?.stop();
  });
  return held;
}

/** Waits until the page says so. */
export const says = (page, text, timeout = 90000) => page.waitForFunction(
  (wanted) => document.body.innerText.toLowerCase().includes(wanted.toLowerCase()), text, { timeout });

/** A page that notes what must not happen. */
export async function open(browser, server, path, [width, height] = WIDTHS[0], options = {}) {
  const context = await browser.newContext({ viewport: { width, height }, ...options });
  const page = await context.newPage();
  const faults = [];
  const expected = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected.some((pattern) => pattern.test(message.text()))) {
      faults.push(`console ${message.type()}: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== server.url && !["data:", "blob:"].includes(url.protocol)) faults.push(`request to ${url.origin}`);
  });
  page.setDefaultTimeout(90000);
  page.setDefaultNavigationTimeout(90000);
  await page.goto(server.url + path);
  return { page, faults, expected, close: () => context.close() };
}

/** Violations of WCAG 2.2 A and AA and of good practice, as axe sees them. */
export async function axe(page) {
  // by the debugger, not as a script element: the page's policy forbids those
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  }));
  return found.violations.map((one) => `${one.id}: ${one.help}\n${one.nodes.slice(0, 4).map((node) => `    ${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`).join("\n")}`);
}

/** Pixels that the page is wider than its window. */
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
