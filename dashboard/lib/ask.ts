// What the forms say, as the words of the command line.

export interface LoadWords extends Record<string, string> {
  model: string; on: string; isl: string; osl: string; load: string; n: string; rate: string;
  ttft: string; tpot: string; stat: string;
}

export const LOAD: LoadWords = {
  model: "Qwen/Qwen3-8B", on: "L4,L40S,H100-SXM-80GB,c8g.24xlarge", isl: "1000", osl: "300",
  load: "closed", n: "16", rate: "1", ttft: "5", tpot: "0.15", stat: "mean",
};

export function sloOf(words: LoadWords): string {
  const parts = [];
  if (Number(words.ttft) > 0) parts.push(`ttft:${words.stat}<${words.ttft}s`);
  if (Number(words.tpot) > 0) parts.push(`tpot:${words.stat}<${words.tpot}s`);
  return parts.join("; ");
}

export const machines = (on: string): string[] =>
  on.split(",").map((name) => name.trim()).filter(Boolean);

/** A question's body; percentiles are simulated where the SLO or the caller asks for them. */
export function loadBody(words: LoadWords, isSimulated = words.stat !== "mean"): Record<string, unknown> {
  const body: Record<string, unknown> = {
    model: words.model, on: machines(words.on), isl: Number(words.isl), osl: Number(words.osl),
  };
  if (words.load === "open") body.request_rate = Number(words.rate);
  else body.max_concurrency = Number(words.n);
  const slo = sloOf(words);
  if (slo) body.slo = slo;
  if (isSimulated) body.simulate = true;
  return body;
}

/** "" where the form can be asked. */
export function formFault(words: LoadWords): string {
  if (!words.model.trim()) return "Choose a model.";
  if (machines(words.on).length === 0) return "Choose at least one machine.";
  return "";
}
