//! The drawing itself.

use std::fmt::Write;

use super::labels::{DISTANCE, spread};
use super::scale::{BOTTOM, LEFT, RIGHT, Scale, TOP};
use super::{Chart, Series};
use crate::bench::size::shown;

const WIDTH: f64 = 1040.0;
/// The least distance of two sizes' labels.
const BETWEEN_SIZES: f64 = 56.0;
/// Below the axis.
const MARGIN: f64 = 60.0;
const STYLE: &str = "text{font:12px sans-serif;fill:#222}.title{font-size:16px;font-weight:bold}\
    .grid{stroke:#ddd}.one{stroke:#222;stroke-dasharray:2 3}.line{fill:none;stroke-width:2}\
    .lead{stroke:#999;stroke-width:.5}";
/// Told apart in the common kinds of colour blindness, and dark enough on white.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#007a5a", "#a8327d", "#7a5c00", "#444444"];
const DASHES: [&str; 4] = ["none", "7 3", "2 3", "10 3 2 3"];

pub(super) fn drawing(chart: &Chart) -> String {
    let scale = Scale::of(chart.series.iter().flat_map(|series| series.points.iter().copied()));
    let ends: Vec<f64> = chart.series.iter().map(|series| end(&scale, series)).collect();
    let needed = TOP + DISTANCE * chart.series.len() as f64;
    let places = spread(&ends, TOP, BOTTOM.max(needed));
    let height = BOTTOM.max(needed) + MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\">\n<title>Speedup of the compressed AllReduce over size</title>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    write(&mut text, "title", LEFT, 26.0, "start", "Compressed AllReduce: speedup over the vendor's own");
    write(&mut text, "subtitle", LEFT, 46.0, "start", &chart.subtitle);
    axes(&mut text, &scale);
    for (index, (series, place)) in chart.series.iter().zip(places).enumerate() {
        line(&mut text, &scale, series, index, place);
    }
    text.push_str("</svg>\n");
    text
}

/// The height at which a series ends.
fn end(scale: &Scale, series: &Series) -> f64 {
    series.points.iter().max_by_key(|(bytes, _)| *bytes).map_or(BOTTOM, |(_, speedup)| scale.y(*speedup))
}

fn axes(text: &mut String, scale: &Scale) {
    for tick in scale.ticks() {
        let y = scale.y(tick);
        stroke(text, "grid", (LEFT, y), (RIGHT, y));
        write(text, "tick", LEFT - 8.0, y + 4.0, "end", &format!("{tick}x"));
    }
    let mut free_from = LEFT;
    for bytes in &scale.sizes {
        let x = scale.x(*bytes);
        stroke(text, "grid", (x, TOP), (x, BOTTOM));
        if x >= free_from {
            write(text, "tick", x, BOTTOM + 18.0, "middle", &shown(*bytes));
            free_from = x + BETWEEN_SIZES;
        }
    }
    let one = scale.y(1.0);
    stroke(text, "one", (LEFT, one), (RIGHT, one));
    write(text, "note", LEFT + 4.0, one - 4.0, "start", "as fast as the vendor");
    write(
        text,
        "axis",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 40.0,
        "middle",
        "size of the tensor (log scale)",
    );
}

fn line(text: &mut String, scale: &Scale, series: &Series, index: usize, label: f64) {
    let mut points = series.points.clone();
    points.sort_by_key(|(bytes, _)| *bytes);
    let places: Vec<(f64, f64)> =
        points.iter().map(|(bytes, speedup)| (scale.x(*bytes), scale.y(*speedup))).collect();
    let Some(last) = places.last().copied() else { return };
    let (colour, dashes) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        text,
        "<polyline class=\"line\" points=\"{}\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\"/>",
        path.join(" ")
    );
    for ((x, y), (bytes, speedup)) in places.iter().zip(&points) {
        let told = format!("{}: {} {speedup:.2}x", escaped(&series.name), shown(*bytes));
        let _ = writeln!(text, "<g fill=\"{colour}\"><title>{told}</title>{}</g>", marker(index, *x, *y));
    }
    stroke(text, "lead", last, (RIGHT + 14.0, label));
    let _ = writeln!(text, "<g fill=\"{colour}\">{}</g>", marker(index, RIGHT + 20.0, label));
    let speedup = points.last().map_or(0.0, |(_, speedup)| *speedup);
    write(text, "label", RIGHT + 30.0, label + 4.0, "start", &series.name);
    write(text, "value", WIDTH - 10.0, label + 4.0, "end", &format!("{speedup:.2}x"));
}

/// A circle, square, triangle or diamond.
fn marker(index: usize, x: f64, y: f64) -> String {
    let corners = |corners: &[(f64, f64)]| {
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        format!("<polygon points=\"{}\"/>", corners.join(" "))
    };
    match index % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => corners(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
        2 => corners(&[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)]),
        _ => corners(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
    }
}

fn stroke(text: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        text,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn write(text: &mut String, class: &str, x: f64, y: f64, anchor: &str, said: &str) {
    let said = escaped(said);
    let _ = writeln!(
        text,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{said}</text>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
