//! What a command says after its options, taken apart: prose, exit codes, examples. The texts are written for `--help`, where
//! they stand one below the other; a man page has a section for each. `commands` calls it.

#[derive(Debug, Default, PartialEq)]
pub(super) struct Epilogue {
    pub(super) prose: Vec<String>,
    /// What holds for all of them, in a sentence of its own.
    pub(super) of_codes: Option<String>,
    pub(super) codes: Vec<(String, String)>,
    pub(super) examples: Vec<String>,
}

impl Epilogue {
    pub(super) fn of(text: &str) -> Self {
        let mut new = Self::default();
        for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
            new.take(paragraph.trim_end());
        }
        new
    }

    fn take(&mut self, paragraph: &str) {
        if let Some((_, lines)) = paragraph.split_once(":\n").filter(|_| paragraph.starts_with("Example")) {
            return self.examples.extend(lines.lines().map(str::to_owned));
        }
        let Some(at) = paragraph.find("Exit code") else {
            return self.prose.push(paragraph.to_owned());
        };
        let (prose, codes) = paragraph.split_at(at);
        if !prose.trim().is_empty() {
            self.prose.push(prose.trim().to_owned());
        }
        let (head, codes) = codes.split_once(": ").unwrap_or((codes, ""));
        if head != "Exit code" {
            self.of_codes = Some(format!("{head}:"));
        }
        self.take_codes(codes);
    }

    /// "0 all is well, 1 not, or not so, 2 wrong arguments."; what comes before the first number is said of them all.
    fn take_codes(&mut self, text: &str) {
        for part in text.trim_end_matches('.').split_inclusive([',', ';']) {
            let bare = part.trim_end_matches([',', ';']).trim();
            match (code(bare), self.codes.last_mut()) {
                (Some((code, meaning)), _) => self.codes.push((code, meaning)),
                (None, Some((_, meaning))) => *meaning += &format!(", {bare}"),
                (None, None) => self.of_codes = Some(format!("{}.", capitalized(bare))),
            }
        }
    }
}

/// "2 wrong arguments", or "128 + signal when ended by one".
fn code(part: &str) -> Option<(String, String)> {
    let (number, meaning) = part.split_once(' ')?;
    number.parse::<u8>().ok()?;
    Some(match meaning.strip_prefix("+ signal ") {
        Some(rest) => (format!("{number} + signal"), rest.to_owned()),
        None => (number.to_owned(), meaning.to_owned()),
    })
}

fn capitalized(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_codes_and_examples_are_told_apart() {
        let text = "Some prose. Exit code: 0 well, 1 not, or not so, 128 + signal when killed.\n\nExamples:\n  one   # 1\n  \
                    two\n\nMore.";
        let pair = |code: &str, meaning: &str| (code.to_owned(), meaning.to_owned());
        let codes = vec![pair("0", "well"), pair("1", "not, or not so"), pair("128 + signal", "when killed")];
        let expected = Epilogue {
            prose: vec!["Some prose.".to_owned(), "More.".to_owned()],
            of_codes: None,
            codes,
            examples: vec!["  one   # 1".to_owned(), "  two".to_owned()],
        };
        assert_eq!(Epilogue::of(text), expected);
    }

    #[test]
    fn what_is_said_of_all_codes_is_kept() {
        let codes = |text: &str| {
            let epilogue = Epilogue::of(text);
            (epilogue.of_codes.unwrap_or_default(), epilogue.codes.len())
        };
        let own =
            "Exit code: the program's own (128 + signal if it was killed); 1 nothing, 2 wrong arguments.";
        assert_eq!(codes(own), ("The program's own (128 + signal if it was killed).".to_owned(), 2));
        let of_airamp = "Exit codes of airamp itself: 2 wrong arguments, 125 airamp failed.";
        assert_eq!(codes(of_airamp), ("Exit codes of airamp itself:".to_owned(), 2));
    }
}
