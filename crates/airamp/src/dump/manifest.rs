//! The first thing that who opens a bundle reads: what is in it, what is not, and how to read it.

use super::archive::Document;

const NAME: &str = "README.txt";
const ABOUT: &str = "this list";

const HEAD: &str = "\
A support bundle of AIRamp-Accel, made by `airamp dump`.

How to read it: begin with versions.json and doctor.json (what kind of machine, what is wrong with it), then node.json
(.findings, .jobs[].bound_by) and explain.txt (why calls are compressed or not). Times are UTC, unix time in
milliseconds where a field ends in _unix_ms; bytes are bytes; what is not known is null.

What is not in it: command lines beyond the programs' names, environment variables other than AIRAMP_* and NCCL_*,
values of such variables that may hold addresses, host names or paths, contents of any file (tokens and keys least of
all), logs, and anything of the data that was sent. Paths in home folders are shown as ~/…
";

const REPLACED: &str = "\
Names of hosts, users, jobs and pods are replaced by host-0, user-1, job-1 and so on, and addresses of machines by
(address); `airamp dump --with-names` keeps them. Job ids that are numbers stay.
";

const KEPT: &str = "Names of hosts, users and jobs and addresses are as they are (--with-names).\n";

pub(super) fn of(documents: &[Document], has_names: bool) -> Document {
    let mut text = format!("{HEAD}\n{}\n", if has_names { KEPT } else { REPLACED });
    for document in documents {
        let cut = match document.left_out {
            0 => String::new(),
            bytes => format!(" (cut: {bytes} bytes are missing at its end)"),
        };
        text.push_str(&format!(
            "{:18} {:>9} bytes  {}{cut}\n",
            document.name,
            document.text.len(),
            document.about
        ));
    }
    Document::new(NAME, ABOUT, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_listed_with_what_it_is() {
        let manifest = of(&[Document::new("a.json", "about a", "x".repeat(7))], false);
        assert!(manifest.text.contains("a.json                     7 bytes  about a\n"), "{}", manifest.text);
        assert!(manifest.text.contains("replaced by host-0"));
        assert!(!of(&[], true).text.contains("replaced by host-0"));
    }
}
