import { useMemo, type ReactNode } from "react";
import { getJson, postJson } from "../lib/api";
import { LOAD, loadBody, machines } from "../lib/ask";
import { bytes, count, duration, share, si, significant, usd } from "../lib/format";
import { useLoad, useUrlState } from "../lib/state";
import type { HardwareComparison, HardwareFacts, PublishedPoint, Side } from "../lib/types";
import { CellBar, IntervalBar } from "../ui/bars";
import { LoadForm, useHardware } from "../ui/load-form";
import { Absent, Basis, basisOfPrice, Dash, Empty, Fault, Panel, Select, Table, TextField, Wait, WithInterval } from "../ui/parts";
import { Shell } from "../ui/shell";

const DTYPES = ["fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"];
const MOST = 8;

export default function Hardware(): ReactNode {
  const [words, set, ready] = useUrlState({ ...LOAD, on: "graviton2,graviton3,graviton4,graviton5,L40S,H100-SXM-80GB", q: "", kind: "", sort: "year", load: "closed", n: "4", stat: "mean" });
  const hardware = useHardware(ready);
  const chosen = machines(words.on);
  const devices = useMemo(() => chosen.flatMap((name) => {
    const facts = hardware.data?.find((one) => one.id.toLowerCase() === name.toLowerCase() || one.instances.includes(name));
    return facts ? [{ name, facts }] : [];
  }), [hardware.data, words.on]);
  const toggle = (id: string): void => {
    const next = chosen.includes(id) ? chosen.filter((name) => name !== id) : [...chosen, id].slice(-MOST);
    set({ on: next.join(",") });
  };
  return (
    <Shell answer={hardware.data ? <>{hardware.data.length} devices; {devices.map((one) => one.facts.name).join(", ") || "none chosen"} side by side. <Basis of="published" from="each fact with its source and date" /></> : ""}>
      {hardware.error && <Fault sentence={hardware.error} retry={hardware.reload} />}
      {hardware.isLoading && <Wait what="Reading the catalog" />}
      {hardware.data && (
        <div className="stack">
          {devices.length > 0 ? <SideBySide devices={devices} onDrop={toggle} /> : <Empty>Choose devices from the list below: up to {MOST} stand side by side.</Empty>}
          <Serving words={words} set={set} ready={ready} />
          <Published words={words} ids={devices.map((one) => one.facts.id)} />
          <Catalog all={hardware.data} words={words} set={set} chosen={chosen} onToggle={toggle} />
        </div>
      )}
    </Shell>
  );
}

interface Named { name: string; facts: HardwareFacts }

function SideBySide({ devices, onDrop }: { devices: Named[]; onDrop: (id: string) => void }): ReactNode {
  const dtypes = DTYPES.filter((dtype) => devices.some((one) => one.facts.peak_flops_per_s[dtype]));
  const top = (of: (facts: HardwareFacts) => number): number => Math.max(...devices.map((one) => of(one.facts)), 1e-9);
  const source = (facts: HardwareFacts, fact: string): string => facts.sources[fact] ?? "";
  const cell = (one: Named, value: number, show: string, of: number, fact: string, why: string): ReactNode => (
    <td key={one.name}>{value ? <><span className="num" title={source(one.facts, fact)}>{show}</span><CellBar value={value} of={of} /></> : <Absent why={why} />}</td>
  );
  return (
    <Panel title="Side by side" note={<><Basis of="published" /><span>bars compare a row; sources stand in the last row</span></>}>
      <Table label="Devices side by side" className="sides">
        <thead><tr><th scope="col"><span className="sr">Fact</span></th>{devices.map((one) => <th scope="col" key={one.name}>{one.facts.name}<button type="button" className="drop" aria-label={`Leave out ${one.name}`} onClick={() => onDrop(one.name)}>×</button></th>)}</tr></thead>
        <tbody>
          <tr><th scope="row">Year</th>{devices.map((one) => <td key={one.name}>{one.facts.year ? <span className="num">{one.facts.year}</span> : <Absent why="not published" />}</td>)}</tr>
          <tr><th scope="row">Memory</th>{devices.map((one) => cell(one, one.facts.memory_bytes, bytes(one.facts.memory_bytes), top((f) => f.memory_bytes), "memory_bytes", "the machine decides it"))}</tr>
          <tr><th scope="row">Bandwidth</th>{devices.map((one) => cell(one, one.facts.bandwidth_bytes_per_s, `${si(one.facts.bandwidth_bytes_per_s)}B/s`, top((f) => f.bandwidth_bytes_per_s), "bandwidth_bytes_per_s", "not published"))}</tr>
          {dtypes.map((dtype) => <tr key={dtype}><th scope="row">Peak {dtype}</th>{devices.map((one) => cell(one, one.facts.peak_flops_per_s[dtype] ?? 0, `${si(one.facts.peak_flops_per_s[dtype] ?? 0)}${dtype.startsWith("int") ? "OP/s" : "FLOP/s"}`, top((f) => f.peak_flops_per_s[dtype] ?? 0), "peak_flops_per_s", "the catalog has none"))}</tr>)}
          <tr><th scope="row">Cores, ISA</th>{devices.map((one) => <td key={one.name}>{one.facts.cores ? <span className="num">{one.facts.cores} cores </span> : null}<span className="mono small">{one.facts.isa.join(" ")}</span>{!one.facts.cores && one.facts.isa.length === 0 && <Dash why="a GPU is not told by them" />}</td>)}</tr>
          <tr><th scope="row">Price</th>{devices.map((one) => <td key={one.name}>{one.facts.usd_per_hour === null ? <Absent why="no list has one" /> : <><span className="num">{usd(one.facts.usd_per_hour)}/h</span>{one.facts.priced_devices > 1 && <span className="dim"> for {one.facts.priced_devices}</span>}<CellBar value={one.facts.usd_per_hour / one.facts.priced_devices} of={top((f) => (f.usd_per_hour ?? 0) / f.priced_devices)} /><Basis of={basisOfPrice(one.facts.price_basis)} from={one.facts.price_basis} /></>}</td>)}</tr>
          <tr><th scope="row">Bandwidth for $1/h</th>{devices.map((one) => {
            const per = one.facts.usd_per_hour ? one.facts.bandwidth_bytes_per_s / (one.facts.usd_per_hour / one.facts.priced_devices) : 0;
            return cell(one, per, `${si(per)}B/s`, top((f) => f.usd_per_hour ? f.bandwidth_bytes_per_s / (f.usd_per_hour / f.priced_devices) : 0), "", "no price or bandwidth");
          })}</tr>
          <tr className="sources"><th scope="row">Sources</th>{devices.map((one) => <td key={one.name}><Sources of={one.facts} /></td>)}</tr>
        </tbody>
      </Table>
    </Panel>
  );
}

function Sources({ of }: { of: HardwareFacts }): ReactNode {
  const bySource = new Map<string, string[]>();
  for (const [fact, said] of Object.entries(of.sources)) bySource.set(said, [...(bySource.get(said) ?? []), fact.replace(/_(bytes_per_s|flops_per_s|bytes|hz|w)$/, "").replaceAll("_", " ")]);
  if (bySource.size === 0) return <Absent why="none is kept" />;
  return (
    <details><summary>{bySource.size} sources</summary>
      <ul className="notes">{[...bySource].map(([said, facts]) => <li key={said}><b>{facts.join(", ")}</b>: {said}</li>)}</ul>
    </details>
  );
}

type Words = Parameters<typeof LoadForm>[0]["words"] & { q: string; kind: string; sort: string };

function Serving({ words, set, ready }: { words: Words; set: (change: Partial<Words>) => void; ready: boolean }): ReactNode {
  const body = loadBody(words);
  const on = machines(words.on);
  const found = useLoad(ready && on.length > 0 && words.model ? JSON.stringify(body) : null, (signal) => postJson<HardwareComparison>("/api/compare_hardware", body, signal), 150);
  const spans = useMemo(() => found.data ? FIGURES.map((figure) => spanOf(found.data?.sides ?? [], figure)) : [], [found.data]);
  const level = found.data?.sides.flatMap((side) => Object.values(side.interval))[0]?.level;
  return (
    <Panel title={`Serving ${words.model}, each at its best`} note={<><Basis of="predicted" />{level !== undefined && <span>bars: the value in its {share(level)} interval, one logarithmic scale a column</span>}</>}>
      <details className="inline-form"><summary>Model, load and SLO</summary><LoadForm words={words} set={set} /></details>
      {found.error && <Fault sentence={found.error} retry={found.reload} />}
      {found.isLoading && !found.data && <Wait what="Predicting each" />}
      {found.data && <>
        <p>{found.data.summary}</p>
        <Table label="Serving side by side" className={found.isLoading ? "stale" : ""}>
          <thead><tr><th scope="col">On</th><th scope="col" className="opt">At its best</th><th scope="col" className="r">TTFT mean</th><th scope="col" className="r">TPOT mean</th><th scope="col" className="r">Output tokens/s</th><th scope="col" className="r">$ / M output</th><th scope="col">Bound</th><th scope="col">SLO</th><th scope="col">Price</th></tr></thead>
          <tbody>
            {found.data.sides.map((side, index) => (
              <tr key={side.hardware} className={index === found.data?.best ? "on" : ""}>
                <td><b>{side.hardware}</b>{index === found.data?.best && <span className="tag">cheapest</span>}</td>
                {side.deployment ? <>
                  <td className="mono opt">{`TP${side.deployment.tensor_parallel} ${side.deployment.weight_quant === "checkpoint" ? "as stored" : side.deployment.weight_quant}, KV ${side.deployment.kv_cache_dtype}`}</td>
                  {FIGURES.map((figure, column) => <td key={figure.name} className="r"><Predicted side={side} figure={figure} span={spans[column]} /></td>)}
                  <td className="r">{side.cost ? <b className="num">{usd(side.cost.usd_per_mtok_output)}</b> : <Dash why="no price is known" />}</td>
                  <td className="dim">{side.bound}</td>
                  <td>{side.meets_slo === null ? <Dash why="no SLO was given" /> : <span className={`verdict ${side.meets_slo ? "pass" : "fail"}`}><i aria-hidden="true" />{side.meets_slo ? "kept" : "missed"}</span>}</td>
                  <td>{side.usd_per_hour === null ? <Absent why="no list has one" /> : <span title={side.price_basis} className="num">{usd(side.usd_per_hour)}/h</span>}</td>
                </> : <td colSpan={8} className="wrap"><Absent why={side.reason} /></td>}
              </tr>
            ))}
          </tbody>
        </Table>
      </>}
    </Panel>
  );
}

interface Figure { name: string; of: (side: Side) => number | null | undefined; show: (value: number) => string; why: string }

const FIGURES: Figure[] = [
  { name: "ttft_s", of: (side) => side.latency?.ttft_s.mean, show: duration, why: "unbounded: more load than capacity" },
  { name: "tpot_s", of: (side) => side.latency?.tpot_s.mean, show: duration, why: "unbounded: more load than capacity" },
  { name: "output_tokens_per_s", of: (side) => side.throughput?.output_tokens_per_s, show: (value) => significant(value), why: "not computed" },
];

/** From the lowest to the highest that a column's intervals reach. */
function spanOf(sides: Side[], { name, of }: Figure): [number, number] {
  const ends = sides.flatMap((side) => [of(side), side.interval[name]?.low, side.interval[name]?.high]);
  const known = ends.filter((end): end is number => typeof end === "number" && end > 0);
  return [Math.min(...known), Math.max(...known)];
}

function Predicted({ side, figure, span }: { side: Side; figure: Figure; span: [number, number] }): ReactNode {
  const value = figure.of(side);
  const interval = side.interval[figure.name];
  if (value == null) return <Dash why={figure.why} />;
  return <><WithInterval value={value} interval={interval} show={figure.show} />{interval && <IntervalBar value={value} interval={interval} low={span[0]} high={span[1]} />}</>;
}

const SHOWN = 12;

/** What others measured of this model on these devices, the most similar load first. */
function Published({ words, ids }: { words: Words; ids: string[] }): ReactNode {
  const found = useLoad(words.model ? words.model : null, (signal) => getJson<{ points: PublishedPoint[]; reason: string }>(`/api/published?model=${encodeURIComponent(words.model)}`, signal));
  const asked = { prompt: Number(words.isl), output: Number(words.osl), inFlight: Number(words.n) };
  const off = (one: PublishedPoint): number => Math.abs(Math.log(one.prompt_tokens / asked.prompt)) + Math.abs(Math.log(one.output_tokens / asked.output)) + (one.concurrency ? Math.abs(Math.log(one.concurrency / asked.inFlight)) : 1);
  const rows = (found.data?.points ?? []).filter((one) => ids.includes(one.hardware)).sort((a, b) => off(a) - off(b));
  const stat = (value: number | null, of: string): ReactNode => value === null ? <Dash why="its source does not give it" /> : <span className="num">{duration(value)} <span className="dim">{of}</span></span>;
  return (
    <Panel title={`Measured by others: ${words.model}`} note={<><Basis of="published" />{rows.length > 0 && <span>{Math.min(SHOWN, rows.length)} of {rows.length}, the most similar load first</span>}</>}>
      {found.error && <Fault sentence={found.error} retry={found.reload} />}
      {found.isLoading && !found.data && <Wait what="Looking up what is published" />}
      {found.data && rows.length === 0 && <Empty>{found.data.reason || `No measurement of ${words.model} on the devices chosen is published in what this package holds; it holds ${found.data.points.length} on other devices.`}</Empty>}
      {rows.length > 0 && (
        <Table label="Published measurements">
          <thead><tr><th scope="col">On</th><th scope="col" className="opt">Engine</th><th scope="col" className="r">Tokens in, out</th><th scope="col" className="r">In flight</th><th scope="col" className="r">TTFT</th><th scope="col" className="r">TPOT</th><th scope="col" className="r">Output tokens/s</th><th scope="col">Source</th></tr></thead>
          <tbody>
            {rows.slice(0, SHOWN).map((one) => (
              <tr key={one.id}>
                <td className="flow"><b>{one.num_devices > 1 && `${one.num_devices} × `}{one.hardware}</b>{one.model !== words.model && <span className="dim"> {one.model}</span>}</td>
                <td className="opt">{one.engine} {one.engine_version}</td>
                <td className="r num">{count(one.prompt_tokens)}, {count(one.output_tokens)}</td>
                <td className="r">{one.concurrency === null ? <Dash why="an open load" /> : <span className="num">{one.concurrency}</span>}</td>
                <td className="r">{stat(one.ttft_s, one.ttft_stat)}</td><td className="r">{stat(one.tpot_s, one.tpot_stat)}</td>
                <td className="r">{one.output_tokens_per_s === null ? <Dash why="its source does not give it" /> : <span className="num">{significant(one.output_tokens_per_s)}</span>}</td>
                <td className="small dim wrap">{one.source}{one.year && `, ${one.year}`}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </Panel>
  );
}

function Catalog({ all, words, set, chosen, onToggle }: {
  all: HardwareFacts[]; words: Words; set: (change: Partial<Words>) => void; chosen: string[]; onToggle: (id: string) => void;
}): ReactNode {
  const wanted = words.q.trim().toLowerCase();
  const rows = all.filter((one) => (!words.kind || one.kind === words.kind)
    && (!wanted || [one.id, one.name, one.vendor, ...one.instances].some((text) => text.toLowerCase().includes(wanted))));
  const keys: Record<string, (one: HardwareFacts) => number> = {
    year: (one) => -one.year, bandwidth: (one) => -one.bandwidth_bytes_per_s, memory: (one) => -one.memory_bytes,
    price: (one) => one.usd_per_hour === null ? Infinity : one.usd_per_hour / one.priced_devices,
  };
  rows.sort((a, b) => keys[words.sort](a) - keys[words.sort](b) || a.id.localeCompare(b.id));
  const widest = Math.max(...all.map((one) => one.bandwidth_bytes_per_s));
  return (
    <Panel title="Catalog" note={<><Basis of="published" /><span>{rows.length} of {all.length}</span></>}>
      <div className="bar">
        <TextField label="Find" value={words.q} placeholder="graviton, c8g.4xlarge, H100…" onChange={(q) => set({ q })} />
        <Select label="Kind" value={words.kind} onChange={(kind) => set({ kind })} options={[["", "all"], ...[...new Set(all.map((one) => one.kind))].sort().map((kind): [string, string] => [kind, kind])]} />
        <Select label="Order" value={words.sort} onChange={(sort) => set({ sort })} options={[["year", "newest first"], ["bandwidth", "bandwidth"], ["memory", "memory"], ["price", "price"]]} />
      </div>
      {rows.length === 0 ? <Empty>Nothing in the catalog is called that; a device of your own goes into a YAML file, see docs/catalog.md.</Empty> : (
        <Table label="Hardware catalog" className="tall">
          <thead><tr><th scope="col">Device</th><th scope="col" className="opt">Kind</th><th scope="col" className="r opt">Year</th><th scope="col" className="r">Memory</th><th scope="col" className="r">Bandwidth</th><th scope="col" className="r">Peak 16 bit</th><th scope="col" className="r">Price of one</th><th scope="col">Price source</th></tr></thead>
          <tbody>
            {rows.map((one) => {
              const peak = one.peak_flops_per_s.bf16 ?? one.peak_flops_per_s.fp16;
              return (
                <tr key={one.id} className={chosen.includes(one.id) ? "on" : ""}>
                  <td className="flow"><button type="button" className="link" aria-pressed={chosen.includes(one.id)} onClick={() => onToggle(one.id)}>{one.name}</button> <span className="mono dim">{one.id}</span></td>
                  <td className="dim opt">{one.kind}</td>
                  <td className="r num opt">{one.year || <Dash why="not published" />}</td>
                  <td className="r">{one.memory_bytes ? <span className="num">{bytes(one.memory_bytes)}</span> : <Dash why="the machine decides it" />}</td>
                  <td className="r">{one.bandwidth_bytes_per_s ? <><span className="num">{si(one.bandwidth_bytes_per_s)}B/s</span><CellBar value={one.bandwidth_bytes_per_s} of={widest} /></> : <Dash why="not published" />}</td>
                  <td className="r">{peak ? <span className="num">{si(peak)}FLOP/s</span> : <Dash why="not published" />}</td>
                  <td className="r">{one.usd_per_hour === null ? <Dash why="no list has one" /> : <span className="num">{usd(one.usd_per_hour / one.priced_devices)}/h</span>}</td>
                  <td className="small dim wrap">{one.price_basis.replace(/^published, /, "")}</td>
                </tr>
              );
            })}
          </tbody>
        </Table>
      )}
    </Panel>
  );
}
