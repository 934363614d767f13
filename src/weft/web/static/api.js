// Asking the server. A token, where one is needed, is kept until the tab is closed.
import { $, say } from "./dom.js";

const KEY = "weft-token";

/** What the server said no with: message, place and hint. */
export class Problem extends Error {
  constructor(status, said) {
    super(said.message ?? `the server answered ${status}`);
    Object.assign(this, { status, line: said.line, column: said.column, hint: said.hint, query: said.query });
  }
}

let asking = null;

/** Asks for a token, once for all who need it; false where the person would rather not. */
function askForToken(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = $("asking");
    say($("token-problem"), wrong ? "That token is wrong." : "");
    $("token").value = "";
    dialog.returnValue = "";
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        if (dialog.returnValue !== "given") return resolve(false);
        sessionStorage.setItem(KEY, $("token").value.trim());
        resolve(true);
      },
      { once: true },
    );
    dialog.showModal();
    $("token").focus();
  });
  return asking;
}

async function send(method, path, body) {
  const headers = {};
  const token = sessionStorage.getItem(KEY);
  // A header holds no other characters, and no token has them.
  if (token && /^[\x21-\x7e]+$/.test(token)) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  return [answer, token];
}

/** An answer of the server, as data or, for pictures, as text. */
export async function ask(path, { method = "GET", body } = {}) {
  let [answer, token] = await send(method, path, body);
  while (answer.status === 401) {
    if (sessionStorage.getItem(KEY) === token && !(await askForToken(Boolean(token)))) break;
    [answer, token] = await send(method, path, body);
  }
  const text = await answer.text();
  const json = (answer.headers.get("content-type") ?? "").includes("json");
  if (!answer.ok) throw new Problem(answer.status, json ? JSON.parse(text) : {});
  return json ? JSON.parse(text, exactly) : text;
}

/** Integers that a number of JavaScript would round stay as they are written. */
const exactly = (_, value, context) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? context.source : value;

/** A path with parameters, those without a value left out; a list is given again and again. */
export function path(base, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (Array.isArray(value)) value.forEach((each) => query.append(name, each));
    else if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return text ? `${base}?${text}` : base;
}

export const queryPath = (name, more = "") => `/api/v1/queries/${encodeURIComponent(name)}${more}`;
