//! The loop of the live view: looks, draws, and waits for a key, a signal or the next look.

use std::io;
use std::time::{Duration, Instant};

use airamp_observer::view::Node;
use ratatui::crossterm::event::{self, Event};

use super::draw::{self, Manner};
use super::keys::{Asked, Shown};
use super::screen::{self, Screen};
use crate::observe::Which;

/// How long a signal may wait until it is seen.
const NAP: Duration = Duration::from_millis(200);

pub(super) fn run(which: &Which, every: Duration) -> io::Result<u8> {
    let mut observer = which.observer();
    let mut node = which.of(observer.look());
    let manner = Manner { has_colour: has_colour(), every_s: every.as_secs_f64() };
    let mut shown = Shown::new();
    let mut screen = Screen::take()?;
    let mut next = Instant::now() + every;
    let mut is_new = true;
    loop {
        if let Some(signal) = screen::asked_to_end() {
            return Ok(128 + u8::try_from(signal).unwrap_or_default());
        }
        if Instant::now() >= next {
            next = Instant::now() + every;
            if !shown.is_paused {
                node = which.of(observer.look());
                is_new = true;
            }
        }
        if is_new {
            screen.terminal.draw(|frame| draw::draw(frame, &node, which, &mut shown, manner))?;
            panic_for_the_tests();
        }
        let nap = next.saturating_duration_since(Instant::now()).min(NAP);
        is_new = match after_a_nap(nap, &mut shown, &node, screen.terminal.size()?.height)? {
            Asked::Nothing => false,
            Asked::Redraw => true,
            Asked::Leave => return Ok(0),
            Asked::Stop => {
                screen.stop_for_a_while()?;
                true
            }
        };
    }
}

fn after_a_nap(nap: Duration, shown: &mut Shown, node: &Node, height: u16) -> io::Result<Asked> {
    if !event::poll(nap)? {
        return Ok(Asked::Nothing);
    }
    let jobs: Vec<String> = node.jobs.iter().map(|job| job.label.clone()).collect();
    Ok(match event::read()? {
        Event::Key(key) => shown.press(key, &jobs, draw::page(height)),
        Event::Resize(_, _) => Asked::Redraw,
        _ => Asked::Nothing,
    })
}

/// Whoever looks must find the terminal as it was also then.
fn panic_for_the_tests() {
    if std::env::var("AIRAMP_INJECT_PANIC").is_ok_and(|place| place == "status") {
        panic!("asked for by AIRAMP_INJECT_PANIC");
    }
}

/// As <https://no-color.org> asks.
fn has_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
