//! `report.html`: one page about a run, for people, that opens by a double click and loads nothing.
//!
//! [`Data`] says what the page shows; `page.html`, `page.css` and the scripts draw it. Names come from data, so nothing in
//! them may act as markup: the values travel as JSON without a single `<`, and the scripts make text nodes only.

mod data;
mod diagnostics;
mod full;
mod local;
mod run;
mod telling;

pub use data::*;
pub use full::{Request, full};
pub use run::{Member, Trained, of_run};

use harmonia_graph::error::{Error, Result};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// In this order: each uses what those before it define.
const SCRIPTS: [&str; 4] =
    [include_str!("draw.js"), include_str!("charts.js"), include_str!("sections.js"), include_str!("page.js")];

/// The page.
///
/// # Errors
/// The data cannot be written as JSON.
pub fn html(data: &Data) -> Result<String> {
    let json = serde_json::to_string(data).map_err(|error| Error::Data(format!("the report: {error}")))?;
    let title = format!("{}, {}: HARMONIA", data.summary.dataset, data.summary.run);
    // What the data says goes in last and is not searched: a feature may be called {{script}}.
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + 2 * json.len());
    let mut rest = PAGE;
    while let Some((before, (name, after))) =
        rest.split_once("{{").and_then(|(before, tail)| Some((before, tail.split_once("}}")?)))
    {
        page.push_str(before);
        match name {
            "title" => page.push_str(&escape_text(&title)),
            "style" => page.push_str(STYLE),
            "data" => page.push_str(&escape_json(&json)),
            "hash" => page.push_str(&script_hash()),
            _ => SCRIPTS.iter().for_each(|script| page.push_str(script)),
        }
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// What the page's own policy allows to run: these very scripts, and nothing that a name may have smuggled in.
fn script_hash() -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    SCRIPTS.iter().for_each(|script| hash.update(script.as_bytes()));
    base64(&hash.finalize())
}

fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |word, at| word << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let sign = char::from(SIGNS[(word >> (18 - 6 * at)) as usize & 63]);
            text.push(if at <= chunk.len() { sign } else { '=' });
        }
    }
    text
}

/// JSON that no HTML parser can take for anything else: these signs occur in strings only, where an escape means the same.
fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for sign in json.chars() {
        match sign {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            sign => escaped.push(sign),
        }
    }
    escaped
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_act_as_markup() {
        assert_eq!(escape_text("<script>\"&"), "&lt;script&gt;&quot;&amp;");
        let hostile = "</script><!--<script>&\u{2028}\u{2029}{{script}}\"\\";
        let data = Data {
            summary: Summary { dataset: hostile.into(), run: "</title><b>".into(), ..Summary::default() },
            features: vec![Feature { name: hostile.into(), ..Feature::default() }],
            ..Data::default()
        };
        let page = html(&data).unwrap();
        assert!(!page.contains("<!--") && !page.contains("</title><b>"));
        // The data block and the scripts, as the template has them.
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count());
        assert_eq!(page.matches("function start()").count(), 1);
        let (_, block) = page.split_once("id=\"data\">").unwrap();
        let (block, _) = block.split_once("</script>").unwrap();
        assert!(!block.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{block}");
        assert_eq!(serde_json::from_str::<Data>(block).unwrap(), data);
    }

    #[test]
    fn the_policy_of_the_page_allows_its_own_scripts_and_no_others() {
        assert_eq!((base64(b"").as_str(), base64(b"f").as_str(), base64(b"fo").as_str()), ("", "Zg==", "Zm8="));
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        let page = html(&Data::default()).unwrap();
        let (_, policy) = page.split_once("script-src ").unwrap();
        let (policy, _) = policy.split_once(';').unwrap();
        assert_eq!(policy, format!("'sha256-{}'", script_hash()));
        // What is hashed is what stands between the tags.
        let (_, script) = page.split_once("<script>").unwrap();
        let (script, _) = script.split_once("</script>").unwrap();
        assert_eq!(script, SCRIPTS.concat());
    }

    #[test]
    fn only_sampled_curves_say_how_they_were_made() {
        let text = |sampled| serde_json::to_string(&Curve { sampled, ..Curve::default() }).unwrap();
        assert!(text(true).contains("\"sampled\":true") && !text(false).contains("sampled"));
        let old: Curve = serde_json::from_str(&text(false)).unwrap();
        assert_eq!(old, Curve::default());
    }

    #[test]
    fn assets_hold_nothing_that_would_end_their_element_or_load_anything() {
        for script in SCRIPTS {
            assert!(!script.contains("</script") && !script.contains("innerHTML") && !script.contains("<!--"));
            assert!(!script.replace("http://www.w3.org/2000/svg", "").contains("://"));
        }
        assert!(!STYLE.contains("</style") && !STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
