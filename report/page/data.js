// What the page knows: columns of rows, which rows are one cell, and how values read.
const all = (q, of = document) => [...of.querySelectorAll(q)];
const one = id => document.getElementById(id);
const svgNS = "http://www.w3.org/2000/svg";
const make = (name, attributes = {}, ...inside) => {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) e.setAttribute(key, value);
  e.append(...inside);
  return e;
};
const draw = (name, attributes = {}, ...inside) => {
  const e = document.createElementNS(svgNS, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...inside);
  return e;
};
const chip = series => {
  const svg = draw("svg", { width: 22, height: 10, "aria-hidden": "true" });
  svg.append(draw("use", { href: `#k${series + 1}` }));
  return svg;
};
const D = JSON.parse(one("data").textContent);
const count = D.listed;
for (const c of D.columns) { c.values ??= c.texts.map((_, i) => i); c.top = new Set(c.top); }
const columns = new Map(D.columns.map(c => [c.key, c]));
const places = new Map(D.places.map(c => [c.key, c]));
const rowsOf = []; // of each cell
D.cell.forEach((c, row) => { if (c >= 0) (rowsOf[c] ??= []).push(row); });
const publisher = row => D.published[row] ?? "";
const seriesOf = row => columns.get("series").values[row];

// text is a number as people read it: three digits, or all of a whole number's.
const formats = [0, 1, 2, 3, 4, 5].map(n => new Intl.NumberFormat("en", { minimumFractionDigits: n, maximumFractionDigits: n }));
const text = v => {
  if (!Number.isFinite(v)) return "–";
  if (v === 0) return "0";
  if (v > 0 && v < 0.001) return "<0.001";
  const exponent = +v.toExponential(2).split("e")[1];
  const digits = Math.min(5, Math.max(0, 2 - exponent));
  return formats[digits].format(+v.toFixed(digits));
};
const short = v => new Intl.NumberFormat("en", { maximumFractionDigits: 6 }).format(v);
// unitOf is the unit in which values of a unit are read side by side, and how many of theirs one of it is.
const unitOf = (unit, ...values) => {
  const larger = D.larger[unit];
  return larger && Math.max(...values) >= larger.most && !values.some(v => v !== 0 && v < larger.some) ? [larger.unit, larger.per] : [unit ?? "", 1];
};
// amount is a value with its unit.
const amount = (v, unit) => { const [u, per] = unitOf(unit, v); return `${text(v / per)} ${u}`.trim(); };
const change = share => {
  if (share > 1) return "×" + text(1 + share);
  if (share > -1 && share < -0.9) return "÷" + text(1 / (1 + share));
  const p = Math.abs(share * 100), s = p.toFixed(p < 9.95 ? 1 : 0);
  return +s === 0 ? "±0 %" : (share < 0 ? "−" : "+") + s + " %";
};
// share is how far the farthest of repetitions is from their median.
const share = v => !Number.isFinite(v) ? "" : `±${(v * 100).toFixed(v < 0.0995 ? 1 : 0)} %`;
// rangeOf is from where to where a line on a value goes: its repetitions, or of a single one where the
// truth lies in 95 of 100 runs; null: nobody can tell.
const rangeOf = m => m.n > 1 ? m.high > m.low ? m : null : m.sure ?? null;
// between is from where to where repetitions are, in the unit that amount gives their median.
const between = (m, unit) => { const [, per] = unitOf(unit, m.v); return `${text(m.low / per)} to ${text(m.high / per)}`; };
const plural = (n, what) => n === 1 ? `1 ${what}` : `${n.toLocaleString("en")} ${what}s`;
const lower = s => /^.[a-z]/.test(s) ? s[0].toLowerCase() + s.slice(1) : s;

// said is what a row has in a column, as text; its number is null where it is none.
const said = (c, row) => c.texts ? c.texts[c.values[row]] : text(c.values[row]);
const numberOf = (c, row) => {
  if (!c.texts) return c.values[row];
  const s = c.texts[c.values[row]], n = s.trim() === "" ? NaN : Number(s);
  return Number.isNaN(n) ? null : n;
};
const doubted = (row, key) => {
  const keys = D.doubts[D.doubt[row]];
  return !!keys && (keys[0] === "*" || keys.includes(key));
};
// median of what some rows have in a column: of those that are not in doubt, where there are any.
const median = (key, rows) => {
  const c = columns.get(key);
  if (c && rows.length === 1) {
    const v = c.values[rows[0]];
    const sure = c.low && c.low[rows[0]] !== null ? { low: c.low[rows[0]], high: c.high[rows[0]] } : null;
    return v === null ? null : { v, low: v, high: v, n: 1, of: 1, doubt: doubted(rows[0], key), sure };
  }
  const known = c ? rows.filter(r => c.values[r] !== null) : [];
  if (!known.length) return null;
  const sure = known.filter(r => !doubted(r, key));
  const v = (sure.length ? sure : known).map(r => c.values[r]).sort((a, b) => a - b), half = v.length >> 1;
  return { v: v.length % 2 ? v[half] : (v[half - 1] + v[half]) / 2, low: v[0], high: v[v.length - 1], n: v.length, of: known.length, doubt: !sure.length };
};
// tooFew says how many requests a percentile needs, where rows have none of it as theirs are too few.
const tooFew = (key, rows) => {
  const most = Math.max(0, ...rows.map(r => columns.get(key)?.needs?.[r] ?? 0));
  return most ? `n<${short(most)}` : "";
};
// fits says which rows the filter lets through; what draws or lists is told when that changes.
let fits = new Uint8Array(D.cell.length).fill(1);
let fitsCell = new Uint8Array(rowsOf.length).fill(1); // any of its rows fits
const told = [];
const tell = () => told.forEach(f => f());
const valueOf = (key, cell, rows = rowsOf[cell].filter(r => fits[r])) => {
  if (!rows.length) return null;
  const place = places.get(key);
  if (!place) return median(key, rows);
  const v = place.values[cell];
  return v === null ? null : { v, low: v, high: v, n: 1, of: 1, doubt: false };
};

// What is chosen stands in the address, as far as it is not what the page begins with.
const begin = { w: "", x: "", y: "", t: "", log: "", logy: "", sus: "", base: "", q: "", sort: "", cell: "" };
const S = { ...begin };
const readAddress = () => {
  if (!location.hash.includes("=")) return false;
  Object.assign(S, begin);
  for (const [k, v] of new URLSearchParams(location.hash.slice(1))) if (k in S) S[k] = v;
  return true;
};
const writeAddress = () => {
  const p = new URLSearchParams(Object.entries(S).filter(([, v]) => v !== ""));
  history.replaceState(null, "", p.size ? "#" + p : location.pathname + location.search);
};
const copy = async (what, button) => {
  const was = button.textContent;
  try { await navigator.clipboard.writeText(what); } catch { // pages opened from a file may not
    const t = make("textarea"); t.value = what; button.after(t); t.select(); document.execCommand("copy"); t.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = was; }, 1500);
};
const save = (name, type, what) => {
  const a = make("a", { download: name });
  a.href = URL.createObjectURL(new Blob([what], { type }));
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
};
readAddress();
