// Light and dark: the system's, until the button says otherwise.
one("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// What is late stands in a noscript, which costs nothing, until it comes near the view.
const dressed = []; // told of each drawing that is put in
const dress = svg => dressed.forEach(f => f(svg));
const put = e => {
  const text = e.querySelector(":scope > noscript");
  if (!text) return;
  e.innerHTML = text.textContent;
  e.style.aspectRatio = "";
  all("svg", e).forEach(dress);
};
const nearing = new IntersectionObserver(seen => seen.filter(s => s.isIntersecting).forEach(s => { nearing.unobserve(s.target); put(s.target); }), { rootMargin: "400px" });
for (const e of all(".late")) { e.style.aspectRatio = e.dataset.shape ?? ""; nearing.observe(e); }

// On paper nothing can be opened: all is put in, and commands and configurations are open.
const folded = all(".cards details");
let closed = [];
addEventListener("beforeprint", () => {
  all(".late").forEach(put);
  closed = folded.filter(d => !d.open);
  closed.forEach(d => { d.open = true; });
});
addEventListener("afterprint", () => closed.forEach(d => { d.open = false; }));

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

// A chart says its values to who points at them, taps them, or goes to them by arrow keys.
const tip = one("tip");
let lit = null, pinned = false;
const hide = () => { tip.hidden = true; lit?.classList.remove("on"); lit = null; pinned = false; };
const light = (g, x, y) => {
  if (lit !== g) { hide(); lit = g; g.classList.add("on"); tip.textContent = g.dataset.says; tip.hidden = false; }
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 8)) + "px";
  tip.style.top = (y - h - 12 > 4 ? y - h - 12 : y + 18) + "px";
};
// ready reads what the marks of a drawing say, when somebody asks: a page may have many.
const ready = svg => {
  if (svg.dataset.ready) return;
  svg.dataset.ready = "yes";
  for (const g of all(".pt", svg)) {
    const title = g.querySelector("title");
    g.dataset.says = title.textContent;
    title.remove();
  }
};
const nearest = (svg, e) => {
  ready(svg);
  let best = null, least = 34;
  for (const g of all(".pt", svg)) {
    if (g.style.display === "none") continue;
    const b = g.getBoundingClientRect();
    const d = Math.hypot(Math.max(b.left - e.clientX, 0, e.clientX - b.right), Math.max(b.top - e.clientY, 0, e.clientY - b.bottom));
    if (d < least) { least = d; best = g; }
  }
  return best;
};
const step = (svg, e) => {
  ready(svg);
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (e.key === "Escape") return hide();
  if (e.key === "Enter" && lit?.dataset.cell) return open(+lit.dataset.cell);
  if (!by) return;
  e.preventDefault();
  const points = all(".pt", svg).filter(g => g.style.display !== "none" && g.parentNode.style?.display !== "none"), at = points.indexOf(lit);
  const g = points[at < 0 ? 0 : (at + by + points.length) % points.length];
  if (!g) return;
  const b = g.getBoundingClientRect();
  light(g, b.right, b.top);
};
// handle makes a drawing answer.
const handle = svg => {
  svg.setAttribute("tabindex", 0);
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-roledescription", "chart: arrow keys say its values");
  svg.addEventListener("keydown", e => step(svg, e));
  svg.addEventListener("blur", hide);
  svg.addEventListener("pointermove", e => {
    if (e.pointerType === "touch" || pinned) return;
    const g = nearest(svg, e);
    if (g) light(g, e.clientX, e.clientY); else hide();
  });
  svg.addEventListener("pointerleave", () => { if (!pinned) hide(); });
  svg.addEventListener("click", e => {
    const g = nearest(svg, e);
    if (!g) return hide();
    const again = lit === g && pinned;
    if (g.dataset.cell && (e.pointerType !== "touch" || again)) { hide(); return open(+g.dataset.cell); }
    light(g, e.clientX, e.clientY);
    pinned = true;
  });
};
dressed.push(handle);
addEventListener("scroll", hide, { passive: true });

// The data of a chart, as a file or as a table below it.
const dataOf = name => JSON.parse(document.querySelector(`script[data-name="${name}"]`).textContent);
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
