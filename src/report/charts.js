// Charts: each takes a width and plain values and gives an SVG. Nothing here knows the model.

// The frame of a chart with two axes: grid, tick labels, axis names.
function axes({ width, height, x, y, xTicks, yTicks, xName, yName, box, xText = number, yText = number }) {
  const parts = [];
  for (const value of yTicks) {
    const at = y(value);
    parts.push(s("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
    parts.push(text(box.left - 7, at + 4, yText(value), { "text-anchor": "end" }));
  }
  for (const value of xTicks) {
    const at = x(value);
    parts.push(s("line", { class: "axis", x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4 }));
    parts.push(text(at, box.bottom + 17, xText(value), { "text-anchor": "middle" }));
  }
  parts.push(s("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (xName) parts.push(text((box.left + box.right) / 2, height - 3, xName, { "text-anchor": "middle" }));
  if (yName) parts.push(text(0, box.top - 10, yName));
  return parts;
}

// Lines over x. A line: name, stroke, width, dash, points [[x, y]...]. A mark: a vertical line at x with a text.
function lineChart({ width, height = 240, label, lines, marks = [], xName, yName, xLimits, yLimits, whole, bands = [] }) {
  const points = lines.flatMap((line) => line.points);
  const edges = bands.flatMap((band) => band.points.flatMap(([x, low, high]) => [[x, low], [x, high]]));
  const [low, high] = yLimits || limits(points.concat(edges).map((point) => point[1]));
  const across = xLimits || limits(points.map((point) => point[0]), 0);
  // Marks are named above the plot, where no line can cross them.
  const named = Math.max(0, ...marks.map((mark) => (mark.row || 0) + 1));
  const box = { left: 50, right: width - 12, top: 10 + 14 * Math.max(named, yName ? 1 : 0), bottom: height - 40 };
  const x = linear(across, [box.left, box.right]);
  const y = linear([low, high], [box.bottom, box.top]);
  let xTicks = ticks(across[0], across[1], Math.max(2, (box.right - box.left) / 80));
  if (whole) xTicks = xTicks.filter(Number.isInteger);
  const parts = axes({ width, height, x, y, box, xName, yName, xTicks, yTicks: ticks(low, high, 5) });
  for (const band of bands) {
    const upper = band.points.map(([at, , to]) => [x(at), y(to)]);
    const lower = band.points.map(([at, from]) => [x(at), y(from)]).reverse();
    parts.push(s("path", { d: path(upper.concat(lower)) + "Z", style: `fill:${band.fill}`, "fill-opacity": 0.18 }));
  }
  for (const mark of marks) {
    const at = x(mark.x);
    const turned = at > width * 0.7;
    parts.push(s("line", { class: "axis", x1: at, x2: at, y1: 2 + 14 * (mark.row || 0), y2: box.bottom, "stroke-dasharray": "3 3" }));
    parts.push(text(at + (turned ? -5 : 5), 11 + 14 * (mark.row || 0), mark.text, { "text-anchor": turned ? "end" : "start" }));
  }
  for (const line of lines) {
    const drawn = line.points.map(([at, value]) => [x(at), y(value)]);
    parts.push(s("path", { d: path(drawn), fill: "none", style: `stroke:${line.stroke}`, "stroke-width": line.width || 2, "stroke-dasharray": line.dash, "stroke-linejoin": "round" }, title(line.name)));
    if (drawn.length === 1 || line.dots) for (const [cx, cy] of drawn) parts.push(s("circle", { cx, cy, r: 3, style: `fill:${line.stroke}` }));
  }
  return picture(width, height, label, ...parts);
}

// A response over its data: lines of the outputs above, how often values occur below, on one x axis. `probe` is marked.
function shapeChart({ width, label, lines, bands, knots, density, xLimits, xName, yName, probe, missing }) {
  const plot = 250, strip = density ? 66 : 0;
  const height = plot + strip + 40;
  const shown = lines.flatMap((line) => line.points.map((point) => point[1]))
    .concat(bands.flatMap((band) => band.points.flatMap((point) => [point[1], point[2]])), [0], missing === undefined ? [] : [missing]);
  const [low, high] = limits(shown);
  const box = { left: 50, right: width - 12, top: 22, bottom: plot };
  const x = linear(xLimits, [box.left, box.right]);
  const y = linear([low, high], [box.bottom, box.top]);
  const xTicks = ticks(xLimits[0], xLimits[1], Math.max(2, (box.right - box.left) / 80));
  const parts = axes({ width, height, x, y, box, xTicks: [], yTicks: ticks(low, high, 5), yName });
  parts.push(s("line", { class: "axis", x1: box.left, x2: box.right, y1: y(0), y2: y(0) }));
  for (const band of bands) {
    const upper = band.points.map(([at, , to]) => [x(at), y(to)]);
    const lower = band.points.map(([at, from]) => [x(at), y(from)]).reverse();
    parts.push(s("path", { d: path(upper.concat(lower)) + "Z", style: `fill:${band.fill}`, "fill-opacity": 0.18 }));
  }
  for (const line of lines) {
    parts.push(s("path", { d: path(line.points.map(([at, value]) => [x(at), y(value)])), fill: "none", style: `stroke:${line.stroke}`, "stroke-width": line.width, "stroke-dasharray": line.dash, "stroke-linejoin": "round" }, title(line.name)));
  }
  // A gap has no place on the axis: its effect is a line across.
  if (missing !== undefined) parts.push(s("line", { x1: box.left, x2: box.right, y1: y(missing), y2: y(missing), style: "stroke:var(--against)", "stroke-width": 1.5, "stroke-dasharray": "2 3" }, title(`missing: ${signed(missing, 4)}`)));
  // Where the slope changes: the whole function is in these points.
  if (knots.length <= 60) for (const [at, value] of knots) parts.push(s("circle", { cx: x(at), cy: y(value), r: 2.6, style: "fill:var(--paper);stroke:var(--accent)", "stroke-width": 1.5 }));
  const bottom = plot + strip;
  if (density) {
    const most = Math.max(...density.counts, 1);
    const tall = linear([0, Math.sqrt(most)], [0, strip - 24]);
    density.counts.forEach((counted, at) => {
      const from = x(density.edges[at]), to = x(density.edges[at + 1]);
      const size = counted ? Math.max(1, tall(Math.sqrt(counted))) : 0;
      if (size) parts.push(s("rect", { x: from, y: bottom - size, width: Math.max(1, to - from - 0.6), height: size, style: "fill:var(--quiet)" },
        title(`${count(counted)} from ${number(density.edges[at])} to ${number(density.edges[at + 1])}`)));
    });
    parts.push(text(box.right, plot + 14, "how often values occur (square roots)", { "text-anchor": "end" }));
  }
  parts.push(s("line", { class: "axis", x1: box.left, x2: box.right, y1: bottom, y2: bottom }));
  for (const value of xTicks) {
    parts.push(s("line", { class: "axis", x1: x(value), x2: x(value), y1: bottom, y2: bottom + 4 }));
    parts.push(text(x(value), bottom + 17, number(value), { "text-anchor": "middle" }));
  }
  parts.push(text((box.left + box.right) / 2, height - 4, shortened(xName, fitting(box.right - box.left)), { "text-anchor": "middle" }));
  if (probe) {
    parts.push(s("line", { x1: x(probe.x), x2: x(probe.x), y1: box.top, y2: bottom, style: "stroke:var(--ink)", "stroke-dasharray": "2 3" }));
    parts.push(s("circle", { cx: x(probe.x), cy: y(probe.y), r: 4.5, style: "fill:var(--accent);stroke:var(--paper)", "stroke-width": 2 }));
  }
  const drawn = picture(width, height, label, ...parts);
  drawn.place = (pixel) => xLimits[0] + ((pixel - box.left) / (box.right - box.left)) * (xLimits[1] - xLimits[0]);
  return drawn;
}

// Room for the names of rows: what the longest needs, up to a share of the width.
function nameRoom(rows, width, share = 0.36) {
  const longest = Math.max(0, ...rows.map((row) => Array.from(row.name).length));
  return Math.round(Math.min(longest * 7 + 18, Math.max(84, Math.min(240, width * share))));
}

// Horizontal bars, one per row: name, value, kind ("for", "against" or ""), note for the tooltip.
function bars({ width, label, rows, format = number, most }) {
  const room = nameRoom(rows, width);
  const step = 24;
  const end = width - 54;
  const x = linear([0, most || largest(rows.map((row) => row.value)) || 1], [room, end]);
  const parts = rows.map((row, at) => {
    const y = at * step + 4;
    return s("g", { class: row.picked ? "picked" : null },
      title(`${row.name}: ${row.note || format(row.value)}`),
      text(room - 8, y + 13, isolated(shortened(row.name, fitting(room - 12))), { "text-anchor": "end", class: row.picked ? "bold" : "strong" }),
      s("rect", { x: room, y: y + 1, width: Math.max(1, x(row.value) - room), height: step - 8, rx: 2, class: row.kind || "total" }),
      text(Math.max(room + 1, x(row.value)) + 6, y + 13, format(row.value)));
  });
  return picture(width, rows.length * step + 6, label, ...parts);
}

// Bars to both sides of zero, one per row: name, value, spread [low, high] over seeds, note for the tooltip.
function signedBars({ width, label, rows }) {
  const room = nameRoom(rows, width);
  const step = 24;
  const [low, high] = limits(rows.flatMap((row) => [row.value, ...(row.spread || [])]).concat([0]), 0.02);
  const x = linear([low, high], [room + 50, width - 56]);
  const parts = [s("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: rows.length * step + 4 })];
  rows.forEach((row, at) => {
    const y = at * step + 4;
    const [left, right] = [Math.min(x(0), x(row.value)), Math.max(x(0), x(row.value))];
    parts.push(s("g", {}, title(`${row.name}: ${row.note}`),
      text(room - 8, y + 13, isolated(shortened(row.name, fitting(room - 12))), { "text-anchor": "end", class: "strong" }),
      s("rect", { x: left, y: y + 1, width: Math.max(1, right - left), height: step - 8, rx: 2, class: row.value < 0 ? "against" : "for" }),
      row.spread ? s("line", { x1: x(row.spread[0]), x2: x(row.spread[1]), y1: y + 9, y2: y + 9, style: "stroke:var(--ink)" }) : null,
      text(row.value < 0 ? Math.min(left, x(row.spread?.[0] ?? 0)) - 6 : Math.max(right, x(row.spread?.[1] ?? 0)) + 6, y + 13, signed(row.value), { "text-anchor": row.value < 0 ? "end" : "start" })));
  });
  return picture(width, rows.length * step + 8, label, ...parts);
}

// A heat map. Values are shaded by size, blue above and orange below zero, and written where there is room.
function heatMap({ width, label, rows, columns, columnName, most, empty = "" }) {
  const room = nameRoom(rows, width, 0.3);
  const step = 24, top = 40;
  const cell = (width - room) / columns.length;
  const scale = most || largest(rows.flatMap((row) => row.values.filter((value) => value !== null))) || 1;
  const every = Math.max(1, Math.ceil(24 / cell));
  const parts = [text(room, 11, columnName)];
  columns.forEach((name, at) => {
    if (at % every === 0) parts.push(text(room + (at + 0.5) * cell, top - 8, name, { "text-anchor": "middle" }));
  });
  rows.forEach((row, at) => {
    const y = top + at * step;
    parts.push(text(room - 8, y + 16, isolated(shortened(row.name, fitting(room - 12))), { "text-anchor": "end", class: row.picked ? "bold" : "strong" }));
    row.values.forEach((value, column) => {
      const known = value !== null;
      const strength = known ? Math.min(1, Math.abs(value) / scale) : 0;
      const left = room + column * cell;
      const gap = cell > 6 ? 1 : 0;
      parts.push(s("g", {}, title(`${row.name}, ${columns[column]}: ${known ? number(value) : empty || "none"}`),
        s("rect", { x: left, y, width: Math.max(0.5, cell - gap), height: step - 1, style: "fill:var(--panel)" }),
        known ? s("rect", { x: left, y, width: Math.max(0.5, cell - gap), height: step - 1, class: value < 0 ? "against" : "for", "fill-opacity": (0.06 + 0.94 * strength).toFixed(3) }) : null,
        known && cell >= 34 ? text(left + (cell - gap) / 2, y + 16, (scale < 10 ? value.toFixed(2).replace("-", "−") : number(value, 2)), { "text-anchor": "middle", style: `fill:var(${strength > 0.8 ? "--on" : strength > 0.55 ? "--middle" : "--ink"})` }) : null));
    });
  });
  return picture(width, top + rows.length * step + 4, label, ...parts);
}

// From a start over signed steps to an end. A row: name, value, kind: "start", "step" or "end".
function waterfall({ width, label, rows }) {
  const room = nameRoom(rows, width);
  const step = 28;
  let running = 0;
  const spans = rows.map((row) => {
    const from = row.kind === "step" ? running : 0;
    running = row.kind === "step" ? running + row.value : row.value;
    return [from, running];
  });
  const [low, high] = limits(spans.flat().concat([0]), 0.02);
  const x = linear([low, high], [room, width - 62]);
  const parts = [s("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: rows.length * step + 2 })];
  rows.forEach((row, at) => {
    const y = at * step + 4;
    const [from, to] = spans[at];
    const left = Math.min(x(from), x(to)), right = Math.max(x(from), x(to));
    const kind = row.kind !== "step" ? "total" : row.value < 0 ? "against" : "for";
    const strong = row.kind === "end" ? "bold" : "strong";
    parts.push(s("g", {}, title(`${row.name}: ${signed(row.value, 4)}`),
      text(room - 10, y + 15, isolated(shortened(row.name, fitting(room - 14))), { "text-anchor": "end", class: strong }),
      s("rect", { x: left, y: y + 2, width: Math.max(1.5, right - left), height: step - 10, rx: 2, class: kind }),
      text(right + 6, y + 15, signed(row.value), { class: strong })));
    if (at + 1 < rows.length) parts.push(s("line", { class: "axis", x1: x(to), x2: x(to), y1: y + step - 8, y2: y + step + 2 }));
  });
  return picture(width, rows.length * step + 8, label, ...parts);
}

// One dot per seed, one row per feature.
function dots({ width, label, rows, names }) {
  const room = nameRoom(rows, width);
  const step = 24;
  const x = linear([0, largest(rows.flatMap((row) => row.values)) || 1], [room + 6, width - 14]);
  const bottom = rows.length * step + 4;
  const parts = [];
  for (const value of ticks(0, largest(rows.flatMap((row) => row.values)) || 1, Math.max(2, (width - room) / 90))) {
    parts.push(s("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: bottom }), text(x(value), bottom + 15, number(value), { "text-anchor": "middle" }));
  }
  rows.forEach((row, at) => {
    const y = at * step + 15;
    parts.push(text(room - 8, y + 4, isolated(shortened(row.name, fitting(room - 12))), { "text-anchor": "end", class: row.picked ? "bold" : "strong" }));
    parts.push(s("line", { class: "axis", x1: x(Math.min(...row.values)), x2: x(Math.max(...row.values)), y1: y, y2: y }));
    row.values.forEach((value, seed) => parts.push(s("circle", { cx: x(value), cy: y, r: 4, class: "for", "fill-opacity": 0.6 }, title(`${row.name}, ${names[seed]}: ${number(value)}`))));
  });
  return picture(width, bottom + 22, label, ...parts);
}

// Nodes and edges. Area shows the size of a contribution, colour its sign.
function network({ width, label, nodes, edges, places, centre, far = 0 }) {
  const height = Math.round(Math.min(560, Math.max(300, width * 0.72)));
  const most = largest(nodes.map((node) => node.value)) || 1;
  const margin = Math.min(34, width / 14);
  const at = places.map(([x, y]) => [margin + ((x + 1) / 2) * (width - 2 * margin), margin + ((y + 1) / 2) * (height - 2 * margin)]);
  const biggest = Math.max(6, Math.min(15, width / 45));
  const size = (node) => 3.5 + biggest * Math.sqrt(Math.abs(node.value) / most);
  const parts = Array.from({ length: far }, (_, ring) => s("ellipse", { cx: width / 2, cy: height / 2, rx: ((ring + 1) / far) * (width / 2 - margin), ry: ((ring + 1) / far) * (height / 2 - margin), class: "grid", fill: "none" }));
  parts.push(...edges.map(([a, b]) => s("line", { x1: at[a][0], y1: at[a][1], x2: at[b][0], y2: at[b][1], class: "axis", "stroke-opacity": 0.7 })));
  // Small circles over large ones, so that none is hidden.
  const order = nodes.map((_, node) => node).sort((a, b) => Math.abs(nodes[b].value) - Math.abs(nodes[a].value));
  for (const node of order) {
    parts.push(s("circle", { cx: at[node][0].toFixed(1), cy: at[node][1].toFixed(1), r: size(nodes[node]).toFixed(1), class: nodes[node].value < 0 ? "against" : "for", "fill-opacity": 0.82,
      style: node === centre ? "stroke:var(--ink)" : "stroke:var(--paper)", "stroke-width": node === centre ? 3 : 1.5 }, title(nodes[node].note)));
  }
  // Labels from the largest contribution down, left out where they would cover one another.
  const taken = [];
  const wanted = centre === undefined ? order : [centre, ...order.filter((node) => node !== centre)];
  for (const node of wanted) {
    const name = shortened(nodes[node].name, 14);
    const wide = Array.from(name).length * 6.8 + 4, radius = size(nodes[node]);
    const [x, y] = at[node];
    const spot = [[x, y - radius - 4], [x, y + radius + 13]].find(([cx, cy]) =>
      cx - wide / 2 > 0 && cx + wide / 2 < width && cy > 12 && cy < height - 2 &&
      !taken.some(([a, b, c, d]) => cx - wide / 2 < c && cx + wide / 2 > a && cy - 11 < d && cy + 3 > b) &&
      !at.some(([ox, oy], other) => other !== node && Math.abs(ox - cx) < wide / 2 + 3 && Math.abs(oy - cy + 4) < 9));
    if (!spot) continue;
    taken.push([spot[0] - wide / 2, spot[1] - 11, spot[0] + wide / 2, spot[1] + 3]);
    parts.push(text(spot[0].toFixed(1), spot[1].toFixed(1), isolated(name), { "text-anchor": "middle", class: node === centre ? "bold" : "strong" }));
  }
  return picture(width, height, label, ...parts);
}

// Places in [-1, 1]^2 around node 0: rings by distance, each branch in its own sector.
function rings(distances, edges) {
  const far = Math.max(1, ...distances);
  const parent = distances.map((distance, node) => {
    if (node === 0) return -1;
    const edge = edges.find(([a, b]) => (a === node && distances[b] < distance) || (b === node && distances[a] < distance));
    return edge ? (edge[0] === node ? edge[1] : edge[0]) : 0;
  });
  const children = distances.map(() => []);
  parent.forEach((above, node) => above >= 0 && children[above].push(node));
  const weight = distances.map(() => 1);
  const inward = distances.map((_, node) => node).sort((a, b) => distances[b] - distances[a]);
  for (const node of inward) weight[node] = Math.max(1, children[node].reduce((sum, child) => sum + weight[child], 0));
  const places = distances.map(() => [0, 0]);
  const spread = (node, from, to) => {
    let start = from;
    for (const child of children[node]) {
      const end = start + ((to - from) * weight[child]) / children[node].reduce((sum, other) => sum + weight[other], 0);
      const angle = (start + end) / 2, radius = distances[child] / far;
      places[child] = [radius * Math.sin(angle), -radius * Math.cos(angle)];
      spread(child, start, end);
      start = end;
    }
  };
  spread(0, 0, 2 * Math.PI);
  return places;
}

// Places in [-1, 1]^2 for a graph without a centre: springs along edges, repulsion between all, the same every time.
function springs(nodes, edges) {
  const places = Array.from({ length: nodes }, (_, at) => {
    const angle = at * 2.399963, radius = Math.sqrt((at + 0.5) / nodes);
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
  const ideal = 1.6 / Math.sqrt(Math.max(1, nodes));
  for (let round = 0, heat = 0.3; round < 400; round++, heat *= 0.988) {
    const push = places.map(() => [0, 0]);
    const pull = (a, b, force) => {
      const dx = places[a][0] - places[b][0], dy = places[a][1] - places[b][1];
      const distance = Math.max(1e-3, Math.hypot(dx, dy));
      const strength = force(distance) / distance;
      push[a][0] += dx * strength; push[a][1] += dy * strength;
      push[b][0] -= dx * strength; push[b][1] -= dy * strength;
    };
    for (let a = 0; a < nodes; a++) for (let b = a + 1; b < nodes; b++) pull(a, b, (distance) => (ideal * ideal) / distance);
    for (const [a, b] of edges) if (a !== b) pull(a, b, (distance) => -(distance * distance) / ideal);
    places.forEach((place, at) => {
      const length = Math.max(1e-9, Math.hypot(...push[at]));
      const reach = Math.min(length, heat) / length;
      place[0] += push[at][0] * reach - place[0] * 0.01; place[1] += push[at][1] * reach - place[1] * 0.01;
    });
  }
  for (const axis of [0, 1]) {
    const [low, high] = limits(places.map((place) => place[axis]), 0);
    places.forEach((place) => { place[axis] = nodes > 1 && high > low ? (2 * (place[axis] - low)) / (high - low) - 1 : 0; });
  }
  return places;
}
