// Line charts in SVG, coloured by the style sheet; `h` and `w` are in pixels of the page.
import { draw } from "./dom.js";
import { instant } from "./format.js";

const LEFT = 64, RIGHT = 12, TOP = 10, BOTTOM = 26;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => 1000 * s);
const UNITS = [[1e9, " G"], [1e6, " M"], [1e3, " k"]];

/** Round numbers from low to high, about as many as asked for, each with a text that tells it from the next. */
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough);
  const most = Math.max(Math.abs(low), Math.abs(high));
  const [unit, name] = UNITS.find(([u]) => most >= 10 * u) ?? [1, ""];
  const digits = Math.min(12, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)));
  const text = (value) => (value === 0 ? "0" : most >= 1e15 || most < 1e-6 ? value.toPrecision(3) : (value / unit).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + name);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step / 1e6; at++) found.push([at * step, text(at * step)]);
  return found;
}

function timeTicks(low, high, count) {
  const rough = (high - low) / count || 1000;
  const step = STEPS.find((s) => s >= rough) ?? Math.ceil(rough / 86400000) * 86400000;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

/** A path through points, with a gap where a value is missing. */
function pathOf(points, x, y) {
  let path = "", pen = "M";
  for (const [time, value] of points) {
    if (typeof value !== "number") pen = "M";
    else {
      path += `${pen}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  }
  return path;
}

function bounds(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** Draws lines `{colour, points: [[time, value]]}`; gives back what finds the time at a place, and marks it. */
export function lineChart(svg, lines) {
  const w = Math.max(320, svg.clientWidth), h = Math.max(180, svg.clientHeight);
  svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
  const drawn = lines.filter((line) => line.points.some(([, v]) => typeof v === "number"));
  const all = drawn.flatMap((line) => line.points.filter(([, v]) => typeof v === "number"));
  if (!all.length) {
    svg.replaceChildren(draw("text", { x: w / 2, y: h / 2, "text-anchor": "middle" }, lines.length ? "waiting for answers" : ""));
    return null;
  }
  let [from, to] = bounds(all.map(([time]) => time));
  let [low, high] = bounds(all.map(([, value]) => value));
  if (from === to) [from, to] = [from - 30000, to + 30000];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 10, high + (Math.abs(high) || 1) / 10];
  const room = (high - low) / 20;
  [low, high] = [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
  const x = (time) => LEFT + ((time - from) / (to - from)) * (w - LEFT - RIGHT);
  const y = (value) => h - BOTTOM - ((value - low) / (high - low)) * (h - TOP - BOTTOM);
  const parts = [];
  for (const [value, text] of ticks(low, high, 5)) {
    parts.push(draw("line", { class: "grid", x1: LEFT, x2: w - RIGHT, y1: y(value), y2: y(value) }));
    parts.push(draw("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  for (const time of timeTicks(from, to, Math.max(2, Math.floor(w / 130)))) {
    parts.push(draw("line", { class: "grid", x1: x(time), x2: x(time), y1: TOP, y2: h - BOTTOM }));
    parts.push(draw("text", { x: x(time), y: h - 8, "text-anchor": x(time) > w - 60 ? "end" : "middle" }, instant(time, to - from > 172800000)));
  }
  for (const line of drawn) {
    parts.push(draw("path", { class: `line c${line.colour}`, d: pathOf(line.points, x, y) }));
    const [time, value] = line.points.findLast(([, v]) => typeof v === "number");
    parts.push(draw("circle", { class: `dot c${line.colour}`, cx: x(time), cy: y(value), r: 3 }));
  }
  const cross = draw("line", { class: "cross", x1: -9, x2: -9, y1: TOP, y2: h - BOTTOM });
  svg.replaceChildren(...parts, cross);
  return {
    times: [...new Set(all.map(([time]) => time))].sort((a, b) => a - b),
    timeAt: (left) => from + ((left * w) / svg.clientWidth - LEFT) / ((w - LEFT - RIGHT) / (to - from)),
    mark: (time) => ["x1", "x2"].forEach((name) => cross.setAttribute(name, time === null ? -9 : x(time))),
  };
}

/** A small line without axes, of the latest numbers. */
export function sparkline(svg, numbers) {
  const points = numbers.filter((n) => Number.isFinite(n));
  const [low, high] = bounds(points);
  const x = (at) => (points.length > 1 ? (at / (points.length - 1)) * 100 : 100);
  const y = (value) => 22 - ((value - Math.min(low, 0)) / (high - Math.min(low, 0) || 1)) * 20;
  const path = draw("path", { class: "line", d: pathOf(points.map((value, at) => [at, value]), x, y) });
  svg.replaceChildren(...(points.length > 1 ? [path] : []));
}
