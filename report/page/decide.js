// Tables that decide: what each series offers at each place, of the cells that the filter lets through.
// baseOf is the series that changes are against: that which is chosen, or of tables the first's that has one.
const baseOf = (...tables) => S.base === "" ? tables.find(t => t.baseline >= 0)?.baseline ?? "none" : S.base === "none" ? "none" : +S.base;
const meets = cell => rowsOf[cell].every(r => !fits[r] || said(columns.get("slo"), r) === "met");
const price = "usd_per_million_output_tokens";

// offers are the rows of a table that have anything, with what each has at each place, null being nothing:
// what is best of all that is sure, with a suspect beside it that is better, or else what is suspect. What
// leads is what leads in all results, as the data say: a filter hides, and makes no other cell the best.
const offers = (w, table) => {
  const service = table.id.endsWith("-service"), grid = new Map(table.series.map(s => [s, table.places.map(() => ({ sure: null, suspect: null }))]));
  w.cells.forEach((cell, n) => {
    const row = grid.get(seriesOf(rowsOf[cell][0])), v = row && w.at[n] >= 0 ? valueOf(table.metric, cell) : null;
    if (!v) return;
    const speed = service ? valueOf("interactivity", cell) : null;
    const take = (i, doubt) => {
      const kind = doubt ? "suspect" : "sure", was = row[i][kind];
      if (!was || (v.v - was.v) * table.better > 0) row[i][kind] = { ...v, cell, doubt, best: table.best[i].includes(cell), beyond: table.beyond[i].includes(cell) };
    };
    if (!service) return take(w.at[n], v.doubt);
    table.places.forEach((p, i) => {
      if (p.kind === "peak") take(i, v.doubt);
      else if (p.kind === "slo" ? meets(cell) : speed && speed.v >= p.level) take(i, v.doubt || !!speed?.doubt);
    });
  });
  return table.series.map(series => ({ series, at: grid.get(series).map(({ sure, suspect }) => {
    if (S.sus === "0") suspect = null;
    const beside = sure && suspect && (suspect.v - sure.v) * table.better > 0 ? suspect : null;
    return sure || suspect ? { ...(sure ?? suspect), beside } : null;
  }) })).filter(r => r.at.some(Boolean));
};
const changeFrom = (o, base) => o && base && o !== base && base.v ? o.v / base.v - 1 : null;
const aside = o => o.n > 1 && o.high > o.low && o.v ? share(Math.max(o.high - o.v, o.v - o.low) / Math.abs(o.v)) : "";

// shorten cuts names in the middle, and more at the end or less where two would be one.
const shorten = (names, n) => {
  const cut = (s, tail) => s.length > n ? s.slice(0, n - 1 - tail) + "…" + s.slice(s.length - tail) : s;
  for (let tail = n >> 1; tail < n - 1; tail++) { const all = names.map(s => cut(s, tail)); if (new Set(all).size === new Set(names).size) return all; }
  return names.map(s => cut(s, n >> 1));
};
// bars draw a table of cells side by side, each place's values together.
const bars = (w, table, width) => {
  const rows = [], of = offers(w, table), base = of.find(r => r.series === baseOf(table));
  table.places.forEach((place, i) => {
    const there = of.flatMap(r => [r.at[i], r.at[i]?.beside].filter(Boolean).map(o => ({ ...o, delta: changeFrom(o, base?.at[i]), series: r.series })));
    if (there.length) rows.push({ head: place.name }, ...there.sort((a, b) => (b.v - a.v) * table.better));
  });
  if (!rows.length) return null;
  const top = Math.max(...rows.map(r => r.head ? 0 : rangeOf(r)?.high ?? r.v)) || 1, high = rows.length * 19 + 8, start = Math.min(190, width * 0.4), room = width - start - 150;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${high}`, width, height: high, "aria-label": `${table.title}. ${table.finding}` });
  const at = v => start + Math.max(1, v / top * room), fit = Math.floor(start / 6.8), shortened = shorten(D.series.map(s => s.label), fit);
  rows.forEach((r, n) => {
    const y = n * 19 + 4;
    if (r.head) { svg.append(draw("text", { x: 0, y: y + 13, "font-size": 12.5, "font-weight": 600, fill: "var(--ink)" }, r.head)); return; }
    const whose = publisher(rowsOf[r.cell][0]), long = D.series[r.series].label, label = shortened[r.series];
    const says = [`${long}, ${amount(r.v, table.unit)} ${lower(table.title)}`, r.n > 1 && `median of ${r.n}, ${between(r, table.unit)}`, r.n === 1 && r.sure && `in 95 of 100 runs ${between({ ...r.sure, v: r.v }, table.unit)}`, r.doubt && "suspect", whose];
    const bar = draw("g", { class: "pt", opacity: paleness(r.series), "data-s": r.series, "data-cell": r.cell }, draw("title", {}, says.filter(Boolean).join("\n")),
      draw("rect", { x: start, y: y + 1, width: at(r.v) - start, height: 14, fill: r.doubt ? "none" : hue(r.series), stroke: hue(r.series) }));
    const range = rangeOf(r);
    if (range) bar.append(draw("path", { d: `M${at(range.low)},${y + 8}H${at(range.high)}M${at(range.low)},${y + 5}v6M${at(range.high)},${y + 5}v6`, stroke: "var(--ink)", fill: "none" }));
    svg.append(draw("text", { x: start - 8, y: y + 12, "font-size": 12, "text-anchor": "end", fill: "var(--faint)" }, label), bar,
      draw("text", { x: at(range ? range.high : r.v) + 6, y: y + 12, "font-size": 12, fill: "var(--ink)", "font-weight": r.best ? 650 : 400 }, amount(r.v, table.unit) + (r.delta === null ? "" : "  " + change(r.delta))));
  });
  return { svg, named: true, series: table.series, says: rows.some(r => r.doubt) ? "Hollow: suspect." : "" };
};

const most = 9; // places beside each other; of more, each is a line
const deciding = (w, table) => {
  const of = offers(w, table), base = of.find(r => r.series === baseOf(table)), service = table.id.endsWith("-service");
  if (!of.length) return [make("p", { class: "note" }, "No cell that the filter lets through has it.")];
  const [unit, per] = unitOf(table.unit, ...of.flatMap(r => r.at.flatMap(o => o ? [o.v] : [])));
  const opener = (r, i, o) => {
    const load = service ? `at ${short(places.get(w.along).values[o.cell])} ${inFlight[w.along] ?? w.along}` : "";
    const says = [`${D.series[r.series].label}, ${table.places[i].name}: ${amount(o.v, table.unit)}`, load, o.doubt && "suspect", o.best && "the best"];
    return make("button", { type: "button", title: says.filter(Boolean).join(", "), "data-open": o.cell }, text(o.v / per));
  };
  const box = (r, i) => {
    const o = r.at[i];
    if (!o) return make("td", {}, "–");
    const td = make("td", { class: [o.best && "best", o.doubt && "suspect", o.beyond && "beyond"].filter(Boolean).join(" ") }, opener(r, i, o));
    if (o.best) td.style.setProperty("--of", hue(r.series));
    const by = r === base ? null : changeFrom(o, base?.at[i]), cost = table.metric === price ? null : valueOf(price, o.cell);
    if (by !== null) td.append(make("small", { class: by * table.better > 0 ? "good" : "" }, change(by)));
    else if (aside(o)) td.append(make("small", {}, aside(o)));
    if (cost) td.append(make("small", {}, "$" + text(cost.v)));
    if (o.beside) td.append(make("small", { class: "suspect" + (o.beside.beyond ? " beyond" : "") }, opener(r, i, o.beside)));
    return td;
  };
  const series = of.map(r => scope => make("th", { scope }, chip(r.series), D.series[r.series].label));
  const heads = table.places.map(p => scope => make("th", { scope }, p.name.replace("≥ ", "≥\u00a0")));
  const tall = heads.length > most && heads.length > of.length, [across, down] = tall ? [series, heads] : [heads, series];
  const corner = service ? "tok/s per user" : table.id.split("-").pop().replaceAll("_", " ");
  const t = make("table", { class: tall ? "decide tall" : "decide" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, corner), ...across.map(h => h("col")))),
    make("tbody", {}, ...down.map((h, y) => make("tr", {}, h("row"), ...across.map((_, x) => tall ? box(of[x], y) : box(of[y], x))))));
  rove(t);
  roving(t);
  return [make("p", { class: "under" }, [unit && `in ${unit}`, lower(table.under)].filter(Boolean).join(", ")), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": table.title }, t)];
};

