import type { ReactNode } from "react";
import { significant } from "../lib/format";
import type { Candidate, Standing, TrialRow } from "../lib/types";
import { logScale, logTicks, useWidth, XAxis } from "./axes";

export const showKnobs = (candidate: Candidate): string =>
  Object.entries(candidate.knobs).sort().map(([key, value]) => `${key}=${value}`).join(" ") || "engine defaults";

const ROW = 46;

/** Which rates each candidate was asked to hold, and between which two its limit lies. */
export function Ladder({ standings, trials }: { standings: Standing[]; trials: TrialRow[] }): ReactNode {
  const [box, width] = useWidth<HTMLDivElement>();
  const rows = standings.map((standing, index) => ({
    standing, trials: trials.filter((trial) => trial.candidate === index),
  })).filter((row) => row.trials.length > 0);
  if (rows.length === 0) return null;
  const top = 8, bottom = top + rows.length * ROW, height = bottom + 40;
  const [left, right] = [4, width - 12];
  const rates = rows.flatMap((row) => [
    ...row.trials.map((trial) => trial.rate_rps), row.standing.capacity.certified_rps ?? 0, row.standing.capacity.refuted_rps ?? 0,
    row.standing.candidate.predicted_rps ?? 0,
  ]);
  const x = logScale(rates, [left + 14, Math.max(left + 20, right - 14)], 1.15);
  return (
    <div ref={box} className="chart" style={{ height }}>
      {width > 0 && (
        <svg width={width} height={height} role="img" aria-label="Rates that each candidate was loaded with, by verdict, and the bracket of its limit; the tables below have the same numbers">
          <XAxis scale={x} ticks={logTicks(x, Math.max(4, width / 90))} y={bottom} top={top} show={(v) => significant(v, 2)} label="requests per second" right={right} />
          {rows.map(({ standing, trials: of }, index) => {
            const y = top + index * ROW + 31;
            const { low_rps: low, high_rps: high, certified_rps: certified, refuted_rps: refuted } = standing.capacity;
            return (
              <g key={index} className={`rung ${standing.state}`}>
                <text x={left} y={y - 17} className="name">{showKnobs(standing.candidate)} <tspan className="dim">{standing.state}</tspan></text>
                <line x1={left} x2={right} y1={y} y2={y} className="base" />
                {low !== null && high !== null && <rect x={x(low)} width={Math.max(2, x(high) - x(low))} y={y - 3} height={6} className="bracket"><title>{`its limit lies between ${significant(low)} and ${significant(high)} requests/s, by what it looked like`}</title></rect>}
                {certified !== null && <line x1={x(certified)} x2={x(certified)} y1={y - 10} y2={y + 10} className="certified"><title>{`certified ${significant(certified)} requests/s`}</title></line>}
                {refuted !== null && <line x1={x(refuted)} x2={x(refuted)} y1={y - 10} y2={y + 10} className="refuted"><title>{`disproven at ${significant(refuted)} requests/s`}</title></line>}
                {standing.candidate.predicted_rps !== null && <path d={`M${x(standing.candidate.predicted_rps)} ${y - 5} l5 5 l-5 5 l-5 -5Z`} className="predicted"><title>{`predicted ${significant(standing.candidate.predicted_rps)} requests/s`}</title></path>}
                {of.map((trial) => <Dot key={trial.number} trial={trial} x={x(trial.rate_rps)} y={y} />)}
              </g>
            );
          })}
        </svg>
      )}
    </div>
  );
}

function Dot({ trial, x, y }: { trial: TrialRow; x: number; y: number }): ReactNode {
  const title = <title>{`#${trial.number} ${trial.purpose} at ${significant(trial.rate_rps)}/s: ${trial.verdict}`}</title>;
  if (trial.verdict === "PASS") return <circle cx={x} cy={y} r={4.5} className="pass">{title}</circle>;
  if (trial.verdict === "FAIL") return <path d={`M${x - 4} ${y - 4} l8 8 M${x + 4} ${y - 4} l-8 8`} className="fail">{title}</path>;
  return <circle cx={x} cy={y} r={4} className={trial.verdict.toLowerCase()}>{title}</circle>;
}
