// Elements, numbers and scales. Text of the data only ever becomes text nodes and attributes: no markup is parsed here.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Names may be written from right to left: isolated, they do not turn the text around them.
const isolated = (text) => `\u2068${text}\u2069`;
const shortened = (text, most) => {
  const signs = Array.from(text);
  return signs.length > most ? signs.slice(0, Math.max(1, most - 1)).join("") + "…" : text;
};
// About how many signs of the charts' 12 px font fit.
const fitting = (pixels) => Math.max(3, Math.floor(pixels / 6.6));

function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  let text;
  if (size >= 1e6 || size < 1e-4) text = value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
  else if (size >= 1000) text = Math.round(value).toLocaleString("en");
  else text = String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}
const signed = (value, digits) => (value > 0 ? "+" : "") + number(value, digits);
const count = (value) => value.toLocaleString("en");
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

const linear = (from, to) => {
  const width = from[1] - from[0] || 1;
  return (value) => to[0] + ((value - from[0]) / width) * (to[1] - to[0]);
};

// Round numbers from low to high, about `wanted` of them.
function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999);
  const result = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) result.push(Number((at * step).toPrecision(12)));
  return result;
}
// Limits around values, with a little air; a constant gets some room too.
function limits(values, air = 0.06) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (low > high) return [0, 1];
  const room = high > low ? (high - low) * air : Math.abs(low) * 0.5 || 1;
  return [low - room, high + room];
}
const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

// An SVG as wide as `width` CSS pixels, so that its text has the size of text.
const picture = (width, height, label, ...children) =>
  s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...children);
const text = (x, y, content, attributes) => s("text", { x, y, ...attributes }, content);
const title = (content) => s("title", {}, content);

function table(caption, head, rows) {
  // On a narrow screen a table of many columns becomes a list, where every value has its column's name before it.
  const cell = (value, at) => (at === 0 ? h("th", { scope: "row" }, String(value)) : h("td", { "data-head": head[at] }, String(value)));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: head.length > 3 ? "many" : null }, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

// A labelled <select>; options are [value, text].
let made = 0;
function chooser(label, options, value, change, wide) {
  const id = `control-${++made}`;
  const select = h("select", { id, onchange: () => change(select.value) });
  setOptions(select, options, value);
  return { field: h("div", { class: wide ? "field wide" : "field" }, h("label", { for: id }, label), select), select };
}
function setOptions(select, options, value) {
  select.replaceChildren(...options.map(([key, name]) => h("option", { value: key }, name)));
  select.value = String(value);
}
// One of a few, as radio buttons.
function choice(label, options, value, change) {
  const name = `control-${++made}`;
  const inputs = options.map(([key, caption]) => {
    const input = h("input", { type: "radio", name, value: key, checked: key === value, onchange: () => change(key) });
    return h("label", {}, input, caption);
  });
  return h("fieldset", {}, h("legend", {}, label), h("div", { class: "choice" }, inputs));
}

// A figure that is drawn again whenever something is chosen or the width changes. `draw(width)` gives the caption, the
// picture and a table with the same content.
const PAPER = 680;
let printing = false;
const figures = new Set();
function figure(name, draw) {
  const caption = h("figcaption");
  const body = h("div", { class: "drawing" });
  const rows = h("details", {}, h("summary", {}, "Show as a table"));
  const frame = h("figure", { "data-figure": name }, caption, body, rows);
  const redraw = () => {
    // Paper is not laid out yet when it is drawn for: a width that suits a page.
    const width = printing ? PAPER : Math.round(body.clientWidth || PAPER);
    const drawn = draw(Math.max(width, 200));
    caption.replaceChildren(...[drawn.caption].flat());
    body.replaceChildren(...[drawn.legend, drawn.picture].flat().filter(Boolean));
    rows.hidden = !drawn.table;
    if (drawn.table) rows.replaceChildren(rows.firstChild, drawn.table);
  };
  figures.add(redraw);
  return { frame, redraw };
}
function legend(entries) {
  return h("ul", { class: "legend" }, entries.map(([style, name]) => {
    const key = s("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, style.fill
      ? s("rect", { x: 4, y: 0, width: 14, height: 12, rx: 2, style: `fill:${style.fill};opacity:${style.opacity ?? 1}` })
      : s("line", { x1: 0, x2: 22, y1: 6, y2: 6, style: `stroke:${style.stroke}`, "stroke-width": style.width || 2, "stroke-dasharray": style.dash }));
    return h("li", {}, key, name);
  }));
}
