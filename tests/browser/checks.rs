//! What must hold of any page, as scripts that list what is wrong.

use super::driver::Browser;

/// Pictures that are not drawn: without marks, without size, or with a number that is none.
pub const BROKEN: &str =
    "return [...document.querySelectorAll('figure')].filter((figure) => figure.offsetParent !== null)
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
pub const OVERFLOW: &str = "const wide = document.documentElement.clientWidth;
    return document.documentElement.scrollWidth <= wide ? [] : [...document.querySelectorAll('body *')]
        .filter((element) => element.getBoundingClientRect().right > wide + 1).map((element) => element.outerHTML.slice(0, 100))";

/// Tables that have to be pushed aside to be read, those behind a click too; by their caption.
pub const CUT: &str = "const folded = [...document.querySelectorAll('details:not([open])')];
    folded.forEach((details) => { details.open = true; });
    const tables = [...document.querySelectorAll('table')];
    const wide = document.documentElement.clientWidth;
    const cut = tables.filter((table) => table.offsetParent !== null).filter((table) => {
        const frame = table.closest('.scroll');
        const cells = [...table.querySelectorAll('tbody th, tbody td')];
        return frame.scrollWidth > frame.clientWidth + 1 || cells.some((cell) => cell.getBoundingClientRect().right > wide + 1);
    }).map((table) => table.caption.textContent);
    const seen = tables.filter((table) => table.offsetParent !== null).length;
    folded.forEach((details) => { details.open = false; });
    return seen < 8 ? [`only ${seen} tables are seen`] : cut";

/// The picture of that name, as it is in the page.
pub fn drawn(browser: &Browser, figure: &str) -> String {
    let script = format!("return document.querySelector('[data-figure=\"{figure}\"] .drawing > svg').outerHTML");
    browser.run(&script).as_str().unwrap().to_string()
}

/// Does something and requires that the named pictures are drawn differently, and the reader is told.
pub fn changes(browser: &Browser, figures: &[&str], act: impl FnOnce()) {
    browser.run("document.getElementById('status').textContent = ''");
    let before: Vec<String> = figures.iter().map(|figure| drawn(browser, figure)).collect();
    act();
    for (figure, before) in figures.iter().zip(before) {
        assert_ne!(drawn(browser, figure), before, "{figure} did not change");
    }
    assert_ne!(browser.run("return document.getElementById('status').textContent"), "", "nothing was said");
}

/// No message, no picture that is not drawn, no obstacle.
pub fn clean(browser: &Browser) {
    assert_eq!(browser.messages(), Vec::<String>::new());
    assert_eq!(browser.list(BROKEN), Vec::<String>::new());
    assert_eq!(browser.list(OBSTACLES), Vec::<String>::new());
}
