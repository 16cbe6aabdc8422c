import { useEffect, type ReactNode } from "react";
import { getJson } from "../lib/api";
import { leaf, when } from "../lib/format";
import { useLoad, type Loaded } from "../lib/state";
import type { RunSummary } from "../lib/types";
import { Select } from "./parts";

export function useRuns(): Loaded<RunSummary[]> {
  return useLoad("runs", async (signal) =>
    (await getJson<{ runs: RunSummary[] }>("/api/runs", signal)).runs);
}

/** The run that the address names; else the live one, else the newest that ended well. */
export function usePick(
  runs: RunSummary[] | null, run: string, ready: boolean, set: (run: string) => void,
): RunSummary | null {
  const found = runs?.find((item) => item.id === run) ?? null;
  const first = runs?.find((item) => item.status === "live")
    ?? runs?.find((item) => item.kind === "tune" && item.status === "ended") ?? runs?.[0] ?? null;
  useEffect(() => {
    if (ready && !run && first) set(first.id);
  }, [ready, run, first, set]);
  return found;
}

export function RunPicker({ runs, run, onPick }: {
  runs: RunSummary[]; run: string; onPick: (run: string) => void;
}): ReactNode {
  const options = runs.map((item): [string, string] => [
    item.id, `${item.id} · ${item.kind || "?"} · ${leaf(item.model) || "no model"} · ${when(item.created).slice(0, 10)} · ${item.status}`,
  ]);
  if (run && runs.every((item) => item.id !== run)) options.unshift([run, `${run} · not there`]);
  return <Select label="Run" value={run} onChange={onPick} options={options} />;
}

export const NO_RUNS =
  "No run folder is served. Start one with `neoserve demo` or `neoserve tune`, or name a folder of runs: `neoserve ui DIR`.";
