//! Shapes as pictures: effects w (f(x) - mean) over the values of each feature, with axes; a bar for each value of a category, and a dashed
//! line for what a gap adds.
//!
//! All pictures of a row have one scale of effects, written at its left, so that what looks larger is larger: with one output a
//! row is four features, with several it is one feature and a picture per output. Rows come by importance, which is printed.

use crate::answers::NamedShape;
use crate::cli::reading::{number, short};
use crate::cli::xml::escape;
use crate::explain::{ValueEffect, ranking};
use std::fmt::Write;

/// Features of a row where there is one output; outputs of a row where there are several.
const COLUMNS: usize = 4;
const MOST_OUTPUTS: usize = 8;
/// Features of a picture that browsers still open.
pub const MOST: usize = 400;
/// Of the area of a curve.
const WIDTH: f64 = 200.0;
const HEIGHT: f64 = 120.0;
const GAP: f64 = 18.0;
/// Room for the scale at the left, for names above, and for the density and values below.
const LEFT: f64 = 64.0;
const ABOVE: f64 = 34.0;
const DENSITY: f64 = 20.0;
const BELOW: f64 = 30.0;
/// Room for what is said about all.
const HEAD: f64 = 58.0;

/// One picture.
struct Cell<'a> {
    curve: &'a NamedShape,
    output: usize,
    /// Above the picture, in two lines.
    title: [String; 2],
}

/// What is drawn beside the curves.
pub struct About<'a> {
    pub dataset: &'a str,
    pub outputs: &'a [String],
    /// Of every feature over all outputs, and by output; none where nobody has measured it.
    pub importance: Option<&'a [(f64, Vec<f64>)]>,
    /// Units it was measured on, in words.
    pub measured: String,
}

/// The picture of some curves, and how many of them and of their outputs it shows.
pub fn svg(curves: &[NamedShape], about: &About<'_>) -> (String, usize, usize) {
    let mut order = ranking(&match about.importance {
        Some(importance) => importance.iter().map(|(overall, _)| *overall).collect::<Vec<_>>(),
        None => curves.iter().map(|curve| curve.shape.spread()).collect(),
    });
    order.truncate(MOST);
    let outputs = about.outputs.len().min(MOST_OUTPUTS);
    let of = |at: usize, output: usize| Cell {
        curve: &curves[at],
        output,
        title: titles(
            &curves[at],
            about.importance.map(|all| &all[at]),
            (outputs > 1).then(|| (output, about.outputs[output].as_str())),
        ),
    };
    let rows: Vec<Vec<Cell<'_>>> = match outputs {
        1 => order.chunks(COLUMNS).map(|row| row.iter().map(|&at| of(at, 0)).collect()).collect(),
        _ => order.iter().map(|&at| (0..outputs).map(|output| of(at, output)).collect()).collect(),
    };
    let columns = if outputs == 1 { COLUMNS } else { outputs };
    let row_height = ABOVE + HEIGHT + DENSITY + BELOW;
    let total = [LEFT + columns as f64 * (WIDTH + GAP), HEAD + rows.len().max(1) as f64 * row_height];
    let on = match about.outputs {
        [one] => format!("on {}", short(one)),
        _ => "on each output".into(),
    };
    let by = match about.importance {
        Some(_) => format!("importance, the mean size of what a feature adds {}", about.measured),
        None => "the height of their curves".into(),
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"system-ui,sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"16\" y=\"22\" font-size=\"15\">{}: effect w (f(x) - mean) {}</text>\n\
         <text x=\"16\" y=\"40\" fill=\"#555\">one scale per row; rows by {}; grey: where the data are</text>\n",
        total[0],
        total[1],
        escape(about.dataset),
        escape(&on),
        escape(&by)
    );
    for (at, row) in rows.iter().enumerate() {
        draw_row(&mut out, row, HEAD + at as f64 * row_height + ABOVE);
    }
    (out + "</svg>\n", order.len(), outputs)
}

fn titles(curve: &NamedShape, importance: Option<&(f64, Vec<f64>)>, output: Option<(usize, &str)>) -> [String; 2] {
    let sampled = if curve.shape.curve.as_ref().is_none_or(|curve| curve.exact) { "" } else { " (sampled)" };
    let unit = curve.shape.unit.map_or(String::new(), |unit| format!(", {unit}"));
    let name = format!("{}{unit}{sampled}", short(&curve.name));
    let measured = |value: Option<f64>| value.map_or(String::new(), |value| format!("importance {}", number(value)));
    match output {
        None => [name, measured(importance.map(|(overall, _)| *overall))],
        Some((output, class)) => {
            [format!("{name}: {}", short(class)), measured(importance.map(|(_, by_output)| by_output[output]))]
        }
    }
}

/// The effect where the data are: at both ends and at every knot between; none of a category.
fn effects(cell: &Cell<'_>) -> Vec<[f64; 2]> {
    let shape = &cell.curve.shape;
    let Some(curve) = shape.curve.as_ref().filter(|_| !shape.is_by_value()) else { return Vec::new() };
    let [low, high] = ends(cell.curve);
    let inside = curve.knots.iter().map(|knot| knot[0]).filter(|x| *x > low && *x < high);
    [low].into_iter().chain(inside).chain([high]).map(|x| [x, shape.effect(x, cell.output)]).collect()
}

/// Range of the data; of a feature with one value, some room around it.
fn ends(curve: &NamedShape) -> [f64; 2] {
    let [low, high] = curve.shape.range();
    if high > low { [low, high] } else { [low - 0.5, low + 0.5] }
}

fn draw_row(out: &mut String, row: &[Cell<'_>], top: f64) {
    let bands = row.iter().filter_map(|cell| cell.curve.shape.bands.as_ref().map(|(_, bands)| &bands[cell.output]));
    let bands = bands.flat_map(|band| band.low.iter().chain(&band.high).copied());
    let named = row.iter().flat_map(|cell| cell.curve.shape.values.iter().map(|value| value.effects[cell.output]));
    let values = row.iter().flat_map(effects).map(|point| point[1]).chain(bands).chain(named);
    let [bottom, ceiling] = values.filter(|y| y.is_finite()).fold([0.0f64, 0.0f64], |[a, b], y| [a.min(y), b.max(y)]);
    let [bottom, ceiling] = if ceiling > bottom { [bottom, ceiling] } else { [bottom - 0.5, ceiling + 0.5] };
    let py = |y: f64| top + (ceiling - y) / (ceiling - bottom) * HEIGHT;
    let scale = ticks(bottom, ceiling, 5);
    // Writing to a string cannot fail.
    for (value, text) in &scale {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.2}\" fill=\"#555\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            py(*value) + 4.0
        );
    }
    for (at, cell) in row.iter().enumerate() {
        let left = LEFT + at as f64 * (WIDTH + GAP);
        for (value, _) in &scale {
            let (y, colour) = (py(*value), if *value == 0.0 { "#999" } else { "#e4e7ec" });
            let _ = writeln!(
                out,
                "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.2}\" y2=\"{y:.2}\" stroke=\"{colour}\" stroke-width=\"0.7\"/>",
                left + WIDTH
            );
        }
        draw(out, cell, left, top, &py);
    }
}

fn draw(out: &mut String, cell: &Cell<'_>, left: f64, top: f64, py: &dyn Fn(f64) -> f64) {
    let foot = top + HEIGHT + DENSITY;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<line x1=\"{left}\" x2=\"{}\" y1=\"{foot}\" y2=\"{foot}\" stroke=\"#999\" stroke-width=\"0.7\"/>\
         <text x=\"{left}\" y=\"{}\" font-weight=\"600\">{}</text><text x=\"{left}\" y=\"{}\" fill=\"#555\">{}</text>",
        left + WIDTH,
        top - 20.0,
        escape(&cell.title[0]),
        top - 7.0,
        escape(&cell.title[1])
    );
    let shape = &cell.curve.shape;
    if shape.is_by_value() {
        return draw_values(out, &shape.values, cell.output, left, foot, py);
    }
    if let Some(missing) = shape.values.iter().find(|value| value.missing) {
        let (effect, y) = (missing.effects[cell.output], py(missing.effects[cell.output]));
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.2}\" y2=\"{y:.2}\" stroke=\"#c05621\" stroke-dasharray=\"2 3\"><title>missing: \
             {}</title></line><text x=\"{}\" y=\"{:.2}\" fill=\"#c05621\" text-anchor=\"end\">missing</text>",
            left + WIDTH,
            number(effect),
            left + WIDTH,
            y - 3.0
        );
    }
    draw_curve(out, cell, left, foot, py);
}

/// A bar for each value, with its name below and how often it occurs.
fn draw_values(out: &mut String, values: &[ValueEffect], output: usize, left: f64, foot: f64, py: &dyn Fn(f64) -> f64) {
    let room = WIDTH / values.len().max(1) as f64;
    let most = values.iter().filter_map(|value| value.count).max().unwrap_or(1).max(1) as f64;
    for (at, value) in values.iter().enumerate() {
        let (effect, x) = (value.effects[output], left + (at as f64 + 0.5) * room);
        let (from, to) = (py(effect.max(0.0)), py(effect.min(0.0)));
        let colour = if value.missing { "#c05621" } else { "#2b6cb0" };
        let size = value.count.map_or(0.0, |count| (DENSITY - 2.0) * (count as f64 / most).sqrt());
        // Some six points a sign.
        let name: String = short(&value.name).chars().take(((room / 6.0) as usize).max(2)).collect();
        let _ = writeln!(
            out,
            "<g><title>{}: {}</title><rect x=\"{:.2}\" y=\"{from:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{colour}\"/>\
             <rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{size:.2}\" fill=\"#c8ccd4\"/>\
             <text x=\"{x:.2}\" y=\"{}\" fill=\"#555\" text-anchor=\"middle\">{}</text></g>",
            escape(&short(&value.name)),
            number(effect),
            x - 0.35 * room,
            0.7 * room,
            (to - from).max(0.5),
            x - 0.35 * room,
            foot - size,
            0.7 * room,
            foot + 14.0,
            escape(&name)
        );
    }
}

fn draw_curve(out: &mut String, cell: &Cell<'_>, left: f64, foot: f64, py: &dyn Fn(f64) -> f64) {
    let curve = cell.curve;
    let [low, high] = ends(curve);
    let px = |x: f64| left + (x - low) / (high - low) * WIDTH;
    let list = |points: &mut dyn Iterator<Item = [f64; 2]>| {
        points.map(|[x, y]| format!("{:.2},{:.2}", px(x), py(y))).collect::<Vec<_>>().join(" ")
    };
    let counts = curve.shape.distribution.as_ref().map_or(&[][..], |known| &known.counts);
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let bins = counts.len() as f64;
    for (bin, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Square roots, so that rare values are seen beside frequent ones.
        let size = (DENSITY - 2.0) * (count as f64 / most).sqrt();
        let _ = writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{size:.2}\" fill=\"#c8ccd4\"/>",
            left + WIDTH * bin as f64 / bins,
            foot - size,
            WIDTH / bins
        );
    }
    if let Some((x, bands)) = &curve.shape.bands {
        let band = &bands[cell.output];
        let there = x.iter().zip(&band.low).map(|(&x, &y)| [x, y]);
        let back = x.iter().zip(&band.high).rev().map(|(&x, &y)| [x, y]);
        let points = list(&mut there.chain(back));
        let _ = writeln!(out, "<polygon points=\"{points}\" fill=\"#2b6cb0\" opacity=\"0.2\"/>");
    }
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#2b6cb0\" stroke-width=\"1.6\"/>",
        list(&mut effects(cell).into_iter())
    );
    let values = match curve.shape.range() {
        [one, other] if one == other => vec![(one, number(one))],
        _ => ticks(low, high, 4),
    };
    for (value, text) in values {
        let x = px(value);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{foot}\" y2=\"{}\" stroke=\"#999\" stroke-width=\"0.7\"/>\
             <text x=\"{x:.2}\" y=\"{}\" fill=\"#555\" text-anchor=\"middle\">{text}</text>",
            foot + 3.0,
            foot + 14.0
        );
    }
}

/// Round values within a range, about so many, with their texts.
fn ticks(low: f64, high: f64, about: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / about as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|part| part * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    let (first, last) = ((low / step).ceil(), (high / step).floor());
    // Steps beyond what a number can tell apart, or none at all.
    if !(step.is_finite() && step > 0.0 && last - first <= 2.0 * about as f64) {
        return vec![(low, number(low)), (high, number(high))];
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let text = |value: f64| match value.abs() {
        size if size >= 1e5 || decimals > 5 => format!("{value:.1e}"),
        _ => format!("{value:.decimals$}"),
    };
    // Adding zero: nobody wants to read -0.
    let values = (0..=(last - first).max(0.0) as usize).map(|at| (first + at as f64) * step + 0.0);
    values.map(|value| (value, if value == 0.0 { "0".into() } else { text(value) })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    fn curve(name: &str, weights: &[f64]) -> NamedShape {
        super::super::example(name, vec![[20.0, 1.0], [60.0, 3.0]], [0.0, 0.0], [18.0, 93.0], weights)
    }

    /// Heights of every line that is drawn, from its highest to its lowest point.
    fn heights(svg: &str) -> Vec<f64> {
        let lines = svg.split("<polyline points=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        lines
            .map(|points| {
                let y = || points.split(' ').map(|point| point.split_once(',').unwrap().1.parse::<f64>().unwrap());
                y().fold(f64::MIN, f64::max) - y().fold(f64::MAX, f64::min)
            })
            .collect()
    }

    fn about<'a>(outputs: &'a [String], importance: &'a [(f64, Vec<f64>)]) -> About<'a> {
        About { dataset: "set", outputs, importance: Some(importance), measured: "to a logit of the test nodes".into() }
    }

    #[test]
    fn pictures_of_a_row_have_one_scale_and_their_importance() {
        let outputs = ["yes".to_string()];
        let curves = [curve("small", &[0.5]), curve("large", &[2.0])];
        let importance = [(0.125, vec![0.125]), (0.5, vec![0.5])];
        let (svg, shown, _) = svg(&curves, &about(&outputs, &importance));
        assert_eq!(shown, 2);
        // Effects from -w to w: by the more important one first, four times as high.
        let heights = heights(&svg);
        assert!((heights[0] - HEIGHT).abs() < 0.02 && (heights[0] / heights[1] - 4.0).abs() < 0.01, "{heights:?}");
        assert!(svg.find(">large<").unwrap() < svg.find(">small<").unwrap());
        for text in [">importance 0.5000<", ">importance 0.1250<", ">-2<", ">-1<", ">0<", ">1<", ">2<", ">20<", ">80<"]
        {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
        assert_eq!(svg.matches(">-2<").count(), 1, "one scale");
        assert_eq!(svg.matches(">20<").count(), 2, "values below each picture");
    }

    #[test]
    fn of_several_outputs_each_has_a_picture_on_the_scale_of_its_feature() {
        let outputs = ["a", "b & c"].map(String::from);
        let curves = [curve("age", &[1.0, -0.25]), curve("flat", &[0.0, 0.0])];
        let importance = [(0.3, vec![0.4, 0.2]), (0.0, vec![0.0, 0.0])];
        let (svg, ..) = svg(&curves, &about(&outputs, &importance));
        let heights = heights(&svg);
        assert_eq!(heights.len(), 4);
        assert!((heights[0] / heights[1] - 4.0).abs() < 0.01 && heights[2] == 0.0, "{heights:?}");
        for text in [">age: a<", ">age: b &amp; c<", ">importance 0.4000<", ">importance 0.2000<", ">-0.5<", ">0.5<"] {
            assert!(svg.contains(text), "no {text} in {svg}");
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        let texts = |low, high| ticks(low, high, 5).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(-0.31, 0.29), ["-0.2", "0", "0.2"]);
        assert_eq!(texts(0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(18.0, 93.0), ["20", "40", "60", "80"]);
        assert_eq!(texts(0.0, 3e6), ["0", "1.0e6", "2.0e6", "3.0e6"]);
        for (low, high) in [(1.0, 1.0 + 1e-16), (0.0, f64::INFINITY), (1e300, 2e300), (-1e-300, 1e-300)] {
            let all = ticks(low, high, 5);
            assert!((1..=11).contains(&all.len()), "{low} {high}: {all:?}");
        }
    }
}
