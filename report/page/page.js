// Light and dark: the system's, until the button says otherwise.
one("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// What is long waits until it comes near the view: drawings and lists stand in a noscript till then, which
// costs nothing.
const waiting = new Map(); // of each element, what is done then
const forget = e => { const f = waiting.get(e); if (waiting.delete(e)) nearing.unobserve(e); return f; };
const come = e => forget(e)?.();
const nearing = new IntersectionObserver(seen => seen.filter(s => s.isIntersecting).forEach(s => come(s.target)), { rootMargin: "400px" });
const near = (e, f) => { waiting.set(e, f); nearing.observe(e); };
const dressed = []; // told of each drawing
const dress = svg => dressed.forEach(f => f(svg));
for (const e of all(".late")) {
  e.style.aspectRatio = e.dataset.shape ?? "";
  near(e, () => {
    e.innerHTML = e.firstElementChild.textContent;
    e.style.aspectRatio = "";
    all("svg", e).forEach(dress);
  });
}

// On paper nothing can be opened: all is put in, and commands and configurations are open.
const folded = all(".cards details");
let closed = [], shownThen = 0;
addEventListener("beforeprint", () => {
  shownThen = limit;
  limit = long = Infinity;
  showBody();
  while (waiting.size) [...waiting.keys()].forEach(come);
  closed = folded.filter(d => !d.open);
  closed.forEach(d => { d.open = true; });
});
addEventListener("afterprint", () => {
  closed.forEach(d => { d.open = false; });
  limit = long = shownThen;
  showBody();
});

// A table is one stop of the Tab key: arrow keys go on from there, line by line and column by column.
const stops = table => all("button, a", table);
const rove = table => { const of = stops(table), at = of.find(b => b.tabIndex === 0 && b.dataset.stop) ?? of[0]; of.forEach(b => { b.tabIndex = b === at ? 0 : -1; if (b === at) b.dataset.stop = 1; }); };
const roving = table => table.addEventListener("keydown", e => {
  const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[e.key], from = e.target.closest("button, a");
  if (!by || !from) return;
  e.preventDefault();
  const of = stops(table), line = from.closest("tr"), column = from.closest("td, th").cellIndex;
  let to = by[0] ? of[of.indexOf(from) + by[0]] : null;
  for (let rows = [...table.rows], i = rows.indexOf(line) + by[1]; by[1] && !to && rows[i]; i += by[1]) to = stops(rows[i].cells[column] ?? rows[i])[0];
  if (!to) return;
  delete from.dataset.stop; from.tabIndex = -1;
  to.tabIndex = 0; to.dataset.stop = 1;
  to.focus();
});

// The legend of every chart hides and shows a series in all of them.
document.addEventListener("click", e => {
  const button = e.target.closest("[data-toggle]");
  if (!button) return;
  const s = button.dataset.toggle, on = button.getAttribute("aria-pressed") === "false";
  all(`[data-toggle="${s}"]`).forEach(b => b.setAttribute("aria-pressed", on));
  if (on) off.delete(s); else off.add(s);
  all(`svg [data-s="${s}"]`).forEach(hideOff);
});
const off = new Set();
const hideOff = g => { g.style.display = off.has(g.dataset.s) ? "none" : ""; };
dressed.push(svg => { if (off.size) all("[data-s]", svg).forEach(hideOff); });

// A chart says its values to who points at them, taps them, or goes to them by arrow keys: those of its
// marks, and those of the vertices of its lines.
const tip = one("tip");
const ring = draw("circle", { r: 6, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 });
let lit = null, pinned = false;
const hide = () => { tip.hidden = true; lit?.g.classList.remove("on"); ring.remove(); lit = null; pinned = false; };
// light shows what a mark says, and what others say that a finger cannot tell from it.
const light = (m, x, y, beside = []) => {
  if (lit !== m) {
    hide();
    lit = m;
    if (m.at) { ring.setAttribute("cx", m.at[0]); ring.setAttribute("cy", m.at[1]); m.g.append(ring); } else m.g.classList.add("on");
    tip.textContent = [m, ...beside].map(m => m.says()).join("\n\n");
    tip.hidden = false;
  }
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 8)) + "px";
  tip.style.top = (y - h - 12 > 4 ? y - h - 12 : y + 18) + "px";
};
// parts are the lines of a drawing whose vertices are cells, with what they are when nothing is filtered.
const parts = svg => svg.parts ??= all("[data-cells]", svg).map(g => {
  const lines = all("polyline", g), at = lines.map(l => l.getAttribute("points").split(" ").map(p => p.split(",").map(Number)));
  const range = g.querySelector("path");
  return { g, lines, at, marked: lines[0].hasAttribute("marker-mid"), cells: g.dataset.cells.split(" ").map(Number), range, ranges: range?.getAttribute("d").slice(1).split("M") };
});
// marks are what can be pointed at: what they say is read when somebody asks, for a page may have many.
const marks = svg => svg.marks ??= all(".pt", svg).map(g => {
  const title = g.querySelector("title"), one = g.dataset.cell ?? (/^\d+$/.test(g.dataset.any) ? g.dataset.any : null), cell = one === null ? null : +one, text = title?.textContent;
  title?.remove();
  return { g, cell, says: () => text ?? saidOf(svg, cell) };
}).concat(parts(svg).flatMap(p => p.marked ? p.at.flat().map((at, i) => ({ g: p.g, at, cell: p.cells[i], says: () => saidOf(svg, p.cells[i]) })) : []));
const shownMarks = svg => marks(svg).filter(m => (m.cell === null || fitsCell[m.cell]) && !m.g.classList.contains("out") && m.g.style.display !== "none" && m.g.parentNode.style.display !== "none");
const boxOf = m => {
  if (!m.at) return m.g.getBoundingClientRect();
  const c = m.g.getScreenCTM(), x = m.at[0] * c.a + c.e, y = m.at[1] * c.d + c.f;
  return { left: x - 4, right: x + 4, top: y - 4, bottom: y + 4 };
};
// around are the marks within so many pixels, the nearest first.
const around = (svg, e, within) => shownMarks(svg).map(m => {
  const b = boxOf(m);
  return { m, d: Math.hypot(Math.max(b.left - e.clientX, 0, e.clientX - b.right), Math.max(b.top - e.clientY, 0, e.clientY - b.bottom)) };
}).filter(a => a.d < within).sort((a, b) => a.d - b.d).map(a => a.m);
const nearest = (svg, e) => around(svg, e, 34)[0];
const step = (svg, e) => {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (e.key === "Escape") return hide();
  if (e.key === "Enter" && lit && opens(lit)) { e.preventDefault(); return open(lit.cell); } // else the key presses what has the focus then
  if (!by) return;
  e.preventDefault();
  const of = shownMarks(svg), at = of.indexOf(lit), m = of[at < 0 ? 0 : (at + by + of.length) % of.length];
  if (!m) return;
  const b = boxOf(m);
  light(m, b.right, b.top);
};
// opens says whether a mark has a cell that can be opened: what is only drawn cannot.
const opens = m => m.cell !== null && listed(m.cell);
// handle makes a drawing answer.
const handle = svg => {
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-roledescription", "chart: arrow keys say its values");
  svg.addEventListener("keydown", e => step(svg, e));
  svg.addEventListener("blur", hide);
  svg.addEventListener("pointermove", e => {
    if (e.pointerType === "touch" || pinned) return;
    const m = nearest(svg, e);
    if (m) light(m, e.clientX, e.clientY); else hide();
  });
  svg.addEventListener("pointerleave", () => { if (!pinned) hide(); });
  svg.addEventListener("click", e => {
    const m = nearest(svg, e);
    if (!m) return hide();
    const again = lit === m && pinned;
    if (opens(m) && (e.pointerType !== "touch" || again)) { hide(); return open(m.cell); }
    light(m, e.clientX, e.clientY, e.pointerType === "touch" ? around(svg, e, 12).slice(0, 4).filter(o => o !== m) : []);
    pinned = true;
  });
};
dressed.push(handle);
addEventListener("scroll", hide, { passive: true });

// The data of a chart, as a file or as a table below it.
const csvOf = lines => lines.map(l => l.map(t => /[",\n]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t).join()).join("\n") + "\n";
const safe = t => /^[=+\-@]/.test(t) && Number.isNaN(Number(t)) ? "'" + t : t; // no spreadsheet takes it for a formula
// valuesOf are those of the cells that a drawing shows, of a line that is light the slow ones.
const valuesOf = svg => {
  const { x, y, slow, along = "" } = svg.dataset, names = along.split(" ").filter(Boolean), seen = new Set();
  const line = (cell, y) => {
    const key = `${cell} ${y}`, [row] = rowsOf[cell], verdict = said(columns.get("verdict"), row), p = point(cell, x || y, y, "", rowsOf[cell]), of = m => `${m.title} ${m.unit ?? ""}`.trim();
    if (seen.has(key) || !p && kindOf(verdict) !== "void") return [];
    seen.add(key);
    const at = names.length ? names.map(n => `${n} ${short(places.get(n).values[cell] ?? NaN)}`).join(" ")
      : loadColumns.filter(c => said(c, row)).map(c => `${c.name} ${said(c, row)}`).join(", ");
    const values = p ? [String(p.y), of(measureOf(y)), String(p.n), String(p.low), String(p.high)] : ["", of(measureOf(y)), "", "", ""];
    return [[safe(D.series[seriesOf(row)].label), safe(at), p && x ? String(p.x) : "", x ? of(measureOf(x)) : "", ...values,
      !p ? "void" : p.by ? p.by.split(" ")[0] : p.doubt || D.suspect.includes(y) ? "suspect" : verdict.match(/rehearsal|imported/)?.[0] ?? "valid"]];
  };
  return [...parts(svg).flatMap(p => p.cells.flatMap(c => line(c, p.marked ? y : slow))),
    ...marks(svg).filter(m => !m.at).flatMap(m => line(m.cell, y))];
};
const dataOf = name => {
  const own = document.querySelector(`script[data-name="${name}"]`);
  if (own) return JSON.parse(own.textContent);
  const wide = all(`#fig-${name} .wide`);
  wide.forEach(come);
  return csvOf([["series", "at", "x", "x_unit", "y", "y_unit", "repetitions", "lowest", "highest", "verdict"], ...wide.flatMap(e => valuesOf(e.firstElementChild))]);
};
const fieldsOf = line => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, -1).map(m => m[1].startsWith('"') ? m[1].slice(1, -1).replaceAll('""', '"') : m[1]);
document.addEventListener("click", e => {
  const button = e.target.closest("[data-csv], [data-table]");
  if (!button) return;
  if (button.dataset.csv) return save(button.dataset.csv + ".csv", "text/csv", dataOf(button.dataset.csv));
  const there = button.closest("figure").querySelector(".behind");
  button.setAttribute("aria-expanded", !there);
  if (there) return there.remove();
  const [head, ...lines] = dataOf(button.dataset.table).trim().split("\n").map(fieldsOf);
  const row = (cells, name) => make("tr", {}, ...cells.map(c => make(name, name === "th" ? { scope: "col" } : {}, c)));
  button.parentNode.after(make("div", { class: "scroll behind", tabindex: 0, role: "group", "aria-label": "Data of the charts" },
    make("table", { class: "plain" }, make("thead", {}, row(head.map(h => h.replaceAll("_", " ")), "th")), make("tbody", {}, ...lines.map(l => row(l, "td"))))));
});
