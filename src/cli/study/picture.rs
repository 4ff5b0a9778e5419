//! Pictures of a study as SVG: curves and dots over linear or logarithmic axes, or a value per cell of a grid.
//!
//! Invariant: values that an axis cannot show (not finite, or not above zero on a logarithmic one) are left out; a picture of none
//! still has its axes.

use crate::cli::xml::escape;
use crate::studies::paper::{self, Drawing, Figure, Series, Style};
use std::fmt::Write;

/// Of a whole plot; the legend stands to the right of the area.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Left, right, top and bottom of the area.
const AREA: [f64; 4] = [80.0, 540.0, 40.0, 360.0];
/// Of a cell of a grid.
const CELL: [f64; 2] = [76.0, 34.0];
const COLOURS: [&str; 8] = ["#2f6fb7", "#d1662a", "#2a8f5c", "#8a4fb0", "#b0922a", "#b03a5b", "#4f9fb0", "#6b6b6b"];
const INK: &str = "#555";
/// Share of the range of an axis that is left free at either end.
const FREE: f64 = 0.04;

/// The picture of a figure.
pub fn svg(figure: &Figure) -> String {
    match &figure.drawing {
        Drawing::Plot { x, y, series } => plot(&figure.title, x, y, series),
        Drawing::Grid { rows, columns, values, decimals } => grid(&figure.title, rows, columns, values, *decimals),
    }
}

fn open(title: &str, width: f64, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"{INK}\" role=\"img\">\n<title>{0}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"16\" y=\"22\" font-size=\"14\">{0}</text>\n",
        escape(title)
    )
}

/// From numbers to places.
struct Scale {
    logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(axis: &paper::Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let logarithmic = axis.logarithmic;
        let shown = values.filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
        let placed: Vec<f64> = shown.map(|value| if logarithmic { value.log10() } else { value }).collect();
        let low = placed.iter().copied().fold(f64::INFINITY, f64::min);
        let high = placed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match high - low {
            range if range > 0.0 => (low - FREE * range, high + FREE * range),
            // One value, or none, still has an axis.
            _ if low.is_finite() => (low - 0.5, high + 0.5),
            _ => (0.0, 1.0),
        };
        Scale { logarithmic, low, high, from, to }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let value = if self.logarithmic { value.log10() } else { value };
        let place = self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from);
        place.is_finite().then_some(place)
    }

    /// Round numbers, some five of them.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (low, high) = (self.low.ceil() as i32, self.high.floor() as i32);
            let step = ((high - low) / 6).max(0) + 1;
            let powers: Vec<f64> = (low..=high).step_by(step as usize).map(|power| 10f64.powi(power)).collect();
            if powers.len() > 1 {
                return powers;
            }
            let decades = self.low.floor() as i32..=self.high.floor() as i32;
            let digits = decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)));
            return digits.filter(|value| (self.low..=self.high).contains(&value.log10())).collect();
        }
        let rough = (self.high - self.low) / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        ((self.low / step).ceil() as i64..=(self.high / step).floor() as i64).map(|at| at as f64 * step).collect()
    }
}

fn tick_text(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e5).contains(&size) => format!("{value:e}"),
        // Six digits, without the rounding of multiples of 0.1.
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

fn plot(title: &str, x: &paper::Axis, y: &paper::Axis, series: &[Series]) -> String {
    let [left, right, top, bottom] = AREA;
    let points = || series.iter().flat_map(|series| &series.points);
    let horizontal = Scale::new(x, points().map(|point| point[0]), left, right);
    let vertical = Scale::new(y, points().map(|point| point[1]), bottom, top);
    let mut out = open(title, WIDTH, HEIGHT);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#bbb\"/>",
        right - left,
        bottom - top
    );
    for tick in horizontal.ticks() {
        let Some(at) = horizontal.place(tick) else { continue };
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{bottom}\" x2=\"{at:.1}\" y2=\"{}\" stroke=\"{INK}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + 18.0,
            tick_text(tick)
        );
    }
    for tick in vertical.ticks() {
        let Some(at) = vertical.place(tick) else { continue };
        let _ = writeln!(
            out,
            "<line x1=\"{}\" y1=\"{at:.1}\" x2=\"{left}\" y2=\"{at:.1}\" stroke=\"{INK}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 4.0,
            left - 7.0,
            at + 4.0,
            tick_text(tick)
        );
    }
    let (middle, height) = ((left + right) / 2.0, (top + bottom) / 2.0);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(18 {height}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        bottom + 40.0,
        escape(&x.label),
        escape(&y.label)
    );
    for (at, series) in series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let places: Vec<[f64; 2]> =
            (series.points.iter()).filter_map(|&[x, y]| Some([horizontal.place(x)?, vertical.place(y)?])).collect();
        draw(&mut out, &places, series.style, colour);
        let y = top + 10.0 + 20.0 * at as f64;
        draw(&mut out, &[[right + 14.0, y], [right + 34.0, y]], series.style, colour);
        let _ = writeln!(out, "<text x=\"{}\" y=\"{}\">{}</text>", right + 42.0, y + 4.0, escape(&series.name));
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, places: &[[f64; 2]], style: Style, colour: &str) {
    if style == Style::Dots {
        for [x, y] in places {
            let _ =
                writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\" fill-opacity=\"0.6\"/>");
        }
        return;
    }
    let dashes = if style == Style::Dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let points: Vec<String> = places.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}/>",
        points.join(" ")
    );
}

fn grid(title: &str, rows: &[String], columns: &[String], values: &[Vec<f64>], decimals: usize) -> String {
    const LEFT: f64 = 190.0;
    const TOP: f64 = 66.0;
    let [wide, high] = CELL;
    let finite = || values.iter().flatten().copied().filter(|value| value.is_finite());
    let (low, most) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let mut out = open(title, LEFT + wide * columns.len() as f64 + 20.0, TOP + high * rows.len() as f64 + 20.0);
    for (at, name) in columns.iter().enumerate() {
        let x = LEFT + wide * (at as f64 + 0.5);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>", TOP - 10.0, escape(name));
    }
    for (row, (name, values)) in rows.iter().zip(values).enumerate() {
        let y = TOP + high * row as f64;
        let middle = y + high / 2.0 + 4.0;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{}</text>", LEFT - 10.0, escape(name));
        for (column, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            let x = LEFT + wide * column as f64;
            let share = if most > low { ((value - low) / (most - low)).clamp(0.0, 1.0) } else { 0.0 };
            let (opacity, ink) = (0.08 + 0.82 * share, if share > 0.55 { "white" } else { "#222" });
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"#2f6fb7\" fill-opacity=\"{opacity:.3}\"/>\
                 <text x=\"{}\" y=\"{middle}\" text-anchor=\"middle\" fill=\"{ink}\">{value:.decimals$}</text>",
                wide - 2.0,
                high - 2.0,
                x + wide / 2.0 - 1.0
            );
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::paper::Axis;

    fn figure(x: Axis, points: Vec<[f64; 2]>) -> Figure {
        let series = vec![Series { name: "a < b".into(), points, style: Style::Line }];
        Figure { name: "f", title: "t & u".into(), drawing: Drawing::Plot { x, y: Axis::linear("y"), series } }
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let text = svg(&figure(Axis::logarithmic("x"), vec![[0.0, 1.0], [1.0, 2.0], [100.0, f64::NAN], [10.0, 3.0]]));
        let line = text.lines().find(|line| line.starts_with("<polyline")).unwrap();
        let points = line.split('"').nth(1).unwrap();
        assert_eq!(points.split(' ').count(), 2, "{line}");
        assert!(text.contains("a &lt; b") && text.contains("t &amp; u") && !text.contains("NaN"));
        // Nothing at all: an axis, no fault.
        assert!(svg(&figure(Axis::linear("x"), Vec::new())).contains("</svg>"));
    }

    #[test]
    fn a_cell_without_a_value_is_left_empty() {
        let grid = Drawing::Grid {
            columns: vec!["a".into(), "b".into()],
            rows: vec!["r".into()],
            values: vec![vec![f64::NAN, 0.5]],
            decimals: 2,
        };
        let text = svg(&Figure { name: "f", title: "t".into(), drawing: grid });
        assert_eq!(text.matches("fill-opacity").count(), 1, "{text}");
        assert!(text.contains("0.50") && !text.contains("NaN"));
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::new(&Axis::linear(""), [0.0, 0.93].into_iter(), 0.0, 100.0);
        let ticks: Vec<String> = scale.ticks().into_iter().map(tick_text).collect();
        assert_eq!(ticks, ["0", "0.2", "0.4", "0.6", "0.8"]);
        let decades = Scale::new(&Axis::logarithmic(""), [3.0, 5e4].into_iter(), 0.0, 100.0).ticks();
        assert_eq!(decades, [10.0, 100.0, 1000.0, 10000.0]);
    }
}
