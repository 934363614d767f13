// Numbers, times and sizes as people read them.

/** A number, short but not wrong: 1,234,567 or 0.00123 or 1.2e+21. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toPrecision(4);
  return value.toLocaleString("en", { maximumSignificantDigits: size >= 1e5 ? 9 : 6 });
}

/** A large count, shortened: 12.3 k. */
export function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (Math.abs(value) >= size) return (value / (unit === " k" ? 1e3 : size)).toPrecision(3) + unit;
  }
  return Math.abs(value) < 100 && !Number.isInteger(value) ? value.toPrecision(2) : Math.round(value).toLocaleString("en");
}

export function bytes(value) {
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}

/** Seconds, in the unit that suits them. */
export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  for (const [length, unit] of [[31557600, "years"], [86400, "days"], [3600, "h"], [60, "min"]]) {
    if (size >= 2 * length) return `${(value / length).toPrecision(3)} ${unit}`;
  }
  if (size >= 1) return `${value.toPrecision(3)} s`;
  return size >= 0.001 ? `${(1000 * value).toPrecision(3)} ms` : `${Math.round(1e6 * value)} µs`;
}

/** An instant in UTC, with its day where it is not today's; milliseconds only where there are any. */
export function instant(text, withDay = null) {
  if (!text) return "–";
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return String(text);
  const iso = time.toISOString();
  const clock = iso.slice(11, time.getUTCMilliseconds() ? 23 : 19);
  const day = withDay ?? iso.slice(0, 10) !== new Date().toISOString().slice(0, 10);
  return day ? `${iso.slice(0, 10)} ${clock}` : clock;
}

/** The same without parts of a second. */
export const clock = (text) => instant(text).replace(/\.\d+$/, "");

/** The values of some columns of a row. */
export const values = (row, columns) => columns.map((c) => `${c} ${c.startsWith("window_") ? instant(row[c]) : number(row[c])}`).join(", ");

/** A value of a group's key; what cannot be seen gets a name. */
export const keyName = (value) => (value === null ? "null" : value === "" ? "(empty)" : String(value));

/** What a group is called: the values of its keys. */
export const groupName = (keys, row) => keys.map((key) => keyName(row[key])).join(", ");
