// The dashboard: asks the server every two seconds for what is on the page, and for no more than that.
import { $, say } from "./dom.js";
import { clock } from "./format.js";
import { prepareEditor } from "./editor.js";
import { isEmpty, prepareLines, refreshLines } from "./lines.js";
import { preparePlan, refreshPlan } from "./plan.js";
import { markChosen, prepareQueries, refreshQueries } from "./queries.js";
import { choose, chosenQuery, isChosen, prepareQuery, refreshQuery, showFirstGroup, showGroups } from "./query.js";
import { refreshRun } from "./run.js";

const EVERY = 2000;
let paused = false, timer = null, heard = null, begun = false, refreshing = null;

async function pick(name) {
  await choose(name).catch(failed);
  markChosen(chosenQuery()?.name);
  $("query-title").focus();
}

async function changed(answer) {
  await Promise.all([refreshQueries(), answer.state === "dropped" ? choose(null) : choose(answer.name), refreshPlan()]).catch(failed);
  markChosen(chosenQuery()?.name);
  (answer.state === "dropped" ? $("queries-title") : $("query-title")).focus();
}

async function refresh() {
  const overview = await refreshRun();
  const [found] = await Promise.all([refreshQueries(), refreshQuery(), refreshLines(), refreshPlan()]);
  if (!begun) await begin(found);
  heard = new Date();
  problem(overview.state === "failed" ? `The run has failed: ${overview.error}` : "");
}

/** A page that was just opened shows the first query, and a line of it as soon as it has answers. */
async function begin(found) {
  const answering = found.queries.find((query) => query.latest) ?? found.queries[0];
  if (!isChosen() && answering) await choose(answering.name);
  markChosen(chosenQuery()?.name);
  begun = !isEmpty() || Boolean(answering?.latest);
  if (isEmpty()) showFirstGroup();
}

function problem(words) {
  say($("problem"), words);
  $("problem").hidden = !words;
}

function failed(error) {
  if (error.status === 401) {
    pause(true);
    problem("A token is needed to read from this server. Go on to give it.");
  } else if (error instanceof TypeError) {
    problem(`The server does not answer${heard ? ` since ${clock(heard)}` : ""}; trying again.`);
  } else {
    problem(error.message);
  }
}

async function loop() {
  clearTimeout(timer);
  // One at a time: where the server is slow, answers would else be overtaken by the next question and never shown.
  if (!paused && !document.hidden) await (refreshing ??= refresh().catch(failed).finally(() => (refreshing = null)));
  clearTimeout(timer);
  timer = setTimeout(loop, EVERY);
}

function pause(wanted) {
  paused = wanted;
  $("pause").setAttribute("aria-pressed", paused);
  say($("pause"), paused ? "Go on" : "Pause");
}

function theme(wanted) {
  if (wanted) document.documentElement.dataset.theme = wanted;
  else delete document.documentElement.dataset.theme;
  $("theme").value = wanted;
  localStorage.setItem("weft-theme", wanted);
}

theme(localStorage.getItem("weft-theme") ?? "");
$("theme").addEventListener("change", () => theme($("theme").value));
$("pause").addEventListener("click", () => {
  pause(!paused);
  loop();
});
addEventListener("unhandledrejection", (event) => failed(event.reason));
document.addEventListener("visibilitychange", () => document.hidden || loop());
prepareLines(showGroups);
prepareQueries(pick);
prepareQuery();
preparePlan();
prepareEditor(chosenQuery, changed);
loop();
