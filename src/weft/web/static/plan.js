// The plan: the picture of a tree, what is shared, and what it costs.
import { ask, path } from "./api.js";
import { $, draw, fillRows, pager, say } from "./dom.js";
import { number, short } from "./format.js";

let pictured = null;
const page = pager($("cost-pager"), "trees", refreshPlan, 10);

export function preparePlan() {
  $("tree").addEventListener("change", refreshPlan);
}

/** Asks for costs and, where the plan or the tree is another, the picture; shows them. */
export async function refreshPlan() {
  const { offset, limit } = page;
  const costs = await ask(path("/api/v1/costs", { offset, limit }));
  const gain = costs.cost ? `, ${(costs.alone / costs.cost).toFixed(1)} times fewer than one by one` : "";
  const trees = `${number(costs.total)} ${costs.total === 1 ? "tree" : "trees"} by ${costs.strategy}, ${costs.rate ? `at ${short(costs.rate)} rows/s ` : ""}${short(costs.cost)} ${costs.unit}${gain}`;
  say($("plan-facts"), [...(costs.total || !costs.joins ? [trees] : []), ...(costs.joins ? [joined(costs.joins)] : [])].join("; "));
  say($("unit"), `Estimated, ${costs.unit}`);
  $("tree").max = Math.max(0, costs.total - 1);
  $("tree").closest("label").hidden = costs.total < 2;
  fillRows($("shared"), costs.groupings, (g) => JSON.stringify([g.keys, g.axis, g.names]), (g) => [
    (g.keys.join(", ") || "nothing") + (g.axis === "rows" ? ", by rows" : ""),
    number(g.queries), number(g.predicates), number(g.aggregates), number(g.parts),
    g.names.join(", ") + (g.parts > g.names.length ? ", …" : ""),
  ], [1, 2, 3, 4]);
  const busy = (part) => (costs.seconds ? number(Number(((1000 * part.measured) / costs.seconds).toPrecision(3))) : "–");
  const work = [{ name: "rows to partials, for all", cost: costs.partial }, ...costs.trees.map((t) => ({ ...t, name: `answers of tree ${t.tree}` }))];
  fillRows($("costs"), work, (w) => w.name, (w) => [
    w.name,
    w.queries ? number(w.queries) : "all",
    w.windows ? number(w.windows) : "",
    w.windows ? `${short(w.edges)} (${short(w.edges_alone)})` : "",
    w.technique ?? "",
    number(Number(w.cost.estimated.toPrecision(4))),
    busy(w.cost),
    shares(w.cost),
  ], [1, 2, 3, 5, 6]);
  page.show(costs.total, costs.total);
  await picture(costs.version, costs.joins !== null, Math.min(Math.max(0, Number($("tree").value) || 0), costs.total - 1));
}

/** The chains of joins, in words. */
function joined({ joins, chains, cost, alone, unit }) {
  const gain = cost ? `, ${(alone / cost).toFixed(1)} times fewer than one by one` : "";
  return `${number(joins)} ${joins === 1 ? "join" : "joins"} in ${number(chains)} ${chains === 1 ? "chain" : "chains"}, ${short(cost)} ${unit}${gain}`;
}

/** Two bars, with their numbers as text. */
function shares(part) {
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;
  const bar = (name, y, share) => draw("rect", { class: name, x: 0, y, height: 6, width: `${Math.min(100, 100 * share)}%` });
  return {
    show: (cell) => {
      if (!cell.firstChild) cell.append(draw("svg", { class: "shares", "aria-hidden": "true" }), document.createElement("span"));
      cell.firstChild.replaceChildren(bar("estimated", 2, part.estimated_share), bar("measured", 10, part.measured_share));
      say(cell.lastChild, `${percent(part.estimated_share)}, ${percent(part.measured_share)}`);
    },
  };
}

/** Draws a tree, and the chains of joins where there are some. */
async function picture(version, joins, tree) {
  const wanted = `${version} ${tree} ${joins}`;
  if (wanted === pictured) return;
  const shown = [];
  try {
    if (tree >= 0) shown.push(drawn(await ask(path("/api/v1/plan.svg", { tree }))));
    if (joins) shown.push(drawn(await ask(path("/api/v1/plan.svg", { chains: true }))));
  } catch (problem) {
    if (problem.status === 404) return;
    throw problem;
  }
  if (!shown.length) {
    shown.push(document.createElement("pre"));
    shown[0].textContent = await ask("/api/v1/plan.txt");
  }
  $("picture").replaceChildren(...shown);
  pictured = wanted;
}

function drawn(text) {
  // Its colours are those of this page's style sheet.
  const plain = text.replace(/<style>[^<]*<\/style>/, "");
  return document.importNode(new DOMParser().parseFromString(plain, "image/svg+xml").documentElement, true);
}
