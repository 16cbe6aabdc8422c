import { line } from "d3-shape";
import { useMemo, type ReactNode } from "react";
import { postJson } from "../lib/api";
import { formFault, LOAD, sloOf, machines } from "../lib/ask";
import { breakEven, monthAt } from "../lib/cost";
import { count, leaf, plain, share, usd } from "../lib/format";
import { useLoad, useUrlState } from "../lib/state";
import type { CostProjection, MonthlyChoice } from "../lib/types";
import { logScale, logTicks, useWidth, XAxis, YAxis } from "../ui/axes";
import { LoadForm } from "../ui/load-form";
import { Absent, Basis, basisOfPrice, Dash, Fault, LogSlider, Panel, Select, Table, TextField, Wait } from "../ui/parts";
import { useRuns } from "../ui/runs";
import { Shell } from "../ui/shell";

const REFERENCE = 1e9; // output tokens a month that the server is asked about; the slider scales it

interface Priced { choice: MonthlyChoice; capacity: number; usdOfOne: number; scale: number }

export default function Cost(): ReactNode {
  const [words, set, ready] = useUrlState({
    ...LOAD, on: "L4,L40S,H100-SXM-80GB", volume: "5000000000", util: "0.6", price: "", against: "0.6", run: "", rprice: "",
  });
  const volume = Number(words.volume);
  const price = Number(words.price) || null;
  const against = Number(words.against) || null;
  const body = {
    model: words.model, on: machines(words.on), isl: Number(words.isl), osl: Number(words.osl), slo: sloOf(words) || undefined,
    ...(words.load === "open" ? { request_rate: Number(words.rate) } : { max_concurrency: Number(words.n) }),
    output_tokens_per_month: REFERENCE, utilization: Number(words.util), ...(price ? { price } : {}),
  };
  const fault = formFault(words);
  const found = useLoad(ready && !fault ? JSON.stringify(body) : null,
    (signal) => postJson<CostProjection>("/api/cost", body, signal), 150);
  const runs = useRuns();
  const runBody = { run: words.run, output_tokens_per_month: REFERENCE, ...(Number(words.rprice) ? { price: Number(words.rprice) } : {}) };
  const measured = useLoad(ready && words.run ? JSON.stringify(runBody) : null,
    (signal) => postJson<CostProjection>("/api/cost", runBody, signal), 150);
  const choices = useMemo(() => [...(found.data?.choices ?? []), ...(words.run ? measured.data?.choices ?? [] : [])], [found.data, measured.data, words.run]);
  const priced = choices.flatMap((choice): Priced[] =>
    choice.usd_per_month_of_one !== null && choice.capacity_output_tokens_per_month !== null
      ? [{ choice, usdOfOne: choice.usd_per_month_of_one, capacity: choice.capacity_output_tokens_per_month, scale: 1 }] : []);
  const best = [...priced].sort((a, b) => monthAt(volume, a.capacity, a.usdOfOne).usdPerMonth - monthAt(volume, b.capacity, b.usdOfOne).usdPerMonth)[0];
  return (
    <Shell answer={best ? <Said best={best} volume={volume} against={against} /> : ""}>
      <div className="split">
        <LoadForm words={words} set={set}>
          <LogSlider label="Busy share of each hour" value={Number(words.util)} low={0.05} high={1} show={share} onChange={(util) => set({ util: String(util) })} />
        </LoadForm>
        <div className="stack">
          <LogSlider label="Output tokens a month" value={volume} low={1e6} high={1e13} show={count} onChange={(value) => set({ volume: String(value) })} />
          <div className="bar wide">
            <TextField label="Price of each machine" hint="$/h" value={words.price} inputMode="decimal" placeholder="as listed" onChange={(value) => set({ price: value.replace(/[^0-9.]/g, "") })} />
            <TextField label="Elsewhere" hint="$ per M output" value={words.against} inputMode="decimal" placeholder="none" onChange={(value) => set({ against: value.replace(/[^0-9.]/g, "") })} />
            <Select label="A measured run beside it" value={words.run} onChange={(run) => set({ run })}
              options={[["", "none"], ...(runs.data ?? []).filter((run) => run.kind === "tune" && run.status !== "broken").map((run): [string, string] => [run.id, run.id])]} />
            {words.run && <TextField label="Price of its host" hint="$/h" value={words.rprice} inputMode="decimal" placeholder="not known" onChange={(value) => set({ rprice: value.replace(/[^0-9.]/g, "") })} />}
          </div>
          {fault && <Fault sentence={fault} />}
          {found.error && <Fault sentence={found.error} retry={found.reload} />}
          {measured.error && <Fault sentence={`${words.run}: ${measured.error}`} retry={measured.reload} />}
          {!found.data && !found.error && !fault && <Wait what="Pricing" />}
          {words.run && measured.data && leaf(measured.data.model) !== leaf(words.model) && <p className="state warn">The run served {leaf(measured.data.model)}, not {words.model}: its price per token is of another model and load.</p>}
          {priced.length > 0 && <Curves priced={priced} volume={volume} against={against} onVolume={(value) => set({ volume: String(value) })} />}
          {choices.length > 0 && <Months choices={choices} volume={volume} against={against} best={best?.choice ?? null} />}
          {found.data && <ul className="notes">
            {[...found.data.notes, ...(measured.data && words.run ? measured.data.notes : [])].map((note) => <li key={note}>{note}</li>)}
            <li>Configuration of each machine: one replica with the engine's defaults at the stored weights; the Plan view ranks others.</li>
          </ul>}
        </div>
      </div>
    </Shell>
  );
}

const nameOf = (choice: MonthlyChoice): string => choice.run ? `${choice.run}: ${choice.settings}` : choice.hardware;

function Said({ best, volume, against }: { best: Priced; volume: number; against: number | null }): ReactNode {
  const month = monthAt(volume, best.capacity, best.usdOfOne);
  const even = against ? breakEven(best.usdOfOne, best.capacity, against) : null;
  return (
    <>
      {plain(count(volume))} output tokens a month cost {usd(month.usdPerMonth)} with {month.replicas} × {nameOf(best.choice)}, {usd(month.usdPerMtok)} per million. <Basis of={best.choice.basis} />
      {against && <> Elsewhere, at {usd(against)}, it is {usd((against * volume) / 1e6)}; one replica {even === null ? "is never cheaper than that" : `is cheaper from ${count(even)} tokens a month on`}.</>}
    </>
  );
}

function Curves({ priced, volume, against, onVolume }: {
  priced: Priced[]; volume: number; against: number | null; onVolume: (value: number) => void;
}): ReactNode {
  const [box, width] = useWidth<HTMLDivElement>();
  const height = width < 600 ? 280 : 340;
  const [left, right, top, bottom] = [62, width - 14, 30, height - 42];
  const curves = useMemo(() => {
    const x = logScale([1e6, 1e13], [left, right], 1);
    const steps = Array.from({ length: 701 }, (_, i) => 10 ** (6 + i / 100));
    const at = priced.map((one) => steps.map((v): [number, number] => [v, monthAt(v, one.capacity, one.usdOfOne).usdPerMtok]));
    const y = logScale([...at.flat().map(([, v]) => v).filter((v) => v < 1e4), ...(against ? [against] : [])], [bottom, top]);
    return { x, y, at };
  }, [priced, against, left, right, top, bottom]);
  const { x, y, at } = curves;
  const path = line<[number, number]>().x(([v]) => x(v)).y(([, v]) => Math.max(top, y(v)));
  const pick = (clientX: number, bounds: DOMRect): void => onVolume(Number(Math.min(1e13, Math.max(1e6, x.invert(clientX - bounds.left))).toPrecision(2)));
  return (
    <Panel title="Price per million at each volume" note="whole replicas, rented all 730 hours of a month; the step up is the next replica">
      <div ref={box} className="chart" style={{ height }}>
        {width > 0 && (
          <svg width={width} height={height} role="img" aria-label={`Dollars per million output tokens against tokens a month, for ${priced.map((one) => nameOf(one.choice)).join(", ")}; the table below has the values at ${count(volume)}`}
            onClick={(event) => pick(event.clientX, event.currentTarget.getBoundingClientRect())}>
            <XAxis scale={x} ticks={logTicks(x, Math.max(4, width / 80))} y={bottom} top={top} show={count} label="output tokens a month" right={right} />
            <YAxis scale={y} ticks={logTicks(y, 6)} x={left} right={right} show={usd} label="$ per million output tokens" top={top} />
            {against && y(against) > top && <>
              <line x1={left} x2={right} y1={y(against)} y2={y(against)} className="elsewhere" />
              <text x={left + 6} y={y(against) - 6} className="said">elsewhere {usd(against)}</text>
            </>}
            {priced.map((one, index) => {
              const even = against ? breakEven(one.usdOfOne, one.capacity, against) : null;
              return (
                <g key={nameOf(one.choice)} className={`curve c${index % 6} ${one.choice.basis}`}>
                  <path d={path(at[index]) ?? ""} />
                  {even !== null && even > 1e6 && <circle cx={x(even)} cy={y(against as number)} r={4} />}
                </g>
              );
            })}
            <line x1={x(volume)} x2={x(volume)} y1={top} y2={bottom} className="now" />
          </svg>
        )}
      </div>
      <ul className="keys">{priced.map((one, index) => <li key={nameOf(one.choice)} className={`c${index % 6}`}><i aria-hidden="true" />{nameOf(one.choice)} <Basis of={one.choice.basis} /></li>)}</ul>
    </Panel>
  );
}

function Months({ choices, volume, against, best }: {
  choices: MonthlyChoice[]; volume: number; against: number | null; best: MonthlyChoice | null;
}): ReactNode {
  return (
    <Panel title={`A month of ${plain(count(volume))} output tokens`} note="recomputed here as the sliders move; capacities and prices are the server's">
      <Table label="Cost of a month">
        <thead>
          <tr><th scope="col">On</th><th scope="col" className="r">A month</th><th scope="col" className="r">$ / M output</th><th scope="col" className="r">Replicas</th><th scope="col" className="r">Idle</th><th scope="col" className="r">One holds a month</th><th scope="col" className="r">Pays from</th><th scope="col">Price and its source</th></tr>
        </thead>
        <tbody>
          {choices.map((choice) => {
            const { capacity_output_tokens_per_month: capacity, usd_per_month_of_one: one } = choice;
            const month = capacity !== null && one !== null ? monthAt(volume, capacity, one) : null;
            const even = month && against ? breakEven(one as number, capacity as number, against) : null;
            return (
              <tr key={nameOf(choice)} className={choice === best ? "on" : ""}>
                <td><b>{nameOf(choice)}</b> {choice === best && <span className="tag">cheapest</span>}<br /><Basis of={choice.basis} from={choice.run ? choice.hardware : ""} /></td>
                {month ? <>
                  <td className="r"><b className="num">{usd(month.usdPerMonth)}</b></td>
                  <td className="r num">{usd(month.usdPerMtok)}</td>
                  <td className="r num">{month.replicas.toLocaleString("en-US")}</td>
                  <td className="r num">{share(Math.max(0, month.idleShare))}</td>
                  <td className="r num">{count(capacity as number)}</td>
                  <td className="r">{!against ? <Dash why="no price elsewhere was given" /> : even === null ? <Dash why="never: a full replica still costs more" /> : <span className="num">{count(even)}</span>}</td>
                  <td className="wrap"><span className="num">{usd((one as number) / 730)}/h</span> <Basis of={basisOfPrice(choice.price_basis)} from={choice.price_basis} /></td>
                </> : <td colSpan={7} className="wrap"><Absent why={choice.reason || "not known"} /></td>}
              </tr>
            );
          })}
        </tbody>
      </Table>
    </Panel>
  );
}
