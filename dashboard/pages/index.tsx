import Link from "next/link";
import { useMemo, useState, type ReactNode } from "react";
import { getJson, postJson, runPath } from "../lib/api";
import { formFault, LOAD, loadBody } from "../lib/ask";
import { count, duration, leaf, share, short, significant, usd, when } from "../lib/format";
import {
  measuredPoints, predictedPoints, publishedPoints, reasons, type Axes, type Point, type XName, type YName,
} from "../lib/points";
import { useLoad, useUrlState } from "../lib/state";
import type { Basis as BasisName, Plan, PublishedPoint, RunView } from "../lib/types";
import { LoadForm, useHardware } from "../ui/load-form";
import {
  Absent, Basis, basisOfPrice, Code, Dash, Empty, Facts, Fault, Mark, Panel, Range, Select, Table, TextField, VerdictTag, Wait,
} from "../ui/parts";
import { useRuns } from "../ui/runs";
import { Scatter } from "../ui/scatter";
import { Shell } from "../ui/shell";

const X: Record<XName, string> = {
  ttft_p95: "TTFT, p95", ttft_p50: "TTFT, median", ttft_mean: "TTFT, mean",
  tpot_p95: "TPOT, p95", tpot_p50: "TPOT, median", tpot_mean: "TPOT, mean",
};
const Y: Record<YName, string> = { usd: "$ per million output tokens", tokens: "output tokens/s" };
const BASES: BasisName[] = ["measured", "predicted", "published"];
const LISTED = 20;

export default function Pareto(): ReactNode {
  const [words, set, ready] = useUrlState({
    ...LOAD, x: "ttft_p95", y: "usd", price: "", run: "", show: BASES.join(","), point: "", pub: "model", max: "1000",
  });
  const axes: Axes = { x: words.x as XName, y: words.y as YName };
  const shownBases = words.show.split(",");
  const body = loadBody(words, true);
  const fault = formFault(words);
  const plan = useLoad(ready && !fault ? JSON.stringify(body) : null,
    (signal) => postJson<Plan>("/api/plan", body, signal), 150);
  const runs = useRuns();
  const wanted = runs.data?.filter((run) => run.status !== "broken" && run.num_trials > 0
    && (words.run ? run.id === words.run : run.kind === "tune")).slice(0, 8).map((run) => run.id);
  const views = useLoad(ready && wanted ? wanted.join("\n") : null, (signal) =>
    Promise.all((wanted ?? []).map((id) => getJson<RunView>(runPath(id), signal))));
  const published = useLoad(ready && shownBases.includes("published") ? `${words.pub}${words.pub === "model" ? words.model : ""}${words.max}` : null, (signal) => {
    const model = words.pub === "model" ? `&model=${encodeURIComponent(leaf(words.model).split("/").pop() ?? "")}` : "";
    return getJson<{ points: PublishedPoint[]; num_matching: number; reason: string }>(
      `/api/published?limit=${Number(words.max) || 1000}${model}`, signal);
  });
  const hardware = useHardware(shownBases.includes("published") && (published.data?.points.length ?? 0) > 0);

  const price = words.price === "" ? null : Number(words.price);
  const usdPerHour = price !== null && price > 0 ? price : null;
  const all = useMemo(() => [
    ...(views.data ?? []).flatMap((view) => measuredPoints(view, axes, { usdPerHour })),
    ...(plan.data ? predictedPoints(plan.data, axes) : []),
    // not before the prices are there: a point is not to be called unpriced meanwhile
    ...publishedPoints(hardware.data || hardware.error ? published.data?.points ?? [] : [], hardware.data ?? [], axes),
  ], [views.data, plan.data, published.data, hardware.data, hardware.error, axes.x, axes.y, usdPerHour]);
  const points = useMemo(() => all.filter((point) => words.show.split(",").includes(point.basis)), [all, words.show]);
  const selected = points.find((point) => point.id === words.point) ?? null;
  const models = [...new Set(points.filter((point) => point.x !== null).map((point) => leaf(point.model)))];
  const yShow = axes.y === "usd" ? usd : (value: number): string => significant(value);
  const isBusy = plan.isLoading || views.isLoading || published.isLoading || hardware.isLoading;

  return (
    <Shell answer={plan.data ? <>{plan.data.summary} <Basis of="predicted" /></> : plan.isLoading ? "…" : ""}>
      <div className="split">
        <LoadForm words={words} set={set} />
        <div className="stack">
          <div className="bar">
            <Select label="Across" value={words.x} onChange={(x) => set({ x })} options={Object.entries(X)} />
            <Select label="Up" value={words.y} onChange={(y) => set({ y })} options={Object.entries(Y)} />
            <Select label="Measured by" value={words.run} onChange={(run) => set({ run })}
              options={[["", "all campaigns"], ...(runs.data ?? []).filter((run) => run.num_trials > 0).map((run): [string, string] => [run.id, run.id])]} />
            <Select label="Published" value={words.pub} onChange={(pub) => set({ pub })}
              options={[["model", "of this model"], ["all", "of all models"]]} />
            <TextField label="Price of the measured host" hint="$/h" value={words.price} inputMode="decimal"
              placeholder="not known" onChange={(value) => set({ price: value.replace(/[^0-9.]/g, "") })} />
          </div>
          <div className="legend" role="group" aria-label="Which points are drawn">
            {BASES.map((basis) => {
              const of = all.filter((point) => point.basis === basis);
              const drawn = of.filter((point) => point.x !== null && point.y !== null).length;
              const isOn = shownBases.includes(basis);
              return (
                <button key={basis} type="button" aria-pressed={isOn} className={`basis ${basis}`}
                  onClick={() => set({ show: BASES.filter((one) => (one === basis) !== shownBases.includes(one)).join(",") })}>
                  <Mark basis={basis} size={11} />{basis}<span className="num">{drawn}{drawn < of.length && ` of ${of.length}`}</span>
                </button>
              );
            })}
            <span className="small">Filled: PASS. Hollow circle: not proven. Faint: fails or misses the SLO. Lines: the front of one run or model.</span>
            {isBusy && <span className="state" role="status"><span className="pulse" aria-hidden="true" />asking</span>}
          </div>
          {fault && <Fault sentence={fault} />}
          {plan.error && <Fault sentence={plan.error} retry={plan.reload} />}
          {(views.error || runs.error) && <Fault sentence={views.error || runs.error} retry={views.error ? views.reload : runs.reload} />}
          {points.some((point) => point.x !== null) ? (
            <Scatter points={points} selected={words.point} onSelect={(point) => set({ point })}
              xLabel={X[axes.x]} yLabel={Y[axes.y]} xShow={duration} yShow={yShow} higherIsBetter={axes.y === "tokens"}
              missing={axes.y === "usd" ? "no price is known" : "no throughput is known"} />
          ) : isBusy || !ready ? <Wait what="Planning and reading the runs" /> : <Empty>Nothing to draw: no point has this latency. Choose another one across, other machines, or turn a kind of point on.</Empty>}
          <Notes points={points} models={models} published={published.data?.reason ?? ""}
            hasMeasured={shownBases.includes("measured") && (runs.data?.length ?? 0) === 0 && !runs.isLoading} />
          {selected && <Chosen point={selected} axes={axes} onClose={() => set({ point: "" })} />}
          <List points={points} axes={axes} selected={words.point} onSelect={(point) => set({ point })} />
        </div>
      </div>
    </Shell>
  );
}

function Notes({ points, models, published, hasMeasured }: {
  points: Point[]; models: string[]; published: string; hasMeasured: boolean;
}): ReactNode {
  const missing = BASES.flatMap((basis) => reasons(points.filter((point) => point.basis === basis))
    .map(([why, num]): [string, string] => [`${num} ${basis}`, why]));
  return (
    <ul className="notes">
      {models.length > 1 && <li className="warn">The points are of {models.slice(0, 4).join(", ")}{models.length > 4 && ` and ${models.length - 4} more models`}: compare within one model and load.</li>}
      {missing.map(([what, why]) => <li key={what + why}><b>{what}</b> {why.startsWith("no price") ? "above the chart, or left out" : "left out"}: {why}.</li>)}
      {published && <li><b>0 published</b>: {published}.</li>}
      {hasMeasured && <li><b>0 measured</b>: no run folder is served here; <code>neoserve tune</code> makes one.</li>}
    </ul>
  );
}

function show(point: Point, axes: Axes): [ReactNode, ReactNode] {
  const yShow = axes.y === "usd" ? usd : (value: number): string => significant(value);
  return [
    point.x === null ? <Dash why={point.xWhy} /> : <span className="num">{duration(point.x)} <Range low={point.xLow} high={point.xHigh} show={duration} /></span>,
    point.y === null || !Number.isFinite(point.y) ? <Dash why={point.yWhy || "no throughput is known"} /> : <span className="num">{yShow(point.y)} <Range low={point.yLow} high={point.yHigh} show={yShow} /></span>,
  ];
}

function List({ points, axes, selected, onSelect }: {
  points: Point[]; axes: Axes; selected: string; onSelect: (id: string) => void;
}): ReactNode {
  const [num, setNum] = useState(LISTED);
  const sorted = useMemo(() => [...points].sort((a, b) => rank(a, axes) - rank(b, axes)), [points, axes.x, axes.y]);
  if (points.length === 0) return null;
  return (
    <Panel title="Points" note={`${sorted.length}, best ${axes.y === "usd" ? "price" : "throughput"} first; ranges are 95 % for measured, 90 % for predicted`}>
      <Table label="Points of the chart" className="points">
        <thead><tr><th scope="col">Basis</th><th scope="col">Configuration</th><th scope="col" className="opt">Model</th><th scope="col" className="r">{X[axes.x]}</th><th scope="col" className="r">{axes.y === "usd" ? "$ / M output" : "Output tokens/s"}</th><th scope="col" className="opt">Verdict</th></tr></thead>
        <tbody>
          {sorted.slice(0, num).map((point) => {
            const [x, y] = show(point, axes);
            return (
              <tr key={point.id} aria-current={point.id === selected ? "true" : undefined} className={point.id === selected ? "on" : ""}>
                <td><Basis of={point.basis} /></td>
                <td className="flow"><button type="button" className="link" onClick={() => onSelect(point.id)}>{point.label}</button>{point.trial && <span className="dim num"> {point.run} #{point.trial.number}</span>}</td>
                <td className="dim opt">{leaf(point.model)}</td><td className="r">{x}</td><td className="r">{y}</td>
                <td className="opt">{point.trial ? <VerdictTag of={point.verdict} /> : point.verdict || <Dash why={point.basis === "published" ? "the source states no SLO" : "no SLO was given"} />}</td>
              </tr>
            );
          })}
        </tbody>
      </Table>
      {num < sorted.length && <button type="button" onClick={() => setNum(num + 200)}>Show {Math.min(200, sorted.length - num)} more of {sorted.length - num}</button>}
    </Panel>
  );
}

function rank(point: Point, axes: Axes): number {
  if (point.x === null || point.y === null) return 1e18 + (point.y ?? point.x ?? 1e12);
  return axes.y === "usd" ? point.y : -point.y;
}

/** A point down to its evidence. */
function Chosen({ point, axes, onClose }: { point: Point; axes: Axes; onClose: () => void }): ReactNode {
  const [x, y] = show(point, axes);
  const { trial, prediction, published } = point;
  const facts: [string, ReactNode][] = [[X[axes.x], x], [Y[axes.y], y]];
  facts.push(["Price", point.usdPerHour === null
    ? <Absent key="p" why={trial ? "the run knows none: tune with --price or --on, or give one above" : "none is known"} />
    : <><span className="num">{usd(point.usdPerHour)}/h</span> <Basis of={basisOfPrice(point.price)} from={point.price} /></>]);
  facts.push(["Throughput", point.tokensPerS === null ? <Absent key="t" why="no steady window in this load" /> : <span className="num" key="t">{significant(point.tokensPerS)} output tokens/s</span>]);
  if (prediction) {
    facts.push(["Bound by", `${prediction.bound}, then ${prediction.next_bound || "nothing else"}`]);
    if (prediction.slo_share !== null) facts.push(["How sure of the SLO", share(prediction.slo_share)]);
  }
  if (published) {
    facts.push(["Load", `${count(published.prompt_tokens)} in, ${count(published.output_tokens)} out, ${published.concurrency ? `${published.concurrency} in flight` : published.rate_rps ? `${published.rate_rps}/s` : "load not said"}`]);
    facts.push(["Source", `${published.source} ${published.source_ref}, ${published.year ?? "no year"} (${published.licence || "licence not said"})`]);
  }
  if (trial) {
    facts.push(["Load", `${significant(trial.rate_rps)}/s, ${trial.num_ok} of ${trial.num_judged} served`]);
    facts.push(["Ledger", <Link key="l" className="mono" href={{ pathname: "/ledger", query: { run: point.run, line: String(trial.line) } }}>line {trial.line}, {short(trial.digest)}…</Link>]);
    facts.push(["When", when(trial.at)]);
  }
  return (
    <Panel title={point.label} className="chosen" note={<><Basis of={point.basis} />{trial && <> <VerdictTag of={trial.verdict} /></>} <button type="button" onClick={onClose}>Close</button></>}>
      <Facts rows={facts} />
      {trial && (
        <>
          <ul className="notes">{trial.reasons.map((reason) => <li key={reason}>{reason}</li>)}</ul>
          <p className="links">
            <Link href={{ pathname: "/evidence", query: { run: point.run, trial: String(trial.number) } }}>What ran, and what it proves</Link>
            <Link href={{ pathname: "/evidence", query: { run: point.run, trial: String(trial.number) }, hash: "rows" }}>Raw rows <span className="mono dim">{short(trial.rows)}</span></Link>
          </p>
        </>
      )}
      {prediction && (
        <>
          <ul className="notes">{prediction.assumptions.map((item) => <li key={item}>{item}</li>)}</ul>
          {prediction.command && <Code text={prediction.command} label="Command" />}
        </>
      )}
    </Panel>
  );
}
