// How the run does: its state, the tiles, and the latest steps.
import { ask, path } from "./api.js";
import { sparkline } from "./chart.js";
import { $, draw, fillRows, make, say } from "./dom.js";
import { bytes, clock, instant, number, seconds, short } from "./format.js";

const KEPT = 120, SHOWN = 12;
let steps = [], started = null;

const TILES = {
  "Rows per second": { value: (o) => short(o.rate), more: (o) => `${short(o.totals.rows)} rows in all`, line: (s) => s.rate },
  "Latency of a step": {
    value: (o) => seconds(o.latency?.p50),
    more: (o) => `p90 ${seconds(o.latency?.p90)}, p99 ${seconds(o.latency?.p99)}`,
    line: (s) => s.seconds,
  },
  "Watermark lag": { value: (o) => seconds(o.watermark_lag), more: (o) => `at ${clock(o.watermark)}`, line: (s) => s.watermark_lag },
  "Late rows": {
    value: (o) => short(o.totals.late),
    more: (o) => `${short(o.totals.untimed)} without a time, ${short(o.totals.bad)} bad`,
    line: (s) => s.late,
    warn: (o) => o.totals.late + o.totals.bad > 0,
  },
  Batches: {
    value: (o) => short(o.steps.batch ?? 0),
    more: (o) => `${short(o.steps.flush ?? 0)} flushes since ${clock(o.started)}`,
    line: (s) => s.rows,
  },
  State: { value: (o) => bytes(o.state_bytes), more: (o) => `${short(o.state_rows)} rows`, line: (s) => s.state_bytes },
  Results: { value: (o) => short(o.totals.results), more: (o) => queriesInWords(o.queries), line: (s) => s.results },
};

function queriesInWords(states) {
  const { running = 0, ...others } = states;
  return [`${running.toLocaleString("en")} ${running === 1 ? "query" : "queries"}`, ...Object.entries(others).map(([s, n]) => `${n} ${s}`)].join(", ");
}

/** Asks how the run does, and shows it. */
export async function refreshRun() {
  const overview = await ask("/api/v1/overview");
  if (started !== overview.started) [started, steps] = [overview.started, []];
  if (overview.last_seq > (steps.at(-1)?.seq ?? -1)) await moreSteps();
  showState(overview);
  showTiles(overview);
  return overview;
}

async function moreSteps() {
  const news = await ask(path("/api/v1/progress", { limit: KEPT, after: steps.at(-1)?.seq ?? -1 }));
  for (const step of news) {
    const time = Date.parse(step.done), before = steps.at(-1);
    const elapsed = before ? (time - before.time) / 1000 : 0;
    steps.push({ ...step, time, rate: elapsed ? step.rows / elapsed : NaN });
  }
  steps = steps.slice(-KEPT);
  const parts = (step) => Object.entries(step.breakdown).map(([part, s]) => `${part} ${seconds(s)}`).join(", ");
  fillRows($("step-table"), steps.slice(-SHOWN).reverse(), (s) => String(s.seq), (s) => [
    number(s.seq), instant(s.done), s.kind, number(s.rows), number(s.late), number(s.bad), number(s.results), bytes(s.state_bytes), s.seconds.toFixed(3), parts(s),
  ], [0, 3, 4, 5, 6, 7, 8]);
}

function showState(overview) {
  const badge = $("state").firstElementChild;
  badge.className = `badge ${overview.state}`;
  say(badge, overview.state);
  if ($("state").childElementCount < 2) $("state").append(make("span", { className: "quiet" }));
  say($("state").lastElementChild, ` ${overview.engine === "local" ? "in-process" : "on Spark"}, queries version ${overview.version}`);
  document.title = overview.state === "running" ? "weft" : `${overview.state} – weft`;
}

function showTiles(overview) {
  for (const [name, tile] of Object.entries(TILES)) {
    if (!tile.element) {
      const line = draw("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" });
      tile.element = make("div", {}, make("dt", { textContent: name }), make("dd"), make("dd", { className: "quiet" }), make("dd"));
      tile.element.lastChild.append(line);
      $("tiles").append(tile.element);
    }
    const [, value, more, line] = tile.element.children;
    say(value, tile.value(overview));
    say(more, tile.more(overview));
    sparkline(line.firstChild, steps.map(tile.line));
    tile.element.classList.toggle("warn", Boolean(tile.warn?.(overview)));
  }
}
