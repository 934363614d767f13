// Changes: a query added, replaced or dropped, with what is wrong shown beside it.
import { ask, path, queryPath } from "./api.js";
import { $, make, say } from "./dom.js";
import { instant } from "./format.js";

const WAIT = 3;
let replaced = null, working = false;

/** Prepares the dialogs; `chosen` gives the query to change, `done` is called with a name after a change. */
export function prepareEditor(chosen, done) {
  $("add").addEventListener("click", () => open(null));
  $("replace").addEventListener("click", () => open(chosen()));
  $("drop").addEventListener("click", () => {
    say($("drop-title"), `Drop ${chosen().name}?`);
    $("drop-problem").replaceChildren();
    $("dropping").showModal();
  });
  for (const cancel of document.querySelectorAll("dialog .cancel")) {
    cancel.addEventListener("click", () => cancel.closest("dialog").close("cancelled"));
  }
  on("asking", async () => $("asking").close("given"));
  on("editor", () => change($("editor-problem"), save, done));
  on("dropping", () => change($("drop-problem"), () => ask(path(queryPath(chosen().name), { wait: WAIT }), { method: "DELETE" }), done));
  $("sql").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("editor-go").click();
  });
}

function on(dialog, submitted) {
  $(dialog).addEventListener("submit", (event) => {
    event.preventDefault();
    submitted();
  });
}

function open(query) {
  replaced = query?.name ?? null;
  say($("editor-title"), query ? `Replace ${query.name}` : "Add a query");
  say($("editor-go"), query ? "Replace" : "Add");
  $("name-label").hidden = Boolean(query);
  $("name").value = "";
  if (query) $("sql").value = query.sql ?? "";
  $("editor-problem").replaceChildren();
  $("sql").removeAttribute("aria-invalid");
  $("editor").showModal();
  (query ? $("sql") : $("name")).focus();
}

function save() {
  const sql = $("sql").value, name = $("name").value.trim();
  if (replaced !== null) return ask(path(queryPath(replaced), { wait: WAIT }), { method: "PUT", body: { sql } });
  return ask(path("/api/v1/queries", { wait: WAIT }), { method: "POST", body: name ? { sql, name } : { sql } });
}

async function change(place, make, done) {
  if (working) return;
  working = true;
  place.replaceChildren();
  try {
    const answer = await make();
    place.closest("dialog").close("done");
    if (place.id === "editor-problem") $("sql").value = "";
    say($("notice"), inWords(answer));
    done(answer);
  } catch (problem) {
    showProblem(place, problem);
  } finally {
    working = false;
  }
}

function inWords(answer) {
  if (answer.state === "dropped") return `${answer.name} was dropped.`;
  if (answer.state !== "running") return `${answer.name}: ${answer.state}; the next batch takes it.`;
  return `${answer.name} is running, ${answer.exact_from ? `exact from ${instant(answer.exact_from)}` : "exact from the start"}.`;
}

/** What is wrong: the message, the line with a mark under the place, and what to do. */
function showProblem(place, problem) {
  place.append(make("p", { className: "wrong", textContent: problem.message }));
  if (problem.line && place.id === "editor-problem") {
    const text = $("sql").value.split(/\r\n|\r|\n/)[problem.line - 1] ?? "";
    // Tabs stay tabs, so that the mark is under its character.
    const before = text.slice(0, problem.column - 1).replace(/[^\t]/g, " ");
    place.append(make("p", { className: "quiet", textContent: `line ${problem.line}, column ${problem.column}` }));
    place.append(make("pre", { textContent: `${text}\n${before}^`, ariaHidden: "true" }));
  }
  if (problem.hint) place.append(make("p", { textContent: problem.hint }));
  if (place.id !== "editor-problem") return;
  $("sql").setAttribute("aria-invalid", "true");
  $("sql").focus();
  if (problem.line) {
    const lines = $("sql").value.split("\n").slice(0, problem.line - 1);
    const at = lines.reduce((sum, line) => sum + line.length + 1, 0) + problem.column - 1;
    const word = /^\w*/.exec($("sql").value.slice(at))[0].length;
    $("sql").setSelectionRange(at, at + word);
  }
}
