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

/** Shares that add up to about one, whatever the level they lie at: a top-down breakdown. */
export function topDown(data: Record<string, any>): [string, number][] | null {
  const places = [data.topdown, data.top_down, data.topdown_share, data.level1, data];
  for (const place of places) {
    if (place === null || typeof place !== "object") continue;
    const shares = Object.entries(place as Record<string, unknown>).flatMap(([key, value]): [string, number][] => {
      const number = typeof value === "number" ? value : (value as { value?: number } | null)?.value;
      return /retiring|bad_speculation|frontend|backend/.test(key) && typeof number === "number" ? [[key, number]] : [];
    });
    const sum = shares.reduce((total, [, value]) => total + value, 0);
    if (shares.length >= 2 && sum > 0.9 && sum < 1.1) return shares;
  }
  return null;
}
