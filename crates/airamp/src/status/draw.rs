//! The live view on a screen of any size: three lines about node, sections and job, the chosen section, and the
//! keys. It changes nothing but how far the section is scrolled, which cannot be further than its end.

use airamp_observer::view::{Job, Node};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use super::keys::{HELP, Section, Shown};
use super::plain;
use super::quantities::seconds;
use super::sections;
use super::table::{Line, Tone, cut, wide, wrapped};
use crate::observe::Which;

/// Lines above the section: node, sections, job, and one that is empty.
const ABOVE: usize = 4;
const BELOW: usize = 1;

/// How the view is drawn, whatever it shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) has_colour: bool,
    pub(super) every_s: f64,
}

/// How many lines of a section are seen at once.
pub(super) fn page(height: u16) -> usize {
    usize::from(height).saturating_sub(ABOVE + BELOW).max(1)
}

pub(super) fn draw(frame: &mut Frame<'_>, node: &Node, which: &Which, shown: &mut Shown, manner: Manner) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let keys: Vec<String> = node.jobs.iter().map(|job| job.label.clone()).collect();
    let place = shown.place(&keys);
    let job = node.jobs.get(place);
    let body = body(node, which, job, shown, width);
    let room = page(area.height);
    shown.scroll = shown.scroll.min(body.len().saturating_sub(room));
    let mut lines = vec![Line::new(Tone::Heading, node_line(node, shown, manner, width))];
    lines.push(Line::plain(""));
    lines.push(Line::new(Tone::Heading, job.map(|job| job_line(job, place, keys.len())).unwrap_or_default()));
    lines.push(Line::plain(""));
    lines.extend(body.into_iter().skip(shown.scroll).take(room));
    lines.truncate(height.saturating_sub(BELOW));
    let buffer = frame.buffer_mut();
    for (row, line) in lines.iter().enumerate() {
        put(buffer, row, &cut(&line.text, width), style(line.tone, manner.has_colour));
    }
    if height > ABOVE {
        section_line(buffer, shown.section, width);
    }
    if height > BELOW {
        let footer = cut("q leave   1-6 Tab section   n b job   arrows scroll   space hold   ? help", width);
        put(buffer, height - 1, &footer, style(Tone::Quiet, manner.has_colour));
    }
}

fn body(node: &Node, which: &Which, job: Option<&Job>, shown: &Shown, width: usize) -> Vec<Line> {
    if shown.is_help {
        return HELP.iter().map(|line| Line::plain(*line)).collect();
    }
    match job {
        Some(job) => sections::of(shown.section, node, job, width),
        None => wrapped(&which.nothing_found(node), width).into_iter().map(Line::plain).collect(),
    }
}

fn node_line(node: &Node, shown: &Shown, manner: Manner, width: usize) -> String {
    let left = plain::heading(node);
    let right =
        if shown.is_paused { "held".to_owned() } else { format!("every {}", seconds(manner.every_s)) };
    let room = width.saturating_sub(wide(&right) + 1);
    let left = cut(&left, room);
    format!("{left}{}{right}", " ".repeat(width.saturating_sub(wide(&left) + wide(&right))))
}

fn job_line(job: &Job, place: usize, jobs: usize) -> String {
    let which = if jobs > 1 { format!("[{} of {jobs}] ", place + 1) } else { String::new() };
    format!("{which}{}", plain::about(job))
}

/// The chosen one is reversed, and has brackets too: not every terminal shows the first.
fn section_line(buffer: &mut Buffer, chosen: Section, width: usize) {
    let mut column = 0;
    for (place, section) in Section::ALL.into_iter().enumerate() {
        let is_chosen = section == chosen;
        let name = format!("{} {}", place + 1, section.name());
        let text = if is_chosen { format!("[{name}]") } else { format!(" {name} ") };
        if column + wide(&text) > width {
            return;
        }
        let style = if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        put_at(buffer, column, 1, &text, style);
        column += wide(&text);
    }
}

fn put(buffer: &mut Buffer, row: usize, text: &str, style: Style) {
    put_at(buffer, 0, row, text, style);
}

/// What lies outside of the screen is not drawn.
fn put_at(buffer: &mut Buffer, column: usize, row: usize, text: &str, style: Style) {
    let (Ok(x), Ok(y)) = (u16::try_from(column), u16::try_from(row)) else { return };
    let area = buffer.area;
    if x < area.width && y < area.height {
        buffer.set_stringn(area.x + x, area.y + y, text, usize::from(area.width - x), style);
    }
}

fn style(tone: Tone, has_colour: bool) -> Style {
    let style = match tone {
        Tone::Plain | Tone::Good => Style::new(),
        Tone::Heading | Tone::Warning | Tone::Bad => Style::new().add_modifier(Modifier::BOLD),
        Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
    };
    match tone {
        _ if !has_colour => style,
        Tone::Good => style.fg(Color::Green),
        Tone::Warning => style.fg(Color::Yellow),
        Tone::Bad => style.fg(Color::Red),
        Tone::Plain | Tone::Heading | Tone::Quiet => style,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(width: u16, height: u16, shown: &mut Shown, has_colour: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let manner = Manner { has_colour, every_s: 1.0 };
        let node = Node::example();
        terminal.draw(|frame| draw(frame, &node, &Which::default(), shown, manner)).expect("drawn");
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let width = usize::from(buffer.area.width);
        let cells: Vec<&str> = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        cells.chunks(width).map(|row| row.concat() + "\n").collect()
    }

    #[test]
    fn at_eighty_by_twenty_four_the_job_its_finding_and_the_keys_are_there() {
        let text = text(&screen(80, 24, &mut Shown::new(), true));
        for part in [
            "[1 overview]",
            " 6 events",
            "[1 of 2] job 4711 (slurm)",
            "! late rank",
            "Rank 3",
            "bound by",
            "q leave",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn every_size_of_a_screen_is_borne() {
        for (width, height) in [(1, 1), (2, 40), (300, 1), (80, 5), (20, 10), (360, 120)] {
            for section in Section::ALL {
                let mut shown = Shown { section, scroll: usize::MAX, ..Shown::new() };
                screen(width, height, &mut shown, false);
                assert!(shown.scroll < 1000, "scrolled no further than the end");
            }
        }
    }

    #[test]
    fn without_colour_there_is_none() {
        let is_coloured = |has_colour| {
            let buffer = screen(80, 24, &mut Shown::new(), has_colour);
            buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(is_coloured(true) && !is_coloured(false));
    }

    #[test]
    fn the_chosen_job_and_section_are_shown_and_the_help_too() {
        let label = Node::example().jobs[1].label.clone();
        let mut shown = Shown { section: Section::Calls, job: Some(label), ..Shown::new() };
        let seen = text(&screen(100, 30, &mut shown, false));
        assert!(seen.contains("[5 calls]") && seen.contains("[2 of 2]"), "{seen}");
        shown.is_help = true;
        assert!(text(&screen(100, 30, &mut shown, false)).contains("choose the section"));
    }
}
