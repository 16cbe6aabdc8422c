// One point per configuration under a load, whatever its basis; what an axis lacks is said.

import { usdPerMtok } from "./cost";
import type { Basis, HardwareFacts, Plan, Prediction, PublishedPoint, RunView, Summary, TrialRow } from "./types";

export type Stat = "p95" | "p50" | "mean";
export type XName = `${"ttft" | "tpot"}_${Stat}`;
export type YName = "usd" | "tokens";

export interface Point {
  id: string; basis: Basis; label: string; model: string;
  x: number | null; xLow: number | null; xHigh: number | null; xWhy: string;
  y: number | null; yLow: number | null; yHigh: number | null; yWhy: string;
  tokensPerS: number | null; usdPerHour: number | null; price: string; verdict: string;
  trial?: TrialRow; run?: string; prediction?: Prediction; published?: PublishedPoint;
}

export interface Axes { x: XName; y: YName }
export interface GivenPrice { usdPerHour: number | null }

const statOf = (x: XName): Stat => x.slice(5) as Stat;
const metricOf = (x: XName): "ttft_s" | "tpot_s" => (x.startsWith("ttft") ? "ttft_s" : "tpot_s");

function yOf(axes: Axes, tokensPerS: number | null, usdPerHour: number | null): Pick<Point, "y" | "yWhy"> {
  if (tokensPerS === null || tokensPerS <= 0) return { y: null, yWhy: "no throughput is known" };
  if (axes.y === "tokens") return { y: tokensPerS, yWhy: "" };
  if (usdPerHour === null) return { y: null, yWhy: "no price is known" };
  return { y: usdPerMtok(usdPerHour, tokensPerS), yWhy: "" };
}

export function measuredPoints(view: RunView, axes: Axes, given: GivenPrice): Point[] {
  return view.trials.filter((trial) => trial.verdict !== "VOID").map((trial) => {
    const usdPerHour = given.usdPerHour ?? trial.cost?.usd_per_hour ?? view.recommendation?.usd_per_hour ?? null;
    const price = given.usdPerHour !== null ? "given" : trial.cost?.price_source ?? view.recommendation?.price_source ?? "";
    const summary: Summary = trial[metricOf(axes.x)];
    const stat = statOf(axes.x);
    const found = stat === "mean" ? { value: summary.mean, low: null, high: null } : summary[stat];
    return {
      id: `m:${view.run.id}:${trial.number}`, basis: "measured", model: view.run.model,
      label: `${trial.settings || trial.engine.version || trial.engine.engine}`,
      x: found.value, xLow: found.low, xHigh: found.high,
      xWhy: found.value === null ? "no answer was long enough, or requests failed" : "",
      ...yOf(axes, trial.output_tokens_per_s, usdPerHour), yLow: null, yHigh: null,
      tokensPerS: trial.output_tokens_per_s, usdPerHour, price, verdict: trial.verdict, trial,
      run: view.run.id,
    };
  });
}

export function predictedPoints(plan: Plan, axes: Axes): Point[] {
  return plan.candidates.map((found, index) => {
    const stat = found.latency?.[metricOf(axes.x)][statOf(axes.x)] ?? null;
    const interval = found.interval[metricOf(axes.x)];
    const tokens = found.throughput?.output_tokens_per_s ?? null;
    const usdPerHour = found.cost?.usd_per_hour ?? null;
    const range = found.interval.output_tokens_per_s;
    const y = yOf(axes, tokens, usdPerHour);
    // the planner's own figure, where there is one: it divides by the load's rate
    if (axes.y === "usd" && found.cost) y.y = found.cost.usd_per_mtok_output;
    const cheap = range && axes.y === "usd" && usdPerHour !== null;
    return {
      id: `p:${index}`, basis: "predicted", model: plan.model, label: deploymentLabel(found),
      x: stat, xLow: interval && statOf(axes.x) === "mean" ? interval.low : null,
      xHigh: interval && statOf(axes.x) === "mean" ? interval.high : null,
      xWhy: stat !== null ? "" : found.latency?.[metricOf(axes.x)].mean == null
        ? "the load is more than its capacity" : "only its mean is computed: percentiles are simulated for the ranked first",
      ...y,
      yLow: cheap ? usdPerMtok(usdPerHour, range.high) : axes.y === "tokens" && range ? range.low : null,
      yHigh: cheap ? usdPerMtok(usdPerHour, range.low) : axes.y === "tokens" && range ? range.high : null,
      tokensPerS: tokens, usdPerHour, price: found.cost?.price_basis ?? "",
      verdict: found.meets_slo === null ? "" : found.meets_slo ? "keeps the SLO" : "misses the SLO",
      prediction: found,
    };
  });
}

export function publishedPoints(points: PublishedPoint[], hardware: HardwareFacts[], axes: Axes): Point[] {
  const byId = new Map(hardware.map((item) => [item.id.toLowerCase(), item]));
  return points.map((found) => {
    const facts = byId.get(found.hardware.toLowerCase());
    const usdPerHour = facts?.usd_per_hour == null ? null
      : facts.usd_per_hour * Math.ceil(found.num_devices / Math.max(1, facts.priced_devices));
    const isTtft = metricOf(axes.x) === "ttft_s";
    const stat = isTtft ? found.ttft_stat : found.tpot_stat;
    const value = isTtft ? found.ttft_s : found.tpot_s;
    const matches = (stat === "median" ? "p50" : stat) === statOf(axes.x);
    return {
      id: `q:${found.id}`, basis: "published", model: found.model,
      label: `${found.hardware}${found.num_devices > 1 ? ` ×${found.num_devices}` : ""} ${found.engine} ${found.engine_version}`.trim(),
      x: matches ? value : null, xLow: null, xHigh: null,
      xWhy: value === null ? "the source does not say it" : `the source gives another statistic: ${stat || "it does not say which"}`,
      ...yOf(axes, found.output_tokens_per_s, usdPerHour), yLow: null, yHigh: null,
      tokensPerS: found.output_tokens_per_s, usdPerHour,
      price: facts?.price_basis ?? "", verdict: "", published: found,
    };
  });
}

export function deploymentLabel(found: Prediction): string {
  const d = found.deployment;
  const parts = [`${d.hardware}${devices(found) > 1 ? ` ×${devices(found)}` : ""}`];
  parts.push(d.weight_quant === "checkpoint" ? "weights as stored" : d.weight_quant);
  if (d.kv_cache_dtype !== "auto") parts.push(`KV ${d.kv_cache_dtype}`);
  if (d.expert_parallel) parts.push("EP");
  if (d.enforce_eager) parts.push("eager");
  return parts.join(" · ");
}

/** Devices that one copy of the model runs on. */
export function devices(found: Prediction): number {
  return found.deployment.tensor_parallel * found.deployment.pipeline_parallel;
}

/** Why points are not drawn: reason → how many. */
export function reasons(points: Point[]): [string, number][] {
  const found = new Map<string, number>();
  for (const point of points) {
    const why = point.x === null ? point.xWhy : point.y === null ? point.yWhy : "";
    if (why) found.set(why, (found.get(why) ?? 0) + 1);
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}
