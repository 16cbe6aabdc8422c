import { line } from "d3-shape";
import { useCallback, useMemo, useState, type KeyboardEvent, type PointerEvent, type ReactNode } from "react";
import type { Point } from "../lib/points";
import { frontier } from "../lib/pareto";
import { logScale, logTicks, useDrawing, useWidth, XAxis, YAxis, type Scale } from "./axes";

const REACH_PX = 24; // a pointer this near to a point means it
const COLOURS: Record<string, string> = {
  measured: "#ffffff", predicted: "#7cb7ff", published: "#d9a441", given: "#cccccc",
};

interface Placed { point: Point; px: number; py: number; isPriced: boolean }

/** Marks on a canvas, so that thousands cost nothing; axes, front and the chosen one as SVG. */
export function Scatter({ points, selected, onSelect, xLabel, yLabel, xShow, yShow, higherIsBetter, missing }: {
  points: Point[]; selected: string; onSelect: (id: string) => void; xLabel: string; yLabel: string;
  xShow: (value: number) => string; yShow: (value: number) => string; higherIsBetter: boolean;
  missing: string;
}): ReactNode {
  const [box, width] = useWidth<HTMLDivElement>();
  const [hover, setHover] = useState("");
  const height = width < 600 ? 340 : 460;
  const lane = points.some((point) => point.x !== null && point.y === null) ? 34 : 0;
  const left = 58, right = Math.max(left + 10, width - 14), top = 30 + lane, bottom = height - 44;

  const { x, y, placed, front } = useMemo(() => {
    const onAxis = points.filter((point) => point.x !== null && point.x > 0);
    const both = onAxis.filter((point) => point.y !== null && Number.isFinite(point.y));
    const x = logScale(onAxis.map((point) => point.x as number), [left, right]);
    const y = logScale(both.map((point) => point.y as number), [bottom, top]);
    const placed = onAxis.filter((point) => point.y === null || Number.isFinite(point.y))
      .map((point): Placed => ({
        point, px: x(point.x as number), py: point.y === null ? 34 : y(point.y),
        isPriced: point.y !== null,
      })).sort((a, b) => a.px - b.px || a.py - b.py);
    const sign = higherIsBetter ? -1 : 1;
    // unlike models are no rivals: each has a front of its own
    const groups = new Map<string, Point[]>();
    for (const point of both) {
      if (point.verdict === "misses the SLO" || point.verdict === "FAIL") continue;
      const key = `${point.basis} ${point.run ?? point.model}`;
      const group = groups.get(key);
      if (group) group.push(point);
      else groups.set(key, [point]);
    }
    const front = [...groups].map(([key, group]) => ({
      key, basis: group[0].basis,
      line: frontier(group.map((point) => ({ x: point.x as number, y: sign * (point.y as number), id: point.id }))),
    }));
    return { x, y, placed, front };
  }, [points, left, right, top, bottom, higherIsBetter]);

  const onFront = useMemo(() => new Set(front.flatMap((one) => one.line.map((point) => point.id))), [front]);

  const canvas = useDrawing(width, height, useCallback((context) => {
    for (const basis of ["published", "predicted", "measured"]) {
      for (const one of placed) {
        if (one.point.basis === basis) draw(context, one, onFront.has(one.point.id));
      }
    }
  }, [placed, onFront]));

  const nearest = (event: PointerEvent): Placed | null => {
    const bounds = event.currentTarget.getBoundingClientRect();
    const [mx, my] = [event.clientX - bounds.left, event.clientY - bounds.top];
    let best: Placed | null = null;
    let reach = REACH_PX ** 2;
    for (const one of placed) {
      const distance = (one.px - mx) ** 2 + (one.py - my) ** 2;
      if (distance < reach) [best, reach] = [one, distance];
    }
    return best;
  };
  const step = (event: KeyboardEvent): void => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") return onSelect("");
    const at = placed.findIndex((one) => one.point.id === selected);
    let next = event.key in steps ? at + steps[event.key] : event.key === "Home" ? 0
      : event.key === "End" ? placed.length - 1 : -2;
    if (next === -2 || placed.length === 0) return;
    event.preventDefault();
    next = Math.max(0, Math.min(placed.length - 1, next));
    onSelect(placed[next].point.id);
  };

  const shown = placed.find((one) => one.point.id === (hover || selected));
  const chosen = placed.find((one) => one.point.id === selected);
  const said = shown && `${shown.point.basis}: ${shown.point.label}, ${xShow(shown.point.x as number)}, ${shown.point.y === null ? shown.point.yWhy : yShow(shown.point.y)}`;
  return (
    <div ref={box} className="scatter" style={{ height }} tabIndex={0} role="group"
      aria-label={`${yLabel} against ${xLabel}, ${placed.length} points. Arrow keys go from point to point; the list below has the same.`}
      onKeyDown={step}>
      {width > 0 && (
        <>
          <svg width={width} height={height} aria-hidden="true">
            <XAxis scale={x} ticks={logTicks(x, Math.max(4, width / 90))} y={bottom} top={top} show={xShow} label={xLabel} right={right} />
            <YAxis scale={y} ticks={logTicks(y, 7)} x={left} right={right} show={yShow} label={lane ? "" : yLabel} top={30} />
            {lane > 0 && (
              <g className="lane">
                <line x1={left} x2={right} y1={top - 12.5} y2={top - 12.5} />
                <text x={2} y={14}>{yLabel}: {missing}</text>
              </g>
            )}
            {front.map((one) => <Front key={one.key} basis={one.basis} line={one.line} x={x} y={y} sign={higherIsBetter ? -1 : 1} />)}
            {[chosen, shown].map((one, index) => one && (
              <g key={index} className={`whisker ${one.point.basis}`}>
                <Whisker one={one} x={x} y={y} left={left} right={right} top={top} bottom={bottom} />
                <circle cx={one.px} cy={one.py} r={8} className="ring" />
              </g>
            ))}
          </svg>
          <canvas ref={canvas} style={{ width, height }} aria-hidden="true"
            onPointerMove={(event) => setHover(nearest(event)?.point.id ?? "")}
            onPointerLeave={() => setHover("")}
            onClick={(event) => onSelect(nearest(event as unknown as PointerEvent)?.point.id ?? "")} />
          {shown && (
            <div className="tip" style={{
              left: Math.min(Math.max(0, shown.px + 14), Math.max(0, width - 250)),
              top: shown.py > height / 2 ? shown.py - 84 : shown.py + 14,
            }} aria-hidden="true">
              <b>{shown.point.label}</b>
              <span className="num">{xShow(shown.point.x as number)} · {shown.point.y === null ? shown.point.yWhy : yShow(shown.point.y)}</span>
              <span className={`basis ${shown.point.basis}`}>{shown.point.basis}{shown.point.verdict && ` · ${shown.point.verdict}`}</span>
            </div>
          )}
        </>
      )}
      <span className="sr" role="status">{selected && chosen ? said : ""}</span>
    </div>
  );
}

function draw(context: CanvasRenderingContext2D, one: Placed, isFront: boolean): void {
  const { px, py, point } = one;
  context.globalAlpha = point.verdict === "misses the SLO" || point.verdict === "FAIL" ? 0.42 : 1;
  context.strokeStyle = context.fillStyle = COLOURS[point.basis];
  context.lineWidth = isFront ? 1.8 : 1.2;
  context.beginPath();
  if (point.basis === "measured") {
    context.arc(px, py, isFront ? 4.5 : 3.5, 0, 7);
    if (point.verdict === "PASS") context.fill(); else context.stroke();
  } else if (point.basis === "predicted") {
    const r = isFront ? 5.5 : 4;
    context.moveTo(px, py - r);
    context.lineTo(px + r, py);
    context.lineTo(px, py + r);
    context.lineTo(px - r, py);
    context.closePath();
    context.stroke();
  } else {
    const r = isFront ? 3.5 : 2.2;
    context.rect(px - r, py - r, 2 * r, 2 * r);
    context.stroke();
  }
}

/** No point of this basis is better in both; a step is as good as its left end. */
function Front({ basis, line: points, x, y, sign }: {
  basis: string; line: { x: number; y: number }[]; x: Scale; y: Scale; sign: number;
}): ReactNode {
  if (points.length < 2) return null;
  const corners: [number, number][] = points.flatMap((point, index) => {
    const here: [number, number] = [x(point.x), y(sign * point.y)];
    return index === 0 ? [here] : [[here[0], y(sign * points[index - 1].y)] as [number, number], here];
  });
  return <path className={`front ${basis}`} d={line()(corners) ?? ""} />;
}

function Whisker({ one, x, y, left, right, top, bottom }: {
  one: Placed; x: Scale; y: Scale; left: number; right: number; top: number; bottom: number;
}): ReactNode {
  const { point, px, py } = one;
  const clampX = (value: number): number => Math.max(left, Math.min(right, x(value)));
  const clampY = (value: number): number => Math.max(top, Math.min(bottom, y(value)));
  const isBounded = point.xLow !== null || point.xHigh !== null;
  const low = point.xLow === null ? left : clampX(point.xLow);
  const high = point.xHigh === null ? right : clampX(point.xHigh);
  return (
    <>
      {isBounded && (
        <>
          <line x1={low} x2={px} y1={py} y2={py} className={point.xLow === null ? "open" : ""} />
          <line x1={px} x2={high} y1={py} y2={py} className={point.xHigh === null ? "open" : ""} />
        </>
      )}
      {one.isPriced && point.yLow !== null && point.yHigh !== null &&
        <line x1={px} x2={px} y1={clampY(point.yLow)} y2={clampY(point.yHigh)} />}
    </>
  );
}
