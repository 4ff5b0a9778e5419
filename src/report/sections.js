// Sections: what each picture means, which controls it has, and which values it draws.

const data = JSON.parse(document.getElementById("data").textContent);
const state = { feature: 0, output: 0, versus: -1, overall: true, local: 0, by: "feature", rows: 20, probe: 0.5, filter: "" };

// Within sentences; lists have the whole name.
const LONG = 48;
const outputName = (at) => data.outputs[at]?.name.trim() || `output ${at}`;
// "class cats"; a name that says so itself is not told twice.
const regression = data.summary.regression;
const [OUTPUT, OUTPUTS, QUANTITY] = regression ? ["target", "targets", "prediction"] : ["class", "classes", "logit"];
const ofClass = (name) => (new RegExp(`^${OUTPUT}\\b`, "i").test(name) ? "" : `${OUTPUT} `) + isolated(shortened(name, LONG));
const shown = (kind, value) => (kind.percent ? percent(value) : number(value, 4));
// Simpler predictions, as the end of "test, by ...".
const BASELINES = { majority: "the most frequent class", mean: "the mean", logistic: "logistic regression", linear: "linear regression",
  "logistic with neighbour means": "logistic regression with neighbour means", "linear with neighbour means": "linear regression with neighbour means" };
const capital = (word) => word[0].toUpperCase() + word.slice(1);
const classWords = (at) => ofClass(outputName(at));
const featureWords = (feature) => isolated(shortened(featureName(feature), LONG));
const featureName = (feature) => feature.name.trim() || `feature ${feature.index}`;
const nodeName = (node) => node.name || `node ${node.id}`;
const unitName = (local) => local.name || `${local.level || "node"} ${local.id}`;
const localOutput = (local) => local.outputs.reduce((best, output, at) => (output.logit > local.outputs[best].logit ? at : best), 0);
const outputOptions = () => data.outputs.map((_, at) => [at, outputName(at)]);
const rowOptions = () => [10, 20, 50, 100, 200].filter((rows, at, all) => at === 0 || all[at - 1] < data.features.length)
  .map((rows) => [rows, rows >= data.features.length ? `all ${data.features.length}` : `first ${rows}`]);
const shownFeatures = () => data.features.slice(0, state.rows);

// What drawing and controls have to follow after a choice.
const followers = [];
function choose(change, words) {
  Object.assign(state, change);
  followers.forEach((follow) => follow());
  figures.forEach((redraw) => redraw());
  if (words) document.getElementById("status").textContent = words;
}
function outputChooser(label = capital(OUTPUT)) {
  if (data.outputs.length < 2) return null;
  const { field, select } = chooser(label, outputOptions(), state.output, (value) =>
    choose({ output: Number(value), overall: false, versus: state.versus === Number(value) ? -1 : state.versus }, `${capital(OUTPUT)} ${outputName(Number(value))} is shown`));
  followers.push(() => { select.value = String(state.output); });
  return field;
}
function rowsChooser() {
  const { field, select } = chooser("Features shown", rowOptions(), state.rows, (value) =>
    choose({ rows: Number(value) }, `${Math.min(Number(value), data.features.length)} features are shown`));
  followers.push(() => { select.value = String(state.rows); });
  return data.features.length > 10 ? field : null;
}
// A search field that narrows a list: quick with a thousand features, and plain for the keyboard.
function featureChooser() {
  const id = `control-${++made}`;
  const matching = () => {
    const wanted = state.filter.trim().toLowerCase();
    const found = data.features.map((feature, at) => [at, featureName(feature)])
      .filter(([at, name]) => !wanted || name.toLowerCase().includes(wanted) || String(data.features[at].index) === wanted);
    return found;
  };
  const { field, select } = chooser("Feature", matching(), state.feature, (value) =>
    choose({ feature: Number(value) }, `Feature ${featureName(data.features[value])} is shown`), true);
  const input = h("input", { id, type: "search", autocomplete: "off", spellcheck: "false", oninput: () => {
    const filter = input.value;
    state.filter = filter;
    const found = matching();
    const change = found.length && !found.some(([at]) => at === state.feature) ? { feature: found[0][0] } : {};
    choose({ filter, ...change }, found.length ? plural(found.length, "feature matches", "features match") : "No feature matches");
  } });
  followers.push(() => {
    const found = matching();
    const options = found.length ? found : [["", "No feature matches"]];
    const wanted = options.map(([at]) => at).join();
    if (select.dataset.options !== wanted) { setOptions(select, options, state.feature); select.dataset.options = wanted; }
    select.value = found.length ? String(state.feature) : "";
    if (input.value !== state.filter) input.value = state.filter;
  });
  const search = h("div", { class: "field" }, h("label", { for: id }, "Find a feature"), input);
  return data.features.length > 8 ? [search, field] : [field];
}

function section(id, name, ...children) {
  return { id, name, element: h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, name), ...children) };
}
const how = (...words) => h("p", { class: "how" }, ...words);
const controls = (...fields) => h("div", { class: "controls" }, ...fields);

function summarySection() {
  const { summary } = data;
  const test = summary.scores.find((scores) => scores.part === "test") || summary.scores[0];
  const figure = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small ? h("small", {}, small) : null));
  const cards = [];
  const remarks = { roc_auc: "50 % is guessing", r2: "1 is perfect, 0 is the mean" };
  for (const kind of test ? summary.kinds.filter((kind) => kind.drawn || (regression && kind.name === "rmse")) : []) {
    const size = test.units && kind === summary.kinds[0] ? `of ${count(test.units)} ${summary.level || "unit"}s` : null;
    const title = kind.title === "ROC-AUC" || kind.title === "R2" ? kind.title : kind.title[0].toLowerCase() + kind.title.slice(1);
    if (typeof test[kind.name] === "number") cards.push(figure(`Test ${title}`, shown(kind, test[kind.name]), remarks[kind.name] || size));
  }
  if (summary.nodes) cards.push(figure("Graph", plural(summary.nodes, "node"), `${count(summary.directed_edges)} directed edges${summary.graphs > 1 ? `, ${count(summary.graphs)} graphs` : ""}`));
  cards.push(figure("Features", count(summary.features), plural(summary.classes.length || data.outputs.length, OUTPUT, OUTPUTS)));
  cards.push(figure("Best epoch", count(summary.best_epoch), `of ${count(summary.epochs)}${summary.stopped_early ? ", stopped early" : ""}`));
  cards.push(figure("Training", `${number(summary.seconds)} s`, `${summary.device}, ${count(summary.parameters)} parameters`));
  return section("summary", "Summary",
    h("dl", { class: "figures" }, cards),
    summary.learned ? null : h("p", { class: "warning" }, regression ? "This model does not predict better than the mean. Do not read anything into the pictures below." : "This model did not learn more than how frequent the classes are. Do not read anything into the pictures below."),
    (summary.warnings || []).map((warning) => h("p", { class: "warning" }, warning)),
    h("h3", {}, "Scores of the best epoch"),
    table(regression ? "R2 is the share of the variance that is explained; errors are in the units of the target, the loss in squared standard deviations." : "Accuracy is the share classified correctly; a smaller negative log-likelihood is better.",
      ["Part", ...summary.kinds.map((kind) => kind.title)],
      [...summary.scores, ...(summary.baselines || []).map((scores) => ({ ...scores, part: `test, by ${BASELINES[scores.part] || scores.part}` }))]
        .map((scores) => [scores.part, ...summary.kinds.map((kind) => shown(kind, scores[kind.name]))])),
    (summary.baselines || []).length ? h("p", { class: "how" }, "The last rows are simpler predictions of the same test units: what the model has to beat.") : null,
    summary.notes.map((note) => h("p", { class: "note" }, note)),
    summary.recovery ? [h("h3", {}, "What was found again of the generator"), h("pre", { tabindex: 0, role: "region", "aria-label": "What was found again of the generator" }, summary.recovery)] : null,
    summary.generator_nll === null ? null : h("p", {}, `The generator's own test negative log-likelihood is ${number(summary.generator_nll, 4)}; no model can expect to beat it.`),
    data.more ? h("p", { class: "note" }, "This page was written at the end of training. ", h("code", {}, data.more), " adds single predictions and diagnostics.") : null,
    data.absent ? h("p", { class: "note" }, data.absent) : null);
}

function curvesSection() {
  if (!data.history.length) return null;
  const best = data.summary.best_epoch;
  const marks = best ? [{ x: best, text: `best epoch ${best}` }] : [];
  const line = (name, key, stroke, dash) => ({ name, stroke, dash, points: data.history.filter((epoch) => typeof epoch[key] === "number").map((epoch) => [epoch.epoch, epoch[key]]) });
  const every = Math.ceil(data.history.length / 40);
  const sample = data.history.filter((epoch, at) => at % every === 0 || epoch.epoch === best || at === data.history.length - 1);
  const draw = (words, lines, head, row) => (width) => ({
    caption: words,
    legend: legend(lines.map((line) => [line, line.name])),
    picture: lineChart({ width, label: `${words} ${lines.map((line) => `${line.name}: from ${number(line.points[0][1])} to ${number(line.points.at(-1)[1])}`).join("; ")}.`, lines, marks, xName: "epoch", whole: true }),
    table: table(every > 1 ? `Every ${every}th epoch, the best and the last.` : "Every epoch.", ["Epoch", ...head], sample.map((epoch) => [epoch.epoch, ...row(epoch)])),
  });
  const { kinds } = data.summary;
  const loss = kinds.find((kind) => kind.loss);
  const losses = [line("training", "train_loss", "var(--quiet)", "5 3"), line("validation", loss.name, "var(--accent)")].filter((line) => line.points.length);
  const drawn = kinds.filter((kind) => kind.drawn);
  const styles = [["var(--accent)"], ["var(--second)", "6 2"]];
  const scores = drawn.map((kind, at) => line(kind.title === "Accuracy" ? "accuracy" : kind.title, kind.name, ...styles[at % styles.length])).filter((line) => line.points.length);
  const pictures = [figure("loss", draw("Loss by epoch: smaller is better.", losses, ["Training", "Validation"], (epoch) => [number(epoch.train_loss, 4), number(epoch[loss.name], 4)]))];
  if (scores.length) pictures.push(figure("scores", draw("Validation scores by epoch: larger is better.", scores, drawn.map((kind) => kind.title), (epoch) => drawn.map((kind) => shown(kind, epoch[kind.name])))));
  return section("curves", "Learning curves",
    how("Training goes from left to right; the dashed line marks the epoch whose model is described on this page. A validation loss that rises while the training loss falls means that the model had begun to learn by heart."),
    h("div", { class: "pair" }, pictures.map((made) => made.frame)));
}

// Probabilities against what happened: on the diagonal, a prediction of 80 % is right eight times in ten.
function reliabilitySection() {
  const { reliability } = data.summary;
  const styles = { test: ["var(--accent)"], validation: ["var(--second)", "6 2"] };
  const parts = ["test", "validation"].filter((name) => reliability?.[name]);
  if (!parts.length) return null;
  const bins = (name) => reliability[name].bins.filter((bin) => bin.count);
  const words = (name) => `${name}, error ${percent(reliability[name].ece)}`;
  const ranges = reliability[parts[0]].bins.map((_, at, all) => [at / all.length, (at + 1) / all.length]);
  const drawn = figure("reliability", (width) => {
    const lines = [{ name: "what probabilities promise", stroke: "var(--quiet)", dash: "3 3", width: 1, points: [[0, 0], [1, 1]] },
      ...parts.map((name) => ({ name: words(name), stroke: styles[name][0], dash: styles[name][1], dots: true, points: bins(name).map((bin) => [bin.confidence, bin.accuracy]) }))];
    const used = ranges.map((range, at) => [range, at]).filter(([, at]) => parts.some((name) => reliability[name].bins[at].count));
    return {
      caption: [h("strong", {}, "How often a prediction is right"), ", by the probability it was made with."],
      legend: legend(lines.map((line) => [line, line.name])),
      picture: lineChart({ width, height: 300, lines, xLimits: [0, 1], yLimits: [0, 1], xName: "probability of the predicted class", yName: "share that is right",
        label: `Share of right predictions by their probability. ${parts.map((name) => `${capital(name)}: expected calibration error ${percent(reliability[name].ece)}; ${bins(name).map((bin) => `at ${percent(bin.confidence)} right ${percent(bin.accuracy)}`).join(", ")}`).join(". ")}.` }),
      table: table("Predictions by their probability.", ["Probability", ...parts.flatMap((name) => [`${capital(name)}: mean`, "Right", "Predictions"])],
        used.map(([[low, high], at]) => [`${percent(low)} to ${percent(high)}`, ...parts.flatMap((name) => { const bin = reliability[name].bins[at]; return [percent(bin.confidence), percent(bin.accuracy), count(bin.count)]; })])),
    };
  });
  return section("reliability", "Can probabilities be trusted?",
    how("Predictions are sorted by how sure the model is. On the dashed diagonal a prediction made with 80 % is right eight times in ten; below it the model is too sure, above it not sure enough. ",
      "The error is the mean distance to the diagonal; with few predictions it is never quite zero. The table has how many there are."),
    h("div", { class: "pair" }, drawn.frame));
}

// Which classes are taken for which, and scores that say more than accuracy where classes are rare.
function detailsSection() {
  const { details, classes } = data.summary;
  const parts = ["test", "validation"].filter((name) => details?.[name]);
  if (!parts.length) return null;
  const names = (size) => (classes.length === size ? classes : Array.from({ length: size }, (_, at) => String(at)));
  const drawn = parts.filter((name) => details[name].confusion?.length).map((name) => figure(`confusion-${name}`, (width) => {
    const { confusion } = details[name];
    const called = names(confusion.length);
    const sums = confusion.map((row) => row.reduce((sum, units) => sum + units, 0));
    const right = confusion.reduce((sum, row, at) => sum + row[at], 0);
    const all = sums.reduce((sum, units) => sum + units, 0);
    return {
      caption: [h("strong", {}, `${capital(name)} units by true class (row) and predicted class (column)`), `: shares of each row; ${count(right)} of ${count(all)} are right.`],
      picture: heatMap({ width, columns: called.map((word) => shortened(word, 10)), columnName: "predicted", most: 1, empty: "none", label: `${capital(name)} units by true and predicted class: ${count(right)} of ${count(all)} are right.`,
        rows: confusion.map((row, at) => ({ name: called[at], values: row.map((units) => (sums[at] ? units / sums[at] : null)) })) }),
      table: table("Units by true class (row) and predicted class", ["True class", ...called], confusion.map((row, at) => [called[at], ...row.map(count)])),
    };
  }));
  const { threshold } = details;
  return section("details", "Which mistakes are made",
    how("A row of the picture is a true class: a strong colour on the diagonal means that it is found, elsewhere that it is taken for another. PR-AUC is the area under precision over recall, which says more than accuracy where a class is rare; the Brier score is the mean squared distance of probabilities from what happened, and smaller is better."),
    table("Scores of probabilities.", ["Part", "PR-AUC", "Brier score"], parts.map((name) => [name, percent(details[name].pr_auc), number(details[name].brier, 4)])),
    threshold ? h("p", { class: "note" }, `One class is rare. Predicting ${classWords(0)} from a probability of ${percent(threshold.probability)} on, which the validation units chose, gives a macro-F1 of ${percent(threshold.test_macro_f1)} and an accuracy of ${percent(threshold.test_accuracy)} on the test units.`) : null,
    h("div", { class: "pair" }, drawn.map((made) => made.frame)));
}

function importanceSection() {
  if (!data.importance_about || !data.features.some((feature) => feature.importance || feature.overall !== null)) return null;
  const overall = data.features.some((feature) => feature.overall !== null);
  if (!overall) state.overall = false;
  const options = [...(overall ? [["all", `All ${OUTPUTS} together`]] : []), ...(data.features[0].importance ? outputOptions() : [])];
  const { field, select } = chooser(capital(OUTPUT), options, overall ? "all" : 0, (value) => choose(value === "all" ? { overall: true } : { overall: false, output: Number(value) },
    value === "all" ? `Importance for all ${OUTPUTS} is shown` : `Importance for ${OUTPUT} ${outputName(Number(value))} is shown`));
  followers.push(() => { select.value = state.overall ? "all" : String(state.output); });
  const drawn = figure("importance", (width) => {
    const value = (feature) => (state.overall ? feature.overall : feature.importance?.[state.output]) ?? 0;
    const direction = (feature) => (state.overall || !feature.signed ? null : feature.signed[state.output]);
    const all = data.features.map((feature, at) => ({ feature, at })).sort((a, b) => value(b.feature) - value(a.feature)).slice(0, state.rows);
    const rows = all.map(({ feature, at }) => ({ name: featureName(feature), value: value(feature), picked: at === state.feature,
      kind: direction(feature) === null ? "for" : direction(feature) < 0 ? "against" : "for", note: number(value(feature), 4) }));
    const subject = state.overall ? `all ${OUTPUTS} together` : `${classWords(state.output)}`;
    const directed = !state.overall && data.features.some((feature) => feature.signed);
    return {
      caption: [h("strong", {}, `Importance for ${subject}`), `, ${rows.length} of ${count(data.features_total)} features.`],
      legend: directed ? legend([[{ fill: "var(--for)" }, regression ? "more of it raises the target" : "more of it speaks for the class"], [{ fill: "var(--against)" }, regression ? "more of it lowers it" : "more of it speaks against"]]) : null,
      picture: bars({ width, label: `Importance for ${subject}. Largest: ${rows.slice(0, 3).map((row) => `${row.name} ${number(row.value)}`).join(", ")}.`, rows }),
      table: table(`Importance for ${subject}`, ["Feature", "Column", "Importance", ...(directed ? ["Direction"] : [])],
        all.map(({ feature }) => [featureName(feature), feature.index, number(value(feature), 4), ...(directed ? [direction(feature) < 0 ? "against" : "for"] : [])])),
    };
  });
  return section("importance", "Importance of features",
    how("A longer bar means that the feature moves predictions more. It says what the model uses, not what causes the outcome. ", data.importance_about.text, ` Measured on ${count(data.importance_about.units)} units (${data.importance_about.split}).`),
    controls(options.length > 1 ? field : null, rowsChooser()), drawn.frame);
}

// f_k at x: straight lines between knots and beyond them, exactly unless the shape is sampled.
function response(shape, x) {
  const { knots } = shape;
  const last = knots.length - 1;
  if (x <= knots[0][0]) return knots[0][1] + shape.left_slope * (x - knots[0][0]);
  if (x >= knots[last][0]) return knots[last][1] + shape.right_slope * (x - knots[last][0]);
  let low = 0, high = last;
  while (high - low > 1) { const middle = (low + high) >> 1; if (knots[middle][0] <= x) low = middle; else high = middle; }
  const [[x0, y0], [x1, y1]] = [knots[low], knots[high]];
  return x1 > x0 ? y0 + ((y1 - y0) * (x - x0)) / (x1 - x0) : y1;
}
function across(shape) {
  const [low, high] = shape.range;
  const air = high > low ? 0.03 * (high - low) : Math.abs(low) * 0.5 || 1;
  return [low - air, high + air];
}
// What a number adds to an output.
const added = (feature, x, output) => feature.weight[output] * (response(feature.shape, x) - feature.shape.centre) + (feature.shape.present?.[output] ?? 0);
// Named values of a category, without a gap; and the gap.
const named = (feature) => (feature.values || []).filter((value) => !value.missing);
const gap = (feature) => (feature.values || []).find((value) => value.missing);
const drawable = (feature) => feature.shape || named(feature).length > 0;
// All corners of the curve of an output over the data.
function curve(feature, output) {
  const { shape } = feature;
  const [low, high] = across(shape);
  const effect = (x) => added(feature, x, output);
  const inside = shape.knots.filter(([x]) => x > low && x < high).map(([x]) => x);
  return [low, ...inside, high].map((x) => [x, effect(x)]);
}

// A category: one bar for each of its values.
function drawValues(feature, width) {
  const wanted = classWords(state.output);
  const rows = feature.values.map((value) => ({ name: value.missing ? "missing" : value.name, value: value.effects[state.output], spread: value.spread?.[state.output],
    note: `${signed(value.effects[state.output], 4)}${value.count === null ? "" : `, ${plural(value.count, "node")}`}` }));
  const counted = feature.values.some((value) => value.count !== null);
  const largestRow = rows.reduce((best, row) => (Math.abs(row.value) > Math.abs(best.value) ? row : best), rows[0]);
  return {
    caption: [h("strong", {}, featureWords(feature)), ` (${plural(named(feature).length, "value")}): what each adds for ${wanted}, less the mean over all nodes.`],
    legend: legend([[{ fill: "var(--for)" }, regression ? "raises the target" : `speaks for ${wanted}`], [{ fill: "var(--against)" }, regression ? "lowers it" : "speaks against"]]),
    picture: signedBars({ width, rows, label: `What each value of ${featureName(feature)} adds to the ${QUANTITY} of ${wanted}. Largest: ${largestRow.name} ${signed(largestRow.value)}.` }),
    table: table(`Values of ${featureName(feature)}`, ["Value", `Added to the ${QUANTITY}`, ...(counted ? ["Nodes"] : [])],
      feature.values.map((value, at) => [rows[at].name, signed(rows[at].value, 4), ...(counted ? [value.count === null ? "–" : count(value.count)] : [])])),
  };
}

function shapesSection() {
  const withShape = data.features.map((feature, at) => at).filter((at) => drawable(data.features[at]));
  if (!withShape.length) return null;
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.005, value: state.probe, id: "probe", oninput: () => choose({ probe: Number(slider.value) }) });
  const readout = h("output", { for: "probe" });
  const binary = data.outputs.length === 1;
  const probed = () => {
    const { shape } = data.features[state.feature];
    const [low, high] = across(shape);
    // To a thousandth of the data: as fine as anyone can point.
    const step = (high - low) / 1000;
    return Math.round((low + state.probe * (high - low)) / step) * step;
  };
  followers.push(() => {
    const feature = data.features[state.feature];
    slider.disabled = !feature.shape;
    slider.value = state.probe;
    if (!feature.shape) { readout.textContent = ""; return; }
    const x = probed();
    const value = added(feature, x, state.output);
    const words = `at ${number(x)} it adds ${signed(value)} to the ${QUANTITY} of ${classWords(state.output)}`;
    readout.textContent = words;
    slider.setAttribute("aria-valuetext", words);
  });
  const drawn = figure("shape", (width) => {
    const feature = data.features[state.feature];
    const name = featureWords(feature), wanted = classWords(state.output);
    if (named(feature).length) return drawValues(feature, width);
    if (!feature.shape) return { caption: [h("strong", {}, name), " has no curve on this page."], picture: [] };
    const missing = gap(feature)?.effects[state.output];
    const { shape } = feature;
    const main = curve(feature, state.output);
    const inside = main.slice(1, -1);
    const others = data.outputs.length > 12 ? [] : data.outputs.map((_, at) => at).filter((at) => at !== state.output);
    const lines = others.map((at) => ({ name: outputName(at), stroke: "var(--quiet)", width: 1, points: curve(feature, at) }));
    lines.push({ name: outputName(state.output), stroke: "var(--accent)", width: 2.5, points: main });
    const band = shape.bands?.outputs[state.output];
    const bands = band ? [{ fill: "var(--accent)", points: shape.bands.x.map((x, at) => [x, band.low[at], band.high[at]]) }] : [];
    if (band) lines.push({ name: "mean over seeds", stroke: "var(--second)", width: 1.5, dash: "5 3", points: shape.bands.x.map((x, at) => [x, band.mean[at]]) });
    const [low, high] = limits(main.map((point) => point[1]), 0);
    const x = probed();
    const picture = shapeChart({ width, lines, bands, density: shape.density, xLimits: across(shape), knots: inside.filter((_, at) => !shape.sampled && inside.length <= 60),
      label: `What ${name} adds to the ${QUANTITY} of ${wanted}, from ${number(low)} to ${number(high)}, over values from ${number(shape.range[0])} to ${number(shape.range[1])}.`,
      xName: `value of ${featureName(feature)}${shape.unit ? `, ${shape.unit}` : ""}`, yName: `added to the ${QUANTITY}`, probe: { x, y: added(feature, x, state.output) }, missing });
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const [from, to] = across(shape);
      const at = (picture.place(((event.clientX - box.left) * width) / box.width) - from) / (to - from);
      if (event.buttons === 0 || event.pointerType === "mouse") choose({ probe: Math.min(1, Math.max(0, at)) });
    });
    const step = Math.max(1, Math.ceil(main.length / 60));
    return {
      caption: [h("strong", {}, name), ` (column ${feature.index}): what it adds for ${wanted}. ${shape.sampled ? `Drawn through ${plural(shape.knots.length, "point")} of a smooth curve.` : `${plural(shape.knots.filter(([x]) => x > shape.range[0] && x < shape.range[1]).length, "corner")} within the data.`}${feature.monotone ? ` It was kept ${feature.monotone}, exactly and everywhere.` : ""}${missing === undefined ? "" : ` A missing value adds ${signed(missing)}${gap(feature).count === null ? "" : ` (${plural(gap(feature).count, "node")})`}.`}`],
      legend: legend([[{ stroke: "var(--accent)", width: 3 }, wanted], ...(others.length ? [[{ stroke: "var(--quiet)", width: 1 }, `other ${OUTPUTS}`]] : []),
        ...(band ? [[{ stroke: "var(--second)", dash: "5 3" }, "mean over seeds"], [{ fill: "var(--accent)", opacity: 0.25 }, "spread over seeds"]] : []), ...(missing === undefined ? [] : [[{ stroke: "var(--against)", dash: "2 3" }, "missing"]])]),
      picture,
      table: table(shape.sampled ? `${step > 1 ? "Some of the points" : "Points"} that the curve is drawn through.` : `${step > 1 ? "Some of the corners" : "Corners"} of the curve: straight lines join them.`, ["Value", `Added to the ${QUANTITY}`],
        [...main.filter((_, at) => at % step === 0 || at === main.length - 1).map(([at, value]) => [number(at, 4), signed(value, 4)]), ...(missing === undefined ? [] : [["missing", signed(missing, 4)]])]),
    };
  });
  const gallery = h("ul", { class: "gallery" });
  const items = withShape.slice(0, 12).map((at) => {
    const holder = h("span");
    const feature = data.features[at];
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => choose({ feature: at, filter: "" }, `Feature ${featureName(feature)} is shown`) },
      h("span", { class: "name", title: featureName(feature) }, isolated(featureName(feature))), holder);
    gallery.append(h("li", {}, button));
    return { at, holder, button };
  });
  figures.add(() => {
    // One scale for all, so that heights can be compared.
    const all = items.map(({ at }) => (named(data.features[at]).length ? data.features[at].values.map((value, place) => [place, value.effects[state.output]]) : curve(data.features[at], state.output)));
    const [low, high] = limits(all.flat().map((point) => point[1]).concat([0]));
    items.forEach(({ at, holder, button }, item) => {
      const y = linear([low, high], [56, 2]);
      const feature = data.features[at];
      const x = named(feature).length ? linear([-0.5, all[item].length - 0.5], [0, 140]) : linear(across(feature.shape), [0, 140]);
      const wide = 0.7 * (140 / all[item].length);
      const drawing = named(feature).length
        ? all[item].map(([place, value]) => s("rect", { x: x(place) - wide / 2, y: Math.min(y(0), y(value)), width: wide, height: Math.max(1, Math.abs(y(value) - y(0))), class: value < 0 ? "against" : "for" }))
        : s("path", { d: path(all[item].map(([at, value]) => [x(at), y(value)])), fill: "none", style: "stroke:var(--accent)", "stroke-width": 2 });
      holder.replaceChildren(s("svg", { viewBox: "0 0 140 58", "aria-hidden": "true" }, s("line", { class: "axis", x1: 0, x2: 140, y1: y(0), y2: y(0) }), drawing));
      button.setAttribute("aria-pressed", String(at === state.feature));
    });
  });
  return section("shapes", "What each feature does",
    how(binary && !regression ? `The curve shows what a value adds to the logit: above zero it speaks for ${classWords(0)}${data.outputs[0].negative ? `, below for ${ofClass(data.outputs[0].negative)}` : ""}. ` : regression ? "The curve shows what a value adds to the prediction, in the units of the target. " : "The curve shows what a value adds to the logit of a class: above zero it speaks for the class, below against it. ",
      "The grey bars tell how often values occur: where there are none, the curve is a guess. A prediction averages the curve over the nodes that walks reach. ",
      withShape.some((at) => named(data.features[at]).length) ? "A category has a bar for each of its values instead. " : "",
      withShape.some((at) => data.features[at].shape?.sampled) ? "Curves are drawn through points of the responses, which are smooth." : "The curve is exact, made of straight lines."),
    controls(featureChooser(), outputChooser()), drawn.frame,
    h("div", { class: "slider" }, h("label", { for: "probe" }, "Read the curve at a value"), slider, readout),
    items.length > 1 ? [h("h3", {}, "The first features at a glance"), how(`All on one scale, for ${binary ? `the one ${QUANTITY}` : `the chosen ${OUTPUT}`}. Choose one to see it large.`), gallery] : null);
}

function hopsSection() {
  if (!data.hops || !data.features.length) return null;
  const columns = Array.from({ length: data.hops.count }, (_, t) => String(t));
  const heat = figure("hops", (width) => {
    const features = shownFeatures();
    const mean = columns.map((_, t) => features.reduce((sum, feature) => sum + (feature.theta[t] ?? 0), 0) / features.length);
    const strongest = mean.indexOf(Math.max(...mean));
    return {
      caption: [h("strong", {}, "Weight of each walk length"), `, ${features.length} of ${count(data.features_total)} features, ordered by ${data.features_order}.`],
      picture: heatMap({ width, columns, columnName: "steps of the walk", label: `Weight of each walk length for ${features.length} features. On average walks of ${plural(strongest, "step")} weigh most: ${number(mean[strongest])}.`,
        rows: features.map((feature, at) => ({ name: featureName(feature), values: feature.theta, picked: at === state.feature })) }),
      table: table("Weight of each walk length", ["Feature", ...columns.map((t) => `${t} steps`)], features.map((feature) => [featureName(feature), ...feature.theta.map((value) => number(value))])),
    };
  });
  const spectrum = figure("spectrum", (width) => {
    const feature = data.features[state.feature];
    const gain = (lambda) => feature.theta.reduceRight((sum, theta) => sum * lambda + theta, 0);
    const points = Array.from({ length: 81 }, (_, at) => [at / 40 - 1, gain(at / 40 - 1)]);
    const { lambda_2 = null, lambda_min = null } = data.diagnostics || {};
    const marks = [[lambda_min, "roughest signal", 0], [lambda_2, "smoothest", 1]].filter(([x]) => x !== null).map(([x, words, row]) => ({ x, row, text: `${words} ${number(x)}` }));
    const [smooth, rough] = [gain(1), gain(-1)].map(Math.abs);
    const reading = rough < 0.5 * smooth ? "It mostly averages: differences between neighbours are damped." : rough > 2 * smooth ? "It mostly contrasts: differences between neighbours are amplified." : "It passes smooth and rough signals about equally.";
    return {
      caption: [h("strong", {}, featureWords(feature)), `: how its walk weights treat signals on the graph. ${reading}`],
      picture: lineChart({ width, height: 220, label: `Spectral response of ${featureName(feature)}: ${number(gain(-1))} for the roughest, ${number(gain(0))} in the middle, ${number(gain(1))} for constant signals. ${reading}`,
        lines: [{ name: featureName(feature), stroke: "var(--accent)", points }], marks, xName: "eigenvalue: −1 rough, 1 smooth", xLimits: [-1, 1], yLimits: limits(points.map((point) => point[1]).concat([0])) }),
      table: table("Response by eigenvalue", ["Eigenvalue", "Response"], points.filter((_, at) => at % 8 === 0).map(([x, y]) => [number(x), number(y)])),
    };
  });
  return section("hops", "How far features reach",
    how("A feature of a node itself counts at 0 steps, one of its neighbours at 1 step, and so on. A stronger colour means that the model listens more at that distance; each row sums to one unless weights were left free."),
    data.hops.warning ? h("p", { class: "warning" }, data.hops.warning) : null,
    data.hops.gamma === null ? null : h("p", {}, `How well this graph can tell walk lengths apart (gamma): ${number(data.hops.gamma)}. Near zero, different weights give nearly the same predictions.`),
    controls(rowsChooser()), heat.frame,
    h("h3", {}, "Smooth or rough"),
    how("The same weights seen as a filter: on the right, signals in which neighbours agree; on the left, signals in which they differ. A higher curve lets more of the signal through."),
    controls(featureChooser()), spectrum.frame);
}

function routingSection() {
  if (!data.experts || !data.features.some((feature) => feature.gates.length)) return null;
  const { experts } = data;
  const columns = Array.from({ length: experts.count }, (_, expert) => String(expert));
  const heat = figure("routing", (width) => {
    const features = shownFeatures();
    return {
      caption: [h("strong", {}, "Which experts each feature uses"), `, ${features.length} of ${count(data.features_total)} features.`],
      picture: heatMap({ width, columns, columnName: "expert", most: 1, empty: "not used", label: `Gates of ${experts.count} experts for ${features.length} features; each feature uses ${experts.active}.`,
        rows: features.map((feature, at) => ({ name: featureName(feature), values: feature.gates, picked: at === state.feature })) }),
      table: table("Gates; a dash stands for an expert that is not used", ["Feature", ...columns.map((expert) => `Expert ${expert}`)], features.map((feature) => [featureName(feature), ...feature.gates.map((gate) => number(gate))])),
    };
  });
  const load = experts.used_by.length ? figure("load", (width) => ({
    caption: [h("strong", {}, "How many features use each expert"), `, of all ${count(data.features_total)}.`],
    picture: bars({ width, format: count, label: `Features by expert: ${experts.used_by.map((used, expert) => `expert ${expert} ${used}`).join(", ")}.`, rows: experts.used_by.map((used, expert) => ({ name: `expert ${expert}`, value: used, kind: "total" })) }),
    table: table("Features by expert", ["Expert", "Features"], experts.used_by.map((used, expert) => [expert, count(used)])),
  })) : null;
  return section("routing", "Which experts shape the curves",
    how(`A curve is mixed from ${plural(experts.active, "small network")} of ${experts.count}, the experts. Features with the same pattern here have curves built from the same pieces; a stronger colour means a larger share.`),
    experts.unused.length ? h("p", {}, `No feature uses ${experts.unused.length === 1 ? "expert" : "experts"} ${experts.unused.join(", ")}.`) : null,
    experts.near_duplicates.map((pair) => h("p", {}, `Experts ${pair.a} and ${pair.b} compute nearly the same (similarity ${number(pair.similarity)}).`)),
    controls(rowsChooser()), heat.frame, load?.frame);
}

// The parts of a logit, or of a difference of two, in one of three ways.
function partsOf(local, by, output, versus) {
  const take = (values) => (values[output] ?? 0) - (versus >= 0 ? values[versus] ?? 0 : 0);
  const spread = (list, name) => list.map((part) => ({ name: name(part), value: take(part.values) }));
  const given = by === "feature" ? spread(local.by_feature.parts, (part) => featureName(part) + (part.text ? ` = ${shortened(part.text, LONG)}` : part.value === null ? "" : ` = ${number(part.value)}`))
    : by === "node" ? spread(local.by_node.parts, nodeName)
      : spread(local.by_hop, (part) => (part.t === 0 ? "0 steps (itself)" : plural(part.t, "step")));
  const rest = by === "feature" ? local.by_feature : by === "node" ? local.by_node : { rest: [], rest_count: 0 };
  const parts = by === "hop" ? given : given.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const most = by === "hop" ? parts.length : 12;
  const hidden = parts.slice(most);
  const others = hidden.length + rest.rest_count;
  const rows = [{ name: "intercept", kind: "start", value: take(local.outputs.map((each) => each.intercept)) }, ...parts.slice(0, most).map((part) => ({ ...part, kind: "step" }))];
  if (others) rows.push({ name: plural(others, `other ${by}`), kind: "step", value: hidden.reduce((sum, part) => sum + part.value, rest.rest.length ? take(rest.rest) : 0) });
  const residual = take(local.outputs.map((each) => each.residual));
  const logit = take(local.outputs.map((each) => each.logit));
  rows.push({ name: versus >= 0 ? "difference" : QUANTITY, kind: "end", value: logit });
  return { rows, residual, logit };
}
const subject = (output, versus) => `${classWords(output)}` + (versus >= 0 ? ` against ${classWords(versus)}` : "");
function drawWaterfall(local, by, output, versus, width) {
  const { rows, residual } = partsOf(local, by, output, versus);
  const words = { feature: "features", node: "source nodes", hop: "walk lengths" }[by];
  const what = subject(output, versus);
  return {
    caption: [h("strong", {}, `${isolated(unitName(local))}: ${what}`), `, split over ${words}. Rounding leaves ${number(residual, 2)}.`],
    legend: legend([[{ fill: "var(--for)" }, `speaks for ${classWords(output)}`], [{ fill: "var(--against)" }, versus >= 0 ? `speaks for ${classWords(versus)}` : "speaks against"]]),
    picture: waterfall({ width, rows, label: `${unitName(local)}, ${what}, from intercept ${number(rows[0].value)} over ${words} to ${number(rows.at(-1).value)}.` }),
    table: table(`${unitName(local)}: ${what}`, ["Part", "Adds"], rows.map((row) => [row.name, signed(row.value, 4)])),
  };
}
function drawEgo(local, output, versus, width) {
  const parts = local.by_node.parts;
  const take = (values) => (values[output] ?? 0) - (versus >= 0 ? values[versus] ?? 0 : 0);
  const around = parts.length && parts.every((part) => part.distance !== null) && parts[0].distance === 0;
  const places = around ? rings(parts.map((part) => part.distance), local.edges) : springs(parts.length, local.edges);
  const nodes = parts.map((part) => ({ name: nodeName(part).replace(/^node /, ""), value: take(part.values),
    note: `${nodeName(part)}${part.distance === null ? "" : `, ${plural(part.distance, "step")} away`}: ${signed(take(part.values), 4)}` }));
  const shown = [...nodes].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 3).map((node) => node.note).join("; ");
  return {
    caption: [h("strong", {}, "Where on the graph it comes from"), `: ${plural(nodes.length, "node")} for ${subject(output, versus)}${local.by_node.rest_count ? `; ${plural(local.by_node.rest_count, "node")} with less not shown` : ""}.${around ? " Each ring is one step further away." : ""}`],
    picture: network({ width, nodes, edges: local.edges, places, centre: around ? 0 : undefined, far: around ? Math.max(...parts.map((part) => part.distance)) : 0, label: `Graph around ${unitName(local)}. Largest: ${shown}.` }),
    table: table("What each node adds", ["Node", "Distance", "Adds"], parts.map((part, at) => [nodeName(part), part.distance ?? "–", signed(nodes[at].value, 4)])),
  };
}
function verdict(local) {
  if (regression) return `${isolated(unitName(local))}${local.reason ? ` (${local.reason})` : ""} is predicted to be ${isolated(local.predicted)}.${local.truth === null ? "" : ` In truth it is ${isolated(local.truth)}.`}`;
  const right = local.truth === null ? "" : local.truth === local.predicted ? " That is right." : ` In truth it is of ${ofClass(local.truth)}.`;
  return `${isolated(unitName(local))}${local.reason ? ` (${local.reason})` : ""} is predicted to be of ${ofClass(local.predicted)}.${right}`;
}

function localSection() {
  if (!data.locals.length) return data.absent ? section("local", "Single predictions", h("p", { class: "note" }, data.absent)) : null;
  const several = data.outputs.length > 1;
  const kind = data.locals[0].level === "graph" ? "graph" : "node";
  state.output = several ? localOutput(data.locals[0]) : 0;
  const unit = chooser(kind === "graph" ? "Graph" : "Node", data.locals.map((local, at) => [at, unitName(local) + (local.reason ? `: ${local.reason}` : "")]), 0, (value) => {
    const local = data.locals[value];
    const output = several ? localOutput(local) : 0;
    choose({ local: Number(value), output, versus: state.versus === output ? -1 : state.versus }, `${unitName(local)} is shown`);
  }, true);
  const versusOptions = () => [[-1, `nothing: the ${QUANTITY} itself`], ...outputOptions().filter(([at]) => at !== state.output)];
  const versus = chooser("Compared with", versusOptions(), state.versus, (value) => choose({ versus: Number(value) }, Number(value) < 0 ? `The ${QUANTITY} itself is shown` : `The difference to ${outputName(Number(value))} is shown`));
  const says = h("p", { id: "verdict" });
  const notes = h("div");
  followers.push(() => {
    const local = data.locals[state.local];
    unit.select.value = String(state.local);
    setOptions(versus.select, versusOptions(), state.versus);
    says.textContent = verdict(local);
    notes.replaceChildren(...local.notes.map((note) => h("p", { class: "note" }, note)));
  });
  const chances = regression ? null : figure("probabilities", (width) => {
    const local = data.locals[state.local];
    const names = data.summary.classes.length === local.probabilities.length ? data.summary.classes : local.probabilities.map((_, at) => outputName(at));
    const rows = local.probabilities.map((value, at) => ({ name: names[at], value, kind: names[at] === local.predicted ? "for" : "total" })).sort((a, b) => b.value - a.value).slice(0, 12);
    return { caption: "Probability of each class.", picture: bars({ width, most: 1, rows, format: percent, label: `Probabilities: ${rows.map((row) => `${row.name} ${percent(row.value)}`).join(", ")}.` }),
      table: table("Probabilities", ["Class", "Probability"], rows.map((row) => [row.name, percent(row.value)])) };
  });
  const fall = figure("waterfall", (width) => drawWaterfall(data.locals[state.local], state.by, state.output, state.versus, width));
  const ego = data.locals.some((local) => local.by_node.parts.length) ? figure("ego", (width) => drawEgo(data.locals[state.local], state.output, state.versus, width)) : null;
  const ways = [["feature", "features"], ["node", "source nodes"], ["hop", "walk lengths"]].filter(([by]) => data.locals.every((local) => (by === "hop" ? local.by_hop : local[`by_${by}`].parts).length));
  state.by = ways[0]?.[0] || "feature";
  // On paper nothing can be chosen: the others follow, each for its predicted class.
  const rest = data.locals.map((local, at) => {
    const output = several ? localOutput(local) : 0;
    const pictures = [figure(`paper-${at}`, (width) => drawWaterfall(local, "feature", output, -1, width))];
    if (local.by_node.parts.length) pictures.push(figure(`paper-ego-${at}`, (width) => drawEgo(local, output, -1, width)));
    const holder = h("div", { class: "paper" }, h("h3", {}, isolated(unitName(local))), h("p", {}, verdict(local)), pictures.map((made) => made.frame));
    followers.push(() => { holder.hidden = at === state.local; });
    return holder;
  });
  return section("local", "Single predictions",
    how(regression ? "Start at the intercept, add what each part says, and arrive at the prediction, exactly, in the units of the target." : `Start at the intercept, add what each part says, and arrive at the logit, exactly. The logit decides the class: ${several ? "the class with the largest one is predicted" : "above zero the positive class is predicted"}. In the graph below, a larger circle says more; blue speaks for the class, orange against it.`),
    controls(unit.field, outputChooser(), several ? versus.field : null, ways.length > 1 ? choice("Split over", ways, state.by, (by) => choose({ by }, `Split over ${Object.fromEntries(ways)[by]}`)) : null),
    says, chances?.frame, fall.frame, ego?.frame, notes, rest);
}

function diagnosticsSection() {
  if (!data.diagnostics) return data.absent ? section("diagnostics", "How far to trust the walk lengths", h("p", { class: "note" }, data.absent)) : null;
  const { findings, decay, epsilon, horizon, bound, recommended } = data.diagnostics;
  const drawn = decay.length ? figure("decay", (width) => {
    const log = (value) => Math.log10(Math.max(value, 1e-12));
    const lines = [{ name: "at most", stroke: "var(--accent)", dots: true, points: decay.map((step) => [step.t, log(step.upper)]) }];
    const known = decay.every((step) => step.upper === step.lower);
    if (!known) lines.push({ name: "at least", stroke: "var(--second)", dash: "5 3", points: decay.map((step) => [step.t, log(step.lower)]) });
    if (epsilon !== null) lines.push({ name: `negligible: ${number(epsilon)}`, stroke: "var(--quiet)", dash: "2 3", points: [[decay[0].t, log(epsilon)], [decay.at(-1).t, log(epsilon)]] });
    const last = decay.at(-1).t;
    const marks = [[horizon, "horizon", 0], [bound, "bound", 1]].filter(([t]) => t !== null && t <= last).map(([t, words, row]) => ({ x: t, row, text: `${words} ${t}` }));
    return {
      caption: [h("strong", {}, "What one more step can still change"), ", as a power of ten."],
      legend: legend(lines.map((line) => [line, known && line.name === "at most" ? "largest change" : line.name])),
      picture: lineChart({ width, lines, marks, whole: true, xName: "steps", yName: "power of ten", label: `Largest change by one more step: ${number(decay[0].upper)} at ${decay[0].t} steps, ${number(decay.at(-1).upper)} at ${last} steps.` }),
      table: table("What one more step can still change", ["Steps", "At least", "At most"], decay.map((step) => [step.t, number(step.lower, 4), number(step.upper, 4)])),
    };
  }) : null;
  return section("diagnostics", "How far to trust the walk lengths",
    how("These figures depend on the graph alone. They tell whether the data can distinguish walk lengths at all, and up to where walks still differ."),
    h("ul", { class: "findings" }, findings.map((finding) => h("li", { class: finding.level },
      h("h3", {}, h("span", { class: "mark" }, finding.level === "warn" ? "take care" : "fine"), finding.title), h("p", { class: "value" }, finding.value), h("p", {}, finding.reading)))),
    recommended === null ? null : h("p", {}, `Walks differ up to ${recommended - 1} steps at this resolution. That says how far hop weights can be read, not how many walk lengths predict best: validation says that.`),
    drawn?.frame);
}

function stabilitySection() {
  if (!data.stability || !data.features.length) return null;
  const { seeds, spearman, importance } = data.stability;
  const names = seeds.map((seed) => `seed ${seed}`);
  const drawn = figure("stability", (width) => {
    const rows = shownFeatures().map((feature, at) => ({ name: featureName(feature), values: importance.map((seed) => seed[at]), picked: at === state.feature }));
    return {
      caption: [h("strong", {}, "Importance in each of "), h("strong", {}, plural(seeds.length, "training run")), "."],
      picture: dots({ width, rows, names, label: `Importance of ${rows.length} features in ${seeds.length} runs.` }),
      table: table("Importance by seed", ["Feature", ...names], rows.map((row) => [row.name, ...row.values.map((value) => number(value))])),
    };
  });
  const words = spearman === null ? "" : spearman > 0.8 ? "The runs largely agree." : spearman > 0.5 ? "The runs agree in part: trust the first features more than the order among the rest." : "The runs disagree: do not read much into one of them.";
  return section("stability", "Does another seed say the same?",
    how("Each dot is one training run from another random start. Dots close together mean that the importance of a feature does not hang on chance."),
    spearman === null ? null : h("p", {}, `Mean rank correlation between runs: ${number(spearman)} (1 is the same order). ${words}`),
    controls(rowsChooser()), drawn.frame);
}

function settingsSection() {
  if (!data.summary.settings) return null;
  return section("settings", "Settings", h("details", {}, h("summary", {}, "All settings of the run"),
    h("pre", { tabindex: 0, role: "region", "aria-label": "Settings" }, data.summary.settings)));
}
