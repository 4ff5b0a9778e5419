//! Text inside pictures.

/// Text as XML has it. What XML cannot hold at all, as U+FFFF, becomes the sign for that.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(sign),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            sign => escaped.push(sign),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn a_name_with_what_xml_cannot_hold_leaves_a_picture_whole() {
        assert_eq!(escape("a\u{ffff}b\u{1}c\u{fffe}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(escape("<a & \"b\">\u{1f600}"), "&lt;a &amp; &quot;b&quot;&gt;\u{1f600}");
    }
}
