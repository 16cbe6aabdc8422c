import Link from "next/link";
import { useCallback, type ReactNode } from "react";
import { getJson, runPath } from "../lib/api";
import { documentsOf, others, topDown, type Counters } from "../lib/documents";
import { bytes, count, duration, leaf, share, short, si, significant, usd, when } from "../lib/format";
import { useLoad, useUrlState } from "../lib/state";
import type { QualityCheck, RunView, Summary, Trial, TrialStory } from "../lib/types";
import { StackedBar } from "../ui/bars";
import { showKnobs } from "../ui/ladder";
import { Latencies } from "../ui/latencies";
import { Absent, Basis, basisOfPrice, Code, Dash, Empty, Facts, Fault, Panel, Quant, Range, Select, Table, VerdictTag, Wait } from "../ui/parts";
import { Rows } from "../ui/rows";
import { NO_RUNS, RunPicker, usePick, useRuns } from "../ui/runs";
import { Shell } from "../ui/shell";

export default function Evidence(): ReactNode {
  const [words, set, ready] = useUrlState({ run: "", trial: "" });
  const runs = useRuns();
  const pick = useCallback((run: string) => set({ run, trial: "" }), [set]);
  usePick(runs.data, words.run, ready, pick);
  const view = useLoad(ready && words.run ? words.run : null, (signal) => getJson<RunView>(runPath(words.run), signal));
  const run = view.data?.run.id === words.run ? view.data : null;
  const hasTrials = (run?.trials.length ?? 0) > 0;
  const number = words.trial || (run && hasTrials ? String(proof(run)) : "");
  const story = useLoad(run && number ? `${words.run}/${number}` : null,
    (signal) => getJson<TrialStory>(runPath(words.run, `/trials/${encodeURIComponent(number)}`), signal));
  const found = story.data && story.data.run === words.run && String(story.data.number) === number ? story.data : null;
  return (
    <Shell answer={found ? <>{found.summary} <Basis of="measured" from={when(found.at)} /></> : ""}>
      {runs.error && <Fault sentence={runs.error} retry={runs.reload} />}
      {runs.data && runs.data.length === 0 && <Empty>{NO_RUNS}</Empty>}
      {runs.data && runs.data.length > 0 && (
        <div className="bar">
          <RunPicker runs={runs.data} run={words.run} onPick={(id) => set({ run: id, trial: "" }, true)} />
          {run && hasTrials && (
            <Select label="Trial" value={number} onChange={(trial) => set({ trial }, true)} options={run.trials.map((trial) => [
              String(trial.number), `${trial.number} · ${trial.purpose || "load"} · ${trial.settings || trial.engine.engine} · ${trial.rate_rps ? `${significant(trial.rate_rps)}/s` : `${trial.concurrency} at once`} · ${trial.verdict}`,
            ])} />
          )}
        </div>
      )}
      {view.error && <Fault sentence={view.error} retry={view.reload} />}
      {story.error && <Fault sentence={story.error} retry={story.reload} />}
      {run && !hasTrials && <Empty>This run holds no trial yet; it has {run.run.num_entries} ledger entries.</Empty>}
      {!found && !view.error && !story.error && (runs.isLoading || view.isLoading || story.isLoading) && <Wait what="Reading the trial" />}
      {found && run && <Body story={found} run={run} />}
    </Shell>
  );
}

/** The trial that the run's answer rests on; else the last one. */
function proof(run: RunView): number {
  const pick = run.recommendation?.pick.candidate;
  const found = pick && run.trials.find((trial) => trial.purpose === "certify" && trial.verdict === "PASS" && trial.settings === showKnobs(pick));
  return (found || run.trials[run.trials.length - 1]).number;
}

function Body({ story, run }: { story: TrialStory; run: RunView }): ReactNode {
  const { trial } = story;
  return (
    <div className="stack">
      <div className="pair">
        <Panel title="What it proves" note={<VerdictTag of={trial.verdict} />}>
          <ul className="notes">{[...trial.faults, ...trial.reasons].map((item) => <li key={item}>{item}</li>)}</ul>
          <Facts rows={[
            ["Ledger", <Link className="mono" key="l" href={{ pathname: "/ledger", query: { run: story.run, line: String(story.line) } }}>line {story.line}, {short(story.digest)}…</Link>],
            ["Load", <span className="num" key="w">{trial.workload.rate_rps ? `${significant(trial.workload.rate_rps)}/s ${trial.workload.arrival}` : `${trial.workload.concurrency} in flight`}, {count(trial.workload.prompt_tokens)} tokens in, {count(trial.workload.output_tokens)} out, seed {trial.workload.seed}</span>],
            ["Requests", <span className="num" key="r">{trial.num_ok} served of {trial.num_judged} judged of {trial.num_planned} planned; ended: {trial.stop}</span>],
            ["Independent", <span className="num" key="d">1 in {significant(trial.dependence)}</span>],
            ["Served", trial.served_rps === null ? <Absent key="s" why="no steady window" /> : <span className="num" key="s">{significant(trial.served_rps)} of {trial.offered_rps === null ? "…" : significant(trial.offered_rps)} requests/s{trial.load_limited && ", load-limited: capacity unknown"}{trial.saturated && ", saturated"}</span>],
            ["Output", trial.output_tokens_per_s === null ? <Absent key="o" why="no steady window" /> : <span className="num" key="o">{significant(trial.output_tokens_per_s)} tokens/s</span>],
            ["Cost", trial.cost ? <><span className="num">{usd(trial.cost.usd_per_mtok_output)} per M output</span> <Basis of={basisOfPrice(trial.cost.price_source)} from={trial.cost.price_source} /></> : <Absent key="c" why="no price was given: tune with --price or --on" />],
          ]} />
          {trial.notes.length > 0 && <ul className="notes">{trial.notes.map((item) => <li key={item}>{item}</li>)}</ul>}
        </Panel>
        <Panel title="Latencies" note={`exact intervals, ${share(trial.ttft_s.level)}; dashed: so few requests do not bound it`}>
          <Latencies trial={trial} />
          <LatencyTable trial={trial} />
        </Panel>
      </div>
      <Ran trial={trial} run={run} log={story.log} />
      <div className="pair">
        <Quality run={run} check={story.standing?.quality ?? null} name={story.settings} />
        <CountersPanel trial={trial} run={run} />
      </div>
      <Isa run={run} trial={trial} />
      <Rows run={story.run} digest={trial.rows} slo={trial.slo} steady={[trial.steady_from_s, trial.steady_until_s]} />
    </div>
  );
}

function LatencyTable({ trial }: { trial: Trial }): ReactNode {
  const rows: [string, Summary, string][] = [
    ["TTFT", trial.ttft_s, "no first token"], ["TPOT", trial.tpot_s, "answers of one token have none"], ["ITL", trial.itl_s, "answers of one token have none"],
    ["End to end", trial.e2e_s, "no answer ended"], ["Queue", trial.queue_s, "this engine does not say when a request left its queue"],
  ];
  return (
    <Table label="Latencies">
      <thead><tr><th scope="col">Latency</th><th scope="col" className="r">mean</th><th scope="col" className="r">p50</th><th scope="col" className="r">p95</th><th scope="col" className="r">p99</th><th scope="col" className="r">of</th></tr></thead>
      <tbody>
        {rows.map(([name, summary, why]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            {summary.num === 0 ? <td colSpan={4}><Absent why={why} /></td> : <>
              <td className="r">{summary.mean === null ? <Dash why={why} /> : <span className="num">{duration(summary.mean)}</span>}</td>
              {(["p50", "p95", "p99"] as const).map((stat) => <td key={stat} className="r"><Quant of={summary[stat]} show={duration} why="it lies among failed requests" /></td>)}
            </>}
            <td className="r num">{summary.num}{summary.num_failed > 0 && <b className="fail-text"> {summary.num_failed} failed</b>}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function Ran({ trial, run, log }: { trial: Trial; run: RunView; log: string }): ReactNode {
  const { facts, host, client, engine } = trial;
  const maybe = (value: string | number | null | undefined, why: string): ReactNode => value === null || value === undefined || value === "" ? <Absent why={why} /> : <span className="num">{value}</span>;
  const silent = "the engine does not say";
  return (
    <Panel title="What really ran" note={facts ? "read from the process, its log and its API, not from what was asked" : "the server was running already: nothing is known of its process"}>
      <Code label="Command" text={commandText(engine) || engine.url} />
      <div className="triple">
        <div>
          <h3>Engine</h3>
          {facts ? <Facts rows={[
            ["Version", maybe(facts.version || engine.version, silent)], ["Dtype", maybe(facts.dtype, silent)],
            ["Compute threads", maybe(facts.threads, silent)], ["CPUs", maybe(facts.affinity.join("; "), silent)],
            ["Allocator", maybe(facts.allocator, silent)], ["KV cache", facts.kv_tokens === null ? <Absent why={silent} /> : <span className="num">{count(facts.kv_tokens)} tokens{facts.block_size_tokens ? `, blocks of ${facts.block_size_tokens}` : ""}</span>],
            ["Context", facts.context_tokens === null ? <Absent why={silent} /> : <span className="num">{count(facts.context_tokens)} tokens</span>],
            ["At once", maybe(facts.num_parallel ?? (facts.max_concurrency === null ? null : significant(facts.max_concurrency)), silent)],
          ]} /> : <Absent why="a server that was running already is not ours to look into" />}
        </div>
        <div>
          <h3>Host</h3>
          <Facts rows={[
            ["CPU", host.cpu_model || <Absent why="the host does not say" />], ["Cores", <span className="num" key="c">{host.physical_cores} physical, {host.logical_cpus} logical, CPUs {host.cpuset}</span>],
            ["ISA", <span className="mono" key="i">{host.isa.join(" ") || "none of those that kernels choose by"}</span>], ["Memory", <span className="num" key="m">{bytes(host.memory_bytes)}, {host.numa_nodes} NUMA node{host.numa_nodes === 1 ? "" : "s"}</span>],
            ["Clock", host.clock_hz > 0 ? <span className="num" key="h">{si(host.clock_hz)}Hz</span> : <Absent key="h" why="the host does not say" />],
            ["Governor", maybe(host.governor, "this guest does not say")], ["Kernel", host.kernel], ["THP, SMT", `${host.thp || "not said"}, ${host.smt || "not said"}`],
          ]} />
        </div>
        <div>
          <h3>Client</h3>
          {client ? <Facts rows={[
            ["Sent late, p99", <span className="num" key="l">{duration(trial.late_p99_s)}</span>], ["Sent late, worst", <span className="num" key="w">{duration(trial.late_max_s)}</span>],
            ["Loop", `${client.loop}, ${client.workers} process${client.workers === 1 ? "" : "es"}`], ["Shares cores with engine", client.shares_cores ? <b className="warn" key="s">yes</b> : "no"],
            ["Loop lag, p99", client.lag_p99_s === null ? <Absent key="g" why="lost in a crash" /> : <span className="num" key="g">{duration(client.lag_p99_s)}</span>],
            ["Engine's CPU time", client.engine_cpu_s === null ? <Absent key="e" why="a server that is not ours to watch" /> : <span className="num" key="e">{duration(client.engine_cpu_s)}</span>],
            ["Other programs", client.others_cores === null ? <Absent key="o" why="not observed" /> : <span className="num" key="o">{significant(client.others_cores)} cores</span>],
          ]} /> : <Absent why="not observed" />}
        </div>
      </div>
      {facts && facts.processes.length > 0 && (
        <Table label="Processes of the engine">
          <thead><tr><th scope="col">Process</th><th scope="col" className="r">PID</th><th scope="col" className="r">Threads</th><th scope="col">May run on</th><th scope="col">malloc</th></tr></thead>
          <tbody>{facts.processes.map((one) => <tr key={one.pid}><td className="mono">{one.name}</td><td className="r num">{one.pid}</td><td className="r num">{one.threads}</td><td className="mono">{Object.entries(one.affinity).map(([cpus, num]) => `${cpus}: ${num}`).join(", ")}</td><td>{one.allocator || <Absent why="its maps are not readable" />}</td></tr>)}</tbody>
        </Table>
      )}
      {facts && Object.keys(facts.log).length > 0 && (
        <details><summary>What the log says, {Object.keys(facts.log).length} lines</summary>
          <Facts rows={Object.entries(facts.log).map(([key, value]): [string, ReactNode] => [key, <span className="mono" key={key}>{value}</span>])} />
        </details>
      )}
      <p className="links">
        <a href={`/api/runs/${encodeURIComponent(run.run.id)}/files/blobs/${trial.schedule.replace("sha256:", "")}`}>schedule <span className="mono dim">{short(trial.schedule)}</span></a>
        {log && <a href={`/api/runs/${encodeURIComponent(run.run.id)}/files/blobs/${log.replace("sha256:", "")}`}>engine log <span className="mono dim">{short(log)}</span></a>}
        <span className="dim">{leaf(run.run.model)}</span>
      </p>
    </Panel>
  );
}

function Quality({ run, check, name }: { run: RunView; check: QualityCheck | null; name: string }): ReactNode {
  const all = run.standings.flatMap((standing) => standing.quality ? [{ name: showKnobs(standing.candidate), check: standing.quality }] : []);
  return (
    <Panel title="Quality against the baseline" note={all.length > 0 ? <Basis of="measured" /> : null}>
      {all.length === 0 && <Absent why={run.standings.length > 0 ? "no candidate of this run may change answers, so none was scored" : "this run is no campaign: quality was not scored"} />}
      {all.length > 0 && <Deltas all={all} />}
      {all.length > 0 && !check && <p className="state">{name || "This configuration"} was not scored in this run.</p>}
    </Panel>
  );
}

function Deltas({ all }: { all: { name: string; check: QualityCheck }[] }): ReactNode {
  const values = all.flatMap(({ check }) => [check.low ?? 0, check.high ?? 0, check.change_share ?? 0, check.budget_share]);
  const reach = Math.max(...values.map(Math.abs)) * 1.15 || 0.01;
  const at = (value: number): string => `${50 + (value / reach) * 50}%`;
  return (
    <ul className="deltas">
      {all.map(({ name, check }) => (
        <li key={name}>
          <div><span className="mono">{name}</span> <VerdictTag of={check.verdict} /></div>
          {check.change_share !== null && check.low !== null && check.high !== null && (
            <div className="delta" aria-hidden="true">
              <i className="zero" style={{ left: "50%" }} /><i className="budget" style={{ left: at(check.budget_share) }} />
              <i className="span" style={{ left: at(check.low), width: `${((check.high - check.low) / reach) * 50}%` }} /><i className="dot" style={{ left: at(check.change_share) }} />
            </div>
          )}
          <p className="small">{check.reason} ({share(check.level)} interval).{check.task && ` Task: ${check.task.candidate_right} of ${check.task.num} right, baseline ${check.task.baseline_right}, p = ${significant(check.task.p_value)}.`}</p>
        </li>
      ))}
    </ul>
  );
}

function CountersPanel({ trial, run }: { trial: Trial; run: RunView }): ReactNode {
  const found = [...documentsOf(trial, "neoserve/pmu"), ...documentsOf(run.others, "neoserve/pmu")]
    .map((item) => ({ line: item.line, counters: item.data as unknown as Counters }));
  const rows = Object.entries(trial.counters);
  return (
    <Panel title="Counters">
      <h3>Hardware, top-down</h3>
      {found.length === 0 && <Absent why="no hardware counters were read in this run: neoserve pmu reads them where the host has a PMU" />}
      {found.map(({ line, counters }, index) => <CountersOf key={index} line={line} of={counters} />)}
      <h3>The engine's own, gained while the load ran</h3>
      {rows.length === 0 ? <Absent why="the engine offers no /metrics, or was asked for none" /> : <Facts rows={rows.map(([name, value]): [string, ReactNode] => [name, <span className="num" key={name}>{significant(value)}</span>])} />}
    </Panel>
  );
}

const sayFigure = (name: string): string => name.replace(/_(share|mpki)$/, "").replace(/_bound$/, " bound").replaceAll("_", " ");
const showFigure = (name: string) => (value: number): string => name.endsWith("_share") ? share(value, 1) : significant(value);

function CountersOf({ line, of }: { line: number | null; of: Counters }): ReactNode {
  const bars = topDown(of);
  const figures = [...(bars ?? []), ...others(of)];
  const kernel = Object.entries(of.kernel ?? {});
  const where = [of.core?.name, of.tool, of.scope, of.length_s > 0 && duration(of.length_s),
    of.coverage_share !== null && `${share(of.coverage_share)} of the CPU time counted`, line && `ledger line ${line}`];
  return (
    <div>
      <p className="small">{where.filter(Boolean).join(" · ")}</p>
      {bars ? <StackedBar label="Where the pipeline's slots went" show={(value) => share(value, 1)} parts={bars.map(([name, one]) => ({ name: sayFigure(name), value: one.value }))} />
        : <Absent why={of.reasons.join("; ") || "this host lets no top-down breakdown be counted"} />}
      {figures.length > 0 && <Facts rows={figures.map(([name, one]): [string, ReactNode] => [
        name.endsWith("_mpki") ? `${sayFigure(name)} misses per 1,000 instructions` : sayFigure(name),
        <span className="num" key={name}>{showFigure(name)(one.value)} <Range low={one.low} high={one.high} show={showFigure(name)} /></span>,
      ])} />}
      {of.checks.filter((check) => !check.holds).map((check) => <p key={check.name} className="small warn">{check.name} does not hold: {check.says}</p>)}
      {bars && of.reasons.length > 0 && <ul className="notes">{of.reasons.map((item) => <li key={item}>{item}</li>)}</ul>}
      {kernel.length > 0 && <details><summary>What the kernel accounts</summary>
        <Facts rows={kernel.map(([name, value]): [string, ReactNode] => [name.replace(/_(s|share)$/, "").replaceAll("_", " "),
          value === null ? <Absent key={name} why="the kernel does not say" /> : <span className="num" key={name}>{name.endsWith("_share") ? share(value, 1) : name.endsWith("_s") ? duration(value) : value.toLocaleString("en-US")}</span>])} />
      </details>}
      {of.notes.length > 0 && <ul className="notes">{of.notes.map((item) => <li key={item}>{item}</li>)}</ul>}
    </div>
  );
}

/** A flag with its value on a line of its own. */
function commandText(engine: Trial["engine"]): string {
  const lines = Object.entries(engine.env).map(([key, value]) => `${key}=${value}`);
  let current = "";
  for (const word of engine.argv) {
    if (word.startsWith("--")) {
      lines.push(current);
      current = `  ${word}`;
    } else current = current ? `${current} ${word}` : word;
  }
  return [...lines, current].filter(Boolean).join(" \\\n");
}

function Isa({ run, trial }: { run: RunView; trial: Trial }): ReactNode {
  const found = [...documentsOf(trial, "neoserve/isa"), ...documentsOf(run.others, "neoserve/isa")];
  return (
    <Panel title="Instructions in the engine's binaries" note="presence, not execution">
      {found.length === 0 && <Absent why="no disassembly was made in this run: neoserve isa reads an engine's binaries" />}
      {found.map((item, index) => (
        <div key={index} className="stack">
          <p>{item.data.verdict && <VerdictTag of={String(item.data.verdict)} />} {String(item.data.reason ?? "")} <span className="mono dim">{String(item.data.target ?? "")}</span></p>
          <Table label="Binaries">
            <thead><tr><th scope="col">Binary</th><th scope="col">For</th><th scope="col">Instructions found</th><th scope="col">In inner loops</th><th scope="col">Verdicts</th></tr></thead>
            <tbody>{((item.data.binaries ?? []) as Record<string, any>[]).slice(0, 50).map((one) => (
              <tr key={String(one.sha256) + String(one.name)}><td className="mono wrap">{String(one.name)}<br /><span className="dim">{short(String(one.sha256 ?? ""))}</span></td><td>{String(one.architecture ?? "")}</td><td className="mono wrap">{forms(one.forms)}</td><td className="mono wrap">{forms(one.in_inner_loops)}</td><td className="wrap">{((one.verdicts ?? []) as Record<string, any>[]).map((v) => <p key={String(v.precision)}>{String(v.precision)} <VerdictTag of={String(v.verdict)} /> {String(v.reason)}</p>)}</td></tr>
            ))}</tbody>
          </Table>
        </div>
      ))}
    </Panel>
  );
}

const forms = (of: unknown): string => Object.entries((of ?? {}) as Record<string, number>).map(([name, num]) => `${name} ${num}`).join(", ") || "none";
