import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { blobPath, getBytes, getJson, runPath } from "../lib/api";
import { bytes, clock, count, short, when } from "../lib/format";
import { check, sha256, type Checked, type Line } from "../lib/ledger";
import { useLoad, useUrlState } from "../lib/state";
import { Code, Empty, Facts, Fault, Panel, Table, TextField, Wait } from "../ui/parts";
import { NO_RUNS, RunPicker, usePick, useRuns } from "../ui/runs";
import { Shell } from "../ui/shell";

interface Verified {
  head: string; num_entries: number; num_blobs: number; num_trials: number; num_recomputed: number; num_unfinished: number;
}

export default function Ledger(): ReactNode {
  const [words, set, ready] = useUrlState({ run: "", line: "", head: "", flip: "" });
  const runs = useRuns();
  const pick = useCallback((run: string) => set({ run }), [set]);
  usePick(runs.data, words.run, ready, pick);
  const raw = useLoad(ready && words.run ? words.run : null, async (signal) => ({ run: words.run, data: await getBytes(runPath(words.run, "/ledger"), signal) }));
  const data = raw.data?.run === words.run ? raw.data.data : null;
  const canHash = !ready || Boolean(globalThis.crypto?.subtle);
  const flipAt = words.flip === "" || !data ? null : Math.min(data.length - 1, Math.max(0, Math.floor(Number(words.flip)) || 0));
  const read = useMemo(() => data && flipAt !== null ? flipped(data, flipAt) : data, [data, flipAt]);
  const [checked, setChecked] = useState<{ of: Uint8Array; found: Checked; milliseconds: number } | null>(null);
  useEffect(() => {
    if (!read || !canHash) return;
    let isOver = false;
    const started = performance.now();
    void check(read, words.head).then((found) => {
      if (!isOver) setChecked({ of: read, found, milliseconds: performance.now() - started });
    });
    return () => {
      isOver = true;
    };
  }, [read, words.head, canHash]);
  const found = checked && checked.of === read ? checked.found : null;
  const server = useLoad(ready && words.run && found ? `${words.run}/${data?.length}` : null, (signal) => getJson<Verified>(runPath(words.run, "/verify"), signal));
  return (
    <Shell answer={found ? <Answer found={found} isFlipped={flipAt !== null} /> : ""}>
      {runs.error && <Fault sentence={runs.error} retry={runs.reload} />}
      {runs.data && runs.data.length === 0 && <Empty>{NO_RUNS}</Empty>}
      {runs.data && runs.data.length > 0 && (
        <div className="bar">
          <RunPicker runs={runs.data} run={words.run} onPick={(run) => set({ run, line: "", flip: "" }, true)} />
          <TextField label="Published head" hint="from a recipe, a report or a step summary" value={words.head} mono placeholder="none: order and integrity alone" onChange={(head) => set({ head })} />
        </div>
      )}
      {!canHash && <Fault sentence="This browser offers WebCrypto on https and on localhost alone: open the page through one of them, or run neoserve verify." />}
      {raw.error && <Fault sentence={raw.error} retry={raw.reload} />}
      {!found && !raw.error && canHash && (raw.isLoading || runs.isLoading || data) && <Wait what="Fetching the raw ledger and hashing it here" />}
      {found && data && (
        <div className="stack">
          <div className="pair">
            <Panel title="Checked in this browser" note={checked && <span className="num">{bytes(data.length)} in {Math.max(1, Math.round(checked.milliseconds))} ms</span>}>
              <Facts rows={[
                ["Lines", <span className="num" key="l">{found.lines.length} of {found.numLines} hold</span>],
                ["Head", <code key="h" className="wrap">{found.head || "none"}</code>],
                ["Published head", words.head ? (found.fault ? <b className="fail-text" key="p">not in this ledger, or the chain broke before it</b> : <span key="p">found: nothing up to its line was changed since it was published</span>) : <span key="p" className="dim">none given: a rewritten chain would hold too; compare the head with one that was published</span>],
                ["Each line", "UTF-8, one JSON object, RFC 8785 canonical, seq counts up, prev is the SHA-256 of the line before with its newline"],
              ]} />
              <Try data={data} flipAt={flipAt} fault={found.fault} onFlip={(flip) => set({ flip })} />
            </Panel>
            <Panel title="Checked by the server" note="chain, artifacts, and every figure again from raw rows">
              {server.isLoading && <Wait what="Computing every trial again from its raw rows" />}
              {server.error && <Fault sentence={server.error} retry={server.reload} />}
              {server.data && <Facts rows={[
                ["Head", <span key="h"><code className="wrap">{server.data.head}</code> {flipAt === null && (server.data.head === found.head ? <span className="pass-text">the same as here</span> : <b className="fail-text">not the one found here</b>)}</span>],
                ["Artifacts", <span className="num" key="a">{server.data.num_blobs} named, each found and equal to its digest</span>],
                ["Trials", <span className="num" key="t">{server.data.num_recomputed} of {server.data.num_trials} computed again from raw rows</span>],
                ["Unfinished", <span className="num" key="u">{server.data.num_unfinished} loads that a crash ended</span>],
              ]} />}
              <Artifacts run={words.run} lines={found.lines} />
            </Panel>
          </div>
          <Lines found={found} open={words.line} onOpen={(line) => set({ line })} />
          <p className="small dim">A chain proves order and integrity after the fact, not that a measurement was honest. The last line is protected only by publishing the head.</p>
        </div>
      )}
    </Shell>
  );
}

function Answer({ found, isFlipped }: { found: Checked; isFlipped: boolean }): ReactNode {
  if (found.fault) {
    return <><b className="fail-text">Line {found.fault.line} does not hold</b>: {found.fault.sentence}.{isFlipped && " (One bit was changed in this page alone.)"}</>;
  }
  return <><b className="pass-text">The chain holds</b>: {count(found.lines.length)} lines, {when(found.lines[0].at)} to {when(found.lines[found.lines.length - 1].at)}, hashed in this browser. Head <code>{short(found.head)}…</code></>;
}

function flipped(data: Uint8Array, at: number): Uint8Array {
  const copy = data.slice();
  copy[at] ^= 1;
  return copy;
}

/** Nothing convinces like breaking it. */
function Try({ data, flipAt, fault, onFlip }: { data: Uint8Array; flipAt: number | null; fault: Checked["fault"]; onFlip: (flip: string) => void }): ReactNode {
  return (
    <div className="try">
      <button type="button" aria-pressed={flipAt !== null} onClick={() => onFlip(flipAt === null ? String(Math.floor(Math.random() * data.length)) : "")}>
        {flipAt === null ? "Change one bit and see" : "Put it back"}
      </button>
      {flipAt !== null && <span className="small">Bit 0 of byte <span className="num">{flipAt.toLocaleString("en-US")}</span>, in this page alone; {fault ? `found at line ${fault.line}` : "not found: it lies in the last line, which only a published head protects"}.</span>}
    </div>
  );
}

function Artifacts({ run, lines }: { run: string; lines: Line[] }): ReactNode {
  const names = useMemo(() => [...new Set(lines.flatMap((line) => line.digests))], [lines]);
  const [state, setState] = useState<{ done: number; bad: string[]; isRunning: boolean } | null>(null);
  const turn = useRef(0);
  useEffect(() => {
    turn.current++;
    setState(null);
  }, [run]);
  const start = async (): Promise<void> => {
    const mine = ++turn.current;
    const bad: string[] = [];
    setState({ done: 0, bad, isRunning: true });
    for (let i = 0; i < names.length; i++) {
      try {
        if (await sha256(await getBytes(blobPath(run, names[i]))) !== names[i]) bad.push(`${short(names[i])}… has other bytes`);
      } catch (error) {
        bad.push(`${short(names[i])}…: ${(error as Error).message}`);
      }
      if (turn.current !== mine) return;
      setState({ done: i + 1, bad: [...bad], isRunning: i + 1 < names.length });
    }
  };
  if (names.length === 0) return null;
  return (
    <div className="try">
      <button type="button" disabled={state?.isRunning} onClick={() => void start()}>Hash {names.length} {names.length === 1 ? "artifact" : "artifacts"} here too</button>
      {state && <span className="small" role="status">{state.done} of {names.length}{!state.isRunning && (state.bad.length === 0 ? ", all equal to their digests" : "")}</span>}
      {state && state.bad.length > 0 && <ul className="notes">{state.bad.map((item) => <li key={item} className="fail-text">{item}</li>)}</ul>}
    </div>
  );
}

function Lines({ found, open, onOpen }: { found: Checked; open: string; onOpen: (line: string) => void }): ReactNode {
  const chosen = found.lines.find((line) => String(line.number) === open);
  const ref = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    const row = ref.current;
    const box = row?.closest(".scroll");
    if (row && box) box.scrollTop = row.offsetTop - box.clientHeight / 2;
  }, []);
  return (
    <div className="pair lines">
      <Panel title="Lines" note="each prev is the digest of the line before">
        <Table label="Ledger lines" className="tall">
          <thead><tr><th scope="col" className="r">Line</th><th scope="col">Kind</th><th scope="col">At, UTC</th><th scope="col">Prev</th><th scope="col">SHA-256</th><th scope="col" className="r">Bytes</th></tr></thead>
          <tbody>
            {found.lines.map((line) => (
              <tr key={line.number} ref={line === chosen ? ref : undefined} className={line === chosen ? "on" : ""}>
                <td className="r num">{line.number}</td>
                <td><button type="button" className="link" aria-pressed={line === chosen} onClick={() => onOpen(line === chosen ? "" : String(line.number))}>{line.kind}</button></td>
                <td className="num dim">{clock(line.at)}</td><td className="mono dim">{short(line.prev).slice(0, 8)}</td><td className="mono">{short(line.digest).slice(0, 8)}</td><td className="r num">{line.numBytes.toLocaleString("en-US")}</td>
              </tr>
            ))}
            {found.fault && <tr className="broken"><td className="r num">{found.fault.line}</td><td colSpan={5} className="wrap"><b className="fail-text">{found.fault.sentence}</b>; {found.numLines - found.lines.length} lines from here on are not to be trusted</td></tr>}
          </tbody>
        </Table>
      </Panel>
      <Panel title={chosen ? `Line ${chosen.number}, ${chosen.kind}` : "An entry"} note={chosen && when(chosen.at)}>
        {chosen ? <>
          <p className="mono small wrap">{chosen.digest}</p>
          <Code text={pretty(chosen.body)} label={`Body of line ${chosen.number}`} />
        </> : <Empty>Choose a line to read its entry.</Empty>}
      </Panel>
    </div>
  );
}

function pretty(body: unknown): string {
  const text = JSON.stringify(body, null, 2);
  return text.length > 40000 ? `${text.slice(0, 40000)}\n… ${count(text.length - 40000)} more characters` : text;
}
