import { Fragment, useState, type ReactNode } from "react";
import { postJson } from "../lib/api";
import { formFault, LOAD, loadBody } from "../lib/ask";
import { bytes, count, duration, share, significant, usd } from "../lib/format";
import { deploymentLabel, devices } from "../lib/points";
import { useLoad, useUrlState } from "../lib/state";
import type { Plan, Prediction } from "../lib/types";
import { StackedBar } from "../ui/bars";
import { LoadForm } from "../ui/load-form";
import { Absent, Basis, basisOfPrice, Code, Dash, Empty, Facts, Fault, Panel, Range, Table, Wait, WithInterval } from "../ui/parts";
import { Shell } from "../ui/shell";

const LISTED = 20;

export default function PlanView(): ReactNode {
  const [words, set, ready] = useUrlState({ ...LOAD, open: "0" });
  const body = loadBody(words);
  const fault = formFault(words);
  const plan = useLoad(ready && !fault ? JSON.stringify(body) : null,
    (signal) => postJson<Plan>("/api/plan", body, signal), 120);
  const found = plan.data;
  return (
    <Shell answer={found ? <>{found.summary} <Basis of="predicted" /></> : ""}>
      <div className="split">
        <LoadForm words={words} set={(change) => set({ ...change, open: "0" })} />
        <div className={`stack ${plan.isLoading && found ? "stale" : ""}`}>
          {fault && <Fault sentence={fault} />}
          {plan.error && <Fault sentence={plan.error} retry={plan.reload} />}
          {!found && !plan.error && !fault && <Wait what="Planning" />}
          {found && <Ranked plan={found} open={words.open} onOpen={(open) => set({ open })} />}
          {found && <Sensitivity plan={found} />}
          {found && <Refused plan={found} />}
        </div>
      </div>
    </Shell>
  );
}

function Ranked({ plan, open, onOpen }: { plan: Plan; open: string; onOpen: (open: string) => void }): ReactNode {
  const [num, setNum] = useState(LISTED);
  if (plan.candidates.length === 0) return <Empty>Nothing that was tried would start: the reasons stand below.</Empty>;
  return (
    <Panel title="Choices, cheapest first" note={<><span>{plan.candidates.length} of {plan.num_candidates} tried; ranges hold the truth in 90 of 100 cases</span><Basis of="predicted" /></>}>
      <Table label="Ranked choices" className="ranked">
        <thead>
          <tr>
            <th scope="col" className="opt"><span className="sr">Rank</span></th><th scope="col">Configuration</th>
            <th scope="col" className="r">$ / M output</th><th scope="col" className="r">TTFT mean</th>
            <th scope="col" className="r">TPOT mean</th><th scope="col" className="r opt">Output tokens/s</th>
            <th scope="col" className="r opt">Max rate</th><th scope="col">SLO</th>
          </tr>
        </thead>
        <tbody>
          {plan.candidates.slice(0, Math.max(num, Number(open) + 1)).map((item, index) => {
            const isOpen = open === String(index);
            return (
              <Fragment key={index}>
                <tr className={isOpen ? "on" : ""}>
                  <td className="num dim opt">{index + 1}</td>
                  <td className="flow">
                    <button type="button" className="link" aria-expanded={isOpen} onClick={() => onOpen(isOpen ? "" : String(index))}>{deploymentLabel(item)}</button>
                    {plan.ties.includes(index) && <span className="tag" title="Its cost cannot be told from the best's">tie</span>}
                    {plan.pareto.includes(index) && <span className="tag" title="No other is cheaper and quicker">front</span>}
                  </td>
                  <td className="r">{item.cost ? <b className="num">{usd(item.cost.usd_per_mtok_output)}</b> : <Dash why="no price is known" />}</td>
                  <td className="r"><Mean of={item} name="ttft_s" /></td>
                  <td className="r"><Mean of={item} name="tpot_s" /></td>
                  <td className="r opt">{item.throughput ? <span className="num">{significant(item.throughput.output_tokens_per_s)}</span> : <Dash why="it would not start" />}</td>
                  <td className="r opt">{item.throughput?.max_rate_rps != null ? <span className="num">{significant(item.throughput.max_rate_rps)}/s</span> : <Dash why="no rate keeps the SLO" />}</td>
                  <td><Slo of={item} /></td>
                </tr>
                {isOpen && <tr className="detail"><td colSpan={8}><Detail of={item} /></td></tr>}
              </Fragment>
            );
          })}
        </tbody>
      </Table>
      {num < plan.candidates.length && <button type="button" onClick={() => setNum(plan.candidates.length)}>Show the other {plan.candidates.length - num}</button>}
    </Panel>
  );
}

function Mean({ of, name }: { of: Prediction; name: "ttft_s" | "tpot_s" }): ReactNode {
  const value = of.latency?.[name].mean ?? null;
  if (value === null) return <Dash why="it grows without bound: the load is more than the capacity" />;
  return <WithInterval value={value} interval={of.interval[name]} show={duration} />;
}

function Slo({ of }: { of: Prediction }): ReactNode {
  if (of.meets_slo === null) return <Dash why="no SLO was given" />;
  return (
    <span className={`verdict ${of.meets_slo ? "pass" : "fail"}`} title={of.slo_note}>
      <i aria-hidden="true" />{of.meets_slo ? "kept" : "missed"}
      {of.slo_share !== null && <span className="num dim"> {share(of.slo_share)} sure</span>}
    </span>
  );
}

function Detail({ of }: { of: Prediction }): ReactNode {
  const { memory, kv, cost, latency } = of;
  const p = (name: "ttft_s" | "tpot_s" | "e2e_s"): ReactNode => {
    const found = latency?.[name];
    if (!found || found.mean === null) return <Absent why="unbounded at this load" />;
    return <span className="num">{duration(found.mean)} mean{found.p95 !== null ? `, ${duration(found.p95)} p95` : ""} <Range low={of.interval[name]?.low ?? null} high={of.interval[name]?.high ?? null} show={duration} /></span>;
  };
  return (
    <div className="detail-body">
      <Facts rows={[
        ["First token", p("ttft_s")], ["Each further token", p("tpot_s")], ["Whole answer", p("e2e_s")],
        ["Price", cost ? <><span className="num">{usd(cost.usd_per_hour)}/h, {usd(cost.usd_per_month)} a month</span> <Basis of={basisOfPrice(cost.price_basis)} from={cost.price_basis} /></> : <Absent why="none is known for this machine" />],
        ["One bill, three readings", cost ? <span className="num">{usd(cost.usd_per_mtok_output)} per M output or {usd(cost.usd_per_mtok_input)} per M input or {usd(cost.usd_per_mtok_total)} per M of both</span> : <Absent why="no price" />],
        ["KV cache", kv ? <span className="num">{count(kv.kv_tokens)} tokens, {significant(kv.max_concurrency)} requests of {count(kv.max_model_len)}</span> : <Absent why="it would not start" />],
        ["Bound by", `${of.bound}${of.next_bound ? `, then ${of.next_bound}` : ""}`],
        ["Devices", <span className="num" key="d">{devices(of)} a replica of {of.deployment.num_devices} in the machine</span>],
      ]} />
      <div className="stack">
        {memory && <>
          <h3>Memory of one device, {bytes(memory.total_bytes)}</h3>
          <StackedBar label="Memory of one device" total={memory.total_bytes} show={bytes} parts={[
            { name: "weights", value: memory.weights_bytes }, { name: "KV cache", value: memory.available_kv_bytes },
            { name: "activations", value: memory.activation_bytes }, { name: "graphs", value: memory.graph_bytes },
            { name: "other", value: memory.non_torch_bytes },
          ].filter((part) => part.value > 0)} />
        </>}
        {of.decode_parts.length > 0 && <>
          <h3>Where a decode step's time goes</h3>
          <StackedBar label="Parts of a decode step" show={duration} parts={of.decode_parts.map((part) => ({ name: part.name, value: part.seconds }))} />
        </>}
        {of.command && <><h3>Command</h3><Code text={of.command} label="Command" /></>}
        {[...of.advice, ...of.assumptions, of.slo_note].filter(Boolean).length > 0 &&
          <ul className="notes">{[...of.advice, ...of.assumptions, of.slo_note].filter(Boolean).map((item) => <li key={item}>{item}</li>)}</ul>}
      </div>
    </div>
  );
}

function Sensitivity({ plan }: { plan: Plan }): ReactNode {
  if (plan.sensitivity.length === 0) return null;
  return <Panel title="What would change the choice"><ul className="notes">{plan.sensitivity.map((item) => <li key={item}>{item}</li>)}</ul></Panel>;
}

function Refused({ plan }: { plan: Plan }): ReactNode {
  if (plan.rejected.length === 0) return null;
  return (
    <Panel title="Would not start" note={`${plan.rejected.length}`}>
      <Table label="What would not start">
        <thead><tr><th scope="col">Configuration</th><th scope="col">Why</th></tr></thead>
        <tbody>
          {plan.rejected.slice(0, 60).map((item, index) => (
            <tr key={index}><td className="mono">{item.deployment.hardware} TP{item.deployment.tensor_parallel} {item.deployment.weight_quant} KV {item.deployment.kv_cache_dtype}</td><td className="wrap">{item.reason}</td></tr>
          ))}
        </tbody>
      </Table>
    </Panel>
  );
}
