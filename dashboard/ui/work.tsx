import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import { deleteJson, getJson, postJson } from "../lib/api";
import { duration } from "../lib/format";
import { listTools, type Schema } from "../lib/mcp";
import { useLoad } from "../lib/state";
import type { CampaignState } from "../lib/types";
import { Fault, Panel, Wait } from "./parts";
import { SchemaFields } from "./schema-form";
import { TokenForm, useStatus } from "./session";

const FIRST = ["model", "engine", "slo", "budget", "isl", "osl", "request_rate", "name"];
const NOT_HERE = ["wait_s"]; // the page looks by itself
const LOOK_MS = 2000;
const ENDS: Record<number, string> = {
  0: "a rate is certified", 1: "nothing keeps the SLO", 2: "it was asked what cannot be done",
  3: "nothing is proven yet", 4: "no engine or host ran it", 5: "its evidence does not hold",
};

interface Props {
  asked: string; onAsk: (asked: string) => void; // the form's values as JSON, for the address
  runs: string[]; onRun: (run: string) => void; onLook: () => void;
}

/** Start, follow and stop a campaign of this server, by what agents call `start_tune` and `stop_tune`. */
export function Work(props: Props): ReactNode {
  const { data: status } = useStatus();
  const mayRead = status?.may_tune && (status.has_token || !status.needs_token);
  const all = useLoad(mayRead ? "campaigns" : null, async (signal) =>
    (await getJson<{ campaigns: CampaignState[] }>("/api/tune", signal)).campaigns);
  const newest = all.data?.[0] ?? null;
  const isOver = newest === null || newest.state === "ended";
  useFollowed(newest, all.reload, props);
  if (!status) return null;
  return (
    <>
      {newest && <State of={newest} mayStop={status.has_token} onStopped={all.reload} />}
      {all.error && <Fault sentence={all.error} retry={all.reload} />}
      {isOver && (
        <details className="start" open={props.asked !== "" || undefined}>
          <summary>Start a campaign</summary>
          {!status.may_tune && <p className="state">This server only shows. <code>neoserve ui --allow-tune DIR</code> lets this page, and agents, start campaigns on its host; the address that it prints carries the token that this takes.</p>}
          {status.may_tune && !status.has_token && <TokenForm label="Starting work takes the token that neoserve ui printed" />}
          {status.may_tune && status.has_token && <Form {...props} onStarted={all.reload} />}
        </details>
      )}
    </>
  );
}

/** Looks again while one runs; opens its run as soon as there is a ledger to follow. */
function useFollowed(newest: CampaignState | null, look: () => void, { runs, onRun, onLook }: Props): void {
  const waited = useRef("");
  const isThere = newest !== null && runs.includes(newest.id);
  useEffect(() => {
    if (!newest || newest.state === "ended") return;
    if (!isThere) waited.current = newest.id;
    const timer = setTimeout(() => {
      look();
      if (!isThere) onLook();
    }, LOOK_MS);
    return () => clearTimeout(timer);
  }, [newest, isThere, look, onLook]);
  useEffect(() => {
    if (!newest || !isThere || waited.current !== newest.id) return;
    waited.current = "";
    onRun(newest.id);
  }, [newest, isThere, onRun]);
}

function Form({ asked, onAsk, onStarted }: Props & { onStarted: () => void }): ReactNode {
  const tools = useLoad("tools", listTools);
  const schema: Schema | undefined = tools.data?.find((tool) => tool.name === "start_tune")?.inputSchema;
  const [fault, setFault] = useState("");
  const [isSending, setSending] = useState(false);
  const values = readValues(asked);
  const known = Object.keys(schema?.properties ?? {}).filter((name) => !NOT_HERE.includes(name));
  const first = FIRST.filter((name) => known.includes(name));
  const rest = known.filter((name) => !first.includes(name));
  const fields = { values, onChange: (next: Record<string, string>) => onAsk(JSON.stringify(next)) };
  const start = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setSending(true);
    setFault("");
    try {
      await postJson<CampaignState>("/api/tune", Object.fromEntries(Object.entries(values).filter(([, text]) => text.trim() !== "")));
      onAsk("");
      onStarted();
    } catch (error) {
      setFault((error as Error).message);
    }
    setSending(false);
  };
  if (tools.error) return <Fault sentence={tools.error} retry={tools.reload} />;
  if (!schema) return <Wait what="Asking what can be asked" />;
  return (
    <div className="inline-form">
      <form className="form" aria-label="Start a campaign" onSubmit={(event) => void start(event)}>
        <SchemaFields schema={schema} names={first} {...fields} />
        <details className="more"><summary>{rest.length} more</summary><div className="form"><SchemaFields schema={schema} names={rest} {...fields} /></div></details>
        <div className="try">
          <button type="submit" className="primary" disabled={isSending}>Start</button>
          <span className="small dim">It loads this server's host until its budget is spent, one campaign at a time.</span>
        </div>
      </form>
      {fault && <Fault sentence={fault} />}
    </div>
  );
}

function readValues(asked: string): Record<string, string> {
  try {
    const found: unknown = JSON.parse(asked || "{}");
    return Object.fromEntries(Object.entries(found ?? {}).map(([name, value]) => [name, String(value)]));
  } catch {
    return {}; // an address that was cut
  }
}

function State({ of, mayStop, onStopped }: { of: CampaignState; mayStop: boolean; onStopped: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const [fault, setFault] = useState("");
  const stop = async (): Promise<void> => {
    dialog.current?.close();
    setFault("");
    try {
      await deleteJson<CampaignState>(`/api/tune/${encodeURIComponent(of.id)}`);
      onStopped();
    } catch (error) {
      setFault((error as Error).message);
    }
  };
  const how = of.state === "ended" && of.exit_code !== null ? `: ${ENDS[of.exit_code] ?? `exit code ${of.exit_code}`}` : "";
  return (
    <Panel title={<>Started here: <span className="mono">{of.id}</span></>} className="work" note={<span className="num">{duration(of.elapsed_s)}</span>}>
      <p className={`status ${of.state === "ended" ? "ended" : "live"}`} role="status"><i aria-hidden="true" />{of.state}{how}</p>
      {of.state === "running" && mayStop && <button type="button" onClick={() => dialog.current?.showModal()}>Stop…</button>}
      {of.state === "running" && !mayStop && <TokenForm label="Stopping it takes the token that neoserve ui printed" />}
      {fault && <Fault sentence={fault} />}
      {of.lines.length > 0 && <pre className="code log" tabIndex={0} role="group" aria-label="The last that it said">{of.lines.join("\n")}</pre>}
      <dialog ref={dialog} aria-labelledby={heading}>
        <h2 id={heading}>Stop {of.id}?</h2>
        <p>As Ctrl-C does: what was measured is kept, and concluded from. <code>neoserve tune --resume</code> goes on with it.</p>
        <div className="try">
          <button type="button" onClick={() => dialog.current?.close()}>Let it run</button>
          <button type="button" className="primary" onClick={() => void stop()}>Stop it</button>
        </div>
      </dialog>
    </Panel>
  );
}
