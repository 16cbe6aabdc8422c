import { useEffect, useMemo, useState, type ReactNode } from "react";
import { getJson } from "../lib/api";
import { bytes } from "../lib/format";
import { ask, listTools, mcpRequest, type McpAnswer, type McpRequest, type Schema } from "../lib/mcp";
import { useLoad, useUrlState } from "../lib/state";
import type { RunSummary } from "../lib/types";
import { Code, Empty, Fault, Field, Panel, Wait } from "../ui/parts";
import { Shell } from "../ui/shell";

const PLAN = { model: "Qwen/Qwen3-8B", on: "L4,L40S,c8g.24xlarge", isl: 1000, osl: 300, max_concurrency: 16 };

/** Questions that work on any installation; RUN is the newest campaign. */
const EXAMPLES: Record<string, Record<string, unknown>> = {
  recommend_config: { ...PLAN, slo: "ttft:mean<5s; tpot:mean<150ms", keep: 3 },
  predict: { ...PLAN, on: "L40S" },
  compare_hardware: { ...PLAN, on: "c7g.16xlarge,c8g.16xlarge" },
  project_cost: { ...PLAN, on: "L4,L40S", output_tokens_per_month: 5e9, against: 0.6 },
  get_serving_recipe: { run: "RUN", to: "run" },
  explain_trial: { run: "RUN" },
  verify_ledger: { run: "RUN" },
  list_hardware: { name: "graviton", limit: 3 },
  list_models: { name: "Qwen3", limit: 5 },
  list_runs: {},
};

interface Exchange { request: McpRequest; answer: McpAnswer | null; fault: string }

export default function Agent(): ReactNode {
  const [words, set, ready] = useUrlState({ tool: "recommend_config", args: "" });
  const tools = useLoad(ready ? "tools" : null, listTools);
  const runs = useLoad(ready ? "runs" : null, async (signal) => (await getJson<{ runs: RunSummary[] }>("/api/runs", signal)).runs);
  const run = runs.data?.find((one) => one.kind === "tune" && one.status === "ended")?.id ?? runs.data?.[0]?.id ?? "";
  const tool = tools.data?.find((one) => one.name === words.tool) ?? tools.data?.[0] ?? null;
  const text = words.args || JSON.stringify(example(words.tool, run), null, 2);
  const [exchange, setExchange] = useState<Exchange | null>(null);
  const [isAsking, setAsking] = useState(false);
  const [number, setNumber] = useState(2);
  const parsed = useMemo(() => parseArgs(text), [text]);

  useEffect(() => setExchange(null), [words.tool]);
  const send = async (): Promise<void> => {
    if (!tool || typeof parsed === "string") return;
    const request = mcpRequest(number, "tools/call", { name: tool.name, arguments: parsed });
    setNumber(number + 1);
    setAsking(true);
    setExchange({ request, answer: null, fault: "" });
    try {
      setExchange({ request, answer: await ask(request), fault: "" });
    } catch {
      setExchange({ request, answer: null, fault: "the server does not answer: is neoserve ui still running?" });
    }
    setAsking(false);
  };
  return (
    <Shell answer={tools.data ? `${tools.data.length} tools at /mcp, called from this page as an agent calls them: one POST each, the same words as the command line.` : ""}>
      {tools.error && <Fault sentence={`/mcp: ${tools.error}`} retry={tools.reload} />}
      {tools.isLoading && <Wait what="Listing the tools" />}
      {tools.data && tool && (
        <div className="split agent">
          <div className="stack">
            <Panel title="Tools" note="tools/list">
              <ul className="tools">
                {tools.data.map((one) => (
                  <li key={one.name}>
                    <button type="button" aria-pressed={one.name === tool.name} onClick={() => set({ tool: one.name, args: "" }, true)}>
                      <b className="mono">{one.name}</b><span>{one.title}</span>
                    </button>
                  </li>
                ))}
              </ul>
            </Panel>
          </div>
          <div className="stack">
            <Panel title={<span className="mono">{tool.name}</span>} note={<>{tool.annotations?.readOnlyHint === true && <span className="tag">read-only</span>}{tool.annotations?.idempotentHint === true && <span className="tag">idempotent</span>}</>}>
              <p>{tool.description}</p>
              <Field label="Arguments" hint="JSON" htmlFor="args">
                <textarea id="args" className="mono" rows={Math.min(14, text.split("\n").length + 1)} value={text} spellCheck={false}
                  aria-invalid={typeof parsed === "string"} aria-describedby="args-fault"
                  onChange={(event) => set({ args: event.target.value })}
                  onKeyDown={(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && void send()} />
              </Field>
              <p id="args-fault" className="small">{typeof parsed === "string" ? <span className="fail-text">{parsed}</span> : <span className="dim">Ctrl+Enter sends</span>}</p>
              <div className="try">
                <button type="button" className="primary" disabled={isAsking || typeof parsed === "string"} onClick={() => void send()}>Call</button>
                {words.args && <button type="button" onClick={() => set({ args: "" })}>Example again</button>}
              </div>
              <Arguments schema={tool.inputSchema} />
            </Panel>
            {exchange && <Shown exchange={exchange} />}
            {!exchange && <Empty>Nothing was asked yet. The request that is sent and the answer that comes back are shown here word for word.</Empty>}
          </div>
        </div>
      )}
    </Shell>
  );
}

function example(tool: string, run: string): Record<string, unknown> {
  const found = EXAMPLES[tool] ?? {};
  return Object.fromEntries(Object.entries(found).map(([key, value]) => [key, value === "RUN" ? run : value]));
}

function parseArgs(text: string): Record<string, unknown> | string {
  try {
    const found: unknown = JSON.parse(text || "{}");
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found as Record<string, unknown> : "Arguments are one JSON object.";
  } catch (error) {
    return `No JSON: ${(error as Error).message}`;
  }
}

function Arguments({ schema }: { schema: Schema }): ReactNode {
  const names = Object.entries(schema.properties ?? {});
  if (names.length === 0) return <p className="small dim">It takes no arguments.</p>;
  const required = schema.required ?? [];
  return (
    <details>
      <summary>{names.length} arguments{required.length > 0 && `, of which ${required.join(" and ")} ${required.length === 1 ? "is" : "are"} needed`}</summary>
      <dl className="facts args">
        {names.map(([name, of]) => <div key={name}><dt className="mono">{name}</dt><dd>{of.description}{of.enum && <span className="dim"> ({of.enum.join(", ")})</span>}</dd></div>)}
      </dl>
    </details>
  );
}

function Shown({ exchange: { request, answer, fault } }: { exchange: Exchange }): ReactNode {
  const result = (answer?.body as { result?: { content?: { text: string }[]; structuredContent?: unknown } } | null)?.result;
  const sent = `POST ${request.url}\n${Object.entries(request.headers).map(([key, value]) => `${key}: ${value}`).join("\n")}\n\n${JSON.stringify(request.body, null, 2)}`;
  return (
    <>
      <Panel title="Answer" className="answer-panel" note={answer && <span className="num">HTTP {answer.status} · {Math.round(answer.milliseconds)} ms · {bytes(answer.numBytes)}</span>}>
        {!answer && !fault && <Wait what="Asking" />}
        {fault && <Fault sentence={fault} />}
        {answer?.error && <Fault sentence={answer.error} />}
        {answer && !answer.error && result?.content?.[0] && <p className="said-by-tool">{result.content[0].text}</p>}
        {answer && <Code text={clip(JSON.stringify(result?.structuredContent ?? answer.body, null, 2))} label="Structured answer" />}
      </Panel>
      <Panel title="Request" note="as it was sent"><Code text={sent} label="Request" /></Panel>
    </>
  );
}

const clip = (text: string): string => text.length > 60000 ? `${text.slice(0, 60000)}\n…` : text;
