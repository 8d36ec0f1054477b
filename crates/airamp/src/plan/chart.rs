//! The gain over the link's speed as SVG: a line for each kind of message, the user's own speed, the line at which
//! compression stops to pay, and the speeds that were measured. Colours follow the reader's light or dark scheme; lines are
//! told apart by dashes and labels too.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use airamp_plan::{Cluster, Fit, Message, adapted, gain_at, shown_size};

use super::report::rounded;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 870.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 430.0;
const LEGEND: f64 = 500.0;
const LINE_HEIGHT: f64 = 20.0;
const MOST_LINES: usize = 8;
const POINTS: i32 = 120;
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "10 3 2 3"];

const STYLE: &str = "\
svg{--back:#fff;--text:#1b1b1b;--faint:#6b6b6b;--grid:#dcdcdc;--band:#eef3f8;\
--c0:#0072b2;--c1:#c04a00;--c2:#007a5a;--c3:#a8327d;background:var(--back)}\
@media(prefers-color-scheme:dark){svg{--back:#16181b;--text:#ececec;--faint:#a0a0a0;--grid:#3a3d42;--band:#20262d;\
--c0:#6cb8ee;--c1:#ff9a57;--c2:#4fd0a5;--c3:#ea86c4}}\
text{font:13px system-ui,sans-serif;fill:var(--text)}.title{font-size:17px;font-weight:600}.faint{fill:var(--faint)}\
.grid{stroke:var(--grid)}.one{stroke:var(--text);stroke-width:1.5}.limit{stroke:var(--faint);stroke-dasharray:4 3}\
.here{stroke:var(--text);stroke-width:2}.band{fill:var(--band)}.line{fill:none;stroke-width:2.5}";

/// The place of a chart, if one can be written there.
pub(super) fn place(text: &str) -> Result<PathBuf, String> {
    let place = PathBuf::from(text);
    if place.extension().is_none_or(|extension| extension != "svg") {
        return Err("expected a file name that ends in .svg".into());
    }
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() { Ok(place) } else { Err(format!("there is no folder {}", folder.display())) }
}

struct Line {
    name: String,
    here: Option<f64>,
    points: Vec<(f64, f64)>,
}

struct Scale {
    slowest: f64,
    fastest: f64,
    highest: f64,
}

impl Scale {
    fn x(&self, gbps: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (gbps / self.slowest).ln() / (self.fastest / self.slowest).ln()
    }

    fn y(&self, gain: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * gain / self.highest
    }
}

/// The link that most bytes of the step depend on, and the messages that depend on it.
fn axis(cluster: &Cluster) -> (&'static str, f64) {
    let weight = |message: &&Message| (message.bytes as f64 * message.per_step) as u64;
    cluster.messages.iter().max_by_key(weight).map_or(("nic", 1.0), |message| cluster.axis(message.among))
}

pub(super) fn drawing(cluster: &Cluster, fit: &Fit, name: &str) -> String {
    let fit = &adapted(cluster, fit);
    let (link, here) = axis(cluster);
    let mut scale =
        Scale { slowest: decade(here / 30.0).min(1.0), fastest: decade(here * 30.0) * 10.0, highest: 1.5 };
    let lines = lines(cluster, fit, link, &scale);
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, gain)| *gain).fold(1.0, f64::max);
    scale.highest = (highest * 2.0).ceil() / 2.0 + 0.5;
    let height = LEGEND + LINE_HEIGHT * lines.len() as f64 + 20.0;
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} \
         {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>Gain of compression over the speed of \
         the link</title>\n<style>{STYLE}</style>\n"
    );
    say(
        &mut text,
        "title",
        (LEFT, 28.0),
        "start",
        "Predicted gain of the compressed AllReduce over link speed",
    );
    let title = cluster.file.name.as_deref().unwrap_or(name);
    say(&mut text, "faint", (LEFT, 50.0), "start", &format!("{title}; fit: {}", fit.source));
    measured_band(&mut text, &scale, fit);
    axes(&mut text, &scale, link, cluster.min_speedup);
    for (index, line) in lines.iter().enumerate() {
        draw(&mut text, &scale, line, index);
    }
    stroke(&mut text, "here", (scale.x(here), TOP), (scale.x(here), BOTTOM));
    let said = format!("yours: {} Gbit/s", rounded(here));
    say(&mut text, "", (scale.x(here), TOP - 8.0), "middle", &said);
    text.push_str("</svg>\n");
    text
}

/// The power of ten at or below.
fn decade(value: f64) -> f64 {
    10_f64.powf(value.max(1e-3).log10().floor())
}

fn lines(cluster: &Cluster, fit: &Fit, link: &str, scale: &Scale) -> Vec<Line> {
    let here = |message: &Message| gain_at(cluster, fit, message, cluster.axis(message.among).1);
    let points = |message: &Message| -> Vec<(f64, f64)> {
        let speed =
            |at: i32| scale.slowest * (scale.fastest / scale.slowest).powf(f64::from(at) / f64::from(POINTS));
        let gain = |gbps: f64| Some((gbps, gain_at(cluster, fit, message, gbps)?));
        (0..=POINTS).map(speed).filter_map(gain).collect()
    };
    let those = cluster.messages.iter().filter(|message| cluster.axis(message.among).0 == link);
    let line = |message: &Message| Line {
        name: format!(
            "{} {}, {} ranks",
            message.datatype,
            shown_size(message.bytes),
            cluster.ranks(message.among)
        ),
        here: here(message),
        points: points(message),
    };
    those.map(line).filter(|line| !line.points.is_empty()).take(MOST_LINES).collect()
}

fn measured_band(text: &mut String, scale: &Scale, fit: &Fit) {
    let Some([least, most]) = fit.scope.gbps else { return };
    let (from, to) = (scale.x(least).clamp(LEFT, RIGHT), scale.x(most).clamp(LEFT, RIGHT));
    let _ = writeln!(
        text,
        "<rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"><title>measured</title></rect>",
        (to - from).max(2.0),
        BOTTOM - TOP
    );
    say(text, "faint", (from + 4.0, BOTTOM - 6.0), "start", "measured");
}

/// From one line of the grid to the next.
fn gain_step(highest: f64) -> f64 {
    match highest {
        ..=3.0 => 0.5,
        ..=20.0 => 1.0,
        _ => decade(highest),
    }
}

fn axes(text: &mut String, scale: &Scale, link: &str, min_speedup: f64) {
    let mut gain = 0.0;
    while gain <= scale.highest {
        stroke(text, if gain == 1.0 { "one" } else { "grid" }, (LEFT, scale.y(gain)), (RIGHT, scale.y(gain)));
        say(text, "faint", (LEFT - 8.0, scale.y(gain) + 4.0), "end", &format!("{gain}x"));
        gain += gain_step(scale.highest);
    }
    let limit = scale.y(min_speedup);
    stroke(text, "limit", (LEFT, limit), (RIGHT, limit));
    say(text, "faint", (RIGHT, limit - 5.0), "end", &format!("pays above {min_speedup}x"));
    let mut gbps = scale.slowest;
    while gbps <= scale.fastest * 1.001 {
        stroke(text, "grid", (scale.x(gbps), TOP), (scale.x(gbps), BOTTOM));
        say(
            text,
            "faint",
            (scale.x(gbps), BOTTOM + 18.0),
            "middle",
            &format!("{}", (gbps * 1e3).round() / 1e3),
        );
        gbps *= 10.0;
    }
    let name = if link == "nic" { "speed of each NIC" } else { "speed of each GPU's link" };
    say(
        text,
        "",
        (f64::midpoint(LEFT, RIGHT), BOTTOM + 40.0),
        "middle",
        &format!("{name}, Gbit/s (log scale)"),
    );
}

fn draw(text: &mut String, scale: &Scale, line: &Line, index: usize) {
    let points: Vec<String> = line
        .points
        .iter()
        .map(|(gbps, gain)| format!("{:.1},{:.1}", scale.x(*gbps), scale.y(*gain)))
        .collect();
    let how =
        format!("stroke:var(--c{})\" stroke-dasharray=\"{}", index % 4, DASHES[(index + index / 4) % 4]);
    let name = escaped(&line.name);
    let _ = writeln!(
        text,
        "<polyline class=\"line\" style=\"{how}\" points=\"{}\"><title>{name}</title></polyline>",
        points.join(" ")
    );
    let y = LEGEND + LINE_HEIGHT * index as f64;
    let _ = writeln!(
        text,
        "<line class=\"line\" style=\"{how}\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
        LEFT + 40.0
    );
    let here = line.here.map_or(String::new(), |gain| format!(": {gain:.2}x here"));
    say(text, "", (LEFT + 50.0, y + 4.0), "start", &format!("{}{here}", line.name));
}

fn stroke(text: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(
        text,
        "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

fn say(text: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, said: &str) {
    let said = escaped(said);
    let _ = writeln!(
        text,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{said}</text>"
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_gain_has_few_lines() {
        assert_eq!([2.0, 3.0, 3.5, 20.0, 20.5, 1737.0].map(gain_step), [0.5, 0.5, 1.0, 1.0, 10.0, 1000.0]);
        for highest in [1.5, 20.0, 99.5, 1e6, 1e15] {
            assert!(highest / gain_step(highest) <= 20.0, "{highest}");
        }
    }
}
