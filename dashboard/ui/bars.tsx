import type { ReactNode } from "react";

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
