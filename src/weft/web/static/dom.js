// Building and updating the page. Text from the server only ever becomes text, never markup.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** An SVG element with attributes. */
export function draw(tag, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text) element.textContent = text;
  return element;
}

/** Sets a text where it has changed, so that screen readers and selections are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes a parent's children those of the items, keeping the elements of items that stay, and the focus. */
export function fill(parent, items, key, create, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let next = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = old.get(name);
    if (element) old.delete(name);
    else {
      element = create(item);
      element.dataset.key = name;
    }
    update(element, item);
    if (element === next) next = next.nextElementSibling;
    else parent.insertBefore(element, next);
  }
  for (const gone of old.values()) gone.remove();
}

/** Rows of texts in a table's body, some columns of which are numbers; the first cell may be a button. */
export function fillRows(table, items, key, texts, numbers = [], button = null) {
  [...table.tHead.rows[0].cells].forEach((head, at) => head.classList.toggle("number", numbers.includes(at)));
  fill(
    table.tBodies[0],
    items,
    key,
    (item) => {
      const row = make("tr");
      texts(item).forEach((_, at) => row.append(make(at ? "td" : "th", at ? {} : { scope: "row" })));
      if (button) row.cells[0].append(button(item));
      return row;
    },
    (row, item) =>
      texts(item).forEach((text, at) => {
        const cell = row.cells[at];
        if (typeof text === "object") text.show(cell);
        else say(at === 0 && button ? cell.firstChild : cell, text);
        cell.classList.toggle("number", numbers.includes(at));
      }),
  );
}

/** Buttons to turn pages, and where one is. */
export function pager(element, what, turn, limit = 25) {
  const before = make("button", { type: "button", textContent: "Previous" });
  const after = make("button", { type: "button", textContent: "Next" });
  const where = make("span", { className: "quiet" });
  const page = { offset: 0, limit, last: true };
  before.addEventListener("click", () => page.offset && turn((page.offset = Math.max(0, page.offset - page.limit))));
  after.addEventListener("click", () => page.last || turn((page.offset += page.limit)));
  element.replaceChildren(before, where, after);
  page.show = (matching, total) => {
    if (page.offset >= matching && page.offset > 0) {
      page.offset = Math.max(0, Math.ceil(matching / page.limit - 1) * page.limit);
      turn(page.offset);
      return;
    }
    const last = Math.min(page.offset + page.limit, matching);
    const found = matching === total ? "" : `, of ${total.toLocaleString("en")} in all`;
    say(
      where,
      matching
        ? `${(page.offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${matching.toLocaleString("en")} ${what}${found}`
        : `no ${what}${found}`,
    );
    // Not disabled: that would take the focus from whoever turns pages by keyboard.
    before.setAttribute("aria-disabled", page.offset === 0);
    after.setAttribute("aria-disabled", last >= matching);
    page.last = last >= matching;
    element.hidden = total <= page.limit;
  };
  return page;
}

/** Calls back once nothing has changed for a moment. */
export function settled(action) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, 200);
  };
}
