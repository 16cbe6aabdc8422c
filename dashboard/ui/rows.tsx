import { useCallback, useMemo, useState, type ReactNode } from "react";
import { blobPath, getBytes } from "../lib/api";
import { duration, short, significant } from "../lib/format";
import { sha256 } from "../lib/ledger";
import { readRows, unpack, type Observed } from "../lib/rows";
import { useLoad } from "../lib/state";
import type { Slo } from "../lib/types";
import { linearScale, logScale, logTicks, useDrawing, useWidth, XAxis, YAxis } from "./axes";
import { Dash, Empty, Fault, Panel, Table, Wait } from "./parts";

const PAGE = 20;
const NO_FAULT = ["unsent", "cancelled"]; // the trial was decided before their turn

/** The raw rows, fetched by their digest, hashed here, and drawn one by one. */
export function Rows({ run, digest, slo, steady }: { run: string; digest: string; slo: Slo; steady: [number, number] }): ReactNode {
  const found = useLoad(digest ? `${run}/${digest}` : null, async (signal) => {
    const data = await getBytes(blobPath(run, digest), signal);
    const hash = globalThis.crypto?.subtle ? await sha256(data) : "";
    return { rows: readRows(await unpack(data)), hash, numBytes: data.length };
  });
  const holds = found.data && found.data.hash === digest.replace("sha256:", "");
  return (
    <Panel id="rows" title="Raw rows" note={found.data && <span>{found.data.rows.length} requests · <span className="mono">{short(digest)}</span> {found.data.hash === "" ? "not hashed: this browser has no WebCrypto here" : holds ? "hashed here: it is the artifact that the ledger names" : <b className="fail-text">its digest is {short(found.data.hash)}: not the artifact that the ledger names</b>}</span>}>
      {found.error && <Fault sentence={found.error} retry={found.reload} />}
      {found.isLoading && <Wait what="Reading the rows" />}
      {found.data && (found.data.rows.length === 0 ? <Empty>The load was over before a request was sent.</Empty> : (
        <>
          <Dots rows={found.data.rows} slo={slo} steady={steady} />
          <RowTable rows={found.data.rows} />
        </>
      ))}
    </Panel>
  );
}

function Dots({ rows, slo, steady }: { rows: Observed[]; slo: Slo; steady: [number, number] }): ReactNode {
  const [box, width] = useWidth<HTMLDivElement>();
  const height = 260, left = 58, right = Math.max(left + 10, width - 12), top = 28, bottom = height - 40;
  const { x, y } = useMemo(() => ({
    x: linearScale(rows.filter((row) => row.status !== "unsent").map((row) => row.dueS), [left, right]).clamp(true),
    y: logScale(rows.flatMap((row) => [row.ttftS ?? 0, row.e2eS ?? 0]), [bottom, top], 1.2),
  }), [rows, left, right, top, bottom]);
  const canvas = useDrawing(width, height, useCallback((context) => {
    for (const row of rows) {
      const at = x(row.dueS);
      context.globalAlpha = row.phase === "measured" ? 1 : 0.4;
      if (NO_FAULT.includes(row.status)) {
        context.fillStyle = "#8c8c8c";
        context.fillRect(at - 0.5, bottom - 6, 1, 6);
      } else if (row.status !== "ok") {
        context.strokeStyle = "#ff7b72";
        context.strokeRect(at - 2.5, top + 2, 5, 5);
      } else if (row.ttftS !== null && row.e2eS !== null) {
        context.strokeStyle = "#4a4a4a";
        context.beginPath();
        context.moveTo(at, y(Math.max(row.ttftS, y.domain()[0])));
        context.lineTo(at, y(row.e2eS));
        context.stroke();
        context.fillStyle = "#ffffff";
        context.beginPath();
        context.arc(at, y(Math.max(row.ttftS, y.domain()[0])), 2.6, 0, 7);
        context.fill();
        context.strokeStyle = "#9a9a9a";
        context.beginPath();
        context.moveTo(at - 3, y(row.e2eS));
        context.lineTo(at + 3, y(row.e2eS));
        context.stroke();
      }
    }
  }, [rows, x, y, bottom]));
  const target = slo.targets.find((one) => one.metric === "ttft");
  const ticks = x.ticks(Math.max(3, Math.floor(width / 90)));
  return (
    <div ref={box} className="chart" style={{ height }} role="img"
      aria-label={`Each of ${rows.length} requests at its intended arrival: a dot for its first token, a dash for its end; dim ones are warm-up and drain, ticks at the foot were not sent or were cut off when the trial was decided. The table below has the numbers.`}>
      {width > 0 && <>
        <svg width={width} height={height} aria-hidden="true">
          <XAxis scale={x} ticks={ticks} y={bottom} top={top} show={(v) => `${significant(v, 2)} s`} label="intended arrival; ticks: not sent, the trial was decided" right={right} />
          <YAxis scale={y} ticks={logTicks(y, 5)} x={left} right={right} show={duration} label="● first token, – end" top={top} />
          {steady[1] > steady[0] && <g className="steady"><line x1={x(steady[0])} x2={x(steady[1])} y1={top - 6} y2={top - 6} /><text x={x(steady[1])} y={top - 11} textAnchor="end">steady window</text></g>}
          {target && y(target.limit) > top && y(target.limit) < bottom && <line x1={left} x2={right} y1={y(target.limit)} y2={y(target.limit)} className="limit" />}
          {target && y(target.limit) > top && y(target.limit) < bottom && <text x={right} y={y(target.limit) + 14} textAnchor="end" className="said">SLO, {target.statistic} {duration(target.limit)}</text>}
        </svg>
        <canvas ref={canvas} style={{ width, height }} aria-hidden="true" />
      </>}
    </div>
  );
}

function RowTable({ rows }: { rows: Observed[] }): ReactNode {
  const [num, setNum] = useState(PAGE);
  const time = (value: number | null, why: string): ReactNode => value === null ? <Dash why={why} /> : <span className="num">{duration(value)}</span>;
  return (
    <>
      <Table label="Raw rows">
        <thead><tr><th scope="col" className="r">#</th><th scope="col">Phase</th><th scope="col" className="r">Due</th><th scope="col" className="r">Sent late</th><th scope="col" className="r">TTFT</th><th scope="col" className="r">TPOT</th><th scope="col" className="r">End to end</th><th scope="col" className="r">Tokens in, out</th><th scope="col">Status</th></tr></thead>
        <tbody>
          {rows.slice(0, num).map((row) => (
            <tr key={row.index} className={row.phase === "measured" ? "" : "faded"}>
              <td className="r num">{row.index + 1}</td><td>{row.phase}</td><td className="r num">{row.dueS.toFixed(3)} s</td>
              <td className="r">{time(row.lateS, "")}</td><td className="r">{time(row.ttftS, "no first token came")}</td>
              <td className="r">{time(row.tpotS, "an answer of one token has none")}</td><td className="r">{time(row.e2eS, "it did not end")}</td>
              <td className="r num">{row.promptTokens}, {row.outputTokens}</td>
              <td>{row.status === "ok" ? "ok" : <span className={NO_FAULT.includes(row.status) ? "dim" : "fail-text"}>{row.status}{row.error && `: ${row.error}`}</span>}</td>
            </tr>
          ))}
        </tbody>
      </Table>
      {num < rows.length && <button type="button" onClick={() => setNum(num + 500)}>Show {Math.min(500, rows.length - num)} more of {rows.length - num}</button>}
    </>
  );
}
