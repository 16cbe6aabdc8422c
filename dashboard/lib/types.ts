// Shapes of the documents that the server sends; src/neoserve/schema holds the truth of each.

export type Basis = "measured" | "predicted" | "published" | "given";
export type Verdict = "PASS" | "FAIL" | "INCONCLUSIVE" | "VOID";

export interface Quantile { value: number | null; low: number | null; high: number | null }
export interface Summary {
  num: number; num_failed: number; mean: number | null;
  p50: Quantile; p95: Quantile; p99: Quantile; level: number;
}
export interface Percentiles {
  mean: number | null; p50: number | null; p95: number | null; p99: number | null;
}
export interface Interval { low: number; high: number; level: number }
export interface Cost {
  usd_per_hour: number; price_basis: string; utilization_share: number;
  usd_per_mtok_output: number; usd_per_mtok_input: number; usd_per_mtok_total: number;
  usd_per_month: number;
}
export interface Fleet {
  replicas: number; rate_rps: number; capacity_rps: number; idle_share: number;
  usd_per_hour: number | null; usd_per_month: number | null;
}
export interface Deployment {
  hardware: string; num_devices: number; engine: string; engine_version: string;
  tensor_parallel: number; pipeline_parallel: number; expert_parallel: boolean;
  weight_quant: string; kv_cache_dtype: string; enforce_eager: boolean;
  enable_prefix_caching: boolean; max_num_seqs: number | null;
  max_num_batched_tokens: number | null; max_model_len: number | null; replicas: number;
}
export interface Latency { ttft_s: Percentiles; tpot_s: Percentiles; e2e_s: Percentiles }
export interface Throughput {
  output_tokens_per_s: number; total_tokens_per_s: number;
  goodput_rps: number | null; max_rate_rps: number | null;
}
export interface Memory {
  total_bytes: number; usable_bytes: number; weights_bytes: number; activation_bytes: number;
  graph_bytes: number; non_torch_bytes: number; available_kv_bytes: number;
}
export interface Kv {
  bytes_per_token: number; kv_tokens: number; num_blocks: number; block_size_tokens: number;
  max_concurrency: number; max_model_len: number;
}
export interface Prediction {
  basis: Basis; model: string; deployment: Deployment; memory: Memory | null; kv: Kv | null;
  latency: Latency | null; throughput: Throughput | null; cost: Cost | null; fleet: Fleet | null;
  bound: string; next_bound: string; decode_parts: { name: string; seconds: number }[];
  interval: Record<string, Interval>; meets_slo: boolean | null; slo_share: number | null;
  slo_note: string; starts: boolean; refusal: string; assumptions: string[]; advice: string[];
  command: string;
}
export interface Plan {
  model: string; num_candidates: number; best: Prediction | null; candidates: Prediction[];
  pareto: number[]; ties: number[]; sensitivity: string[];
  rejected: { deployment: Deployment; reason: string }[]; summary: string;
}
export interface Workload {
  arrival: string; rate_rps: number; concurrency: number; prompt_tokens: number;
  output_tokens: number; seed: number; prefix_hit_share: number;
}
export interface Target { metric: string; statistic: string; limit: number }
export interface Slo { targets: Target[] }
export interface EngineConfig {
  engine: string; version: string; argv: string[]; env: Record<string, string>; url: string;
}
export interface TrialCost {
  usd_per_hour: number; price_source: string; usd_per_mtok_output: number;
  usd_per_mtok_input: number; usd_per_mtok_total: number;
}
export interface TrialRow {
  number: number; line: number; digest: string; at: string; purpose: string;
  candidate: number | null; settings: string; engine: EngineConfig; rate_rps: number;
  concurrency: number; verdict: Verdict; reasons: string[]; stop: string; saturated: boolean;
  load_limited: boolean; num_judged: number; num_ok: number; ttft_s: Summary; tpot_s: Summary;
  e2e_s: Summary; output_tokens_per_s: number | null; served_rps: number | null;
  goodput_rps: number | null; cost: TrialCost | null; rows: string; schedule: string; log: string;
}
export interface QualityCheck {
  change_share: number | null; low: number | null; high: number | null; level: number;
  budget_share: number; verdict: Verdict; reason: string;
  task: null | {
    num: number; baseline_right: number; candidate_right: number; p_value: number;
  };
}
export interface Candidate {
  knobs: Record<string, string>; origin: string; predicted_rps: number | null;
}
export interface Capacity {
  low_rps: number | null; high_rps: number | null; certified_rps: number | null;
  refuted_rps: number | null;
}
export interface Standing {
  candidate: Candidate; state: string; reason: string; capacity: Capacity;
  quality: QualityCheck | null; num_jobs: number; spent_s: number;
}
export interface Host {
  cpu_model: string; isa: string[]; physical_cores: number; logical_cpus: number; cpuset: string;
  memory_bytes: number; numa_nodes: number; kernel: string; governor: string; smt: string;
  thp: string; load_average_1min: number; clock_hz: number; versions: Record<string, string>;
}
export interface EngineFacts {
  version: string; pid: number; threads: number | null; context_tokens: number | null;
  num_parallel: number | null; affinity: string[]; allocator: string;
  processes: {
    pid: number; name: string; threads: number; affinity: Record<string, number>;
    allocator: string;
  }[];
  dtype: string; kv_tokens: number | null; max_concurrency: number | null;
  block_size_tokens: number | null; log: Record<string, string>;
}
export interface Trial {
  workload: Workload; slo: Slo; engine: EngineConfig; facts: EngineFacts | null; host: Host;
  client: null | {
    loop: string; workers: number; cpus: string; shares_cores: boolean;
    lag_p99_s: number | null; cpu_s: number | null; engine_cpu_s: number | null;
    others_cores: number | null;
  };
  schedule: string; rows: string; faults: string[]; level: number; num_planned: number;
  num_judged: number; num_ok: number; stop: string; ttft_s: Summary; tpot_s: Summary;
  itl_s: Summary; e2e_s: Summary; queue_s: Summary; late_p99_s: number; late_max_s: number;
  dependence: number; steady_from_s: number; steady_until_s: number;
  output_tokens_per_s: number | null; input_tokens_per_s: number | null;
  offered_rps: number | null; served_rps: number | null; goodput_rps: number | null;
  saturated: boolean; load_limited: boolean; counters: Record<string, number>;
  cost: TrialCost | null; verdict: Verdict; reasons: string[]; notes: string[];
}
export interface TrialStory {
  run: string; number: number; num_trials: number; line: number; digest: string; at: string;
  purpose: string; candidate: number | null; settings: string; summary: string; story: string[];
  standing: Standing | null; trial: Trial; log: string;
}
export interface Gain {
  ratio: number | null; low: number | null; high: number | null; level: number; reason: string;
}
export interface Recommendation {
  pick: Standing; baseline: Standing; gain: Gain; standings: Standing[];
  rejected: { candidate: Candidate; reason: string }[];
  compared: { what: string; predicted: number; measured: number }[];
  num_jobs: number; spent_s: number; ended_by: string; usd_per_hour: number | null;
  price_source: string; notes: string[]; noise_share: number | null; explained?: string[];
}
export interface RunSummary {
  id: string; kind: string; model: string; engine: string; created: string;
  status: "live" | "ended" | "stopped" | "broken"; reason: string; summary: string; head: string;
  num_entries: number; num_trials: number;
}
export interface LedgerEntry {
  v: number; seq: number; prev: string; kind: string; at: string; body: Record<string, unknown>;
}
export interface CampaignState {
  id: string; state: "running" | "stopping" | "ended"; since: string; elapsed_s: number;
  exit_code: number | null; lines: string[];
}
export interface RunView {
  run: RunSummary; workload: Workload | null; slo: Slo | null; host: Host | null;
  candidates: Candidate[]; standings: Standing[];
  doing: null | { since: string; rate_rps: number; settings: string };
  recommendation: Recommendation | null; max_rate: Record<string, unknown> | null;
  profile: Record<string, unknown> | null; trials: TrialRow[]; others: LedgerEntry[];
  files: string[];
}
export interface HardwareFacts {
  id: string; name: string; vendor: string; kind: string; memory_bytes: number;
  bandwidth_bytes_per_s: number; peak_flops_per_s: Record<string, number>; cores: number;
  year: number; isa: string[]; usd_per_hour: number | null; price_basis: string;
  priced_devices: number; instances: string[]; sources: Record<string, string>;
}
export interface ModelFacts {
  id: string; family: string; kind: string; num_params: number; num_active_params: number;
  max_position_tokens: number; weights: string;
}
export interface PublishedPoint {
  id: string; model: string; hardware: string; num_devices: number; engine: string;
  engine_version: string; year: string | null; prompt_tokens: number; output_tokens: number;
  concurrency: number | null; rate_rps: number | null; ttft_s: number | null; ttft_stat: string;
  tpot_s: number | null; tpot_stat: string; output_tokens_per_s: number | null; source: string;
  licence: string; source_ref: string;
}
export interface MonthlyChoice {
  hardware: string; basis: Basis; deployment: Deployment | null; settings: string; run: string;
  replicas: number | null; idle_share: number | null; usd_per_hour: number | null;
  price_basis: string; usd_per_month: number | null; usd_per_mtok_output: number | null;
  capacity_output_tokens_per_month: number | null; usd_per_month_of_one: number | null;
  meets_slo: boolean | null; break_even_output_tokens_per_month: number | null; reason: string;
}
export interface CostProjection {
  basis: Basis; model: string; workload: Workload; slo: string; output_tokens_per_month: number;
  utilization_share: number; choices: MonthlyChoice[]; best: number | null;
  against_usd_per_mtok: number | null; notes: string[]; summary: string;
}
export interface Side {
  hardware: string; kind: string; memory_bytes: number; bandwidth_bytes_per_s: number;
  usd_per_hour: number | null; price_basis: string; deployment: Deployment | null;
  latency: Latency | null; throughput: Throughput | null; cost: Cost | null; bound: string;
  interval: Record<string, Interval>; meets_slo: boolean | null; reason: string; command: string;
}
export interface HardwareComparison { sides: Side[]; best: number | null; summary: string }
export interface RequestRow {
  due_s: number; sent_s?: number | null; first_token_s?: number | null;
  last_token_s?: number | null; prompt_tokens?: number; output_tokens?: number; status?: string;
  error?: string; phase?: string;
}
