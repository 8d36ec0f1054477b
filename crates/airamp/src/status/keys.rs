//! What the live view shows and what a key changes in it: the job, the section, how far it is scrolled. It draws
//! nothing and reads nothing.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Overview,
    Ranks,
    Communicators,
    Classes,
    Calls,
    Events,
}

impl Section {
    pub(super) const ALL: [Self; 6] =
        [Self::Overview, Self::Ranks, Self::Communicators, Self::Classes, Self::Calls, Self::Events];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Ranks => "ranks",
            Self::Communicators => "communicators",
            Self::Classes => "classes",
            Self::Calls => "calls",
            Self::Events => "events",
        }
    }

    fn number(self) -> usize {
        Self::ALL.iter().position(|section| *section == self).unwrap_or(0)
    }

    fn moved(self, by: usize) -> Self {
        Self::ALL[(self.number() + by) % Self::ALL.len()]
    }
}

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Redraw,
    Leave,
    Stop,
}

#[derive(Debug)]
pub(super) struct Shown {
    pub(super) section: Section,
    /// Its label, by which it is found again in the next look.
    pub(super) job: Option<String>,
    /// Lines above the first that is shown.
    pub(super) scroll: usize,
    pub(super) is_help: bool,
    pub(super) is_paused: bool,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self { section: Section::Overview, job: None, scroll: 0, is_help: false, is_paused: false }
    }

    /// The place of the chosen job, or the first where it is gone.
    pub(super) fn place(&self, jobs: &[String]) -> usize {
        self.job.as_ref().and_then(|job| jobs.iter().position(|known| known == job)).unwrap_or(0)
    }

    /// `page`: how many lines of the section are seen at once.
    pub(super) fn press(&mut self, key: KeyEvent, jobs: &[String], page: usize) -> Asked {
        if key.kind == KeyEventKind::Release {
            return Asked::Nothing;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Asked::Leave,
                KeyCode::Char('z') => Asked::Stop,
                KeyCode::Char('l') => Asked::Redraw,
                _ => Asked::Nothing,
            };
        }
        match key.code {
            KeyCode::Char('q') => return Asked::Leave,
            KeyCode::Esc if self.is_help => self.is_help = false,
            KeyCode::Char('?' | 'h') => self.is_help = !self.is_help,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Tab | KeyCode::Right => self.go(self.section.moved(1)),
            KeyCode::BackTab | KeyCode::Left => self.go(self.section.moved(Section::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='6') => {
                let number = digit as usize - '1' as usize;
                self.go(Section::ALL[number]);
            }
            KeyCode::Char('n' | ']') => self.choose(jobs, 1),
            KeyCode::Char('b' | '[') => self.choose(jobs, jobs.len().saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(page),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = usize::MAX,
            _ => return Asked::Nothing,
        }
        Asked::Redraw
    }

    fn go(&mut self, section: Section) {
        (self.section, self.scroll, self.is_help) = (section, 0, false);
    }

    fn choose(&mut self, jobs: &[String], by: usize) {
        if !jobs.is_empty() {
            self.job = jobs.get((self.place(jobs) + by) % jobs.len()).cloned();
            self.scroll = 0;
        }
    }
}

pub(super) const HELP: &[&str] = &[
    "1 … 6, Tab, Shift-Tab   choose the section",
    "n, b                    the next job, the one before",
    "arrows, PgUp, PgDn      scroll; g and G: the beginning, the end",
    "space                   hold what is shown; again: go on",
    "?                       this help, and back",
    "q, Ctrl-C               leave",
    "",
    "overview       what the job's ranks on this machine carry, what bounds the job, what was gained",
    "ranks          each rank's rate, and how late it comes to its calls",
    "communicators  calls issued and completed, what is in flight, what the ranks have agreed on",
    "classes        what was decided for each size of call, with numbers and reason (`airamp explain`)",
    "calls          how many, of which kind, by which path, with how many bytes",
    "events         what happened, newest first",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn jobs() -> Vec<String> {
        ["a", "a#2", "b"].map(str::to_owned).to_vec()
    }

    #[test]
    fn sections_go_round_and_numbers_lead_to_them() {
        let mut shown = Shown::new();
        for section in Section::ALL.into_iter().skip(1).chain([Section::Overview]) {
            shown.press(key(KeyCode::Tab), &[], 10);
            assert_eq!(shown.section, section);
        }
        shown.press(key(KeyCode::BackTab), &[], 10);
        assert_eq!(shown.section, Section::Events);
        shown.press(key(KeyCode::Char('4')), &[], 10);
        assert_eq!(shown.section, Section::Classes);
    }

    #[test]
    fn the_chosen_job_stays_when_others_come_and_go() {
        let mut shown = Shown::new();
        shown.press(key(KeyCode::Char('n')), &jobs(), 10);
        assert_eq!(shown.place(&jobs()), 1);
        let others: Vec<String> = ["0".to_owned()].into_iter().chain(jobs()).collect();
        assert_eq!(shown.place(&others), 2);
        shown.press(key(KeyCode::Char('b')), &jobs(), 10);
        shown.press(key(KeyCode::Char('b')), &jobs(), 10);
        assert_eq!(shown.place(&jobs()), 2);
        assert_eq!(shown.place(&[]), 0, "and where it is gone, the first");
        shown.press(key(KeyCode::Char('n')), &[], 10);
    }

    #[test]
    fn q_and_control_c_leave_and_a_release_does_nothing() {
        let mut shown = Shown::new();
        assert_eq!(shown.press(key(KeyCode::Char('q')), &[], 1), Asked::Leave);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(shown.press(control, &[], 1), Asked::Leave);
        assert_eq!(shown.press(key(KeyCode::Char('x')), &[], 1), Asked::Nothing);
    }
}
