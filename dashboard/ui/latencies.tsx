import type { ReactNode } from "react";
import { duration } from "../lib/format";
import type { Slo, Summary, Trial } from "../lib/types";
import { logScale, logTicks, useWidth, XAxis } from "./axes";

const NAMES: [keyof Trial, string, string][] = [
  ["ttft_s", "TTFT", "ttft"], ["tpot_s", "TPOT", "tpot"], ["itl_s", "ITL", ""], ["e2e_s", "End to end", "e2e"], ["queue_s", "Queue", ""],
];
const STATS = ["p50", "p95", "p99"] as const;

/** Every quantile with its certified interval, and where the SLO draws its line. */
export function Latencies({ trial }: { trial: Trial }): ReactNode {
  const [box, width] = useWidth<HTMLDivElement>();
  const rows = NAMES.flatMap(([key, name, metric]) => {
    const summary = trial[key] as Summary;
    return STATS.map((stat, index) => ({ name: index === 0 ? name : "", stat, quantile: summary[stat], limit: limitOf(trial.slo, metric, stat), num: summary.num }))
      .filter((row) => row.quantile.value !== null);
  });
  const shown = rows;
  if (shown.length === 0) return null;
  const step = 22, top = 6, bottom = top + shown.length * step + 6, height = bottom + 40;
  const left = 118, right = width - 16;
  const values = shown.flatMap((row) => [row.quantile.value, row.quantile.low, row.quantile.high, row.limit]).filter((v): v is number => v !== null && v > 0);
  const x = logScale(values, [left + 6, Math.max(left + 12, right)], 1.1);
  return (
    <div ref={box} className="chart" style={{ height }}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label="Latency quantiles with their certified intervals; the table below has the numbers">
          <XAxis scale={x} ticks={logTicks(x, Math.max(4, (width - left) / 85))} y={bottom} top={top} show={duration} label="seconds, logarithmic" right={right} />
          {shown.map((row, index) => {
            const y = top + index * step + step / 2 + 4;
            const at = x(row.quantile.value as number);
            const [low, high] = [row.quantile.low, row.quantile.high];
            return (
              <g key={index} className="quantile">
                {row.name && index > 0 && <line x1={0} x2={right} y1={y - step / 2} y2={y - step / 2} className="rule" />}
                <text x={0} y={y + 4} className="name">{row.name}</text>
                <text x={left - 10} y={y + 4} textAnchor="end" className="dim">{row.stat}</text>
                <line x1={low === null ? left : x(low)} x2={at} y1={y} y2={y} className={low === null ? "open" : "bound"} />
                <line x1={at} x2={high === null ? right : x(high)} y1={y} y2={y} className={high === null ? "open" : "bound"} />
                <circle cx={at} cy={y} r={4} />
                {row.limit !== null && <line x1={x(row.limit)} x2={x(row.limit)} y1={y - 9} y2={y + 9} className="limit"><title>{`SLO: ${duration(row.limit)}`}</title></line>}
              </g>
            );
          })}
        </svg>
      )}
    </div>
  );
}

function limitOf(slo: Slo, metric: string, stat: string): number | null {
  return slo.targets.find((target) => target.metric === metric && target.statistic === stat)?.limit ?? null;
}
