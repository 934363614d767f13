// The chart: lines of groups, each of one value of a query. They are part of the page's address, to be shared.
import { ask, path, queryPath } from "./api.js";
import { lineChart } from "./chart.js";
import { $, fill, fillRows, make, say } from "./dom.js";
import { groupName, instant, number } from "./format.js";

export const MOST = 8;
const IN_TABLE = 15;
let lines = [], chart = null, marked = null, changed = () => {};

const idOf = (line) => JSON.stringify([line.query, line.value, line.group]);
const title = (line) => [line.query, line.value, groupName(Object.keys(line.group), line.group)].filter(Boolean).join(" · ");
const where = (group) => Object.entries(group).map(([key, value]) => (value === null ? key : `${key}=${value}`));

/** Prepares the chart; `onChange` is called when its lines have changed. */
export function prepareLines(onChange) {
  changed = onChange;
  try {
    const stored = JSON.parse(new URLSearchParams(location.search).get("lines") ?? "[]");
    stored.slice(0, MOST).forEach(([query, value, group]) => add({ query: String(query), value: String(value), group: { ...group } }));
  } catch {
    // An address that was cut short has no lines.
  }
  const svg = $("lines");
  svg.addEventListener("pointermove", (event) => chart && mark(chart.timeAt(event.offsetX)));
  svg.addEventListener("pointerleave", () => mark(null));
  svg.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!chart || !way) return;
    event.preventDefault();
    const at = marked === null ? chart.times.length : chart.times.indexOf(marked);
    mark(chart.times[Math.min(Math.max(at + way, 0), chart.times.length - 1)]);
  });
  new ResizeObserver(() => show()).observe(svg);
  $("clear").addEventListener("click", () => keep([]));
  $("values").addEventListener("toggle", show);
}

function add(line) {
  const used = new Set(lines.map((each) => each.colour));
  lines.push({ ...line, colour: [...Array(MOST).keys()].find((c) => !used.has(c)), points: [] });
}

function keep(some) {
  lines = some;
  const address = new URL(location);
  if (lines.length) address.searchParams.set("lines", JSON.stringify(lines.map(({ query, value, group }) => [query, value, group])));
  else address.searchParams.delete("lines");
  history.replaceState(null, "", address);
  show();
  changed();
}

export const hasLine = (line) => lines.some((each) => idOf(each) === idOf(line));
export const isFull = () => lines.length >= MOST;
export const isEmpty = () => !lines.length;

/** Adds a line, or takes it away. */
export function toggleLine(line) {
  if (hasLine(line)) return keep(lines.filter((each) => idOf(each) !== idOf(line)));
  if (!isFull()) {
    add(line);
    keep(lines);
    refreshLines();
  }
}

/** Asks for the newest answers of every line, and shows them. */
export async function refreshLines() {
  await Promise.all(
    lines.map(async (line) => {
      try {
        const found = await ask(path(queryPath(line.query, "/series"), { where: where(line.group), limit: 300 }));
        line.points = found.window_end.map((end, at) => [Date.parse(end), drawable(found.values[line.value]?.[at])]);
        line.gone = false;
      } catch (problem) {
        if (problem.status !== 404 && problem.status !== 422) throw problem;
        line.gone = true;
      }
    }),
  );
  show();
}

function show() {
  fill(
    $("legend"),
    lines,
    idOf,
    (line) => {
      const remove = make("button", { type: "button", className: "plain", textContent: "×", title: "Remove" });
      remove.setAttribute("aria-label", `Remove ${title(line)}`);
      remove.addEventListener("click", () => keep(lines.filter((each) => idOf(each) !== idOf(line))));
      return make("li", {}, make("span", { className: `swatch c${line.colour}` }), make("span"), make("b"), remove);
    },
    (item, line) => {
      say(item.children[1], title(line));
      say(item.children[2], line.gone ? "gone" : number(line.points.at(-1)?.[1]));
    },
  );
  chart = lineChart($("lines"), lines);
  const label = lines.map((line) => `${title(line)}, latest ${number(line.points.at(-1)?.[1])}`).join("; ");
  $("lines").setAttribute("aria-label", lines.length ? `Line chart of ${label}. Arrow keys read it.` : "No line yet");
  mark(marked);
  showTable();
}

function mark(time) {
  marked = chart && time !== null ? chart.times.reduce((a, b) => (Math.abs(b - time) < Math.abs(a - time) ? b : a)) : null;
  chart?.mark(marked);
  if (!lines.length) say($("readout"), "Choose a query below, then a group of it.");
  else if (marked === null) say($("readout"), "Point at the chart, or use the arrow keys on it, to read it.");
  else say($("readout"), `${instant(marked, true)}: ${lines.map((line) => `${title(line)} ${number(valueAt(line, marked))}`).join("; ")}`);
}

/** Large integers, which come as text, can be drawn too. */
const drawable = (value) => (/^-?\d+$/.test(value) ? Number(value) : value);

/** The answer that was the latest at a time. */
const valueAt = (line, time) => line.points.findLast(([t]) => t <= time)?.[1];

function showTable() {
  if (!$("values").open) return;
  const table = $("values").querySelector("table");
  const titles = ["Window end", ...lines.map(title)];
  fill(table.tHead.rows[0], titles.map((text, at) => ({ text, at })), (t) => `${t.at}${t.text}`, () => make("th", { scope: "col" }), (head, t) => say(head, t.text));
  table.tBodies[0].replaceChildren();
  const exact = (line, time) => number(line.points.find(([t]) => t === time)?.[1]);
  fillRows(table, (chart?.times ?? []).slice(-IN_TABLE).reverse(), String, (time) => [instant(time, true), ...lines.map((line) => exact(line, time))], lines.map((_, at) => at + 1));
}
