// Model Context Protocol over streamable HTTP, protocol 2026-07-28: one POST per question, no
// session, the version in headers and `_meta` alike.

export const PROTOCOL = "2026-07-28";
const META = "io.modelcontextprotocol";

export interface McpRequest {
  url: string; headers: Record<string, string>; body: Record<string, unknown>;
}
export interface McpTool {
  name: string; title?: string; description?: string; inputSchema: Schema;
  annotations?: Record<string, unknown>;
}
export interface Schema {
  type?: string | string[]; description?: string; properties?: Record<string, Schema>;
  required?: string[]; enum?: string[]; default?: unknown; anyOf?: Schema[]; items?: Schema;
}
export interface McpAnswer {
  status: number; milliseconds: number; numBytes: number; body: unknown; error: string;
  contentType: string;
}

export function mcpRequest(
  id: number, method: string, params: Record<string, unknown> = {},
): McpRequest {
  const headers: Record<string, string> = {
    "content-type": "application/json", accept: "application/json, text/event-stream",
    "mcp-protocol-version": PROTOCOL, "mcp-method": method,
  };
  const name = params.name ?? params.uri;
  if (typeof name === "string") headers["mcp-name"] = name;
  return {
    url: "/mcp", headers,
    body: {
      jsonrpc: "2.0", id, method,
      params: {
        ...params,
        _meta: {
          [`${META}/protocolVersion`]: PROTOCOL, [`${META}/clientCapabilities`]: {},
          [`${META}/clientInfo`]: { name: "neoserve-dashboard", version: "1" },
        },
      },
    },
  };
}

/** A body that is one JSON document, or a stream of events whose last one is the answer. */
export function readBody(contentType: string, text: string): unknown {
  if (!contentType.includes("text/event-stream")) return text ? JSON.parse(text) : null;
  const events = text.split(/\r?\n\r?\n/).map((event) =>
    event.split(/\r?\n/).filter((line) => line.startsWith("data:"))
      .map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
  const last = events.filter(Boolean).at(-1);
  return last === undefined ? null : JSON.parse(last);
}

/** "" where the answer is one. */
export function faultOf(body: unknown): string {
  const answer = (body ?? {}) as Record<string, any>;
  if (typeof answer.error === "string") return answer.error;
  if (answer.error) return String(answer.error.message ?? "the server refused");
  if (answer.result?.isError) {
    return String(answer.result.content?.[0]?.text ?? "the tool failed");
  }
  return "";
}

export async function ask(request: McpRequest, signal?: AbortSignal): Promise<McpAnswer> {
  const started = performance.now();
  const response = await fetch(request.url, {
    method: "POST", headers: request.headers, body: JSON.stringify(request.body), signal,
  });
  const text = await response.text();
  const contentType = response.headers.get("content-type") ?? "";
  let body: unknown = null;
  let error = "";
  try {
    body = readBody(contentType, text);
    error = faultOf(body);
  } catch {
    error = `the answer is no JSON (HTTP ${response.status})`;
  }
  if (!error && !response.ok) error = `HTTP ${response.status}`;
  return {
    status: response.status, milliseconds: performance.now() - started, body, error, contentType,
    numBytes: new TextEncoder().encode(text).length,
  };
}

const LIST_TOOLS = mcpRequest(1, "tools/list");

/** Those that this asker may use. */
export async function listTools(signal?: AbortSignal): Promise<McpTool[]> {
  const answer = await ask(LIST_TOOLS, signal);
  if (answer.error) throw new Error(answer.error);
  return (answer.body as { result: { tools: McpTool[] } }).result.tools;
}
