import { useId, type ReactNode } from "react";
import type { Basis as BasisName, Interval, Quantile } from "../lib/types";
import { plain, significant } from "../lib/format";

const BASIS_WORDS: Record<BasisName, string> = {
  measured: "Measured here, by a trial in a ledger",
  predicted: "Predicted from data sheets: not measured",
  published: "Published by somebody else",
  given: "Given by you",
};

/** The mark that stands for a basis wherever one is drawn. */
export function Mark({ basis, size = 9 }: { basis: BasisName; size?: number }): ReactNode {
  const c = size / 2;
  return (
    <svg className={`mark ${basis}`} width={size} height={size} aria-hidden="true" focusable="false">
      {basis === "measured" && <circle cx={c} cy={c} r={c - 0.5} />}
      {basis === "predicted" && <path d={`M${c} .8 L${size - 0.8} ${c} L${c} ${size - 0.8} L.8 ${c}Z`} />}
      {basis === "published" && <rect x={1.2} y={1.2} width={size - 2.4} height={size - 2.4} />}
      {basis === "given" && <path d={`M${c} 1 V${size - 1} M1 ${c} H${size - 1}`} />}
    </svg>
  );
}

/** Where a number is from, with source and date where there are some. */
export function Basis({ of, from = "" }: { of: BasisName; from?: string }): ReactNode {
  const rest = from.replace(/^(published|measured|predicted|given),?\s*/, "");
  return (
    <span className={`basis ${of}`} title={`${BASIS_WORDS[of]}${rest ? `: ${rest}` : ""}`}>
      <span className="what"><Mark basis={of} />{of}</span>{rest && <span className="src">{rest}</span>}
    </span>
  );
}

export const basisOfPrice = (price: string): BasisName =>
  price.startsWith("published") ? "published" : "given";

/** What is not known, and why; never a zero. */
export function Absent({ why }: { why: string }): ReactNode {
  return <span className="absent"><span aria-hidden="true">–</span> <span className="why">{why}</span></span>;
}

/** A dash in a dense table, whose reason stands beside or is spoken. */
export function Dash({ why }: { why: string }): ReactNode {
  return <span className="absent" title={why}><span aria-hidden="true">–</span><span className="sr">{why}</span></span>;
}

export function Range({ low, high, show }: {
  low: number | null; high: number | null; show: (value: number) => string;
}): ReactNode {
  if (low === null && high === null) return null;
  return (
    <span className="range">
      {low === null ? "…" : show(low)}<span aria-hidden="true"> – </span><span className="sr"> to </span>
      {high === null ? <span title="not bounded from above by so few requests">…<span className="sr">unbounded</span></span> : show(high)}
    </span>
  );
}

export function Quant({ of, show, why }: {
  of: Quantile; show: (value: number) => string; why: string;
}): ReactNode {
  if (of.value === null) return <Dash why={why} />;
  return <span className="num">{show(of.value)} <Range low={of.low} high={of.high} show={show} /></span>;
}

export function WithInterval({ value, interval, show }: {
  value: number; interval?: Interval; show: (value: number) => string;
}): ReactNode {
  return (
    <span className="num">{show(value)} {interval &&
      <Range low={interval.low} high={interval.high} show={show} />}</span>
  );
}

export function VerdictTag({ of }: { of: string }): ReactNode {
  return <span className={`verdict ${of.toLowerCase()}`}><i aria-hidden="true" />{of}</span>;
}

export function Field({ label, hint, children, htmlFor }: {
  label: string; hint?: string; children: ReactNode; htmlFor?: string;
}): ReactNode {
  return (
    <div className="field">
      <label htmlFor={htmlFor}>{label}{hint && <span className="hint">{hint}</span>}</label>
      {children}
    </div>
  );
}

export function TextField({ label, hint, value, onChange, list, mono, placeholder, inputMode }: {
  label: string; hint?: string; value: string; onChange: (value: string) => void; list?: string[];
  mono?: boolean; placeholder?: string; inputMode?: "decimal";
}): ReactNode {
  const id = useId();
  return (
    <Field label={label} hint={hint} htmlFor={id}>
      <input id={id} type="text" value={value} className={mono ? "mono" : ""} spellCheck={false}
        autoComplete="off" placeholder={placeholder} inputMode={inputMode}
        list={list ? `${id}-list` : undefined} onChange={(event) => onChange(event.target.value)} />
      {list && <datalist id={`${id}-list`}>{list.map((item) => <option key={item} value={item} />)}</datalist>}
    </Field>
  );
}

export function Select({ label, hint, value, onChange, options }: {
  label: string; hint?: string; value: string; onChange: (value: string) => void;
  options: [string, string][];
}): ReactNode {
  const id = useId();
  return (
    <Field label={label} hint={hint} htmlFor={id}>
      <select id={id} value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([key, said]) => <option key={key} value={key}>{said}</option>)}
      </select>
    </Field>
  );
}

/** A slider over powers, so that 1 and 10,000 are both within reach. */
export function LogSlider({ label, value, low, high, unit, show, onChange, steps = 200 }: {
  label: string; value: number; low: number; high: number; unit?: string;
  show?: (value: number) => string; onChange: (value: number) => void; steps?: number;
}): ReactNode {
  const id = useId();
  const span = Math.log(high / low);
  const at = Math.round((Math.log(Math.min(high, Math.max(low, value)) / low) / span) * steps);
  const said = plain(show ? show(value) : `${significant(value)}${unit ? ` ${unit}` : ""}`);
  const of = (position: number): number => tidy(low * Math.exp((position / steps) * span));
  return (
    <Field label={label} htmlFor={id}>
      <output htmlFor={id} className="num">{said}</output>
      <input id={id} type="range" min={0} max={steps} value={at} aria-valuetext={said}
        style={{ "--at": `${(at / steps) * 100}%` } as React.CSSProperties}
        onChange={(event) => onChange(of(Number(event.target.value)))} />
    </Field>
  );
}

/** Two digits: a slider's number is a choice, not a measurement. */
export function tidy(value: number): number {
  return Number(value.toPrecision(2));
}

export function Table({ label, children, className = "" }: {
  label: string; children: ReactNode; className?: string;
}): ReactNode {
  return (
    <div className={`scroll ${className}`} role="group" aria-label={label} tabIndex={0}>
      <table>{children}</table>
    </div>
  );
}

export function Panel({ title, note, children, className = "", id }: {
  title: ReactNode; note?: ReactNode; children: ReactNode; className?: string; id?: string;
}): ReactNode {
  const heading = useId();
  return (
    <section className={`panel ${className}`} aria-labelledby={heading} id={id}>
      <header><h2 id={heading}>{title}</h2>{note && <div className="note">{note}</div>}</header>
      {children}
    </section>
  );
}

/** Loading, failed, or nothing: each says what it is. */
export function Wait({ what }: { what: string }): ReactNode {
  return <p className="state" role="status"><span className="pulse" aria-hidden="true" />{what}</p>;
}

export function Fault({ sentence, retry }: { sentence: string; retry?: () => void }): ReactNode {
  return (
    <p className="state fault" role="alert">{sentence}
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </p>
  );
}

export function Empty({ children }: { children: ReactNode }): ReactNode {
  return <p className="state">{children}</p>;
}

export function Facts({ rows }: { rows: [string, ReactNode][] }): ReactNode {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
    </dl>
  );
}

export function Code({ text, label }: { text: string; label: string }): ReactNode {
  return <pre className="code" tabIndex={0} role="group" aria-label={label}><code>{text}</code></pre>;
}
