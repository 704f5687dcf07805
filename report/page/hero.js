// The first screen: one chart with its choices, and the tables that decide.
const workload = () => D.workloads.find(w => w.id === S.w) ?? D.workloads[0];
const measureOf = key => places.get(key) ?? columns.get(key);
const hue = series => `var(--s${D.series[series].hue})`;

// choices are what the chart may have along an axis, and what it begins with.
const choices = w => {
  const has = key => { let n = 0; return w.cells.some(c => valueOf(key, c) && ++n > 1); };
  const deciding = w.tables[0], measures = D.columns.filter(c => c.figure && (has(c.key) || c.key === deciding.metric)).map(c => c.key);
  const y = deciding.metric, x = deciding.id.endsWith("-service") && measures.includes("interactivity") ? "interactivity" : w.along;
  return { xs: w.along ? [w.along, ...measures] : [], ys: measures, x, y };
};
const point = (cell, x, y, along, rows) => {
  const at = valueOf(x, cell, rows), v = valueOf(y, cell, rows);
  return at && v && { cell, x: at.v, y: v.v, low: v.low, high: v.high, n: v.n, of: v.of, sure: v.sure, along: places.get(along)?.values[cell], doubt: v.doubt || at.doubt, series: seriesOf(rowsOf[cell][0]), by: publisher(rowsOf[cell][0]) };
};
const points = (w, x, y) => w.cells.map(cell => point(cell, x, y, w.along)).filter(p => p && !(p.doubt && S.sus === "0"));

const nice = v => { const p = 10 ** Math.floor(Math.log10(v)); return [1, 2, 2.5, 5, 10].find(f => v <= f * p * 1.0000001) * p; };
const axis = (values, from, to, log, zero, most) => {
  let low = Math.min(...values), high = Math.max(...values), ticks = [];
  if (log) {
    for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); p++)
      for (const f of [1, 2, 5]) ticks.push(f * 10 ** p);
    low /= 1.15; high *= 1.15;
    ticks = ticks.filter(t => t >= low && t <= high);
    const at = v => from + (Math.log(v / low) / Math.log(high / low)) * (to - from);
    return { at, ticks };
  }
  if (zero || low < (high - low) / 2) low = Math.min(low, 0);
  if (high === low) high = low + 1;
  const step = nice((high - low) / most);
  low = Math.floor(low / step + 1e-9) * step;
  high += (high - low) * 0.03;
  for (let t = low; t <= high; t += step) ticks.push(+t.toPrecision(10));
  return { at: v => from + (v - low) / (high - low) * (to - from), ticks };
};
const mark = (series, x, y, r, hollow) => {
  const look = { fill: hollow ? "var(--paper)" : hue(series), stroke: hue(series), "stroke-width": 1.5 };
  const corners = [null, [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]], [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]], [[0, -1.3], [1.3, 1], [-1.3, 1]]][D.series[series].marker];
  return corners ? draw("polygon", { points: corners.map(([a, b]) => `${x + a * r},${y + b * r}`).join(" "), ...look }) : draw("circle", { cx: x, cy: y, r, ...look });
};
const pen = document.createElement("canvas").getContext("2d");
const wide = s => { pen.font = `600 12.5px ${getComputedStyle(document.body).fontFamily}`; return pen.measureText(s).width; };
const dashes = ["", "5 3", "2 2.5", "8 3 2 3"];
const path = (points, X, Y) => points.map(p => `${X.at(p.x).toFixed(1)},${Y.at(p.y).toFixed(1)}`).join(" ");
// listed says whether a cell can be opened: what is only drawn cannot.
const listed = cell => rowsOf[cell][0] < D.listed;
const tipOf = (p, along, x, y) => {
  const mx = measureOf(x), my = measureOf(y), lines = [`${D.series[p.series].label}${along ? `, ${short(p.along)} ${inFlight[along] ?? along}` : ""}`];
  lines.push(`${amount(p.y, my.unit)} ${lower(my.title)}`);
  if (x !== along && x !== y) lines.push(`${amount(p.x, mx.unit)} ${lower(mx.title)}`);
  lines.push(...besides(rowsOf[p.cell][0], y));
  if (p.n > 1) lines.push(`median of ${p.n}, ${between({ v: p.y, low: p.low, high: p.high }, my.unit)}`);
  if (p.n === 1 && p.sure) lines.push(`in 95 of 100 runs ${between({ ...p.sure, v: p.y }, my.unit)}`);
  if (p.of > p.n) lines.push(`${p.n} of ${p.of} repetitions: the others are suspect`);
  if (p.doubt) lines.push("suspect");
  if (p.by) lines.push(p.by);
  return lines.join("\n");
};
const inFlight = { concurrency: "in flight", rate: "requests a second", batch: "requests at once", input_tokens: "tokens in", output_tokens: "tokens out" };

// saidOf is what a cell says in a drawing that was made of all its repetitions.
const saidOf = (svg, cell) => {
  const { x = "", y, slow, along = "" } = svg.dataset, [first, ...others] = along.split(" "), rows = rowsOf[cell];
  const p = point(cell, x || first || y, y, first, rows), tail = slow && valueOf(slow, cell, rows);
  if (!p) return D.series[seriesOf(rows[0])].label + (kindOf(said(columns.get("verdict"), rows[0])) === "void" ? ", void" : "");
  return [tipOf(p, first, x || first || y, y), tail && `${amount(tail.v, measureOf(slow).unit)} ${lower(measureOf(slow).title)}`,
    ...others.map(k => `${short(places.get(k).values[cell])} ${inFlight[k] ?? k}`)].filter(Boolean).join("\n");
};

// scatter draws lines of points, each with its name at its end where there is room.
const scatter = (w, x, y, width) => {
  const all = points(w, x, y), mx = measureOf(x), my = measureOf(y);
  const high = width < 560 ? 320 : 430, svg = draw("svg", { viewBox: `0 0 ${width} ${high}`, width, height: high });
  if (!all.length) return null;
  const [ux, perX] = unitOf(mx.unit, Math.max(...all.map(p => p.x))), [uy, perY] = unitOf(my.unit, Math.max(...all.map(p => p.y)));
  const of = Object.entries(Object.groupBy(all, p => `${p.series} ${p.by}`)).map(([s, points]) => [parseInt(s), points.sort((a, b) => a.along - b.along)]);
  const many = of.length > 8, heads = many ? leadersOf(w, of.map(([s]) => s)) : null;
  const named = width >= 560, by = new Set(all.map(p => p.by)).size > 1 ? "" : all[0].by; // of all: said once
  const name = (series, points) => D.series[series].label + (points[0].by && !by ? `, ${points[0].by.replace("published ", "")}` : "") + (points.every(p => p.doubt) ? " (suspect)" : "");
  const right = named ? width - Math.min(width * 0.34, 16 + Math.max(...of.filter(([s]) => !many || heads.has(s)).map(([s, p]) => wide(name(s, p))))) : width - 12;
  const xs = all.map(p => p.x), positive = v => Math.min(...v) > 0, ratio = v => Math.max(...v) / Math.min(...v);
  const log = positive(xs) && (S.log === "1" || S.log !== "0" && (x === w.along ? places.get(x).values.length > 2 && ratio(xs) >= 4 : ratio(xs) > 30));
  const X = axis(all.map(p => p.x), 52, right - 8, log, false, width / 90);
  const ys = all.map(p => p.y), tall = positive(ys) && (S.logy === "1" || S.logy !== "0" && my.better < 0 && ratio(ys) > 30);
  const Y = axis(ys.concat(all.map(p => rangeOf(p)?.high ?? p.y)), high - 44, 14, tall, true, 6);
  const line = (x1, y1, x2, y2, c) => svg.append(draw("line", { x1, y1, x2, y2, stroke: c }));
  const label = (x, y, s, more) => svg.append(draw("text", { x, y, "font-size": 12, fill: "var(--faint)", ...more }, s));
  if (x === w.along) X.ticks = [...new Set(all.map(p => p.x))].sort((a, b) => a - b);
  let last = -99;
  for (const t of Y.ticks) { line(46, Y.at(t), right, Y.at(t), "var(--hair)"); label(40, Y.at(t) + 4, short(t / perY), { "text-anchor": "end" }); }
  for (const t of X.ticks) {
    const at = X.at(t);
    if (at - last < 34 || at > right) continue;
    last = at; line(at, high - 44, at, high - 40, "var(--faint)"); label(at, high - 27, short(t / perX), { "text-anchor": "middle" });
  }
  line(46, high - 44, right, high - 44, "var(--faint)");
  label(right, high - 6, `${mx.title}, ${ux}${log ? ", logarithmic" : ""}${mx.better > 0 ? " → better" : mx.better < 0 ? " ← better" : ""}`, { "text-anchor": "end" });
  const begins = choices(w), drawn = new Map(all.map(p => [p.cell, p]));
  const front = x === begins.x && y === begins.y ? w.fronts.map(f => f.map(c => drawn.get(c)).filter(Boolean)) : [], leading = new Set(front.flat()), theirs = all.every(p => p.by);
  for (const f of front) if (f.length > 1) svg.append(draw("polyline", { points: path(f, X, Y), fill: "none", stroke: "var(--shade)", "stroke-width": 10, opacity: 0.45, "stroke-linejoin": "round", "stroke-linecap": "round" }));
  const ends = [], taken = [];
  for (const [series, points] of of) {
    const dim = many && !heads.has(series), g = draw("g", { "data-s": series, ...(dim ? { class: "dim" } : {}) });
    g.append(draw("polyline", { opacity: paleness(series), points: path(points, X, Y), fill: "none", stroke: hue(series), "stroke-width": points.every(p => p.doubt || p.by) ? 1.1 : 2, "stroke-dasharray": dashes[D.series[series].dash], "stroke-linejoin": "round" }));
    points.forEach((p, i) => {
      const px = X.at(p.x), py = Y.at(p.y);
      const range = rangeOf(p);
      if (range) g.append(draw("line", { x1: px, x2: px, y1: Y.at(range.low), y2: Y.at(range.high), stroke: hue(series), opacity: paleness(series) }));
      const pt = draw("g", { class: "pt", opacity: paleness(series), "data-cell": listed(p.cell) ? p.cell : "" }, draw("title", {}, tipOf(p, w.along, x, y)), p.by ? draw("path", { d: `M${px - 4},${py - 4}l8,8m-8,0l8,-8`, stroke: hue(series), "stroke-width": 1.5 }) : mark(series, px, py, 4, p.doubt));
      g.append(pt);
      const tells = x !== w.along && (theirs || !p.by) && (leading.has(p) || i === 0 || i === points.length - 1), box = [px - 12, py - 20, px + 12, py - 6];
      if (tells && !taken.some(t => t[0] < box[2] && box[0] < t[2] && t[1] < box[3] && box[1] < t[3])) {
        taken.push(box);
        g.append(draw("text", { x: px, y: py - 8, "font-size": 11, "text-anchor": "middle", fill: hue(series), stroke: "var(--paper)", "stroke-width": 3, "paint-order": "stroke" }, short(p.along)));
      }
    });
    svg.append(g);
    const end = points.reduce((a, b) => b.x > a.x ? b : a);
    if (!dim) ends.push({ series, y: Y.at(end.y), from: [X.at(end.x), Y.at(end.y)], name: name(series, points) });
  }
  if (named) {
    ends.sort((a, b) => a.y - b.y);
    // From the top down each name is below the one before; from the bottom up none is below the chart.
    ends.forEach((e, i) => { e.y = Math.max(e.y, i ? ends[i - 1].y + 17 : 14); });
    for (let i = ends.length - 1, most = high - 48; i >= 0; i--, most -= 17) ends[i].y = Math.min(ends[i].y, most);
    for (const e of ends) {
      const g = draw("g", { "data-s": e.series });
      g.append(draw("line", { x1: e.from[0] + 6, y1: e.from[1], x2: right + 6, y2: e.y, stroke: hue(e.series), "stroke-width": 0.7, opacity: 0.5 }));
      let s = e.name;
      for (let n = s.length >> 1; n > 2 && wide(s) > width - right - 14; n--) s = e.name.slice(0, n) + "…" + e.name.slice(-n);
      g.append(draw("text", { x: right + 10, y: e.y + 4, "font-size": 12.5, "font-weight": 600, fill: hue(e.series) }, s));
      svg.append(g);
    }
  }
  const says = [x !== w.along && "Small numbers: the load.", all.some(p => p.doubt) && "Hollow: suspect.", all.some(p => p.by) && "Crosses: not measured here.",
    all.some(p => p.n > 1 && rangeOf(p)) && "Upright lines: repetitions.", all.some(p => p.n === 1 && rangeOf(p)) && "Upright lines: 95 of 100 runs.",
    front.some(f => f.length > 1) && "Grey band: the best on each kind of GPU.", many && `Pale: ${of.length - heads.size} more series.`].filter(Boolean).join(" ");
  svg.setAttribute("aria-label", `${my.title} against ${lower(mx.title)}. ${w.finding}`);
  return { svg, named, series: [...new Set(of.map(([s]) => s))], log, tall, by, unit: uy, says };
};

// leadersOf are, of many series, the eight that lead in the tables, or that have the baseline: the others are dim.
const leadersOf = (w, series) => {
  const wins = new Map(series.map(s => [s, baseOf(...w.tables) === s ? 1 : 0]));
  for (const t of w.tables) for (const cell of t.best.flat()) { const s = seriesOf(rowsOf[cell][0]); if (wins.has(s)) wins.set(s, wins.get(s) + 1); }
  return new Set([...wins].sort((a, b) => b[1] - a[1]).slice(0, 8).map(([s]) => s));
};
const options = (select, of, chosen) => select.replaceChildren(...of.map(([value, label]) => { const o = make("option", { value }, label); o.selected = value === chosen; return o; }));
const showHero = () => {
  const w = workload();
  if (!w) return;
  const c = choices(w), x = c.xs.includes(S.x) ? S.x : c.x, y = c.ys.includes(S.y) ? S.y : c.y, box = one("hero-chart");
  const load = w.headline && D.workloads.length > 1 ? ` (${w.workload})` : "", head = w.headline.replace(/\.$/, load + "."), rest = w.finding.slice(w.headline.length).trim();
  const { title, headline } = one("finding").dataset;
  const whole = s => s.replaceAll(" %", "\u00a0%"); // no line begins with it
  one("finding").textContent = whole(headline || head || title);
  one("finding-rest").textContent = whole(headline ? `${head} ${rest}` : rest);
  options(one("hero-w"), D.workloads.map(w => [w.id, w.workload]), w.id);
  one("hero-w").parentElement.hidden = D.workloads.length < 2;
  options(one("hero-x"), c.xs.map(k => [k, measureOf(k).title]), x);
  const second = w.tables.find(t => t.id === S.t) ?? w.tables.find((t, i) => i > 0) ?? w.tables[0];
  const barred = !w.along, table = barred ? w.tables.find(t => t.metric === y) ?? w.tables[0] : null;
  options(one("hero-y"), barred ? w.tables.map(t => [t.metric, t.title]) : c.ys.map(k => [k, measureOf(k).title]), barred ? table.metric : y);
  for (const id of ["hero-x", "hero-log", "hero-logy"]) one(id).closest("label").hidden = barred;
  options(one("hero-base"), [["none", "none"], ...[...new Set(w.tables.flatMap(t => t.series))].sort((a, b) => a - b).map(s => [String(s), D.series[s].label])], String(baseOf(...w.tables)));
  options(one("hero-t"), w.tables.slice(w.tables.length > 1 ? 1 : 0).map(t => [t.id, t.title]), second.id);
  one("hero-sus").checked = S.sus !== "0";
  const width = Math.max(280, Math.floor(box.clientWidth || 800));
  const shown = barred ? bars(w, table, width) : scatter(w, x, y, width);
  one("hero-title").textContent = barred ? table.title : `${measureOf(y).title} against ${lower(measureOf(x).title)}${shown?.unit ? ", " + shown.unit : ""}${shown?.tall ? ", logarithmic" : ""}`;
  one("hero-under").textContent = w.workload + (shown?.by ? `, ${shown.by.replace("published ", "")}` : "");
  box.replaceChildren(shown ? shown.svg : make("p", { class: "note" }, `No cell that the filter lets through has ${barred ? "it" : "both"}.`));
  if (shown) dress(shown.svg);
  one("hero-log").checked = !!shown?.log;
  one("hero-logy").checked = !!shown?.tall;
  one("hero-says").textContent = shown?.says ?? "";
  one("hero-key").replaceChildren(...(shown && !shown.named ? shown.series.map(s => make("span", {}, chip(s), D.series[s].label)) : []));
  one("decide-title").textContent = w.tables[0].title;
  one("decide").replaceChildren(...deciding(w, w.tables[0]));
  one("decide-more").hidden = w.tables.length < 2;
  if (w.tables.length > 1) one("decide-second").replaceChildren(...deciding(w, second));
};
for (const [id, key] of [["hero-w", "w"], ["hero-x", "x"], ["hero-y", "y"], ["hero-t", "t"], ["hero-base", "base"]])
  one(id)?.addEventListener("change", e => { S[key] = e.target.value; if (key === "w") Object.assign(S, { x: "", y: "", t: "", base: "" }); writeAddress(); showHero(); });
for (const key of ["log", "logy"]) one("hero-" + key)?.addEventListener("change", e => { S[key] = e.target.checked ? "1" : "0"; writeAddress(); showHero(); });
one("hero-sus")?.addEventListener("change", e => { S.sus = e.target.checked ? "" : "0"; writeAddress(); showHero(); });
one("hero-link")?.addEventListener("click", e => { writeAddress(); copy(location.href, e.target); });
told.push(showHero);
