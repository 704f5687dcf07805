// A cell opened: everything that is known of it, with a link to it.
const dialog = one("cell");
const open = cell => openRow(rowsOf[cell][0]);
const factsOf = pairs => make("dl", {}, ...pairs.filter(([, v]) => v).map(([k, v]) => make("div", {}, make("dt", {}, k), make("dd", {}, v))));
const timings = [["ttft", "Time to first token"], ["ttfa", "Time to first token of the answer"], ["tpot", "Time per output token"], ["itl", "Inter-token latency"], ["e2el", "End-to-end latency"]].filter(([t]) => t !== "ttfa" || D.columns.some(c => c.key.endsWith("_ttfa_ms")));
const statistic = /^(mean|median|std|min|max|p[\d.]+)_(ttft|ttfa|tpot|itl|e2el)_ms$/;

// quantiles draws the percentiles of each timing as a curve: how many of the requests waited no longer.
const quantiles = rows => {
  const of = timings.map(([t, title], i) => ({ i, title, at: D.columns.flatMap(c => {
    const m = c.key.match(statistic), p = m && { min: 0, median: 50, max: 100 }[m[1]] || m?.[1].match(/^p/) && +m[1].slice(1) || m?.[1] === "min" && 0;
    const v = m && m[2] === t && (p || p === 0) ? median(c.key, rows) : null;
    return v && v.v > 0 ? [[v.v, p]] : [];
  }).sort((a, b) => a[1] - b[1]) })).filter(t => t.at.length > 2);
  if (!of.length) return [];
  const w = 460, h = 190, values = of.flatMap(t => t.at.map(a => a[0])), X = axis(values, 34, w - 10, true, false, 5), Y = axis([0, 100], h - 30, 8, false, true, 4);
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": "Share of requests within a time" });
  for (const t of Y.ticks) svg.append(draw("line", { x1: 34, x2: w - 10, y1: Y.at(t), y2: Y.at(t), stroke: "var(--hair)" }), draw("text", { x: 28, y: Y.at(t) + 4, "font-size": 11, fill: "var(--faint)", "text-anchor": "end" }, t + " %"));
  for (const t of X.ticks) svg.append(draw("text", { x: X.at(t), y: h - 12, "font-size": 11, fill: "var(--faint)", "text-anchor": "middle" }, t < 1000 ? `${short(t)} ms` : `${short(t / 1000)} s`));
  for (const t of of) {
    svg.append(draw("polyline", { points: t.at.map(([v, p]) => `${X.at(v).toFixed(1)},${Y.at(p).toFixed(1)}`).join(" "), fill: "none", stroke: `var(--s${t.i})`, "stroke-width": 2, "stroke-dasharray": dashes[t.i % dashes.length] }));
  }
  return [make("h3", {}, "Share of requests within a time"), svg,
    make("p", { class: "key" }, ...of.map(t => { const s = draw("svg", { width: 22, height: 10, "aria-hidden": "true" }, draw("line", { x1: 0, x2: 22, y1: 5, y2: 5, stroke: `var(--s${t.i})`, "stroke-width": 2, "stroke-dasharray": dashes[t.i % dashes.length] })); return make("span", {}, s, t.title); }))];
};
// overTime are small pictures of what was in flight, came out and was read meanwhile: each says its range,
// or its value where somebody points, taps or goes by arrow keys.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const curve = ({ of, range: [from, to, low, high, least, most], at }) => {
  const { title, unit } = D.times.names[of], w = 240, h = 70, floor = Math.min(0, low), top = high > floor ? high : floor + 1;
  const points = [...at].flatMap((c, i) => c === "." ? [] : [{ t: from + (to - from) * (i + 0.5) / at.length, v: low + (high - low) * letters.indexOf(c) / (letters.length - 1) }]);
  const X = t => (t - from) / (to - from || 1) * w, Y = v => h - 2 - (v - floor) / (top - floor) * (h - 6);
  const range = least === most ? amount(least, unit) : `${text(least)} to ${text(most)} ${unit}`.trim(), says = make("output", {}, range);
  const spot = draw("line", { y1: 0, y2: h, stroke: "var(--shade)", visibility: "hidden" });
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, tabindex: 0, role: "group", "aria-label": `${title}: ${range}, from ${text(from)} to ${text(to)} s`, "aria-roledescription": "chart: arrow keys say its values" }, spot,
    draw("line", { x1: 0, x2: w, y1: h - 1, y2: h - 1, stroke: "var(--hair)" }),
    draw("polyline", { points: points.map(p => `${X(p.t).toFixed(1)},${Y(p.v).toFixed(1)}`).join(" "), fill: "none", stroke: "var(--s0)", "stroke-width": 1.5 }));
  let n = -1;
  const go = to => {
    n = to;
    spot.setAttribute("visibility", n < 0 ? "hidden" : "visible");
    if (n >= 0) for (const x of ["x1", "x2"]) spot.setAttribute(x, X(points[n].t));
    says.textContent = n < 0 ? range : `${text(points[n].t)} s: about ${amount(points[n].v, unit)}`;
  };
  const point = e => { const b = svg.getBoundingClientRect(), t = from + (to - from) * (e.clientX - b.left) / b.width; go(points.reduce((best, p, i) => Math.abs(p.t - t) < Math.abs(points[best].t - t) ? i : best, 0)); };
  for (const what of ["pointermove", "pointerdown"]) svg.addEventListener(what, point);
  for (const what of ["pointerleave", "blur"]) svg.addEventListener(what, () => go(-1));
  svg.addEventListener("keydown", e => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by) { e.preventDefault(); go(Math.min(Math.max(n + by, 0), points.length - 1)); }
  });
  return make("div", {}, make("p", {}, title + " ", says), svg);
};
const left = new Set(D.times.left);
// overTime is of the first repetition that has curves.
const overTime = (rows, id) => {
  const row = rows.find(r => D.times.rows[r]);
  if (row !== undefined) return [make("h3", {}, "Over time" + which(rows, row)), make("div", { class: "curves" }, ...D.times.rows[row].map(curve))];
  return rows.some(r => left.has(r)) ? [make("p", { class: "note" }, "Over time: a page of so many cells has no room for this one. ", make("code", {}, `hcl report --cell ${id} --html FILE`), " has it.")] : [];
};
// counted is what the engine has, of the first repetition that tells it.
const counted = rows => {
  const row = rows.find(r => D.counted?.[r]);
  return row === undefined ? [] : [make("h3", {}, "What the engine counted" + which(rows, row)), factsOf(D.counted[row])];
};
// which says of which repetition something is that is of one.
const which = (rows, row) => rows.length > 1 && columns.has("repetition") ? `, repetition ${said(columns.get("repetition"), row)}` : "";
const ids = new Map(); // the row of each id
{ const c = columns.get("id"); for (let r = count - 1; r >= 0; r--) ids.set(said(c, r), r); }
const openRow = row => {
  if (row >= D.listed) return;
  const id = said(columns.get("id"), row), pair = groups[D.group[row]], rows = pair.filter(r => seriesOf(r) === seriesOf(row)), value = key => columns.has(key) ? said(columns.get(key), row) : "";
  const verdict = valueIn(columns.get("verdict"), rows), notes = [...new Set(rows.map(r => D.note[r]).filter(Boolean))];
  const names = ["mean", "median", "p90", "p95", "p99", "std", "min", "max"].concat(D.columns.map(c => c.key.match(statistic)?.[1]).filter(Boolean)).filter((n, i, l) => l.indexOf(n) === i);
  const rank = n => ({ mean: -3, std: -2, min: -1, median: 50, max: 101 })[n] ?? +n.slice(1);
  const stats = names.filter(n => timings.some(([t]) => median(`${n}_${t}_ms`, rows) || tooFew(`${n}_${t}_ms`, rows))).sort((a, b) => rank(a) - rank(b));
  const spread = (m, per) => m && m.sure ? [make("small", {}, `95 %: ${text(m.sure.low / per)} to ${text(m.sure.high / per)}`)] : m && m.n > 1 && m.high > m.low ? [make("small", {}, `${text(m.low / per)} to ${text(m.high / per)}`)] : [];
  const ofTiming = timings.map(([t]) => { const at = stats.map(n => median(`${n}_${t}_ms`, rows)), [unit, per] = unitOf("ms", ...at.flatMap((m, i) => m && stats[i] !== "std" ? [m.v] : [])); return { t, at, unit, per }; });
  const cells = make("table", { class: "plain" }, make("thead", {}, make("tr", {}, make("td"), ...ofTiming.map(({ t, unit }) => make("th", { scope: "col", class: "n" }, `${t.toUpperCase()} ${unit}`)))),
    make("tbody", {}, ...stats.map((n, i) => make("tr", {}, make("th", { scope: "row" }, n === "median" ? "p50" : n), ...ofTiming.map(({ t, at, per }) => make("td", { class: "n" }, at[i] ? text(at[i].v / per) : tooFew(`${n}_${t}_ms`, rows) || "–", ...spread(at[i], per)))))));
  const rest = D.columns.filter(c => c.figure && !statistic.test(c.key)).map(c => { const m = median(c.key, rows); return [c.title, m && amount(m.v, c.unit) + (m.sure ? `, in 95 of 100 runs ${between({ ...m, ...m.sure }, c.unit)}` : m.n > 1 && m.high > m.low ? `, ${between(m, c.unit)}` : "") + (m.doubt ? ", suspect" : "")]; });
  const show = make("button", { type: "button" }, "Copy"), link = make("button", { type: "button" }, "Copy link");
  const command = `hcl show ${id.split("@")[0]}${D.sides && value("run") ? " --run " + value("run") : ""}`;
  show.addEventListener("click", () => copy(command, show));
  link.addEventListener("click", () => copy(location.href, link));
  const side = D.sides ? ", " + sideOf(row) : "", cards = all(".cards article").filter(a => a.dataset.engine.endsWith(side));
  const engine = cards.find(a => a.dataset.engine === value("engine") + side) ?? (cards.length === 1 ? cards[0] : null);
  const close = make("button", { type: "button", class: "close", "aria-label": "Close" }, "×");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(close, make("h2", { id: "cell-name" }, chip(seriesOf(row)), D.series[seriesOf(row)].label),
    make("p", { class: "under" }, loadColumns.filter(c => said(c, row)).map(c => `${c.title} ${said(c, row)}`).join(", ")),
    make("p", { class: kindOf(verdict.sort) }, verdict.text + (rows.length > 1 ? `, ${rows.length} repetitions: medians` : "")),
    ...notes.map(n => make("p", { class: "note" }, D.notes[n - 1])),
    make("p", { class: "take" }, ...(publisher(row) ? [publisher(row)] : [make("code", {}, command), " ", show]), " ", link),
    ...(D.sides ? pairTable(pair) : []), ...(stats.length ? [make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Latencies" }, cells)] : []),
    ...(cells.textContent.includes("n<") ? [make("p", { class: "note" }, "n<…: too few requests for that percentile")] : []),
    ...[...new Set(rows.map(r => columns.has("unbounded") ? said(columns.get("unbounded"), r) : ""))].filter(Boolean).map(why => make("p", { class: "note" }, `No 95 % interval: ${why}`)), ...quantiles(rows), ...overTime([row, ...rows], id.split("@")[0]), make("h3", {}, "Figures"), factsOf(rest), ...counted(rows),
    make("h3", {}, "Where it is from"), factsOf([["Engine", value("engine")], ["Host", value("host")], ["GPUs", value("gpus")], ["Model", value("model")], ["Run", value("run")], ["Started", value("started")]]),
    ...(engine ? [engine.cloneNode(true)] : []));
  S.cell = id;
  writeAddress();
  hide();
  if (!dialog.open) dialog.showModal();
};
dialog.addEventListener("close", () => { S.cell = ""; writeAddress(); });
dialog.addEventListener("click", e => { if (e.target === dialog) dialog.close(); });
document.addEventListener("click", e => { const b = e.target.closest("[data-open]"); if (b) open(+b.dataset.open); });

// As the address says.
const showAll = () => {
  one("filter").value = S.q;
  apply(S.q);
  showTable();
  if (D.workloads.length) showHero();
  if (S.cell && ids.has(S.cell)) openRow(ids.get(S.cell));
};
addEventListener("hashchange", () => { if (readAddress()) showAll(); });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; if (D.workloads.length) showHero(); } });
document.documentElement.classList.add("script");
showAll();
