// Money, as src/neoserve/predict/cost.py and faces/money.py compute it; here so that a slider
// moves without asking the server.

export const HOURS_PER_MONTH = 730; // 8,760 / 12

export function usdPerMtok(usdPerHour: number, tokensPerS: number): number {
  return tokensPerS <= 0 ? Infinity : (usdPerHour / (tokensPerS * 3600)) * 1e6;
}

export interface Month {
  replicas: number; idleShare: number; usdPerMonth: number; usdPerMtok: number;
}

/** Whole replicas, rented all hours. `capacity` and `volume` are output tokens a month. */
export function monthAt(volume: number, capacity: number, usdOfOne: number): Month {
  // one part in 10^9 over a whole number is rounding, not another machine
  const replicas = Math.max(1, Math.ceil(volume / capacity - 1e-9));
  const usdPerMonth = replicas * usdOfOne;
  return {
    replicas, usdPerMonth, idleShare: 1 - volume / (replicas * capacity),
    usdPerMtok: (usdPerMonth / volume) * 1e6,
  };
}

/** From this volume on one replica costs less than as many tokens elsewhere; null: never. */
export function breakEven(
  usdOfOne: number, capacity: number, usdPerMtokElsewhere: number,
): number | null {
  const volume = (usdOfOne / usdPerMtokElsewhere) * 1e6;
  return volume <= capacity ? volume : null;
}
