// The query that is chosen: its facts, its text, and its groups with their latest answers.
import { ask, path, queryPath } from "./api.js";
import { $, fill, fillRows, make, pager, say, settled } from "./dom.js";
import { clock, groupName, instant, keyName, number } from "./format.js";
import { hasLine, isFull, MOST, toggleLine } from "./lines.js";

let chosen = null, shown = null, found = null, order = "", asked = 0;
const page = pager($("group-pager"), "groups", refreshQuery, 10);

export const chosenQuery = () => shown;
export const isChosen = () => chosen !== null;

/** Prepares the panel. */
export function prepareQuery() {
  $("group-search").addEventListener("input", settled(() => first()));
  $("value").addEventListener("change", showGroups);
  $("groups").tHead.addEventListener("click", (event) => {
    const column = event.target.closest("button")?.textContent;
    if (!column) return;
    order = order === column ? `-${column}` : column;
    first();
  });
  $("groups").tBodies[0].addEventListener("click", (event) => {
    const at = event.target.closest("button")?.closest("tr").sectionRowIndex;
    if (at !== undefined) toggleLine(lineOf(found.groups[at]));
  });
}

function first() {
  page.offset = 0;
  return refreshQuery();
}

/** Chooses a query; null for none. */
export async function choose(name) {
  [chosen, order, page.offset] = [name, "", 0];
  await refreshQuery();
}

/** Asks for the chosen query and the page of its groups, and shows them. */
export async function refreshQuery() {
  const turn = ++asked;
  if (chosen === null) return showNothing("No query chosen");
  const { offset, limit } = page;
  try {
    const [query, groups] = await Promise.all([
      ask(queryPath(chosen)),
      ask(path(queryPath(chosen, "/groups"), { search: $("group-search").value, order, offset, limit })),
    ]);
    if (turn !== asked) return;
    [shown, found] = [query, groups];
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    if (turn === asked) showNothing(`${chosen} was dropped`);
    return;
  }
  showFacts();
  showGroups();
  page.show(found.matching, found.total);
}

function showNothing(words) {
  [chosen, shown, found] = [null, null, null];
  say($("query-title"), words);
  say($("query-facts"), "Choose one in the table.");
  $("query-sql").hidden = true;
  for (const id of ["replace", "drop", "group-search", "value"]) $(id).disabled = true;
  for (const part of [$("groups").tHead.rows[0], $("groups").tBodies[0], $("value")]) part.replaceChildren();
  $("group-pager").hidden = true;
}

function showFacts() {
  const exact = shown.exact_from ? `exact from ${instant(shown.exact_from)}` : "exact from the start";
  say($("query-title"), shown.name);
  say($("query-facts"), `${shown.error ? `failed: ${shown.error};` : `${shown.state},`} windows of ${shown.window}, ${exact}, ${number(shown.results)} ${shown.results === 1 ? "result" : "results"} since ${clock(shown.since)}`);
  say($("query-sql"), shown.sql ?? "");
  $("query-sql").hidden = !shown.sql;
  $("replace").disabled = $("drop").disabled = $("value").disabled = false;
  $("group-search").disabled = !found.keys.length;
  const values = found.columns.slice(found.keys.length + 2);
  fill($("value"), values, (v) => v, (v) => make("option", { value: v, textContent: v }), () => {});
}

const lineOf = (row) => ({
  query: shown.name,
  value: $("value").value,
  group: Object.fromEntries(found.keys.map((key) => [key, row[key] === null ? null : String(row[key])])),
});

/** The groups, their answers, and a switch for the chart. */
export function showGroups() {
  if (!found) return;
  const shownColumns = found.columns.filter((column) => column !== "window_start");
  fill(
    $("groups").tHead.rows[0],
    ["Chart", ...shownColumns],
    (column) => column,
    (column) => make("th", { scope: "col" }, column === "Chart" ? column : make("button", { type: "button", className: "plain", textContent: column })),
    (head, column) => {
      if (order && order.replace(/^-/, "") === column) head.setAttribute("aria-sort", order.startsWith("-") ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    },
  );
  const button = (row) => ({
    show: (cell) => {
      const on = hasLine(lineOf(row)), name = groupName(found.keys, row) || shown.name;
      if (!cell.firstChild) cell.append(make("button", { type: "button" }));
      say(cell.firstChild, on ? "On" : "Show");
      cell.firstChild.setAttribute("aria-pressed", on);
      cell.firstChild.setAttribute("aria-label", `${on ? "On the chart" : "Show"}: ${name}`);
      cell.firstChild.title = !on && isFull() ? `The chart has ${MOST} lines; remove one first` : "";
    },
  });
  const numbers = shownColumns.flatMap((column, at) => (found.groups.some((row) => typeof row[column] === "number") ? [at + 1] : []));
  fillRows($("groups"), found.groups, (row) => `${shown.name} ${JSON.stringify(found.keys.map((key) => row[key]))}`, (row) => [
    button(row), ...shownColumns.map((column) => (column === "window_end" || column === "ts" ? instant(row[column]) : typeof row[column] === "number" ? number(row[column]) : keyName(row[column]))),
  ], numbers);
}

/** Puts the first group of a query on the chart, for a page that has none yet. */
export function showFirstGroup() {
  if (found?.groups.length) toggleLine(lineOf(found.groups[0]));
}
