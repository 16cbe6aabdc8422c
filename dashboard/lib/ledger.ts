// The checks of src/neoserve/evidence/ledger.py, in the browser, over the raw bytes.

import { canonical } from "./canonical";

export const GENESIS = "0".repeat(64);
const VERSION = 2;
const FIELDS = ["at", "body", "kind", "prev", "seq", "v"];

export interface Line {
  number: number; kind: string; at: string; prev: string; digest: string; numBytes: number;
  digests: string[]; // of artifacts, as its body names them
  body: Record<string, unknown>;
}
export interface Fault { line: number; sentence: string }
export interface Checked {
  lines: Line[]; // that hold, up to the first that does not
  numLines: number;
  head: string; // digest of the last line that holds
  fault: Fault | null;
}

export async function sha256(data: Uint8Array): Promise<string> {
  const found = await crypto.subtle.digest("SHA-256", data as Uint8Array<ArrayBuffer>);
  return [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Lines with their newline; the last one may lack it. */
export function splitLines(data: Uint8Array): Uint8Array[] {
  const found: Uint8Array[] = [];
  let start = 0;
  while (start < data.length) {
    const end = data.indexOf(10, start);
    const next = end < 0 ? data.length : end + 1;
    found.push(data.subarray(start, next));
    start = next;
  }
  return found;
}

/** Every line: canonical, in order, chained by the SHA-256 of the line before. */
export async function check(
  data: Uint8Array, publishedHead = "", onLine?: (line: Line, of: number) => void,
): Promise<Checked> {
  const raw = splitLines(data);
  const lines: Line[] = [];
  let prev = GENESIS;
  const broken = (sentence: string): Checked => ({
    lines, numLines: raw.length, head: prev === GENESIS ? "" : prev,
    fault: { line: lines.length + 1, sentence },
  });
  for (const bytes of raw) {
    const parsed = parse(bytes);
    if (typeof parsed === "string") return broken(parsed);
    if (parsed.prev !== prev) {
      return broken(`prev is ${parsed.prev}, but the line before has ${prev}`);
    }
    if (parsed.seq !== lines.length) {
      return broken(`seq is ${parsed.seq}, not ${lines.length}`);
    }
    prev = await sha256(bytes);
    const line: Line = {
      number: lines.length + 1, kind: parsed.kind, at: parsed.at, prev: parsed.prev, digest: prev,
      numBytes: bytes.length, digests: digestsOf(parsed.body), body: parsed.body,
    };
    lines.push(line);
    onLine?.(line, raw.length);
  }
  if (lines.length === 0) return broken("the ledger holds no entry");
  const wanted = publishedHead.trim().toLowerCase().replace(/^sha256:/, "");
  if (wanted && lines.every((line) => line.digest !== wanted)) {
    return {
      lines, numLines: raw.length, head: prev,
      fault: {
        line: lines.length,
        sentence: `no line has the published head ${wanted}; the ledger ends in ${prev}`,
      },
    };
  }
  return { lines, numLines: raw.length, head: prev, fault: null };
}

interface Entry {
  v: number; seq: number; prev: string; kind: string; at: string; body: Record<string, unknown>;
}

/** The entry of a line, or what is wrong with it. */
export function parse(bytes: Uint8Array): Entry | string {
  if (bytes[bytes.length - 1] !== 10) return "torn, it has no newline: a crash while it was written";
  let data: unknown;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes).slice(0, -1);
    data = JSON.parse(text);
  } catch (error) {
    return `no JSON: ${(error as Error).message}`;
  }
  const shape = shapeFault(data);
  if (shape) return shape;
  const entry = data as Entry;
  const version = entry.v ?? VERSION;
  if (version !== VERSION) {
    return `an entry of version ${version}; version ${VERSION} alone is checked`;
  }
  try {
    if (canonical(data) !== text) return "not in canonical form (RFC 8785)";
  } catch (error) {
    return `not in canonical form (RFC 8785): ${(error as Error).message}`;
  }
  return entry;
}

function shapeFault(data: unknown): string {
  if (typeof data !== "object" || data === null || Array.isArray(data)) {
    return "an entry has to be an object";
  }
  const entry = data as Record<string, unknown>;
  const unknown = Object.keys(entry).find((key) => !FIELDS.includes(key));
  if (unknown !== undefined) return `an entry has no field ${JSON.stringify(unknown)}`;
  const whole = (value: unknown): boolean => Number.isInteger(value);
  const fits: Record<string, boolean> = {
    at: typeof entry.at === "string", kind: typeof entry.kind === "string",
    prev: typeof entry.prev === "string", seq: whole(entry.seq),
    v: entry.v === undefined || whole(entry.v),
    body: typeof entry.body === "object" && entry.body !== null && !Array.isArray(entry.body),
  };
  const wrong = FIELDS.find((key) => !fits[key]);
  return wrong ? `${wrong} is missing or of another type` : "";
}

/** Every `sha256:` + 64 hex digits in a body names an artifact of the run folder. */
export function digestsOf(value: unknown): string[] {
  const found = new Set<string>();
  const walk = (item: unknown): void => {
    if (typeof item === "string") {
      if (/^sha256:[0-9a-f]{64}$/.test(item)) found.add(item.slice(7));
    } else if (Array.isArray(item)) item.forEach(walk);
    else if (item !== null && typeof item === "object") Object.values(item).forEach(walk);
  };
  walk(value);
  return [...found];
}
