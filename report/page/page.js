"use strict";
(() => {
  const all = (q, of = document) => [...of.querySelectorAll(q)];
  const one = id => document.getElementById(id);

  // Light and dark: the system's, until the button says otherwise.
  one("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // On paper nothing can be opened: commands and configurations are.
  const folded = all(".cards details");
  let closed = [];
  addEventListener("beforeprint", () => { closed = folded.filter(d => !d.open); closed.forEach(d => { d.open = true; }); });
  addEventListener("afterprint", () => closed.forEach(d => { d.open = false; }));

  // The legend of every chart hides and shows a series in all of them.
  document.addEventListener("click", e => {
    const button = e.target.closest("[data-toggle]");
    if (!button) return;
    const s = button.dataset.toggle, on = button.getAttribute("aria-pressed") === "false";
    all(`[data-toggle="${s}"]`).forEach(b => b.setAttribute("aria-pressed", on));
    all(`svg [data-s="${s}"]`).forEach(g => { g.style.display = on ? "" : "none"; });
  });

  // Pointing near a value says what it is.
  const tip = one("tip");
  let lit = null;
  const points = new Map();
  const pointsOf = svg => {
    if (!points.has(svg)) {
      points.set(svg, all(".pt", svg).map(g => {
        const title = g.querySelector("title"), text = title.textContent;
        g.setAttribute("aria-label", text);
        title.remove();
        return { g, text, box: g.getBBox() };
      }));
    }
    return points.get(svg);
  };
  const hide = () => { tip.hidden = true; if (lit) lit.classList.remove("on"); lit = null; };
  document.addEventListener("pointermove", e => {
    const svg = e.target.closest && e.target.closest(".chart svg");
    if (!svg) return hide();
    const m = svg.getScreenCTM();
    const x = (e.clientX - m.e) / m.a, y = (e.clientY - m.f) / m.d;
    let best = null, least = 34;
    for (const p of pointsOf(svg)) {
      if (p.g.style.display === "none") continue;
      const dx = Math.max(p.box.x - x, 0, x - p.box.x - p.box.width), dy = Math.max(p.box.y - y, 0, y - p.box.y - p.box.height);
      const d = Math.hypot(dx, dy);
      if (d < least) { least = d; best = p; }
    }
    if (!best) return hide();
    if (lit !== best.g) { hide(); lit = best.g; lit.classList.add("on"); tip.textContent = best.text; tip.hidden = false; }
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - w - 8)) + "px";
    tip.style.top = (e.clientY - h - 12 > 4 ? e.clientY - h - 12 : e.clientY + 18) + "px";
  });
  addEventListener("scroll", hide, { passive: true });

  // Data as files.
  document.addEventListener("click", e => {
    const button = e.target.closest("[data-csv]");
    if (!button) return;
    const name = button.dataset.csv, source = document.querySelector(`script[data-name="${name}"]`);
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([JSON.parse(source.textContent)], { type: "text/csv" }));
    a.download = name + ".csv";
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  });

  // The table: sort by a column, filter by words and comparisons. Only what is
  // shown is in the page; of the rest there is the text.
  const table = one("cells");
  if (!table) return;
  const body = table.tBodies[0], heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const rows = [...body.rows].map(line => ({ line }));
  rows.push(...JSON.parse(one("rest").textContent).map(cells => ({ cells })));
  const first = 200, step = 1000;
  let limit = first;
  const read = row => row.values ??= (row.line
    ? [...row.line.cells].map(cell => cell.dataset.v ?? cell.textContent)
    : row.cells.map(cell => cell.v ?? cell.t ?? "")).map(value => value.toLowerCase());
  const words = row => row.words ??= (row.line ? [...row.line.cells].map(cell => cell.textContent) : row.cells.map(cell => cell.t ?? "")).join(" ").toLowerCase();
  const made = (name, attributes, of) => {
    const e = of ? document.createElementNS(of, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    return e;
  };
  const svg = "http://www.w3.org/2000/svg";
  const line = row => {
    if (row.line) return row.line;
    row.line = document.createElement("tr");
    row.cells.forEach((cell, i) => {
      const td = made("td", { class: cell.c ?? heads[i].className });
      if (cell.v !== undefined) td.dataset.v = cell.v;
      if (cell.k) {
        const chip = made("svg", { width: 22, height: 10, "aria-hidden": true }, svg);
        chip.append(made("use", { href: `#k${cell.k}` }, svg));
        td.append(chip);
      }
      td.append(cell.t ?? "");
      if (cell.d) {
        const doubt = made("a", { href: `#doubt-${cell.d}` });
        doubt.textContent = cell.d;
        td.append(" ", doubt);
      }
      row.line.append(td);
    });
    return row.line;
  };
  const idle = window.requestIdleCallback ?? (f => setTimeout(f));
  const prepare = from => { // before somebody asks
    for (const row of rows.slice(from, from + 250)) { read(row); words(row); }
    if (from + 250 < rows.length) idle(() => prepare(from + 250));
  };
  idle(() => prepare(0));
  const names = heads.map(h => h.dataset.name);
  const tests = text => text.trim().toLowerCase().split(/\s+/).filter(Boolean).map(word => {
    const m = word.match(/^([\w.]+)(<=|>=|!=|=|<|>)(.+)$/);
    const i = m ? names.indexOf(m[1]) : -1;
    if (i < 0) return row => words(row).includes(word);
    const want = m[3], n = parseFloat(want);
    return row => {
      const text = read(row)[i], v = parseFloat(text);
      switch (m[2]) {
        case "=": return text === want || v === n;
        case "!=": return !(text === want || v === n);
        case "<": return v < n;
        case "<=": return v <= n;
        case ">": return v > n;
        default: return v >= n;
      }
    };
  });
  const show = () => {
    const must = tests(one("filter").value), fits = rows.filter(row => must.every(t => t(row)));
    const n = x => x.toLocaleString("en");
    body.replaceChildren(...fits.slice(0, limit).map(line));
    one("count").textContent = must.length ? `${n(fits.length)} of ${n(rows.length)} cells` : rows.length === 1 ? "1 cell" : `${n(rows.length)} cells`;
    one("more").hidden = fits.length <= limit;
    one("more").textContent = `Show ${n(Math.min(step, fits.length - limit))} more`;
  };
  one("filter").form.addEventListener("submit", e => e.preventDefault());
  one("filter").addEventListener("input", () => { limit = first; show(); });
  one("more").addEventListener("click", () => { limit += step; show(); });
  show();
  heads.forEach((h, i) => h.querySelector("button").addEventListener("click", () => {
    const down = h.getAttribute("aria-sort") === "ascending";
    heads.forEach(o => o.removeAttribute("aria-sort"));
    h.setAttribute("aria-sort", down ? "descending" : "ascending");
    const order = new Intl.Collator("en").compare;
    for (const row of rows) { const v = read(row)[i], n = Number(v); row.key = v === "" || v === "–" ? null : Number.isNaN(n) ? v : n; }
    rows.sort((a, b) => {
      const x = a.key, y = b.key;
      if (x === null || y === null) return (x === null) - (y === null); // without a value: last, either way
      const d = typeof x === "number" && typeof y === "number" ? x - y : order(String(x), String(y));
      return down ? -d : d;
    });
    show();
  }));
})();
