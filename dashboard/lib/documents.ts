// Documents that a run may hold beside its trials, found by their schema wherever they lie.

export interface Found { schema: string; line: number | null; data: Record<string, any> }

export function documentsOf(value: unknown, prefix: string, line: number | null = null): Found[] {
  const found: Found[] = [];
  const walk = (item: unknown, at: number | null): void => {
    if (item === null || typeof item !== "object") return;
    if (Array.isArray(item)) return item.forEach((one) => walk(one, at));
    const object = item as Record<string, unknown>;
    const here = typeof object.seq === "number" && typeof object.prev === "string" ? object.seq + 1 : at;
    if (typeof object.schema === "string" && object.schema.startsWith(prefix)) {
      found.push({ schema: object.schema, line: here, data: object });
      return;
    }
    Object.values(object).forEach((one) => walk(one, here));
  };
  walk(value, line);
  return found;
}

export interface Counted { value: number; low: number | null; high: number | null; num_windows: number }

/** What the CPU, or at least the kernel, counted: src/neoserve/schema/pmu.py. */
export interface Counters {
  tool: string; rung: "topdown" | "stalls" | "ipc" | "proc" | "none"; core: { name: string } | null;
  scope: string; formula: string; length_s: number; coverage_share: number | null;
  figures: Record<string, Counted>; checks: { name: string; holds: boolean; says: string }[];
  kernel: Record<string, number | null> | null; reasons: string[]; notes: string[];
}

const LEVEL1 = ["retiring_share", "frontend_bound_share", "backend_bound_share", "bad_speculation_share"];

/** Where the pipeline's slots went; null where not all four are known. */
export function topDown(counters: Counters): [string, Counted][] | null {
  const found = LEVEL1.flatMap((name): [string, Counted][] =>
    counters.figures[name] ? [[name, counters.figures[name]]] : []);
  return found.length === LEVEL1.length ? found : null;
}

/** Figures beside the top-down ones. */
export function others(counters: Counters): [string, Counted][] {
  return Object.entries(counters.figures).filter(([name]) => !LEVEL1.includes(name));
}
