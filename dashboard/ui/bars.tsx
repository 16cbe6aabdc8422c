import type { ReactNode } from "react";
import type { Interval } from "../lib/types";

export interface Part { name: string; value: number; shade?: number }

/** Parts of a whole as one bar, each named beneath: read without seeing colours. */
export function StackedBar({ parts, total, show, label }: {
  parts: Part[]; total?: number; show: (value: number) => string; label: string;
}): ReactNode {
  const whole = total ?? parts.reduce((sum, part) => sum + part.value, 0);
  if (whole <= 0) return null;
  return (
    <figure className="stacked" aria-label={label}>
      <div className="track" aria-hidden="true">
        {parts.map((part, index) => (
          <i key={part.name} style={{ width: `${(part.value / whole) * 100}%` }} className={`s${(part.shade ?? index) % 7}`} title={`${part.name}: ${show(part.value)}`} />
        ))}
      </div>
      <ul>
        {parts.map((part, index) => (
          <li key={part.name}><i aria-hidden="true" className={`s${(part.shade ?? index) % 7}`} />{part.name} <span className="num">{show(part.value)}</span></li>
        ))}
      </ul>
    </figure>
  );
}

/** One horizontal bar in a table's cell; the number stands beside it. */
export function CellBar({ value, of }: { value: number; of: number }): ReactNode {
  return <span className="cellbar" aria-hidden="true"><i style={{ width: `${Math.min(100, (value / of) * 100)}%` }} /></span>;
}

/** A value in its interval, on the logarithmic scale that its column shares; the numbers stand above. */
export function IntervalBar({ value, interval, low, high }: {
  value: number; interval: Interval; low: number; high: number;
}): ReactNode {
  const at = (x: number): number => high <= low ? 50 : 100 * Math.log(Math.min(high, Math.max(low, x)) / low) / Math.log(high / low);
  const [from, to] = [at(interval.low), at(interval.high)];
  return (
    <span className="intervalbar" aria-hidden="true">
      <i style={{ left: `${from}%`, width: `${Math.max(1, to - from)}%` }} /><b style={{ left: `${at(value)}%` }} />
    </span>
  );
}
