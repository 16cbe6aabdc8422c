import { useId, useState, type ReactNode } from "react";
import { getJson } from "../lib/api";
import { machines, type LoadWords } from "../lib/ask";
import { count, duration } from "../lib/format";
import { once, useLoad } from "../lib/state";
import type { HardwareFacts, ModelFacts } from "../lib/types";
import { Field, LogSlider, Select, TextField } from "./parts";

export function useHardware(isWanted = true) {
  return useLoad(isWanted ? "hardware" : null, () => once("hardware", async () =>
    (await getJson<{ hardware: HardwareFacts[] }>("/api/hardware")).hardware));
}

export function useModels(isWanted = true) {
  return useLoad(isWanted ? "models" : null, () => once("models", async () =>
    (await getJson<{ models: ModelFacts[] }>("/api/models")).models));
}

export function LoadForm({ words, set, hasSlo = true, children }: {
  words: LoadWords; set: (change: Partial<LoadWords>) => void; hasSlo?: boolean;
  children?: ReactNode;
}): ReactNode {
  const [isNear, setNear] = useState(false); // lists are fetched when somebody reaches for them
  const models = useModels(isNear);
  const hardware = useHardware(isNear);
  const number = (key: keyof LoadWords) => (value: number): void => set({ [key]: String(value) });
  return (
    <form className="form" onSubmit={(event) => event.preventDefault()}
      onFocus={() => setNear(true)} onPointerEnter={() => setNear(true)} aria-label="What is asked">
      <Deferred key={words.model} label="Model" value={words.model} mono
        list={models.data?.map((model) => model.id)} onSettle={(model) => set({ model })} />
      <Machines value={words.on} hardware={hardware.data} onChange={(on) => set({ on })} />
      <LogSlider label="Prompt tokens" value={Number(words.isl)} low={16} high={131072} show={count} onChange={number("isl")} />
      <LogSlider label="Output tokens" value={Number(words.osl)} low={1} high={16384} show={count} onChange={number("osl")} />
      <Select label="Load" value={words.load} onChange={(load) => set({ load })}
        options={[["closed", "requests in flight"], ["open", "requests per second"]]} />
      {words.load === "open"
        ? <LogSlider label="Arrival rate" value={Number(words.rate)} low={0.01} high={1000} unit="/s" onChange={number("rate")} />
        : <LogSlider label="In flight" value={Number(words.n)} low={1} high={1024} show={(n) => String(Math.round(n))} onChange={(n) => set({ n: String(Math.max(1, Math.round(n))) })} />}
      {hasSlo && (
        <>
          <LogSlider label={`TTFT ${words.stat}, at most`} value={Number(words.ttft)} low={0.02} high={120} show={duration} onChange={number("ttft")} />
          <LogSlider label={`TPOT ${words.stat}, at most`} value={Number(words.tpot)} low={0.002} high={2} show={duration} onChange={number("tpot")} />
          <Select label="SLO holds for" value={words.stat} onChange={(stat) => set({ stat })}
            options={[["mean", "the mean"], ["p50", "the median"], ["p95", "95 % of requests"], ["p99", "99 % of requests"]]} />
        </>
      )}
      {children}
    </form>
  );
}

/** A text that counts when it is left or Enter is pressed, not at every letter. */
export function Deferred({ label, hint, value, onSettle, list, mono, placeholder }: {
  label: string; hint?: string; value: string; onSettle: (value: string) => void; list?: string[];
  mono?: boolean; placeholder?: string;
}): ReactNode {
  const [text, setText] = useState(value);
  const settle = (now: string): void => {
    if (now.trim() !== value) onSettle(now.trim());
  };
  return (
    <div className="deferred" onBlur={() => settle(text)}
      onKeyDown={(event) => event.key === "Enter" && settle(text)}>
      <TextField label={label} hint={hint} value={text} list={list} mono={mono} placeholder={placeholder}
        onChange={(now) => {
          setText(now);
          if (list?.includes(now)) settle(now); // chosen from the list
        }} />
    </div>
  );
}

export function Machines({ value, hardware, onChange, label = "Machines" }: {
  value: string; hardware: HardwareFacts[] | null; onChange: (on: string) => void; label?: string;
}): ReactNode {
  const id = useId();
  const [text, setText] = useState("");
  const chosen = machines(value);
  const known = hardware?.flatMap((item) => [item.id, ...item.instances]) ?? [];
  const add = (name: string): void => {
    const clean = name.trim().replace(/,$/, "");
    setText("");
    if (clean && !chosen.includes(clean)) onChange([...chosen, clean].join(","));
  };
  return (
    <Field label={label} htmlFor={id}>
      <div className="chips">
        {chosen.map((name) => (
          <button key={name} type="button" className="chip mono" aria-label={`Leave out ${name}`}
            onClick={() => onChange(chosen.filter((other) => other !== name).join(","))}>
            {name}<span aria-hidden="true">×</span>
          </button>
        ))}
        <input id={id} className="mono" type="text" value={text} placeholder="add…" list={`${id}-list`}
          spellCheck={false} autoComplete="off"
          onChange={(event) => known.includes(event.target.value) ? add(event.target.value) : setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" || event.key === ",") {
              event.preventDefault();
              add(text);
            } else if (event.key === "Backspace" && !text && chosen.length) {
              onChange(chosen.slice(0, -1).join(","));
            }
          }} onBlur={() => add(text)} />
        <datalist id={`${id}-list`}>{known.slice(0, 1500).map((name) => <option key={name} value={name} />)}</datalist>
      </div>
    </Field>
  );
}
