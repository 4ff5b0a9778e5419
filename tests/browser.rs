//! `report.html` in a real browser: it draws everything, obeys its controls, and nothing in a name acts as markup.
//!
//! Every check asks the page itself; most scripts list what is wrong, so that a failure names it.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "browser/checks.rs"]
mod checks;
#[path = "browser/driver.rs"]
mod driver;
#[path = "browser/real_runs.rs"]
mod real_runs;
#[path = "browser/sample.rs"]
mod sample;

use checks::{BROKEN, CUT, OVERFLOW, changes, clean, drawn};
use driver::Browser;
use harmonia::report;
use sample::{HOSTILE, everything};
use serde_json::json;

const SECTIONS: [&str; 12] = [
    "summary",
    "curves",
    "reliability",
    "details",
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
            for width in [320, 360, 768, 1400] {
                browser.width(width);
                assert_eq!(browser.list(OVERFLOW), Vec::<String>::new(), "{width}");
                if width <= 360 {
                    assert_eq!(browser.list(CUT), Vec::<String>::new(), "{width}");
                }
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
    // A category is bars, one for each value and one for a gap; a number with gaps has a line for them.
    changes(&browser, &["shape"], || browser.choose(&label("Feature", "shapes"), "4"));
    assert_eq!(browser.run("return document.querySelectorAll('[data-figure=shape] .drawing > svg rect').length"), 4);
    browser.choose(&label("Feature", "shapes"), "5");
    let caption = browser.run("return document.querySelector('[data-figure=shape] figcaption').textContent");
    assert!(caption.as_str().unwrap().contains("A missing value adds"), "{caption}");
    browser.choose(&label("Feature", "shapes"), "0");
    let caption = browser.run("return document.querySelector('[data-figure=shape] figcaption').textContent");
    assert!(caption.as_str().unwrap().contains("It was kept rising, exactly and everywhere."), "{caption}");
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
    // Without data the sections about nodes say so.
    (data.locals, data.diagnostics, data.absent) = (Vec::new(), None, Some("The data are not there.".into()));
    browser.open(&report::html(&data).unwrap());
    for section in ["local", "diagnostics"] {
        let text = browser.run(&format!("return document.querySelector('#{section} .note').textContent"));
        assert_eq!(text, "The data are not there.");
    }
    clean(&browser);
    browser.open(&report::html(&report::Data::default()).unwrap());
    assert_eq!(browser.list("return [...document.querySelectorAll('main > section')].map(({id}) => id)"), ["summary"]);
    clean(&browser);
}

/// Had a name found its way into the markup after all, the policy of the page would still keep it from running.
#[test]
fn an_injected_script_does_not_run() {
    let Some(browser) = Browser::start() else { return };
    let page = report::html(&everything(3, &CLASSES, &plain)).unwrap();
    let injected = "<img src=\"x:\" onerror=\"window.injected = 1\"><script>window.injected = 2</script>";
    browser.open(
        &page.replace("<main id=\"main\" tabindex=\"-1\">", &format!("<main id=\"main\" tabindex=\"-1\">{injected}")),
    );
    browser.settled();
    assert_eq!(browser.run("return String(window.injected)"), "undefined");
    assert!(browser.messages().iter().any(|message| message.contains("Content Security Policy")));
    // Without the policy it would: the test can fail.
    let open = page.replace("http-equiv=\"Content-Security-Policy\"", "name=\"none\"");
    browser.open(
        &open.replace("<main id=\"main\" tabindex=\"-1\">", &format!("<main id=\"main\" tabindex=\"-1\">{injected}")),
    );
    browser.settled();
    assert_ne!(browser.run("return String(window.injected)"), "undefined");
}
