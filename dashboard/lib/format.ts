// Numbers as the command line prints them: src/neoserve/units.py.

/** Three significant digits without an exponent. */
export function significant(value: number, digits = 3): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  return fixed(value, Math.max(0, digits - 1 - exponent));
}

/** With separators, rounded as Python does: what the number really holds, halves to even. */
function fixed(value: number, decimals: number): string {
  const exact = value.toFixed(100); // all that is behind the point, for what is printed here
  const cut = exact.slice(0, decimals - 100);
  const isEvenHalf = /^50*$/.test(exact.slice(decimals - 100)) && /[02468]\.?$/.test(cut);
  const [whole, rest] = (isEvenHalf ? cut : value.toFixed(decimals)).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
}

export function duration(seconds: number): string {
  if (seconds === 0) return "0 s";
  const steps: [number, number, string][] = [
    [1e-3, 1e6, "µs"], [1, 1e3, "ms"], [120, 1, "s"], [7200, 1 / 60, "min"],
    [172800, 1 / 3600, "h"],
  ];
  for (const [limit, scale, unit] of steps) {
    if (Math.abs(seconds) < limit) return `${significant(seconds * scale)} ${unit}`;
  }
  return `${significant(seconds / 86400)} d`;
}

export function bytes(count: number): string {
  const steps: [number, string][] = [
    [2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"],
  ];
  for (const [scale, unit] of steps) {
    if (Math.abs(count) >= scale) return `${significant(count / scale)} ${unit}`;
  }
  return `${count.toFixed(0)} B`;
}

export function usd(value: number): string {
  return `$${Math.abs(value) >= 100 ? fixed(value, 0) : significant(value)}`;
}

/** 12345678 → "12.3 M". */
export function count(value: number): string {
  const steps: [number, string][] = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e4, "k"]];
  for (const [scale, unit] of steps) {
    if (Math.abs(value) >= scale) {
      const at = unit === "k" ? 1e3 : scale;
      return `${significant(value / at)} ${unit}`;
    }
  }
  return Number.isInteger(value) ? value.toLocaleString("en-US") : significant(value);
}

export function share(value: number, digits = 0): string {
  return `${(value * 100).toFixed(digits)} %`;
}

/** Decimal SI, for bandwidths and peaks: 3.35e12 → "3.35 T". */
export function si(value: number): string {
  const steps: [number, string][] = [
    [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"],
  ];
  for (const [scale, unit] of steps) {
    if (Math.abs(value) >= scale) return `${significant(value / scale)} ${unit}`;
  }
  return significant(value) + " ";
}

/** "2026-11-30T21:53:21.2+00:00" → "2026-11-30 21:53:21 UTC". */
export function when(at: string): string {
  return at ? `${at.slice(0, 10)} ${at.slice(11, 19)} UTC` : "";
}

export function clock(at: string): string {
  return at.slice(11, 19);
}

export function short(digest: string): string {
  return digest.replace(/^sha256:/, "").slice(0, 12);
}

/** "2.00 s" → "2 s": for the marks of an axis and what a slider says. */
export function plain(text: string): string {
  return text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
}

/** A path's last part: models are often named by the folder that they were read from. */
export function leaf(name: string): string {
  return name.startsWith("/") ? name.slice(name.lastIndexOf("/") + 1) : name;
}
