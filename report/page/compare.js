// A page of two sets of results: a line of the table is a pair, what A has of a cell and what B has.
const sideOf = row => D.series[seriesOf(row)].side;
const ofSide = (rows, side) => rows.filter(r => sideOf(r) === side);
// paleness is that of what is drawn of a series: A stands behind B.
const paleness = series => D.series[series].side === "A" ? 0.45 : 1;
// pairIn is what both sides have in a column, and by how much they differ; null: one of them has nothing.
const pairIn = (c, rows) => {
  const a = median(c.key, ofSide(rows, "A")), b = median(c.key, ofSide(rows, "B"));
  if (!a || !b) return null;
  const known = key => columns.get(key + c.key)?.values[rows[0]] ?? null, compared = columns.has("change_" + c.key);
  const by = compared ? known("change_") : a.v ? (b.v - a.v) / Math.abs(a.v) * 100 : null, p = known("p_");
  const below = known("floor_"), sure = below === null && p !== null && p < 0.05, chance = p !== null && !sure;
  const says = below !== null ? "~ below the noise" : chance ? `~ p=${p.toFixed(3)}` : [by === null ? "from 0" : change(by / 100), ...(sure ? [`p=${p.toFixed(3)}`] : [])].join(", ");
  return { a, b, by, says, look: sure && c.better ? (by * c.better > 0 ? "better" : "worse") : "" };
};
// bothIn are both sides' values, in one unit.
const bothIn = (c, p) => { const [unit, per] = unitOf(c.unit, p.a.v, p.b.v); return [p.a, p.b].map(m => `${text(m.v / per)} ${unit}`.trim()); };
// besides is what a point of one side says of the other.
const besides = (row, key) => {
  const rows = groups[D.group[row]], p = D.sides && row < D.listed && columns.has(key) ? pairIn(columns.get(key), rows) : null;
  return p ? [`A ${bothIn(columns.get(key), p)[0]}, B ${bothIn(columns.get(key), p)[1]}: ${p.says}`] : [];
};
// pairTable is what a cell opened says of both sides.
const pairTable = rows => {
  const head = make("tr", {}, ...["figure", "A", "B", "change"].map((h, i) => make("th", { scope: "col", class: i ? "n" : "" }, h)));
  const lines = D.columns.filter(c => columns.has("change_" + c.key)).flatMap(c => {
    const p = pairIn(c, rows);
    return p ? [make("tr", {}, make("th", { scope: "row" }, c.title), ...bothIn(c, p).map(v => make("td", { class: "n" }, v)), make("td", { class: "n " + p.look }, p.says))] : [];
  });
  return lines.length ? [make("h3", {}, "A and B"), make("table", { class: "plain" }, make("thead", {}, head), make("tbody", {}, ...lines))] : [];
};
