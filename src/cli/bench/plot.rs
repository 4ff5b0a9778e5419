//! The growth of time as a picture: one panel per series, both axes logarithmic, SVG written by hand.
//!
//! Colours are of middle lightness on no background, so that the picture reads on white pages and on dark ones.

use super::fit::Power;
use super::scaling::{Point, Series};
use crate::cli::xml::escape as escaped;
use std::fmt::Write;

/// A panel, with room for its titles.
const PANEL: (f64, f64) = (420.0, 320.0);
/// Left, right, top and bottom of the plotted area inside a panel.
const MARGINS: [f64; 4] = [70.0, 20.0, 50.0, 55.0];
const COLUMNS: usize = 2;
/// Lines and words.
const INK: &str = "#808080";
/// An epoch, and the part of it that walks.
const COLOURS: [&str; 2] = ["#2f81c7", "#d1662a"];
/// Share of the range of an axis that is left free at either end.
const FREE: f64 = 0.08;

/// The whole picture.
pub fn svg(series: &[Series], subtitle: &str) -> String {
    let rows = series.len().div_ceil(COLUMNS).max(1);
    let (width, height) = (PANEL.0 * COLUMNS as f64, PANEL.1 * rows as f64 + 60.0);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"{INK}\" role=\"img\">\n\
         <title>Time of an epoch against the size of the problem</title>\n\
         <desc>{}</desc>\n",
        escaped(subtitle)
    );
    let _ = writeln!(
        out,
        "<text x=\"20\" y=\"24\" font-size=\"16\">Time of an epoch against the size of the problem</text>\n\
         <text x=\"20\" y=\"44\">{}</text>",
        escaped(subtitle)
    );
    for (at, series) in series.iter().enumerate() {
        let (x, y) = (PANEL.0 * (at % COLUMNS) as f64, 60.0 + PANEL.1 * (at / COLUMNS) as f64);
        let _ = writeln!(out, "<g transform=\"translate({x} {y})\">");
        let _ = panel(&mut out, series);
        let _ = writeln!(out, "</g>");
    }
    out + "</svg>\n"
}

/// A logarithmic axis: from numbers to places.
struct Axis {
    /// Logarithms of the ends.
    low: f64,
    high: f64,
    /// Places of the ends.
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::ln).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Nothing, or one value, still has an axis.
        let (low, high) = if low < high {
            (low, high)
        } else if low == high {
            (low - 0.5, low + 0.5)
        } else {
            (0.0, 1.0)
        };
        let free = FREE * (high - low);
        Axis { low: low - free, high: high + free, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value.ln() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round numbers inside: powers of ten with 1, 2 and 5.
    fn ticks(&self) -> Vec<f64> {
        let decades =
            (self.low / std::f64::consts::LN_10).floor() as i32..=(self.high / std::f64::consts::LN_10) as i32;
        let round = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)));
        round.filter(|value| (self.low..=self.high).contains(&value.ln())).collect()
    }
}

fn panel(out: &mut String, series: &Series) -> std::fmt::Result {
    let [left, right, top, bottom] = MARGINS;
    let (right, bottom) = (PANEL.0 - right, PANEL.1 - bottom);
    let points = &series.points;
    let horizontal = Axis::new(points.iter().map(|point| point.x), left, right);
    let seconds = points.iter().flat_map(|point| [point.seconds, point.walk_seconds]);
    let vertical = Axis::new(seconds, bottom, top);
    writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{INK}\"/>",
        right - left,
        bottom - top
    )?;
    for point in points {
        let x = horizontal.place(point.x);
        writeln!(out, "<line x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"{INK}\"/>", bottom + 4.0)?;
        let label = short(point);
        writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", bottom + 18.0, escaped(&label))?;
    }
    for tick in vertical.ticks() {
        let y = vertical.place(tick);
        writeln!(out, "<line x1=\"{}\" y1=\"{y:.1}\" x2=\"{left}\" y2=\"{y:.1}\" stroke=\"{INK}\"/>", left - 4.0)?;
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", left - 7.0, y + 4.0)?;
    }
    let middle = (left + right) / 2.0;
    writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        bottom + 38.0,
        escaped(series.against)
    )?;
    let (x, y) = (16.0, (top + bottom) / 2.0);
    writeln!(
        out,
        "<text transform=\"translate({x} {y}) rotate(-90)\" text-anchor=\"middle\">seconds per epoch</text>"
    )?;
    let curves = [("epoch", series.epoch(), 0), ("along edges", series.walk(), 1)];
    for (name, power, curve) in curves {
        let colour = COLOURS[curve];
        let y = 20.0 + 17.0 * curve as f64;
        let exponent = power.map_or("no fit".into(), |power| format!("x^{:.2}", power.exponent));
        writeln!(out, "<text x=\"{left}\" y=\"{y}\" fill=\"{colour}\">{name}: {exponent}</text>")?;
        let values = points.iter().map(|point| (point.x, if curve == 0 { point.seconds } else { point.walk_seconds }));
        if let (Some(power), Some(first), Some(last)) = (power, points.first(), points.last()) {
            line(out, power, [first.x, last.x], &horizontal, &vertical, colour)?;
        }
        for (x, seconds) in values.filter(|(_, seconds)| *seconds > 0.0) {
            let (x, y) = (horizontal.place(x), vertical.place(seconds));
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")?;
        }
    }
    Ok(())
}

/// What stands below a point: large counts in thousands or millions.
fn short(point: &Point) -> String {
    match point.x {
        x if x >= 1e6 => format!("{:.1} M", x / 1e6),
        x if x >= 1e4 => format!("{:.0} k", x / 1e3),
        _ => point.label.clone(),
    }
}

/// A power is a straight line here.
fn line(out: &mut String, power: Power, ends: [f64; 2], x: &Axis, y: &Axis, colour: &str) -> std::fmt::Result {
    let [(x1, y1), (x2, y2)] = ends.map(|end| (x.place(end), y.place(power.at(end))));
    writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
         stroke-dasharray=\"5 4\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new([0.03, 0.4].into_iter(), 100.0, 0.0);
        assert_eq!(axis.ticks(), [0.05, 0.1, 0.2]);
        assert!(axis.place(0.03) > axis.place(0.4) && axis.place(0.4) > 0.0);
        // No numbers, one number.
        for values in [vec![], vec![0.0], vec![2.0]] {
            let axis = Axis::new(values.into_iter(), 0.0, 1.0);
            assert!(axis.low < axis.high && axis.place(1.5).is_finite());
        }
    }

    #[test]
    fn words_cannot_break_the_picture() {
        assert_eq!(escaped("a<b & \"c\""), "a&lt;b &amp; &quot;c&quot;");
    }
}
