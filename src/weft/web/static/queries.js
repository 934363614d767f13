// The table of queries: found, ordered and paged by the server.
import { ask, path } from "./api.js";
import { $, fillRows, make, pager, settled } from "./dom.js";
import { groupName, instant, number, values } from "./format.js";

const COLUMNS = [["Name", "name"], ["State", "state"], ["Window", "window"], ["Grouped by", ""], ["Groups", ""], ["Windows answered", "windows"], ["Results", "results"], ["Exact from", ""], ["Latest answer", ""]];
let order = "name", asked = 0;
const page = pager($("query-pager"), "queries", refreshQueries);

/** Prepares the table; `choose` is called with the name of a query that is chosen. */
export function prepareQueries(choose) {
  for (const [title, by] of COLUMNS) {
    const head = make("th", { scope: "col" });
    if (!by) head.textContent = title;
    else {
      const button = make("button", { type: "button", className: "plain", textContent: title });
      button.addEventListener("click", () => {
        order = order === by ? `-${by}` : by;
        first();
      });
      head.append(button);
      head.dataset.by = by;
    }
    $("query-table").tHead.rows[0].append(head);
  }
  $("query-table").addEventListener("click", (event) => {
    const name = event.target.closest("button[data-query]")?.dataset.query;
    if (name !== undefined) choose(name);
  });
  $("search").addEventListener("input", settled(first));
  $("state-filter").addEventListener("change", first);
}

function first() {
  page.offset = 0;
  return refreshQueries();
}

export function markChosen(name) {
  for (const button of $("query-table").querySelectorAll("button[data-query]")) {
    button.setAttribute("aria-current", button.dataset.query === name);
  }
}

/** Asks for the page of queries that is to be seen, and shows it. */
export async function refreshQueries() {
  const turn = ++asked;
  const { offset, limit } = page;
  const found = await ask(path("/api/v1/summary", { search: $("search").value, state: $("state-filter").value, order, offset, limit }));
  if (turn !== asked) return found;
  for (const head of $("query-table").tHead.rows[0].cells) {
    if (!head.dataset.by) continue;
    if (order.endsWith(head.dataset.by)) head.setAttribute("aria-sort", order.startsWith("-") ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const latest = (q) => {
    if (q.error) return q.error;
    if (!q.latest) return "–";
    const group = q.group_by.length ? `${groupName(q.group_by, q.latest)}: ` : "";
    return `${group}${values(q.latest, q.values)} at ${instant(q.latest.window_end ?? q.latest.ts)}`;
  };
  const state = (q) => ({
    show: (cell) => cell.replaceChildren(make("span", { className: `badge ${q.state}`, textContent: q.state })),
  });
  fillRows(
    $("query-table"),
    found.queries,
    (q) => q.name,
    (q) => [q.name, state(q), q.window, q.group_by.join(", ") || "–", number(q.groups), number(q.windows), number(q.results), q.exact_from ? instant(q.exact_from) : "the start", latest(q)],
    [4, 5, 6],
    (q) => {
      const button = make("button", { type: "button", className: "plain name" });
      button.dataset.query = q.name;
      return button;
    },
  );
  page.show(found.matching, found.total);
  return found;
}
