/** Points that no other one beats in both: lower is better on either axis; in the order of x. */
export function frontier<T extends { x: number; y: number }>(points: readonly T[]): T[] {
  const sorted = [...points].sort((a, b) => a.x - b.x || a.y - b.y);
  const found: T[] = [];
  let best = Infinity;
  for (const point of sorted) {
    if (point.y < best) {
      found.push(point);
      best = point.y;
    }
  }
  return found;
}
