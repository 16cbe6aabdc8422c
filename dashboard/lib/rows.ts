// Raw rows of a trial: JSON lines, packed by gzip; one line per planned request.

import type { RequestRow } from "./types";

export interface Observed {
  index: number; dueS: number; phase: string; status: string; ttftS: number | null;
  tpotS: number | null; e2eS: number | null; lateS: number; promptTokens: number;
  outputTokens: number; error: string;
}

export async function unpack(data: Uint8Array): Promise<string> {
  if (data[0] !== 0x1f || data[1] !== 0x8b) return new TextDecoder().decode(data);
  const stream = new Blob([data as Uint8Array<ArrayBuffer>]).stream()
    .pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

export function readRows(text: string): Observed[] {
  return text.split("\n").filter(Boolean).map((line, index) => observed(JSON.parse(line), index));
}

/** Every latency counts from the intended arrival: src/neoserve/schema/trial.py. */
function observed(row: RequestRow, index: number): Observed {
  const since = (end: number | null | undefined, start: number): number | null =>
    end === null || end === undefined ? null : Math.round((end - start) * 1e9) / 1e9;
  const tokens = row.output_tokens ?? 0;
  const span = row.first_token_s == null ? null : since(row.last_token_s, row.first_token_s);
  return {
    index, dueS: row.due_s, phase: row.phase ?? "measured", status: row.status ?? "ok",
    ttftS: since(row.first_token_s, row.due_s), e2eS: since(row.last_token_s, row.due_s),
    tpotS: span === null || tokens < 2 ? null : span / (tokens - 1),
    lateS: since(row.sent_s, row.due_s) ?? 0, promptTokens: row.prompt_tokens ?? 0,
    outputTokens: tokens, error: row.error ?? "",
  };
}
