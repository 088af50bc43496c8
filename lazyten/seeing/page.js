"use strict";
// A program as collect.py describes it: `program` has the plans, the kernels in the order of their
// launches and the lines; `detail0` and so on the texts of each different kernel, read when asked.

const VIEWS = ["Kernels", "Graph", "Operations", "Memory", "Schedule"];
const TABS = ["Why", "Operations", "Passes", "Code", "Assembly"];
const FIRST_LINES = 1500;  // of a long text; a button shows the rest
const MOST_COMPARED = 4e6;  // cells of a comparison of two texts

let program, chosen = -1, line = null, view = "Kernels", tab = "Why", shownPass = 0, showing = "changes";
const details = new Map();
const rows = new Map(), cards = [];  // elements of lines, by "file:line", and of kernels
const byLine = new Map();  // "file:line" to the kernels that compute something of it
const $ = id => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "path", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag)
                   : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter(c => c !== null && c !== undefined));
  return made;
}

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

async function detailOf(kernel) {
  if (!details.has(kernel.detail)) details.set(kernel.detail, unpack("detail" + kernel.detail));
  return details.get(kernel.detail);
}

// ---- numbers and places ----

const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
function scaled(n, unit) {
  const step = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([s]) => n >= s);
  return step ? `${(n / step[0]).toFixed(n / step[0] < 10 ? 2 : 1)}\u00a0${step[1]}${unit}` : `${n}\u00a0${unit}`;
}
const least = kernel => kernel.us.length ? Math.min(...kernel.us) : null;
const key = place => place.join(":");
const placeText = place => place ? `${program.files[place[0]].name}:${place[1]}` : "";
const arrayText = (plan, n) => n < plan.inputs ? `input ${n}` : plan.outputs.includes(n)
  ? `output ${n}` : `value ${n}`;

function placeLink(place) {
  return place && el("span", {class: "place", onclick: () => reveal(place),
    onmouseenter: () => heat([key(place)], byLine.get(key(place)) || []), onmouseleave: cool},
    placeText(place));
}

function reveal(place) {
  const row = rows.get(key(place));
  if (row) row.scrollIntoView({block: "center"});
  heat([key(place)], byLine.get(key(place)) || []);
}

// ---- what belongs together ----

function heat(lines, kernels, nodes = []) {
  cool();
  for (const l of lines) rows.get(l)?.classList.add("hot");
  for (const k of kernels) cards[k]?.classList.add("hot");
  const own = new Set(kernels.map(String)), places = new Set(lines), numbers = new Set(nodes.map(String));
  for (const g of document.querySelectorAll("g.box")) {
    const {kernel, place, node} = g.dataset;
    if (kernel !== undefined ? own.has(kernel) : numbers.size ? numbers.has(node) : places.has(place))
      g.classList.add("hot");
  }
}

function cool() {
  for (const e of document.querySelectorAll(".hot")) e.classList.remove("hot");
}

const linesOf = kernel => kernel.lines.filter(([p]) => p).map(([p]) => key(p));

// ---- the source ----

function showSource() {
  const heaviest = lineWeights();
  const most = Math.max(...heaviest.values(), 1e-12);
  program.files.forEach((file, number) => {
    $("source").append(el("div", {class: "file", title: file.path}, file.name));
    let before = 0;
    for (const [n, text] of file.lines) {
      if (before && n !== before + 1) $("source").append(el("div", {class: "gap"}, "⋯"));
      before = n;
      $("source").append(sourceRow([number, n], text, (heaviest.get(`${number}:${n}`) || 0) / most));
    }
    if (!file.lines.length) $("source").append(el("div", {class: "gap"}, "this file cannot be read"));
  });
}

function sourceRow(place, text, share) {
  const id = key(place), kernels = byLine.get(id);
  const row = el("div", {class: "row" + (kernels ? " used" : ""), "data-line": id},
    el("i", {}, String(place[1])), el("b", {}, text));
  rows.set(id, row);
  if (!kernels) return row;
  row.title = `${many(kernels.length, "kernel")}: click to see only these`;
  if (share) row.prepend(el("u", {style: `width: calc((100% - 44px) * ${share.toFixed(4)})`}));
  row.addEventListener("mouseenter", () => heat([id], kernels));
  row.addEventListener("mouseleave", cool);
  row.addEventListener("click", () => { line = line === id ? null : id; filter(); });
  return row;
}

function lineWeights() {
  const found = new Map();
  const timed = program.kernels.some(k => k.us.length);
  for (const kernel of program.kernels)
    for (const [place, share] of kernel.lines) {
      const cost = timed ? kernel.us.reduce((a, b) => a + b, 0) : kernel.flops + kernel.bytes;
      if (place) found.set(key(place), (found.get(key(place)) || 0) + share * cost);
    }
  return found;
}

// ---- the list of kernels ----

function showList() {
  const timed = program.kernels.some(k => k.us.length);
  const weight = k => timed ? k.us.reduce((a, b) => a + b, 0) : k.cycles || 0;
  const most = Math.max(...program.kernels.map(weight), 1e-12);
  let plan = -1;
  program.kernels.forEach((kernel, number) => {
    if (kernel.plan !== plan) {
      plan = kernel.plan;
      $("list").append(el("div", {class: "plan"}, planTitle(plan)));
    }
    const card = el("div", {class: "kernel", "data-kernel": number, tabindex: 0,
      onclick: () => choose(number), onkeydown: e => e.key === "Enter" && choose(number),
      onmouseenter: () => heat(linesOf(kernel), [number]), onmouseleave: cool},
      el("div", {class: "name"}, kernel.name),
      el("div", {class: "small"}, `${kernel.stores.map(s => s.type).slice(0, 4).join(", ")}` +
        `${kernel.stores.length > 4 ? ", …" : ""}  ${placeText(kernel.where)}`),
      el("div", {class: "small"}, costText(kernel)),
      el("div", {class: "meter"}, el("span", {style: `width: ${100 * weight(kernel) / most}%`})));
    cards.push(card);
    $("list").append(card);
  });
}

function planTitle(number) {
  const plan = program.plans[number];
  const runs = plan.runs ? `, ran ${plan.runs === 1 ? "once" : plan.runs + " times"}` : "";
  const kernels = plan.launches.reduce((a, b) => a + b, 0);
  return `Plan ${number} on ${plan.device}: ${many(kernels, "kernel")} in ` +
    `${many(plan.launches.length, "launch").replace("launchs", "launches")}${runs}`;
}

function costText(kernel) {
  const time = least(kernel);
  return [time !== null ? `${time.toFixed(1)}\u00a0µs` : null,
          kernel.cycles !== null ? `${scaled(Math.round(kernel.cycles), "cycles")}\u00a0expected` : null,
          scaled(kernel.flops, "FLOP"), scaled(kernel.bytes, "B")].filter(x => x).join(" · ");
}

function choose(number) {
  cards[chosen]?.classList.remove("chosen");
  chosen = number;
  shownPass = 0;
  cards[chosen]?.classList.add("chosen");
  if (view !== "Kernels") showView("Kernels");
  cards[chosen]?.scrollIntoView({block: "nearest"});
  for (const row of rows.values()) row.classList.remove("chosen");
  for (const l of linesOf(program.kernels[number])) rows.get(l)?.classList.add("chosen");
  history.replaceState(null, "", "#kernel" + number);
  return showDetail();
}

// ---- one kernel ----

async function showDetail() {
  const kernel = program.kernels[chosen], detail = await detailOf(kernel);
  if (kernel !== program.kernels[chosen]) return;
  const body = {Why: whyTab, Operations: operationsTab, Passes: passesTab, Code: codeTab,
                Assembly: assemblyTab}[tab](kernel, detail);
  const has = {Passes: detail.passes.length, Code: detail.source, Assembly: detail.assembly};
  $("detail").replaceChildren(
    el("h2", {class: "name"}, kernel.name), el("div", {class: "small"}, costText(kernel)),
    buttons(TABS.filter(t => !(t in has) || has[t]), tab, t => { tab = t; showDetail(); }),
    ...body);
  markFound();
}

function buttons(names, current, pick, extra = () => "") {
  return el("nav", {class: "tabs"}, ...names.map(name => el("button",
    {class: (name === current ? "on " : "") + extra(name), onclick: () => pick(name)}, name)));
}

function facts(pairs) {
  return el("table", {}, ...pairs.filter(([, value]) => value).map(([name, value]) =>
    el("tr", {}, el("th", {}, name), el("td", {}, value))));
}

function whyTab(kernel, detail) {
  const plan = program.plans[kernel.plan];
  const stores = kernel.stores.map((s, i) => el("tr", {}, el("td", {class: "mono"}, s.type),
    el("td", {class: "whole"}, arrayText(plan, kernel.writes[i])), el("td", {}, s.reason),
    el("td", {class: "number"}, scaled(s.bytes, "B")), el("td", {}, placeLink(s.where) || ""),
    el("td", {}, s.costs ? `stored costs ${Math.round(s.costs[0]).toLocaleString("en")}; computed ` +
      `again at each read ${Math.round(s.costs[1]).toLocaleString("en")}` : "")));
  const head = titles => el("tr", {}, ...titles.map(t => el("th", {}, t)));
  const parts = [el("h3", {}, "What it stores, and why"),
    el("table", {}, head(["value", "array", "reason", "size", "line", "the alternative"]), ...stores)];
  if (kernel.held.length)
    parts.push(el("h3", {}, "What it holds, never stored"), el("div", {}, kernel.held.join("; ")));
  parts.push(el("h3", {}, "What it reads"), readers(kernel, plan), el("h3", {}, "Numbers"), facts([
    ["launch", `${kernel.launch} of plan ${kernel.plan}` + (plan.launches[kernel.launch] > 1 ?
      `, with ${plan.launches[kernel.launch] - 1} more` : "")],
    ["operations", kernel.flops.toLocaleString("en")], ["bytes", kernel.bytes.toLocaleString("en")],
    ["measured", measured(kernel)],
    ["saved by fusion", kernel.saved ? Math.round(kernel.saved).toLocaleString("en") : ""]]));
  if (detail.candidates.length) parts.push(el("h3", {}, "Decisions, and the cycles of one core expected of each"),
    el("table", {}, ...detail.candidates.map(([text, cycles], i) => el("tr", {},
      el("td", {}, i ? "" : "chosen"), el("td", {class: "number"}, Math.round(cycles).toLocaleString("en")),
      el("td", {class: "mono"}, text)))));
  parts.push(el("h3", {}, "Lines"), el("table", {}, ...kernel.lines.filter(([p]) => p).map(([p, share]) =>
    el("tr", {}, el("td", {class: "number"}, `${(100 * share).toFixed(0)} %`), el("td", {}, placeLink(p)),
       el("td", {class: "mono"}, rows.get(key(p))?.querySelector("b").textContent.trim() || "")))));
  parts.push(el("h3", {}, "Its expression"), code(detail.expression));
  return parts;
}

function measured(kernel) {
  const time = least(kernel);
  return time === null ? "" : `${time.toFixed(1)} µs (${kernel.us.length === 1 ? "one run" :
    "least of " + kernel.us.length}), ${(kernel.flops / time / 1e3).toFixed(2)} GFLOP/s, ` +
    `${(kernel.bytes / time / 1e3).toFixed(2)} GB/s`;
}

function readers(kernel, plan) {
  const made = new Map();
  program.kernels.forEach((k, i) => k.plan === kernel.plan && k.writes.forEach(a => made.set(a, i)));
  const items = kernel.reads.map((a, i) => {
    const by = made.get(a);
    return el("tr", {}, el("td", {class: "mono"}, kernel.inputs[i] || ""), el("td", {}, arrayText(plan, a)),
      el("td", {}, by === undefined ? "" : el("span", {class: "place", onclick: () => choose(by),
        onmouseenter: () => heat([], [by]), onmouseleave: cool}, "of " + program.kernels[by].name)));
  });
  return items.length ? el("table", {}, ...items) : el("div", {class: "small"}, "nothing");
}

function passesTab(kernel, detail) {
  return passPages(detail.passes, showDetail);
}

function passPages(passes, again) {
  const at = Math.min(shownPass, passes.length - 1), pass = passes[at];
  const previous = i => passes.slice(0, i).findLast(p => p.within === passes[i].within);
  const before = previous(at)?.text ?? "";
  const same = i => previous(i)?.text === passes[i].text;
  const picks = el("nav", {}, ...passes.map((p, i) => el("button", {"data-pass": p.name,
    class: (i === at ? "on " : "") + (same(i) ? "same" : ""), title: p.about,
    onclick: () => { shownPass = i; again(); }}, p.within ? `${p.within}: ${p.name}` : p.name)));
  const ways = el("nav", {}, ...["changes", "after", "side by side"].map(way => el("button",
    {class: way === showing ? "on" : "", onclick: () => { showing = way; again(); }}, way)));
  const text = same(at) ? [el("div", {class: "small"}, "It changes nothing here."), code(pass.text)]
    : showing === "after" || !previous(at) ? [code(pass.text)]
    : showing === "changes" ? [changes(before, pass.text)]
    : [el("div", {class: "pair"}, el("div", {}, el("h3", {}, "after " + previous(at).name), code(before)),
          el("div", {}, el("h3", {}, "after " + pass.name), code(pass.text)))];
  return [picks, el("p", {}, el("b", {}, pass.name), `: ${pass.about} (${pass.ms.toFixed(2)} ms)`), ways, ...text];
}

function codeTab(kernel, detail) {
  return [code(detail.source)];
}

function assemblyTab(kernel, detail) {
  return [code(detail.assembly)];
}

function code(text) {
  return lines(text.replace(/\n+$/, "").split("\n").map(t => ["", t]));
}

function lines(items) {
  const made = el("pre");
  const add = part => made.append(...part.map(([kind, text]) => el("span", kind ? {class: kind} : {}, text)));
  add(items.slice(0, FIRST_LINES));
  if (items.length > FIRST_LINES) {
    const more = el("button", {onclick: () => { more.remove(); add(items.slice(FIRST_LINES)); markFound(); }},
      `show ${many(items.length - FIRST_LINES, "more line")}`);
    made.append(more);
  }
  return made;
}

// What one text has that the other has not; numbers of values do not count, as each pass counts anew.
function changes(before, after) {
  const a = before.split("\n"), b = after.split("\n"), plain = t => t.replace(/[%v]\d+/g, "%").trim();
  const x = a.map(plain), y = b.map(plain);
  let start = 0, end = 0;
  while (start < x.length && start < y.length && x[start] === y[start]) start++;
  while (end < x.length - start && end < y.length - start && x[x.length - 1 - end] === y[y.length - 1 - end]) end++;
  const n = x.length - start - end, m = y.length - start - end;
  const middle = n * m > MOST_COMPARED
    ? [...a.slice(start, start + n).map(t => ["removed", t]), ...b.slice(start, start + m).map(t => ["added", t])]
    : compared(a, b, x, y, start, n, m);
  return lines([...b.slice(0, start).map(t => ["", t]), ...middle, ...b.slice(start + m).map(t => ["", t])]);
}

function compared(a, b, x, y, start, n, m) {
  const width = m + 1, common = new Uint32Array((n + 1) * width), found = [];
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      common[i * width + j] = x[start + i] === y[start + j] ? common[(i + 1) * width + j + 1] + 1
        : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  for (let i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && x[start + i] === y[start + j]) { found.push(["", b[start + j]]); i++; j++; }
    else if (j >= m || (i < n && common[(i + 1) * width + j] >= common[i * width + j + 1]))
      found.push(["removed", a[start + i++]]);
    else found.push(["added", b[start + j++]]);
  }
  return found;
}

// ---- drawings ----

// Places for boxes, sources above what reads them: levels by the longest way, each level in the
// order of its sources.
function layered(boxes, edges) {
  const into = boxes.map(() => []), level = boxes.map(() => 0);
  for (const [from, to] of edges) into[to].push(from);
  boxes.forEach((_, i) => { for (const s of into[i]) level[i] = Math.max(level[i], level[s] + 1); });
  const levels = [];
  boxes.forEach((_, i) => (levels[level[i]] ||= []).push(i));
  const x = boxes.map(() => 0);
  let widest = 0, y = 12;
  const tops = boxes.map(() => 0);
  for (const ids of levels) {
    const wish = i => into[i].length ? into[i].reduce((s, j) => s + x[j] + boxes[j].width / 2, 0) / into[i].length : 0;
    ids.sort((a, b) => wish(a) - wish(b));
    let right = 12, tallest = 0;
    for (const i of ids) {
      x[i] = Math.max(right, wish(i) - boxes[i].width / 2);
      right = x[i] + boxes[i].width + 14;
      tallest = Math.max(tallest, boxes[i].height);
      tops[i] = y;
    }
    widest = Math.max(widest, right);
    y += tallest + 34;
  }
  return {x, y: tops, width: widest + 12, height: y};
}

function drawing(boxes, edges) {
  const at = layered(boxes, edges);
  const svg = el("svg", {width: at.width, height: at.height, role: "img"});
  const ways = boxes.map(() => []);
  for (const [from, to] of edges) {
    const x1 = at.x[from] + boxes[from].width / 2, y1 = at.y[from] + boxes[from].height;
    const x2 = at.x[to] + boxes[to].width / 2, y2 = at.y[to], bend = Math.max(16, (y2 - y1) / 2);
    const way = el("path", {d: `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`});
    ways[from].push(way);
    ways[to].push(way);
    svg.append(way);
  }
  boxes.forEach((box, i) => {
    const g = el("g", {class: "box " + (box.kind || ""), transform: `translate(${at.x[i]},${at.y[i]})`,
      onclick: box.click, onmouseenter: () => { box.hover(); ways[i].forEach(w => w.classList.add("hot")); },
      onmouseleave: cool}, el("rect", {width: box.width, height: box.height, rx: 5}),
      ...box.text.map((t, row) => el("text", {x: 8, y: 15 + 14 * row, class: row ? "small" : ""}, t)),
      box.title ? el("title", {}, box.title) : null);
    Object.assign(g.dataset, box.data);
    svg.append(g);
  });
  return el("div", {class: "drawing"}, svg);
}

function boxOf(text, more) {
  const longest = Math.max(...text.map(t => t.length));
  return {text, width: longest * 7.1 + 16, height: 14 * text.length + 8, ...more};
}

function opBox(plan, number, kernels, kind, index) {
  const node = plan.nodes[number], place = node.where && key(node.where);
  const text = [node.op === "BUFFER" ? node.arg : node.op === "CONST" ? `CONST ${node.arg.length > 10 ? Number(node.arg).toPrecision(6) : node.arg}` : node.op,
                `${node.type}[${node.shape.join(", ")}]`];
  return boxOf(text, {kind, title: `${node.op} ${node.arg}\n${placeText(node.where)}`,
    data: {place: place || "", node: `${index}.${number}`},
    hover: () => heat(place ? [place] : [], kernels, [`${index}.${number}`]),
    click: () => kernels.length ? choose(kernels[0]) : node.where && reveal(node.where)});
}

function operationsTab(kernel) {
  const plan = program.plans[kernel.plan], own = new Set(kernel.values), number = kernel.plan;
  const stored = new Set(kernel.values.slice(-1));
  const nodes = [...new Set([...kernel.values.flatMap(v => plan.nodes[v].src), ...kernel.values])].sort((a, b) => a - b);
  const at = new Map(nodes.map((n, i) => [n, i]));
  const boxes = nodes.map(n => {
    const box = opBox(plan, n, kernelsOf(number, n), own.has(n) ? stored.has(n) ? "stored" : "" : "read", number);
    if (own.has(n)) box.click = () => plan.nodes[n].where && reveal(plan.nodes[n].where);
    return box;
  });
  const edges = kernel.values.flatMap(n => plan.nodes[n].src.map(s => [at.get(s), at.get(n)]));
  return [el("p", {class: "small"}, "Dashed: what it reads from memory; click to go to the kernel that made it. " +
    "Blue: what it stores."), drawing(boxes, edges)];
}

const owners = [];
function kernelsOf(plan, node) {
  if (!owners.length) {
    program.plans.forEach(() => owners.push(new Map()));
    program.kernels.forEach((k, i) => k.values.forEach(v => {
      const map = owners[k.plan];
      if (!map.has(v)) map.set(v, []);
      map.get(v).push(i);
    }));
  }
  return owners[plan].get(node) || [];
}

function kernelGraph(plan, number) {
  const own = program.kernels.map((k, i) => [k, i]).filter(([k]) => k.plan === number);
  const maker = new Map(own.flatMap(([k], at) => k.writes.map(a => [a, at])));
  const boxes = own.map(([k, i]) => boxOf([k.name, ...k.stores.slice(0, 2).map(s => s.type),
    ...(k.stores.length > 2 ? [`and ${k.stores.length - 2} more`] : []),
    [placeText(k.where), least(k) === null ? "" : `${least(k).toFixed(1)} µs`].join("  ")],
    {data: {kernel: i}, hover: () => heat(linesOf(k), [i]), click: () => choose(i),
     title: k.stores.map(s => `${s.type}: ${s.reason}`).join("\n")}));
  const edges = own.flatMap(([k], at) => k.reads.filter(a => maker.has(a) && maker.get(a) < at)
    .map(a => [maker.get(a), at]));
  return drawing(boxes, edges);
}

function operationGraph(plan, number) {
  const boxes = plan.nodes.map((node, i) => opBox(plan, i, kernelsOf(number, i),
    node.op === "BUFFER" ? "read" : "", number));
  return drawing(boxes, plan.nodes.flatMap((node, i) => node.src.map(s => [s, i])));
}

function memoryChart(plan, number) {
  const kinds = ["input", "output", "between"], height = 220, own = program.kernels
    .map((k, i) => [k, i]).filter(([k]) => k.plan === number);
  const most = Math.max(...plan.memory.map(m => m[0] + m[1] + m[2]), 1);
  const width = Math.max(6, Math.min(40, 900 / plan.memory.length));
  const svg = el("svg", {width: width * plan.memory.length + 90, height: height + 30});
  svg.append(el("text", {x: 4, y: 16, class: "small"}, scaled(most, "B")));
  plan.memory.forEach((parts, launch) => {
    const inside = own.filter(([k]) => k.launch === launch);
    let y = height + 10;
    const g = el("g", {class: "box", onclick: () => inside.length && choose(inside[0][1]),
      onmouseenter: () => heat(inside.flatMap(([k]) => linesOf(k)), inside.map(([, i]) => i)), onmouseleave: cool},
      el("title", {}, `launch ${launch}: ${inside.map(([k]) => k.name).join(", ")}\n` +
        kinds.map((k, i) => `${k}: ${scaled(parts[i], "B")}`).join("\n")));
    kinds.forEach((kind, i) => {
      const h = parts[i] / most * height;
      y -= h;
      g.append(el("rect", {class: kind, x: 76 + launch * width, y, width: width - 1, height: h}));
    });
    svg.append(g);
  });
  return el("div", {class: "drawing"}, svg);
}

function showWide() {
  const draw = {Graph: kernelGraph, Operations: operationGraph, Memory: memoryChart,
    Schedule: plan => el("div", {}, ...passPages(plan.passes, showWide))}[view];
  const about = {
    Graph: "Each box is a kernel; lines are values in memory. Click one to open it.",
    Operations: "The graph as it was scheduled. Click an operation to open the kernel that computes it.",
    Memory: "Bytes that are needed during each launch.",
    Schedule: "What each pass made on the way from the graph to kernels."}[view];
  const key = view === "Memory" ? el("p", {class: "key small"}, ...[["input", "inputs"], ["output", "outputs"],
    ["between", "in between, still to be read"]].flatMap(([kind, text]) => [el("span", {class: kind}), text])) : null;
  $("wide").replaceChildren(el("p", {class: "small"}, about), ...(key ? [key] : []),
    ...program.plans.flatMap((plan, i) => view === "Schedule" && !plan.passes.length ? [] :
      [el("h3", {}, planTitle(i)), view === "Memory" ? el("div", {class: "small"},
        `in between: ${scaled(plan.blocks.reduce((a, b) => a + b, 0), "B")} of memory, shared`) : "", draw(plan, i)]));
  markFound();
}

function showView(name) {
  view = name;
  $("views").replaceChildren(...VIEWS.map(v => el("button", {class: v === view ? "on" : "",
    "data-view": v, onclick: () => showView(v)}, v)));
  const wide = name !== "Kernels";
  $("wide").hidden = !wide;
  for (const id of ["list", "detail"]) $(id).classList.toggle("gone", wide);
  if (wide) { shownPass = 0; showWide(); }
}

// ---- search ----

async function filter() {
  const wanted = $("search").value.trim().toLowerCase();
  if (wanted && !texts.length) {
    texts.push("");  // asked for
    await Promise.all(program.kernels.map(async (kernel, i) => {
      const detail = await detailOf(kernel);
      texts[i] = [detail.source, detail.assembly, ...detail.passes.map(p => p.text)].join("\n").toLowerCase();
    }));
    return filter();
  }
  for (const [id, row] of rows) {
    row.classList.toggle("match", !!wanted && row.querySelector("b").textContent.toLowerCase().includes(wanted));
    row.classList.toggle("chosen", id === line);
  }
  let count = 0;
  program.kernels.forEach((kernel, i) => {
    const hit = (!wanted || haystack(kernel).includes(wanted) || texts[i]?.includes(wanted)) && (line === null || byLine.get(line).includes(i));
    cards[i].classList.toggle("gone", !hit);
    count += hit;
  });
  $("found").textContent = wanted || line !== null ? many(count, "kernel") : "";
  markFound();
}

const texts = [];  // of each kernel, once something was searched for

function haystack(kernel) {
  kernel.words ??= [kernel.name, kernel.decisions, placeText(kernel.where), ...kernel.stores.flatMap(s => [s.type, s.reason]),
    ...new Set(kernel.values.map(v => program.plans[kernel.plan].nodes[v].op)),
    ...kernel.lines.filter(([p]) => p).map(([p]) => rows.get(key(p))?.querySelector("b").textContent || "")]
    .join(" ").toLowerCase();
  return kernel.words;
}

function markFound() {
  const wanted = $("search").value.trim().toLowerCase();
  let first = null;
  for (const span of document.querySelectorAll("pre span")) {
    const hit = !!wanted && span.textContent.toLowerCase().includes(wanted);
    span.classList.toggle("match", hit);
    if (hit && !first) first = span;
  }
  first?.scrollIntoView({block: "nearest", inline: "nearest"});
}

// ---- start ----

async function start() {
  program = await unpack("program");
  program.kernels.forEach((kernel, i) => kernel.lines.forEach(([place]) => {
    if (!place) return;
    const id = key(place);
    if (!byLine.has(id)) byLine.set(id, []);
    byLine.get(id).push(i);
  }));
  const sum = (f, list = program.kernels) => list.reduce((a, k) => a + f(k), 0);
  $("facts").textContent = [many(program.kernels.length, "kernel"),
    many(sum(p => p.launches.length, program.plans), "launch").replace("launchs", "launches"),
    scaled(sum(k => k.flops), "FLOP"), scaled(sum(k => k.bytes), "B"),
    [...new Set(program.plans.map(p => p.device))].join(", "), "lazyten " + program.version].join(" · ");
  showSource();
  showList();
  showView("Kernels");
  $("search").addEventListener("input", filter);
  document.addEventListener("keydown", e => {
    if (e.key === "Escape") { $("search").value = ""; line = null; filter(); }
    if (e.key === "/" && document.activeElement !== $("search")) { e.preventDefault(); $("search").focus(); }
  });
  const asked = /^#kernel(\d+)$/.exec(location.hash);
  await choose(asked && +asked[1] < program.kernels.length ? +asked[1] : 0);
  const used = [...rows.values()].find(row => row.classList.contains("used"));
  used?.scrollIntoView({block: "center"});
  document.body.dataset.ready = "yes";
}

start();
