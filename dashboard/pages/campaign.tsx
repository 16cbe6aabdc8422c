import Link from "next/link";
import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import { getJson, runPath } from "../lib/api";
import { clock, duration, leaf, share, short, significant, usd, when } from "../lib/format";
import { useLoad, useUrlState } from "../lib/state";
import type { RunSummary, RunView } from "../lib/types";
import { Ladder, showKnobs } from "../ui/ladder";
import { Absent, Basis, Dash, Empty, Facts, Fault, Panel, Table, VerdictTag, Wait } from "../ui/parts";
import { NO_RUNS, RunPicker, usePick, useRuns } from "../ui/runs";
import { Shell } from "../ui/shell";
import { Work } from "../ui/work";

const OUT = new Set(["rejected", "quality", "crashed", "void", "slower"]);

export default function CampaignView(): ReactNode {
  const [words, set, ready] = useUrlState({ run: "", start: "" });
  const runs = useRuns();
  const pick = useCallback((run: string) => set({ run }), [set]);
  const ids = runs.data?.map((run) => run.id) ?? [];
  const summary = usePick(runs.data, words.run, ready, pick);
  const view = useLoad(ready && words.run ? words.run : null, (signal) => getJson<RunView>(runPath(words.run), signal));
  const isLive = (view.data?.run.status ?? summary?.status) === "live";
  const live = useEvents(words.run, isLive, view.data?.run.num_entries ?? null, view.reload);
  const found = view.data?.run.id === words.run ? view.data : null;
  return (
    <Shell answer={found ? <>{found.run.summary} <Basis of="measured" from={when(found.run.created)} /></> : ""}>
      {runs.error && <Fault sentence={runs.error} retry={runs.reload} />}
      {runs.data && runs.data.length === 0 && <Empty>{NO_RUNS}</Empty>}
      {runs.data && runs.data.length > 0 && (
        <div className="bar"><RunPicker runs={runs.data} run={words.run} onPick={(run) => set({ run }, true)} />
          {found && <Status run={found.run} feed={live.state} />}
        </div>
      )}
      <Work asked={words.start} onAsk={(start) => set({ start })} runs={ids} onRun={pick} onLook={runs.reload} />
      {view.error && <Fault sentence={view.error} retry={view.reload} />}
      {!found && !view.error && (runs.isLoading || view.isLoading) && <Wait what="Reading the run" />}
      {found && <Body view={found} isLive={isLive} entries={live.entries} />}
    </Shell>
  );
}

interface Event { number: number; kind: string; at: string }

/** The ledger's new lines as the server sends them; each asks for the view anew, at most once a second. */
function useEvents(run: string, isLive: boolean, known: number | null, reload: () => void): { state: string; entries: Event[] } {
  const [state, setState] = useState("");
  const [entries, setEntries] = useState<Event[]>([]);
  const start = useRef<number | null>(null);
  if (known !== null && start.current === null) start.current = known;
  useEffect(() => {
    setEntries([]);
    start.current = null;
  }, [run]);
  const hasStart = known !== null;
  useEffect(() => {
    if (!run || !isLive || !hasStart) return setState("");
    const source = new EventSource(runPath(run, `/events?after=${start.current ?? 0}`));
    let timer: ReturnType<typeof setTimeout> | undefined;
    source.onopen = () => setState("following");
    source.onerror = () => setState("reconnecting");
    source.addEventListener("entry", (event) => {
      const entry = JSON.parse(event.data) as { kind: string; at: string };
      setEntries((old) => [...old.slice(-199), { number: Number(event.lastEventId), kind: entry.kind, at: entry.at }]);
      clearTimeout(timer);
      timer = setTimeout(reload, 300);
    });
    source.addEventListener("reset", reload);
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [run, isLive, hasStart, reload]);
  return { state, entries };
}

function Status({ run, feed }: { run: RunSummary; feed: string }): ReactNode {
  return (
    <p className={`status ${run.status}`} role="status">
      <i aria-hidden="true" />{run.status}{feed && `, ${feed}`}
      <span className="dim num"> {run.num_trials} trials · {run.num_entries} ledger lines</span>
    </p>
  );
}

function Body({ view, isLive, entries }: { view: RunView; isLive: boolean; entries: Event[] }): ReactNode {
  const { recommendation: found, standings } = view;
  const logs = view.files.filter((name) => name.startsWith("logs/"));
  return (
    <div className="stack">
      {isLive && <Now view={view} entries={entries} />}
      {found && <Outcome view={view} />}
      {standings.length > 0 && (
        <Panel title="Rates tried" note={<Keys />}>
          <Ladder standings={standings} trials={view.trials} />
        </Panel>
      )}
      {standings.length > 0 && <Standings view={view} />}
      <Trials view={view} />
      {found && found.rejected.length > 0 && (
        <Panel title="Never started" note={`${found.rejected.length} candidates`}>
          <Table label="Candidates that were never started">
            <thead><tr><th scope="col">Candidate</th><th scope="col">Why</th></tr></thead>
            <tbody>{found.rejected.slice(0, 100).map((item, index) => <tr key={index}><td className="mono">{showKnobs(item.candidate)}</td><td className="wrap">{item.reason}</td></tr>)}</tbody>
          </Table>
        </Panel>
      )}
      <Log run={view.run.id} names={logs} isLive={isLive} />
    </div>
  );
}

function Keys(): ReactNode {
  return (
    <span className="ladder-keys">
      <span><svg width="11" height="11" aria-hidden="true"><circle cx="5.5" cy="5.5" r="4" className="k-pass" /></svg>PASS</span>
      <span><svg width="11" height="11" aria-hidden="true"><path d="M2 2l7 7M9 2l-7 7" className="k-fail" /></svg>FAIL</span>
      <span><svg width="11" height="11" aria-hidden="true"><circle cx="5.5" cy="5.5" r="4" className="k-inc" /></svg>INCONCLUSIVE</span>
      <span><svg width="11" height="11" aria-hidden="true"><path d="M5.5 0v11" className="k-cert" /></svg>certified</span>
      <span><svg width="11" height="11" aria-hidden="true"><path d="M5.5 0v11" className="k-ref" /></svg>disproven</span>
      <span><svg width="11" height="11" aria-hidden="true"><path d="M5.5 1l4.5 4.5-4.5 4.5L1 5.5Z" className="k-pred" /></svg>predicted</span>
    </span>
  );
}

function Now({ view, entries }: { view: RunView; entries: Event[] }): ReactNode {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const { doing } = view;
  return (
    <Panel title="Now" className="now-panel">
      {doing ? <Facts rows={[
        ["Runs for", <span className="num" key="t">{duration(Math.max(0, (now - Date.parse(doing.since)) / 1000))}</span>],
        ["Load", <span className="num" key="r">{doing.rate_rps ? `${significant(doing.rate_rps)} requests/s` : "closed"}</span>],
        ["Process", <code key="c" className="wrap">{doing.settings}</code>],
      ]} /> : <p className="state">Between loads: a server starts, quality is scored, or the next step is chosen.</p>}
      {entries.length > 0 && (
        <ol className="feed" aria-label="New ledger lines" aria-live="polite">
          {entries.slice(-6).map((entry) => <li key={entry.number}><span className="num dim">{clock(entry.at)}</span> line {entry.number} <b>{entry.kind}</b></li>)}
        </ol>
      )}
    </Panel>
  );
}

function Outcome({ view }: { view: RunView }): ReactNode {
  const found = view.recommendation;
  if (!found) return null;
  const { pick, baseline, gain } = found;
  const rate = (value: number | null, why: string): ReactNode => value === null ? <Absent why={why} /> : <span className="num">{significant(value)} requests/s</span>;
  const certified = view.trials.find((trial) => trial.purpose === "certify" && trial.verdict === "PASS" && showKnobs(pick.candidate) === trial.settings);
  return (
    <Panel title="What it found" note={<Basis of="measured" from={when(view.run.created).slice(0, 10)} />}>
      <Facts rows={[
        ["Pick", <b className="mono" key="p">{showKnobs(pick.candidate)}</b>],
        ["Certified", <>{rate(pick.capacity.certified_rps, "no rate was proven on fresh requests")} {certified && <Link href={{ pathname: "/evidence", query: { run: view.run.id, trial: String(certified.number) } }}>trial {certified.number}</Link>}</>],
        ["Disproven from", rate(pick.capacity.refuted_rps, "no rate was disproven on fresh requests")],
        ["Engine defaults", <>{rate(baseline.capacity.certified_rps, "nothing certified")} <span className="dim">certified</span></>],
        ["Gain", gain.ratio === null ? <Absent why={gain.reason || "not both certified"} /> : <span className="num" key="g">{significant(gain.ratio)} ×, certified between {gain.low === null ? "…" : significant(gain.low)} and {gain.high === null ? "…" : significant(gain.high)} ({share(1 - gain.level)}){gain.low !== null && gain.low <= 1 && <b className="warn"> not proven</b>}</span>],
        ["Spent", <span className="num" key="s">{duration(found.spent_s)} of engine time, {found.num_jobs} jobs, ended by {found.ended_by}</span>],
        ["Price", found.usd_per_hour === null ? <Absent why="the run knows none: tune with --price or --on" /> : <><span className="num">{usd(found.usd_per_hour)}/h</span> <Basis of={found.price_source.startsWith("published") ? "published" : "given"} from={found.price_source} /></>],
        ["Engine, model", <span key="e">{view.run.engine}, {leaf(view.run.model)}</span>],
      ]} />
      {(found.explained?.length ?? 0) > 0 && <ul className="notes">{found.explained?.map((item) => <li key={item}>{item}</li>)}</ul>}
      {found.compared.length > 0 && (
        <Table label="What was predicted and what was measured">
          <thead><tr><th scope="col">Figure</th><th scope="col" className="r"><Basis of="predicted" /></th><th scope="col" className="r"><Basis of="measured" /></th><th scope="col" className="r">Measured / predicted</th></tr></thead>
          <tbody>{found.compared.map((item) => <tr key={item.what}><td>{item.what}</td><td className="r num">{significant(item.predicted)}</td><td className="r num">{significant(item.measured)}</td><td className="r num">{significant(item.measured / item.predicted)} ×</td></tr>)}</tbody>
        </Table>
      )}
    </Panel>
  );
}

function Standings({ view }: { view: RunView }): ReactNode {
  const order = view.standings.map((standing, index) => ({ standing, index })).sort((a, b) => {
    const rank = (state: string): number => isFirst(state) ? 0 : state === "tie" || state === "finalist" ? 1 : state === "untried" || state === "waits" ? 3 : 2;
    return rank(a.standing.state) - rank(b.standing.state);
  });
  return (
    <Panel title="Where each candidate stands" note={`${order.filter((item) => OUT.has(item.standing.state)).length} ruled out`}>
      <Table label="Standings">
        <thead><tr><th scope="col">Candidate</th><th scope="col">State</th><th scope="col">Why</th><th scope="col" className="r">Limit seems</th><th scope="col" className="r">Certified</th><th scope="col" className="r">Predicted</th><th scope="col">Quality</th><th scope="col" className="r">Spent</th></tr></thead>
        <tbody>
          {order.map(({ standing: s, index }) => (
            <tr key={index} className={isFirst(s.state) ? "on" : ""}>
              <td className="mono flow">{showKnobs(s.candidate)}<span className="dim"> {s.candidate.origin}</span></td>
              <td><span className={`state-tag ${s.state}`}>{s.state}</span></td>
              <td className="wrap">{s.reason}</td>
              <td className="r">{s.capacity.low_rps === null ? <Dash why="no rate was held" /> : <span className="num">{significant(s.capacity.low_rps)} – {s.capacity.high_rps === null ? "…" : significant(s.capacity.high_rps)}/s</span>}</td>
              <td className="r">{s.capacity.certified_rps === null ? <Dash why="not certified" /> : <b className="num">{significant(s.capacity.certified_rps)}/s</b>}</td>
              <td className="r">{s.candidate.predicted_rps === null ? <Dash why="the planner does not know this setting" /> : <span className="num predicted-text">{significant(s.candidate.predicted_rps)}/s</span>}</td>
              <td>{s.quality ? <VerdictTag of={s.quality.verdict} /> : <Dash why="not scored: its settings do not change answers, or its turn did not come" />}</td>
              <td className="r num">{duration(s.spent_s)}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Panel>
  );
}

/** A search that goes on has a leader, no pick. */
const isFirst = (state: string): boolean => state === "pick" || state === "leads";

function Trials({ view }: { view: RunView }): ReactNode {
  if (view.trials.length === 0) return <Panel title="Trials"><Empty>No trial has ended yet.</Empty></Panel>;
  return (
    <Panel title="Trials" note="newest first; each opens its evidence">
      <Table label="Trials">
        <thead><tr><th scope="col" className="r">#</th><th scope="col" className="opt">At, UTC</th><th scope="col">Purpose</th><th scope="col">Candidate</th><th scope="col" className="r">Rate</th><th scope="col">Verdict</th><th scope="col" className="r">TTFT p95</th><th scope="col" className="r opt">Requests</th><th scope="col" className="opt">Why</th><th scope="col" className="opt">Ledger</th></tr></thead>
        <tbody>
          {[...view.trials].reverse().map((trial) => (
            <tr key={trial.number}>
              <td className="r"><Link className="num" href={{ pathname: "/evidence", query: { run: view.run.id, trial: String(trial.number) } }}>{trial.number}</Link></td>
              <td className="num dim opt">{clock(trial.at)}</td><td>{trial.purpose || "load"}</td><td className="mono flow">{trial.settings || trial.engine.engine}</td>
              <td className="r num">{trial.rate_rps ? `${significant(trial.rate_rps)}/s` : `${trial.concurrency} at once`}</td>
              <td><VerdictTag of={trial.verdict} /></td>
              <td className="r">{trial.ttft_s.p95.value === null ? <Dash why="no first token, or too many failures" /> : <span className="num">{duration(trial.ttft_s.p95.value)}</span>}</td>
              <td className="r num opt">{trial.num_ok}/{trial.num_judged}</td>
              <td className="wrap small opt">{trial.reasons[0] ?? ""}{trial.load_limited && " (load-limited)"}</td>
              <td className="opt"><Link className="mono" href={{ pathname: "/ledger", query: { run: view.run.id, line: String(trial.line) } }}>{trial.line} {short(trial.digest).slice(0, 8)}</Link></td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Panel>
  );
}

function Log({ run, names, isLive }: { run: string; names: string[]; isLive: boolean }): ReactNode {
  const [name, setName] = useState("");
  const chosen = names.includes(name) ? name : names[0] ?? "";
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (!chosen) return;
    let next = 0;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setText("");
    const read = async (): Promise<void> => {
      try {
        const tail = await getJson<{ after: number; next: number; text: string }>(runPath(run, `/log?after=${next}&name=${encodeURIComponent(chosen)}`));
        if (isOver) return;
        if (tail.text && tail.next !== next) setText((old) => (tail.after === next && next > 0 ? old + tail.text : tail.text).slice(-60000));
        next = tail.next;
        setFault("");
      } catch (error) {
        setFault((error as Error).message);
      }
      if (isLive && !isOver) timer = setTimeout(read, 2000);
    };
    void read();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [run, chosen, isLive]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    <Panel title="Engine log" note={names.length > 1 ? (
      <label>file <select value={chosen} onChange={(event) => setName(event.target.value)}>{names.map((one) => <option key={one}>{one}</option>)}</select></label>
    ) : chosen}>
      {fault && <Fault sentence={fault} />}
      {!chosen && <Empty>No log lies in this run folder: logs of servers that ended are kept as artifacts that the ledger names, and this run kept none beside them.</Empty>}
      {text && <pre ref={box} className="code log" tabIndex={0} role="group" aria-label="End of the engine's log">{text}</pre>}
      {chosen && !text && !fault && <Empty>The log is empty.</Empty>}
    </Panel>
  );
}
