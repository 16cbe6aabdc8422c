import { scaleLinear, scaleLog, type ScaleContinuousNumeric } from "d3-scale";
import { useEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { plain } from "../lib/format";

export type Scale = ScaleContinuousNumeric<number, number>;

export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number] {
  const ref = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** A canvas at the screen's own resolution, drawn anew where `draw` is another function. */
export function useDrawing(
  width: number, height: number, draw: (context: CanvasRenderingContext2D) => void,
): RefObject<HTMLCanvasElement | null> {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!canvas.current || !context || width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.current.width = width * ratio; // which clears it, too
    canvas.current.height = height * ratio;
    context.scale(ratio, ratio);
    draw(context);
  }, [width, height, draw]);
  return canvas;
}

/** A logarithmic scale over values with some room; 1 to 10 where there are none. */
export function logScale(values: number[], range: [number, number], room = 1.25): Scale {
  const positive = values.filter((value) => value > 0 && Number.isFinite(value));
  let [low, high] = positive.length
    ? [minimum(positive), maximum(positive)] : [1, 10];
  if (high / low < 1.5) [low, high] = [low / 1.5, high * 1.5];
  return scaleLog().domain([low / room, high * room]).range(range);
}

export function linearScale(values: number[], range: [number, number]): Scale {
  return scaleLinear().domain([Math.min(0, minimum(values)), maximum(values) || 1]).nice().range(range);
}

// spread would overflow the stack with many points
export const minimum = (values: number[]): number => values.reduce((a, b) => (b < a ? b : a), Infinity);
export const maximum = (values: number[]): number => values.reduce((a, b) => (b > a ? b : a), -Infinity);

/** 1, 2, 5 of each power where there is room, else powers alone. */
export function logTicks(scale: Scale, num: number): number[] {
  const [low, high] = scale.domain();
  const of = (digits: number[]): number[] => {
    const found: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const digit of digits) {
        const tick = digit * 10 ** power;
        if (tick >= low && tick <= high) found.push(Number(tick.toPrecision(3)));
      }
    }
    return found;
  };
  for (const digits of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = of(digits);
    if (ticks.length <= num) return ticks;
  }
  const ticks = of([1]);
  const every = Math.ceil(ticks.length / num);
  return ticks.filter((_, index) => index % every === 0);
}

export function XAxis({ scale, ticks, y, top, show, label, right }: {
  scale: Scale; ticks: number[]; y: number; top: number; show: (value: number) => string;
  label: string; right: number;
}): ReactNode {
  return (
    <g className="axis">
      {ticks.map((tick) => (
        <g key={tick} transform={`translate(${Math.round(scale(tick)) + 0.5},0)`}>
          <line y1={top} y2={y} className="grid" />
          <text y={y + 17} textAnchor={scale(tick) > right - 18 ? "end" : "middle"} x={scale(tick) > right - 18 ? right - scale(tick) : 0}>{plain(show(tick))}</text>
        </g>
      ))}
      <text x={right} y={y + 34} textAnchor="end" className="title">{label}</text>
    </g>
  );
}

export function YAxis({ scale, ticks, x, right, show, label, top }: {
  scale: Scale; ticks: number[]; x: number; right: number; show: (value: number) => string;
  label: string; top: number;
}): ReactNode {
  return (
    <g className="axis">
      {ticks.map((tick) => (
        <g key={tick} transform={`translate(0,${Math.round(scale(tick)) + 0.5})`}>
          <line x1={x} x2={right} className="grid" />
          <text x={x - 8} dy="0.32em" textAnchor="end">{plain(show(tick))}</text>
        </g>
      ))}
      <text x={2} y={top - 12} className="title">{label}</text>
    </g>
  );
}
