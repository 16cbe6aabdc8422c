// RFC 8785 canonical JSON. ECMAScript's own JSON.stringify writes numbers and strings as the RFC
// asks; what is left is the order of keys, and refusing what the RFC refuses.

export function canonical(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return text(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new Error("a number is not finite");
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object") {
    const object = value as Record<string, unknown>;
    // sort() without a comparison orders by UTF-16 code units, as the RFC does
    const pairs = Object.keys(object).sort().map((key) => `${text(key)}:${canonical(object[key])}`);
    return `{${pairs.join(",")}}`;
  }
  throw new Error(`a ${typeof value} has no JSON`);
}

function text(value: string): string {
  if (!isWellFormed(value)) throw new Error("a text holds half of a surrogate pair");
  return JSON.stringify(value);
}

function isWellFormed(value: string): boolean {
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const next = value.charCodeAt(i + 1);
    if (unit > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) return false;
    i++;
  }
  return true;
}
