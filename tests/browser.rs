//! `report.html` in a real browser: it draws everything, obeys its controls, and nothing in a name acts as markup.
//!
//! Every check asks the page itself; most scripts list what is wrong, so that a failure names it.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "browser/driver.rs"]
mod driver;
#[path = "browser/sample.rs"]
mod sample;

use driver::Browser;
use harmonia::FittedModel;
use harmonia::Stop;
use harmonia::config::Config;
use harmonia::dataset::{Dataset, Features, Labels};
use harmonia::device::cpu::Cpu;
use harmonia::graph::{Direction, Graph, Split};
use harmonia::report;
use harmonia::runs::{TrainedRun, members};
use harmonia::session::{Session, Silent};
use harmonia::watch::Watch;
use sample::{HOSTILE, everything};
use serde_json::json;

const SECTIONS: [&str; 11] = [
    "summary",
    "curves",
    "reliability",
    "importance",
    "shapes",
    "hops",
    "routing",
    "local",
    "stability",
    "diagnostics",
    "settings",
];
const CLASSES: [&str; 3] = ["cats", "dogs", "birds"];
/// WebDriver's name of the key.
const TAB: &str = "\u{E004}";
const ARROW_DOWN: &str = "\u{E015}";

fn plain(k: usize) -> String {
    format!("word {k}")
}

fn hostile(k: usize) -> String {
    HOSTILE[k % HOSTILE.len()].to_string()
}

/// Pictures that are not drawn: without marks, without size, or with a number that is none.
const BROKEN: &str = "return [...document.querySelectorAll('figure')].filter((figure) => figure.offsetParent !== null)
    .filter((figure) => {
        const svg = figure.querySelector('.drawing > svg');
        if (!svg) return true;
        const box = svg.getBoundingClientRect();
        const marks = svg.querySelectorAll('rect, path, circle, line');
        const bad = [...svg.querySelectorAll('*')].some((mark) => [...mark.attributes].some(({name, value}) =>
            !['aria-label', 'style'].includes(name) && /NaN|undefined|Infinity/.test(value)));
        return box.width < 100 || box.height < 20 || !marks.length || bad;
    }).map((figure) => figure.dataset.figure)";

/// What a person who cannot see or point would stumble over.
const OBSTACLES: &str = "const wrong = [];
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => wrong.push(`id twice: ${id}`));
    for (const field of document.querySelectorAll('input, select, button')) {
        const name = [...(field.labels || [])].map((label) => label.textContent).join('') || field.textContent || field.ariaLabel;
        if (!name || !name.trim()) wrong.push(`no name: ${field.outerHTML.slice(0, 80)}`);
    }
    for (const svg of document.querySelectorAll('svg')) {
        const hidden = svg.closest('[aria-hidden=true]');
        if (!hidden && !(svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label')?.trim())) wrong.push('svg without a name');
    }
    let level = 0;
    for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
        const next = Number(heading.tagName[1]);
        if (next > level + 1) wrong.push(`heading ${heading.textContent} skips a level`);
        if (!heading.textContent.trim()) wrong.push('empty heading');
        level = next;
    }
    if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
    if (document.querySelectorAll('main').length !== 1) wrong.push('not one main');
    if (!document.documentElement.lang || !document.title) wrong.push('no language or title');
    for (const link of document.querySelectorAll('a[href^=\"#\"]')) if (!document.getElementById(link.hash.slice(1))) wrong.push(`dead link ${link.hash}`);
    for (const cell of document.querySelectorAll('th')) if (!cell.scope) wrong.push('header cell without scope');
    return wrong";

/// What sticks out of the page to the right.
const OVERFLOW: &str = "const wide = document.documentElement.clientWidth;
    return document.documentElement.scrollWidth <= wide ? [] : [...document.querySelectorAll('body *')]
        .filter((element) => element.getBoundingClientRect().right > wide + 1).map((element) => element.outerHTML.slice(0, 100))";

fn drawn(browser: &Browser, figure: &str) -> String {
    let script = format!("return document.querySelector('[data-figure=\"{figure}\"] .drawing > svg').outerHTML");
    browser.run(&script).as_str().unwrap().to_string()
}

/// Does something and requires that the named pictures are drawn differently, and the reader is told.
fn changes(browser: &Browser, figures: &[&str], act: impl FnOnce()) {
    browser.run("document.getElementById('status').textContent = ''");
    let before: Vec<String> = figures.iter().map(|figure| drawn(browser, figure)).collect();
    act();
    for (figure, before) in figures.iter().zip(before) {
        assert_ne!(drawn(browser, figure), before, "{figure} did not change");
    }
    assert_ne!(browser.run("return document.getElementById('status').textContent"), "", "nothing was said");
}

fn clean(browser: &Browser) {
    assert_eq!(browser.messages(), Vec::<String>::new());
    assert_eq!(browser.list(BROKEN), Vec::<String>::new());
    assert_eq!(browser.list(OBSTACLES), Vec::<String>::new());
}

#[test]
fn every_section_is_drawn_at_every_width_in_both_colours_without_network() {
    let Some(browser) = Browser::start() else { return };
    for classes in [&CLASSES[..], &CLASSES[..2]] {
        browser.open(&report::html(&everything(30, classes, &plain)).unwrap());
        assert_eq!(browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)"), SECTIONS);
        assert_eq!(
            browser.list("return [...document.querySelectorAll('nav a')].map(({hash}) => hash.slice(1))"),
            SECTIONS
        );
        for colours in ["light", "dark"] {
            let feature = json!([{"name": "prefers-color-scheme", "value": colours}]);
            browser.tools("Emulation.setEmulatedMedia", json!({"features": feature}));
            for width in [320, 768, 1400] {
                browser.width(width);
                assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
                clean(&browser);
            }
            let paper =
                browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]");
            assert_eq!(paper.as_u64().unwrap() < 128, colours == "dark", "{paper}");
        }
        assert_eq!(
            browser.list("return performance.getEntriesByType('resource').map(({name}) => name)"),
            Vec::<String>::new()
        );
    }
}

#[test]
fn controls_change_what_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    browser.open(&report::html(&everything(30, &CLASSES, &plain)).unwrap());
    let status = || browser.run("return document.getElementById('status').textContent");
    let label = |text: &str, section: &str| {
        let script = format!(
            "return '#' + [...document.querySelectorAll('#{section} label')].find((label) => label.textContent === '{text}').htmlFor"
        );
        browser.run(&script).as_str().unwrap().to_string()
    };
    changes(&browser, &["shape", "spectrum"], || {
        // Same weights, other name: the label of the picture changes.
        browser.choose(&label("Feature", "shapes"), "7");
        assert!(status().as_str().unwrap().contains("word 7"));
    });
    changes(&browser, &["shape"], || {
        browser.choose(&label("Find a feature", "shapes"), "word 21");
        let options = format!(
            "return [...document.querySelector('{}').options].map(({{text}}) => text)",
            label("Feature", "shapes")
        );
        assert_eq!(browser.list(&options), ["word 21"]);
    });
    browser.choose(&label("Find a feature", "shapes"), "no such word");
    assert_eq!(status(), "No feature matches");
    browser.choose(&label("Find a feature", "shapes"), "");
    // The class is one for the whole page.
    let class = browser.run(&format!("return document.querySelector('{}').value", label("Class", "shapes")));
    let other = if class == "1" { "2" } else { "1" };
    changes(&browser, &["shape", "waterfall", "ego", "importance"], || {
        browser.choose(&label("Class", "shapes"), other)
    });
    changes(&browser, &["importance"], || browser.choose(&label("Class", "importance"), "all"));
    changes(&browser, &["importance", "hops", "routing", "stability"], || {
        browser.choose(&label("Features shown", "hops"), "10");
    });
    changes(&browser, &["waterfall", "ego"], || browser.choose(&label("Compared with", "local"), "0"));
    for by in ["node", "hop"] {
        changes(&browser, &["waterfall"], || browser.click(&format!("#local input[value={by}]")));
    }
    changes(&browser, &["waterfall", "ego", "probabilities"], || browser.choose(&label("Node", "local"), "2"));
    let pressed = "return document.querySelectorAll('.gallery [aria-pressed=true]').length";
    changes(&browser, &["shape"], || browser.click(".gallery li:nth-child(3) button"));
    assert_eq!(browser.run(pressed), 1);
    let before = drawn(&browser, "shape");
    browser.choose("#probe", "0.9");
    assert_ne!(drawn(&browser, "shape"), before);
    let paper = || browser.run("return getComputedStyle(document.body).backgroundColor");
    let light = paper();
    browser.click("#theme");
    assert_ne!(paper(), light);
    browser.click("#theme");
    assert_eq!(paper(), light);
    clean(&browser);
}

#[test]
fn a_waterfall_ends_where_its_steps_lead() {
    let Some(browser) = Browser::start() else { return };
    let data = everything(30, &CLASSES, &plain);
    browser.open(&report::html(&data).unwrap());
    // Output, compared with; and what it must end at.
    for (output, versus) in [(0, None), (2, None), (1, Some(2))] {
        let script = format!(
            "const {{rows, logit}} = partsOf(data.locals[0], 'feature', {output}, {});
             const steps = rows.slice(0, -1).reduce((sum, row) => sum + row.value, 0);
             return [steps, logit, rows.at(-1).value]",
            versus.map_or(-1, |versus: i32| versus)
        );
        let found: [f64; 3] = serde_json::from_value(browser.run(&script)).unwrap();
        let logit = |output: usize| data.locals[0].outputs[output].logit;
        let wanted = logit(output) - versus.map_or(0.0, |versus| logit(versus as usize));
        // A dozen numbers of size one, added in another order.
        found.iter().for_each(|value| assert!((value - wanted).abs() < 1e-12, "{found:?} {wanted}"));
    }
    // A curve by its knots: on a knot, between two, and beyond the last.
    let shape = data.features[0].shape.clone().unwrap();
    let ([x0, y0], [x1, y1], last) = (shape.knots[1], shape.knots[2], shape.knots[5]);
    for (x, wanted) in [
        (x0, y0),
        ((x0 + x1) / 2.0, (y0 + y1) / 2.0),
        (last[0] + 2.0, last[1] - 0.5),
        (shape.knots[0][0] - 2.0, shape.knots[0][1] - 1.0),
    ] {
        let found = browser.run(&format!("return response(data.features[0].shape, {x})")).as_f64().unwrap();
        assert!((found - wanted).abs() < 1e-12, "{x}: {found} {wanted}");
    }
}

#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let Some(browser) = Browser::start() else { return };
    let classes = [HOSTILE[0], HOSTILE[6], HOSTILE[8]];
    browser.open(&report::html(&everything(24, &classes, &hostile)).unwrap());
    assert!(browser.run("return document.querySelector('h1').textContent").as_str().unwrap().contains(HOSTILE[0]));
    let options =
        browser.list("return [...document.querySelectorAll('#shapes option')].map((option) => option.textContent)");
    for name in HOSTILE.iter().filter(|name| !name.trim().is_empty()) {
        assert!(options.iter().any(|option| option == name), "{name}");
    }
    assert!(options.contains(&"feature 3".to_string()), "an empty name is replaced");
    for width in [320, 1400] {
        browser.width(width);
        assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
        clean(&browser);
    }
    for unit in ["1", "2", "0"] {
        browser.choose("#local select", unit);
    }
    clean(&browser);
    let injected = "return [String(window.injected), ...[...document.querySelectorAll('img, b, i, main script, iframe')].map((element) => element.outerHTML)]";
    assert_eq!(browser.list(injected), ["undefined"]);
    assert_eq!(browser.run("return document.scripts.length"), 2);
}

#[test]
fn the_keyboard_reaches_everything_and_shows_where_it_is() {
    let Some(browser) = Browser::start() else { return };
    browser.open(&report::html(&everything(30, &CLASSES, &plain)).unwrap());
    let wanted = browser.run(
        "window.reached = new Set(); window.dim = [];
         // A group of radio buttons is one stop.
         window.wanted = [...document.querySelectorAll('a[href], button, select, input, summary')]
            .filter((element) => element.getClientRects().length && !(element.type === 'radio' && !element.checked));
         return window.wanted.length",
    );
    // Tables that scroll are stops too.
    for _ in 0..wanted.as_u64().unwrap() + 40 {
        browser.press(TAB);
        browser.run(
            "const here = document.activeElement, style = getComputedStyle(here);
             window.reached.add(here);
             if (here !== document.body && (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2)) window.dim.push(here.outerHTML.slice(0, 80))",
        );
    }
    let missed = "return window.wanted.filter((element) => !window.reached.has(element)).map((element) => element.outerHTML.slice(0, 80))";
    assert_eq!(browser.list(missed), Vec::<String>::new());
    assert_eq!(browser.list("return window.dim"), Vec::<String>::new());
    changes(&browser, &["importance"], || {
        browser.run("document.querySelector('#importance select').focus()");
        browser.press(ARROW_DOWN);
    });
    clean(&browser);
}

#[test]
fn on_paper_everything_is_open_and_light() {
    let Some(browser) = Browser::start() else { return };
    let data = everything(30, &CLASSES, &plain);
    browser.open(&report::html(&data).unwrap());
    browser.click("#theme");
    browser.tools("Emulation.setEmulatedMedia", json!({"media": "print"}));
    browser.settled();
    let seen = "const seen = (element) => element.getClientRects().length > 0;";
    let hidden = format!(
        "{seen} return [...document.querySelectorAll('details:not([hidden]) table, details pre')].filter((table) => !table.closest('[hidden]') && !seen(table)).map((table) => table.textContent.slice(0, 60))"
    );
    assert_eq!(browser.list(&hidden), Vec::<String>::new());
    let controls = format!(
        "{seen} return [...document.querySelectorAll('select, input, nav, #theme')].filter(seen).map((element) => element.outerHTML.slice(0, 60))"
    );
    assert_eq!(browser.list(&controls), Vec::<String>::new());
    // The node that was chosen, and all others.
    let falls = format!(
        "{seen} return [...document.querySelectorAll('#local figure')].filter((figure) => seen(figure) && /waterfall|paper-\\d/.test(figure.dataset.figure)).length"
    );
    assert_eq!(browser.run(&falls), data.locals.len());
    assert_eq!(browser.run("return getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    assert_eq!(browser.list(BROKEN), Vec::<String>::new());
    let printed = browser.tools("Page.printToPDF", json!({"printBackground": true}));
    assert!(printed["data"].as_str().unwrap().starts_with("JVBERi"), "a PDF");
    browser.tools("Emulation.setEmulatedMedia", json!({"media": "screen"}));
    browser.settled();
    assert_eq!(browser.run("return document.querySelectorAll('details[open]').length"), 0, "closed again");
    clean(&browser);
}

#[test]
fn a_page_with_next_to_nothing_is_a_page() {
    let Some(browser) = Browser::start() else { return };
    let mut data = everything(1, &CLASSES[..2], &plain);
    browser.open(&report::html(&data).unwrap());
    clean(&browser);
    data.history.truncate(1);
    data.history[0].scores = data.history[0].scores.only(|name| name != "nll");
    data.locals.truncate(2);
    data.locals[0].level = Some(harmonia::dataset::Level::Graph);
    data.locals[0].by_node.parts.iter_mut().for_each(|part| part.distance = None);
    data.features[0].shape = None;
    browser.open(&report::html(&data).unwrap());
    clean(&browser);
    browser.open(&report::html(&report::Data::default()).unwrap());
    assert_eq!(browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)"), ["summary"]);
    clean(&browser);
}

#[test]
fn the_page_of_a_real_run_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 40;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i * 7 + 1) % nodes)).filter(|(a, b)| a != b).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * 3).map(|at| (at as f32 * 0.37).sin()).collect();
    let labels = Labels::Classes { ids: (0..nodes).map(|i| i % 3).collect(), classes: 3 };
    let split = Split { train: (0..20).collect(), valid: (20..30).collect(), test: (30..40).collect() };
    let features = Features::new(nodes as usize, 3, values).unwrap();
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.feature_names = vec!["<b>bold</b>".into(), "height".into(), "width".into()];
    let mut config = Config::default();
    config.train.epochs = 5;
    config.data.normalise = harmonia::dataset::Normalise::Standardise;
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    browser.open(&std::fs::read_to_string(root.join("report.html")).unwrap());
    let sections = browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)");
    assert_eq!(sections, ["summary", "curves", "reliability", "shapes", "hops", "routing", "settings"]);
    assert!(browser.run("return document.body.textContent").as_str().unwrap().contains("harmonia report"));
    clean(&browser);
    // Without edges every walk stays where it is, so two nodes that differ in one feature differ by its curve alone. The
    // page's curve is over the data as given, the model scales what it is given: both must say the same.
    let (here, there) = (0.2f32, -0.7f32);
    let values = vec![0.1, here, 0.3, 0.1, there, 0.3];
    let labels = Labels::Classes { ids: vec![0, 1], classes: 3 };
    let split = Split { train: vec![0], valid: vec![1], test: vec![] };
    let graph = Graph::from_edges(2, &[], None, Direction::Undirected).unwrap();
    let apart = Dataset::nodes("two", graph, Features::new(2, 3, values).unwrap(), labels, split).unwrap();
    let logits = FittedModel::load(&root.join("best.safetensors")).unwrap().logits(&apart).unwrap();
    let drawn: Vec<f64> = serde_json::from_value(browser.run(&format!(
        "const {{weight, shape}} = data.features.find((feature) => feature.index === 1);
         return weight.map((weight) => weight * (response(shape, {here}) - response(shape, {there})))"
    )))
    .unwrap();
    for (output, drawn) in drawn.into_iter().enumerate() {
        let model = f64::from(logits[output] - logits[3 + output]);
        // The model computes in f32, with numbers of size one.
        assert!((drawn - model).abs() < 1e-5, "{output}: {drawn} {model}");
    }
    assert!((logits[0] - logits[3]).abs() > 1e-4, "a curve that is flat shows nothing: {logits:?}");
}

#[test]
fn the_whole_page_of_real_runs_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 40;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i * 7 + 1) % nodes)).filter(|(a, b)| a != b).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let values = (0..nodes * 3).map(|at| (at as f32 * 0.37).sin()).collect();
    let labels = Labels::Classes { ids: (0..nodes).map(|i| i % 2).collect(), classes: 2 };
    let split = Split { train: (0..20).collect(), valid: (20..30).collect(), test: (30..40).collect() };
    let features = Features::new(nodes as usize, 3, values).unwrap();
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.feature_names = vec!["</script><script>alert(1)</script>".into(), "height".into(), "width".into()];
    let mut config = Config::default();
    (config.train.epochs, config.run.seeds) = (5, 2);
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    let runs: Vec<TrainedRun> =
        members(&root).unwrap().iter().map(|path| TrainedRun::open(path, |_| Ok(dataset.clone())).unwrap()).collect();
    for units in [&[][..], &[7, 3]] {
        let request = report::Request { runs: &runs, units, diagnose: true, watch: &Watch::silent() };
        let data = report::full(&request).unwrap();
        // Every split of every logit adds up: the page says so, too.
        for local in &data.locals {
            for (output, of) in local.outputs.iter().enumerate() {
                let features: f64 = local.by_feature.parts.iter().map(|part| part.values[output]).sum();
                let nodes: f64 = local.by_node.parts.iter().map(|part| part.values[output]).sum();
                let hops: f64 = local.by_hop.iter().map(|part| part.values[output]).sum();
                let rest = |rest: &[f64]| rest.get(output).copied().unwrap_or(0.0);
                for sum in [features + rest(&local.by_feature.rest), nodes + rest(&local.by_node.rest), hops] {
                    // f32 logits of size one.
                    assert!((of.intercept + sum + of.residual - of.logit).abs() < 1e-9 && of.residual.abs() < 1e-5);
                }
            }
        }
        browser.open(&report::html(&data).unwrap());
        assert_eq!(browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)"), SECTIONS);
        assert!(browser.run("return document.body.textContent").as_str().unwrap().contains("<script>alert(1)"));
        for width in [320, 1400] {
            browser.width(width);
            assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
            clean(&browser);
        }
    }
}

#[test]
fn the_page_of_a_regression_speaks_in_the_units_of_its_targets() {
    let Some(browser) = Browser::start() else { return };
    let nodes = 60;
    let edges: Vec<(u32, u32)> = (0..nodes).map(|i| (i, (i + 1) % nodes)).collect();
    let graph = Graph::from_edges(nodes as usize, &edges, None, Direction::Undirected).unwrap();
    let x = |i: u32| (i as f32 * 0.37).sin();
    let targets = (0..nodes).flat_map(|i| [500.0 + 40.0 * x(i), x(i + 1)]).collect();
    let split = Split { train: (0..40).collect(), valid: (40..50).collect(), test: (50..60).collect() };
    let features = Features::new(nodes as usize, 1, (0..nodes).map(x).collect()).unwrap();
    let labels = Labels::Values { values: targets, width: 2 };
    let mut dataset = Dataset::nodes("ring", graph, features, labels, split).unwrap();
    dataset.class_names = vec!["price".into(), "age".into()];
    let mut config = Config::default();
    (config.train.epochs, config.train.learning_rate) = (60, 2e-2);
    let stop = Stop::new();
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("run");
    Session { device: &Cpu::new(), config: &config, stop: &stop }.run(&dataset, Some(&root), &mut Silent).unwrap();
    browser.open(&std::fs::read_to_string(root.join("report.html")).unwrap());
    clean(&browser);
    let runs = vec![TrainedRun::open(&root, |_| Ok(dataset.clone())).unwrap()];
    let request = report::Request { runs: &runs, units: &[], diagnose: false, watch: &Watch::silent() };
    let data = report::full(&request).unwrap();
    // The first target lies around 500: so do its predictions, and the terms add up to them.
    assert!(
        data.locals.iter().all(|local| (local.outputs[0].logit - 500.0).abs() < 100.0),
        "{:?}",
        data.locals[0].outputs
    );
    assert!(data.locals.iter().all(|local| local.probabilities.is_empty()));
    browser.open(&report::html(&data).unwrap());
    let text = browser.run("return document.querySelector('main').textContent");
    let text = text.as_str().unwrap();
    for words in [
        "Test R2",
        "Root mean squared error",
        "the smallest error",
        "In truth it is",
        "price",
        "added to the prediction",
    ] {
        assert!(text.contains(words), "{words:?} is not on the page");
    }
    for words in ["logit", "Probability", "Accuracy", "NaN", "undefined"] {
        assert!(!text.contains(words), "{words:?} is on the page");
    }
    for width in [320, 1400] {
        browser.width(width);
        assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
        clean(&browser);
    }
}
