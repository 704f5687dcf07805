// The table: a line for each cell, which unfolds to its repetitions. Its filter is that of the charts.
const table = one("cells"), few = 25, first = 200, more = 1000;
let limit = first, long = few;
const cap = table.tHead, body = table.tBodies[0];
const groups = []; // rows of each
D.group.forEach((g, row) => (groups[g] ??= []).push(row));
const unfolded = new Set();

// Columns are called by what stands above them, or as in CSV.
const byName = new Map();
for (const c of D.columns) for (const n of [c.called, c.key.toLowerCase()]) if (!byName.has(n)) byName.set(n, c);
const words = []; // of each row, when somebody asks
const worded = D.columns.filter(c => c.texts);
const wordsOf = row => words[row] ??= worded.map(c => said(c, row)).join(" ").toLowerCase();
const idle = window.requestIdleCallback ?? (f => setTimeout(f));
const prepare = from => {
  for (let r = from; r < Math.min(from + 500, count); r++) wordsOf(r);
  if (from + 500 < count) idle(() => prepare(from + 500));
};
idle(() => prepare(0));

const comparison = /^([^\s<>=!]+?)(<=|>=|!=|==?|<|>)(.*)$/;
const flat = s => s.toLowerCase().replaceAll(/\s/g, "_"); // a word of the filter may have _ for a blank
const tokens = text => [...text.matchAll(/"([^"]*)"?|'([^']*)'?|[()]|[=!<>]+|[^\s()=!<>"']+/g)].map(m => ({ text: (m[1] ?? m[2] ?? m[0]).toLowerCase(), quoted: /^["']/.test(m[0]) }));
// distance is how many letters differ between two names.
const distance = (a, b) => {
  let line = [...Array(b.length + 1).keys()];
  for (let i = 1; i <= a.length; i++) line = line.reduce((next, _, j) => [...next, j ? Math.min(line[j] + 1, next[j - 1] + 1, line[j - 1] + (a[i - 1] !== b[j - 1])) : i], []);
  return line[b.length];
};
const meant = name => {
  const [near] = [...byName.keys()].map(n => [n, distance(name, n)]).filter(([n, d]) => d < 3 && 2 * d <= Math.max(name.length, n.length)).sort((a, b) => a[1] - b[1]);
  const begun = [...byName.keys()].filter(n => n.startsWith(name)).slice(0, 6);
  return near ? `; did you mean ${near[0]}?` : begun.length ? `; there are ${begun.join(", ")}` : "";
};
const patternOf = want => new RegExp("^" + want.split("*").map(part => part.replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*") + "$", "s");
// compared is what one comparison asks of a row; a name that no column has, or a value that none can have, is an error.
const compared = (name, op, value) => {
  const c = byName.get(name);
  if (!c) throw new Error(`no column ${name}${meant(name)}`);
  if (value === undefined || value === "") return () => true; // it is being written
  const want = flat(value), like = patternOf(want), time = value.match(/^([\d.]+)(ms|s|m)$/), per = { ms: 1, s: 1000, m: 60000 };
  const n = time && ["ms", "s"].includes(c.unit) ? time[1] * per[time[2]] / per[c.unit] : Number(value), isNumber = !Number.isNaN(n);
  if (!c.texts && !isNumber) throw new Error(`${name} is a number${c.unit === "ms" ? " of ms, or a time such as 1.5s" : ""}, not ${value}`);
  const is = s => like.test(s) || c.key === "verdict" && s.startsWith(want) || c.key === "engine" && like.test(s.split(".")[0]); // its kind names an engine
  const equal = row => isNumber && numberOf(c, row) === n || is(flat(said(c, row)));
  const holds = { "<": v => v < 0, "<=": v => v <= 0, ">": v => v > 0, ">=": v => v >= 0 }[op];
  const order = row => { const v = numberOf(c, row); return v === null ? (c.texts && !isNumber && said(c, row) ? flat(said(c, row)).localeCompare(want) : NaN) : isNumber ? v - n : NaN; };
  const passes = holds ? row => holds(order(row)) : op === "!=" ? row => !equal(row) : equal;
  if (!c.texts) return passes;
  const known = [];
  return row => known[c.values[row]] ??= passes(row);
};
const operators = ["=", "==", "!=", "<", "<=", ">", ">="];
// tests are what a row must pass. The grammar is that of --where, and beside it a word alone is looked for, "and" may be left
// out, and what is still being written lets all through.
const tests = filter => {
  const of = tokens(filter);
  let at = 0;
  const word = w => at < of.length && !of[at].quoted && of[at].text === w;
  const either = () => { const parts = [both()]; while (word("or")) { at++; parts.push(both()); } return row => parts.some(t => t(row)); };
  const both = () => {
    const parts = [];
    while (at < of.length && !word("or") && !word(")")) { if (word("and")) at++; else parts.push(single()); }
    return row => parts.every(t => t(row));
  };
  const single = () => {
    if (word("not")) { at++; const inner = at < of.length && !word("or") && !word(")") ? single() : null; return row => !inner || !inner(row); }
    if (word("(")) { at++; const inner = either(); if (word(")")) at++; return inner; }
    const { text, quoted } = of[at++];
    if (!quoted && at < of.length && operators.includes(of[at].text)) {
      const op = of[at++].text;
      return compared(text, op, at < of.length && (of[at].quoted || !["(", ")"].includes(of[at].text)) ? of[at++].text : undefined);
    }
    return row => wordsOf(row).includes(text);
  };
  const must = of.length ? [either()] : [];
  if (at < of.length) throw new Error("a parenthesis is closed that is not open");
  return must;
};

// value is what stands in a column for some rows of one cell, and what it is sorted by.
const valueIn = (c, rows) => {
  if (c.texts) {
    const texts = [...new Set(rows.map(r => said(c, r)))];
    if (texts.length === 1) return { text: texts[0] || "–", sort: numberOf(c, rows[0]) ?? texts[0] };
    if (c.key === "verdict") { // of some: their number says that there are others
      const bad = kindOf(worst(texts)), of = ranks.toReversed().map(v => [v, rows.filter(r => kindOf(said(c, r)) === v).length]).filter(([, n]) => n);
      return { text: of.map(([v, n]) => `${n} ${v}`).join(", "), sort: bad };
    }
    return { text: String(texts.length), sort: texts[0] };
  }
  const p = D.sides && c.figure ? pairIn(c, rows) : null;
  if (p) return { text: `${text(p.a.v / c.per)} → ${text(p.b.v / c.per)}`, sort: p.by, spread: p.says, doubt: p.a.doubt || p.b.doubt, look: p.look };
  const m = median(c.key, rows);
  if (!m) return { text: tooFew(c.key, rows) || "–", sort: null };
  return { text: text(m.v / (c.per ?? 1)), sort: m.v, spread: m.n > 1 && m.high > m.low ? share(Math.max(m.high - m.v, m.v - m.low) / Math.abs(m.v)) : "", doubt: m.doubt };
};
const ranks = ["void", "suspect", "imported", "valid"];
const kindOf = verdict => verdict.split(/[ ,]/)[0];
const worst = texts => ranks.map(v => texts.find(t => t.startsWith(v))).find(Boolean) ?? texts[0];
const shownColumns = () => D.columns.filter(c => c.shown);

const loadColumns = D.columns.filter(c => c.texts && !["series", "verdict", "repetition", "engine", "host", "gpus", "model", "run", "id", "started", "capacity", "accuracy", "tool_call_f1", "slo", "clients", "adapters", "kind", "unbounded", "outcome", "gate", "side"].includes(c.key));
// A line says its load where it stays in sight: how hard it is pushed, or else the first column of its load.
const pushed = ["concurrency", "rate", "batch"].map(k => places.get(k)).filter(c => new Set(c.values).size > 1);
const loadOf = row => {
  const cell = D.cell[row], at = pushed.map(c => c.values[cell] ?? null).filter(v => v !== null).map(short);
  if (at.length) return at.join(" · ");
  const c = loadColumns.find(c => c.shown);
  return c ? said(c, row) : "";
};
const lineOf = (rows, single) => {
  const verdict = kindOf(valueIn(columns.get("verdict"), rows).sort);
  const tr = make("tr", { class: verdict + (single ? " single" : "") });
  for (const c of shownColumns()) {
    const v = valueIn(c, rows), td = make("td", { class: c.key === "series" ? "stay" : c.figure ? "n" : "" });
    if (c.key === "series") {
      const id = said(columns.get("id"), rows[0]);
      td.append(chip(seriesOf(rows[0])), make("button", { type: "button", class: "link", title: `Open cell ${id}`, "data-row": rows[0] }, single && D.sides ? D.series[seriesOf(rows[0])].label : v.text));
      const load = loadOf(rows[0]);
      if (load && !single) td.append(make("span", { class: "load" }, " · " + load));
      if (rows.length > 1) {
        const n = D.sides ? ["A", "B"].map(s => ofSide(rows, s).length).join(" + ") : `×${rows.length}`;
        td.append(make("button", { type: "button", class: "unfold", "aria-expanded": unfolded.has(rows[0]), "data-unfold": rows[0], "aria-label": `${n} repetitions` }, n));
      }
    } else td.append(v.text === "" ? "–" : v.text);
    if (c.key === "verdict") {
      td.className = verdict;
      for (const foot of new Set(rows.map(r => D.note[r]).filter(Boolean).map(n => D.foot[n - 1])))
        td.append(" ", make("a", { href: `#doubt-${foot}`, title: D.notes[D.foot.indexOf(foot)] }, `[${foot}]`));
    }
    if (v.spread) td.append(make("small", {}, v.spread));
    if (v.look) td.classList.add(v.look);
    if (v.doubt && c.figure) td.classList.add("suspect");
    if (!single && c.top.has(D.group[rows[0]])) td.classList.add("top");
    tr.append(td);
  }
  return tr;
};
const lines = rows => [lineOf(rows, false), ...(rows.length > 1 && unfolded.has(rows[0]) ? rows.map(r => lineOf([r], true)) : [])];

// ordered is the column that lines are sorted by, and whether it goes down.
const ordered = () => { const key = S.sort.replace(/^-/, ""); return [columns.has(key) ? key : "", S.sort !== key]; };
// found are the cells that the filter lets through, in the order that is asked for.
const found = () => {
  const of = groups.map(rows => rows.filter(r => fits[r])).filter(rows => rows.length);
  const [order, down] = ordered();
  if (!order) return of;
  const c = columns.get(order), keys = new Map(of.map(rows => [rows, valueIn(c, rows).sort])), collate = new Intl.Collator("en").compare;
  return of.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    if (x === null || y === null) return (x === null) - (y === null); // without a value: last, either way
    const d = typeof x === "number" && typeof y === "number" ? x - y : collate(String(x), String(y));
    return down ? -d : d;
  });
};
// nameOf is a column's name below its group, which has its unit.
const nameOf = c => c.name + (c.figure && !c.group && c.reads && !c.name.endsWith("/s") ? " " + c.reads : "");
const showHead = () => {
  const shown = shownColumns(), top = make("tr"), names = make("tr"), [order, down] = ordered();
  for (let i = 0, n; i < shown.length; i += n) {
    for (n = 1; i + n < shown.length && shown[i].group && shown[i + n].group === shown[i].group; n++);
    const g = shown[i].group ?? "", unit = shown[i].reads;
    top.append(make("td", { colspan: n, class: i ? "" : "stay" }, ...(g ? [make("span", {}, [g, unit].filter(Boolean).join(", "))] : [])));
  }
  for (const c of shown) {
    const th = make("th", { scope: "col", class: c.key === "series" ? "stay" : c.figure ? "n" : "", "data-name": c.key, title: c.title },
      make("button", { type: "button" }, nameOf(c)));
    if (order === c.key) th.setAttribute("aria-sort", down ? "descending" : "ascending");
    names.append(th);
  }
  cap.replaceChildren(top, names);
};
let last = null; // the line that is listed last: when it comes near, there are more
const list = (of, from, to) => {
  body.append(...of.slice(from, to).flatMap(lines));
  long = to;
  rove(table);
  if (to < Math.min(of.length, limit)) near(last = body.lastElementChild, () => list(of, to, Math.min(to + few, limit)));
};
const showBody = () => {
  const of = found();
  forget(last);
  body.replaceChildren();
  list(of, 0, Math.min(long, limit));
  one("more").hidden = of.length <= limit;
  one("more").textContent = `Show ${Math.min(more, of.length - limit).toLocaleString("en")} more`;
};
const showTable = () => { showHead(); showBody(); };
roving(table);
told.push(showBody);

// thin leaves of a drawing what the filter lets through, and joins that.
const thin = svg => {
  for (const g of all("[data-cell]", svg)) g.classList.toggle("out", !fitsCell[g.dataset.cell]);
  for (const g of all("[data-any]", svg)) g.classList.toggle("out", !g.dataset.any.split(" ").some(c => fitsCell[c]));
  for (const g of all("[data-every]", svg)) g.classList.toggle("out", !g.dataset.every.split(" ").every(c => fitsCell[c]));
  for (const { g, lines, at, cells, range, ranges } of parts(svg)) {
    const some = cells.some(c => !fitsCell[c]);
    if (!some && !g.thinned) continue;
    g.thinned = some;
    let i = 0;
    lines.forEach((l, n) => l.setAttribute("points", at[n].filter(() => fitsCell[cells[i++]]).join(" ")));
    range?.setAttribute("d", ranges.map((r, i) => fitsCell[cells[i]] ? "M" + r : "").join("") || "M0 0");
  }
  const own = [...parts(svg).flatMap(p => p.cells), ...all("[data-cell]", svg).map(g => +g.dataset.cell)].filter(listed);
  for (const band of all(".front", svg)) band.classList.toggle("out", own.some(c => !fitsCell[c]));
};
dressed.push(svg => { if (svg.closest(".chart") && fitsCell.includes(0)) thin(svg); });

const apply = filter => {
  let must = [], wrong = "";
  try { must = tests(filter); } catch (e) { wrong = e.message; }
  let n = 0;
  for (let r = 0; r < fits.length; r++) {
    fits[r] = must.every(t => t(r)) ? 1 : 0;
    if (r < count) n += fits[r];
  }
  one("count").textContent = wrong || (must.length ? `${n.toLocaleString("en")} of ${plural(count, "cell")}` : plural(count, "cell"));
  one("filter").setAttribute("aria-invalid", !!wrong);
  const through = one("let-through"); // on paper too, where the filter is not
  if (through) {
    through.hidden = !must.length;
    through.textContent = must.length ? `Of the cells that ${filter.trim()} lets through (${n.toLocaleString("en")} of ${count.toLocaleString("en")}); tints are those of all` : "";
  }
  fitsCell = Uint8Array.from(rowsOf, rows => rows.some(r => fits[r]) ? 1 : 0);
  all(".chart svg").forEach(thin);
  all("[data-filter]").forEach(b => b.setAttribute("aria-pressed", b.dataset.filter === filter));
  one("filtered").hidden = !filter.trim();
  one("unfilter").textContent = `${filter.trim()} ✕`;
  one("filtered-count").textContent = one("count").textContent;
};
const filterBy = text => { S.q = text; limit = first; long = few; apply(text); tell(); writeAddress(); };
one("filter").addEventListener("input", () => {
  offer();
  filterBy(one("filter").value);
});
one("unfilter").addEventListener("click", () => { one("filter").value = ""; filterBy(""); });
one("filter").form.addEventListener("submit", e => e.preventDefault());
all("[data-filter]").forEach(b => b.addEventListener("click", () => {
  const on = b.getAttribute("aria-pressed") === "true";
  one("filter").value = on ? "" : b.dataset.filter;
  filterBy(one("filter").value);
}));

// offer completes the word that is being written: a column's name, or one of its values.
const offered = one("offered");
const offer = () => {
  const before = one("filter").value.slice(0, one("filter").selectionStart), word = before.split(/\s+/).pop().toLowerCase(), m = word.match(comparison);
  let list = [];
  if (m && byName.has(m[1])) {
    const c = byName.get(m[1]);
    if (c.texts) list = c.texts.filter(t => t && flat(t).startsWith(flat(m[3]))).map(t => m[1] + m[2] + t.replaceAll(/\s/g, "_"));
  } else if (word && !m) list = D.columns.map(c => c.called).filter(n => n.includes(word)).sort((a, b) => b.startsWith(word) - a.startsWith(word)).map(n => n + (byName.get(n).texts ? "=" : ">="));
  list = [...new Set(list)].slice(0, 8).filter(t => t !== word);
  offered.replaceChildren(...list.map((t, i) => make("li", { role: "option", id: `offer-${i}`, "aria-selected": "false" }, t)));
  offered.hidden = !list.length;
  one("filter").setAttribute("aria-expanded", !!list.length);
  one("filter").removeAttribute("aria-activedescendant");
};
const take = li => {
  const input = one("filter"), at = input.selectionStart, head = input.value.slice(0, at).replace(/\S*$/, li.textContent);
  input.value = head + input.value.slice(at);
  input.setSelectionRange(head.length, head.length);
  input.focus();
  offer();
  filterBy(input.value);
};
offered.addEventListener("pointerdown", e => { e.preventDefault(); const li = e.target.closest("li"); if (li) take(li); });
one("filter").addEventListener("blur", () => { offered.hidden = true; one("filter").setAttribute("aria-expanded", "false"); });
one("filter").addEventListener("focus", offer);
one("filter").addEventListener("keydown", e => {
  const list = all("li", offered), at = list.findIndex(l => l.getAttribute("aria-selected") === "true");
  if (e.key === "Escape") { offered.hidden = true; return; }
  if (offered.hidden || !list.length) return;
  if (e.key === "Tab" || e.key === "Enter") {
    if (e.key === "Enter" && at < 0) { offered.hidden = true; return; }
    e.preventDefault();
    return take(list[Math.max(at, 0)]);
  }
  const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!by) return;
  e.preventDefault();
  const next = list[(Math.max(at, by > 0 ? -1 : 0) + by + list.length) % list.length];
  list.forEach(l => l.setAttribute("aria-selected", l === next));
  one("filter").setAttribute("aria-activedescendant", next.id);
});

table.addEventListener("click", e => {
  const head = e.target.closest("th[data-name]"), unfold = e.target.closest("[data-unfold]"), link = e.target.closest("[data-row]");
  if (head) {
    const order = head.dataset.name;
    S.sort = S.sort === order ? "-" + order : order;
    writeAddress();
    showTable();
    cap.querySelector(`[data-name="${CSS.escape(order)}"] button`).focus();
  }
  if (unfold) {
    const row = +unfold.dataset.unfold;
    if (!unfolded.delete(row)) unfolded.add(row);
    showBody();
    body.querySelector(`[data-unfold="${row}"]`)?.focus();
  }
  if (link) openRow(+link.dataset.row);
});
one("more").addEventListener("click", () => { limit += more; showBody(); });

// What is shown can be copied; CSV has every column.
const grid = () => [shownColumns(), found()];
const asLine = (cells, by) => cells.map(t => t.replaceAll(/[\t\n]/g, " ")).join(by);
const headOf = c => [c.group, c.group && c.reads, nameOf(c)].filter(Boolean).join(" ");
const plain = v => v.text + (v.spread ? " " + v.spread : "");
one("copy-markdown").addEventListener("click", e => {
  const [cs, of] = grid(), esc = t => t.replaceAll(/[\\|[\]*_`<]/g, "\\$&").replaceAll("@", "@\u200b");
  copy([cs.map(headOf), cs.map(c => c.figure ? "--:" : "---"), ...of.map(rows => cs.map(c => plain(valueIn(c, rows))))].map(l => `| ${asLine(l.map(esc), " | ")} |`).join("\n") + "\n", e.target);
});
one("copy-tsv").addEventListener("click", e => {
  const [cs, of] = grid();
  copy([cs.map(headOf), ...of.map(rows => cs.map(c => safe(plain(valueIn(c, rows)))))].map(l => asLine(l, "\t")).join("\n") + "\n", e.target);
});
one("save-csv").addEventListener("click", () => {
  const out = [D.columns.map(c => safe(c.key))];
  for (let r = 0; r < count; r++) if (fits[r]) out.push(D.columns.map(c => safe(c.texts ? said(c, r) : String(c.values[r] ?? ""))));
  save("results.csv", "text/csv", csvOf(out));
});
one("columns").replaceChildren(...D.columns.map(c => {
  const box = make("input", { type: "checkbox" });
  box.checked = c.shown;
  box.disabled = c.key === "series";
  box.addEventListener("change", () => { c.shown = box.checked; showTable(); });
  return make("label", {}, box, " ", c.title);
}));
