//! Takes out of a bundle's texts what is nobody's business: names of hosts, users and jobs, addresses, and paths in
//! home folders. It works on plain text and on JSON values; what is put into a bundle at all is decided elsewhere.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

/// What stands in the place of a path in a home folder.
const IN_A_HOME: &str = "~/…";

/// Fields whose whole value is a name.
const NAME_FIELDS: [&str; 6] = ["job", "label", "node", "user", "pod", "host"];

/// Parts of paths that mean a home wherever the homes of a cluster are.
const HOME_PARTS: [&str; 3] = ["/home/", "/users/", "/homes/"];

#[derive(Debug, Default)]
pub(super) struct Names {
    /// Name and stand-in, the longest first, so that a full host name goes before its short form.
    known: Vec<(String, String)>,
    homes: Vec<String>,
    is_kept: bool,
}

impl Names {
    pub(super) fn of_this_machine(is_kept: bool) -> Self {
        let mut names = Self { is_kept, ..Self::default() };
        for home in [std::env::var("HOME").ok(), own_home(), Some("/root".to_owned())].into_iter().flatten() {
            names.learn_home(&home);
        }
        if let Some(host) = host_name() {
            let short = host.split('.').next().unwrap_or_default().to_owned();
            names.known.push((host, "host-0".to_owned()));
            names.known.push((short, "host-0".to_owned()));
        }
        names
    }

    /// A name that is to be replaced by `KIND-N`. Numbers are ids, not names, and `root` is everybody's.
    pub(super) fn learn(&mut self, kind: &str, name: &str) {
        let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_number || name == "root" || self.known.iter().any(|(known, _)| known == name) {
            return;
        }
        let count = self.known.iter().filter(|(_, shown)| shown.starts_with(&format!("{kind}-"))).count();
        self.known.push((name.to_owned(), format!("{kind}-{}", count + 1)));
    }

    fn learn_home(&mut self, home: &str) {
        let home = home.trim_end_matches('/');
        if home.starts_with('/') && !self.homes.iter().any(|known| known == home) {
            self.homes.push(home.to_owned());
        }
    }

    /// Every text in the value; the names of fields are ours.
    pub(super) fn clean(&self, value: &mut Value) {
        self.clean_field(None, value);
    }

    /// The value of a field of this name.
    pub(super) fn clean_field(&self, field: Option<&str>, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.cleaned_value(field, text),
            Value::Array(all) => all.iter_mut().for_each(|one| self.clean_field(field, one)),
            Value::Object(fields) => {
                fields.iter_mut().for_each(|(name, one)| self.clean_field(Some(name), one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn cleaned_value(&self, field: Option<&str>, text: &str) -> String {
        if text.starts_with('/') && self.is_in_a_home(text) {
            return IN_A_HOME.to_owned();
        }
        // A word alone is one of ours, as `vendor`, even where a job has the same name.
        let is_word = !text.contains([' ', '.', '/', ':', '=']) && !self.is_host(text);
        match field.is_some_and(|field| NAME_FIELDS.contains(&field)) || !is_word {
            true => self.cleaned(text),
            false => text.to_owned(),
        }
    }

    fn is_host(&self, text: &str) -> bool {
        self.known.iter().any(|(name, shown)| name == text && shown.starts_with("host-"))
    }

    /// A text for people.
    pub(super) fn cleaned(&self, text: &str) -> String {
        let text = self.without_home_paths(text);
        if self.is_kept {
            return text;
        }
        let mut known: Vec<&(String, String)> =
            self.known.iter().filter(|(name, _)| !name.is_empty()).collect();
        known.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let text = known.into_iter().fold(text, |text, (name, shown)| replaced_words(&text, name, shown));
        without_addresses(&text)
    }

    fn is_in_a_home(&self, path: &str) -> bool {
        let lower = path.to_ascii_lowercase();
        let is_below = |home: &String| {
            path.strip_prefix(home.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        HOME_PARTS.iter().any(|part| lower.contains(part)) || self.homes.iter().any(is_below)
    }

    fn without_home_paths(&self, text: &str) -> String {
        let mut cleaned = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('/') {
            let (before, from) = rest.split_at(start);
            let ends = |c: char| c.is_whitespace() || "\"'`,;()[]{}<>=|:".contains(c);
            let (path, after) = from.split_at(from.find(ends).unwrap_or(from.len()));
            cleaned.push_str(before);
            let is_path = !before.ends_with(|c: char| c.is_alphanumeric());
            cleaned.push_str(if is_path && self.is_in_a_home(path) { IN_A_HOME } else { path });
            rest = after;
        }
        cleaned + rest
    }
}

/// Each occurrence of the name that is a word of its own.
fn replaced_words(text: &str, name: &str, by: &str) -> String {
    let is_inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(name) {
        let (before, from) = rest.split_at(start);
        let after = &from[name.len()..];
        let before_it = before.chars().next_back().or(replaced.chars().next_back().filter(|_| start == 0));
        let is_word = !before_it.is_some_and(is_inside) && !after.starts_with(is_inside);
        replaced.push_str(before);
        replaced.push_str(if is_word { by } else { name });
        rest = after;
    }
    replaced + rest
}

/// Addresses of machines; those of every machine stay.
fn without_addresses(text: &str) -> String {
    let may_be = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']');
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c| !may_be(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        let starts_a_word = !cleaned.ends_with(char::is_alphanumeric);
        let ends_a_word = !after.starts_with(char::is_alphanumeric);
        cleaned.push_str(&if starts_a_word && ends_a_word { without_address(word) } else { word.to_owned() });
        let next = after.chars().next().map_or(0, char::len_utf8);
        cleaned.push_str(&after[..next]);
        rest = &after[next..];
    }
    cleaned
}

fn without_address(word: &str) -> String {
    let core = word.trim_end_matches(['.', ':']);
    let tail = &word[core.len()..];
    let is_everybodys = |address: &IpAddr| address.is_loopback() || address.is_unspecified();
    if let Ok(address) = core.parse::<SocketAddr>() {
        return match is_everybodys(&address.ip()) {
            true => word.to_owned(),
            false => format!("(address):{}{tail}", address.port()),
        };
    }
    match core.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) if !is_everybodys(&address) => format!("(address){tail}"),
        _ => word.to_owned(),
    }
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty() && name != "localhost")
}

/// The user's home as the system knows it; HOME may say something else.
fn own_home() -> Option<String> {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let own = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut own = own.filter(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user));
    own.next()?.get(5).map(|home| (*home).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names() -> Names {
        let mut names = Names::default();
        names.known.push(("gpu07.cluster.example".into(), "host-0".into()));
        names.known.push(("gpu07".into(), "host-0".into()));
        names.learn("job", "llama");
        names.learn("user", "anna");
        names.learn_home("/gpfs/a/anna/");
        names
    }

    #[test]
    fn names_are_replaced_where_they_are_words() {
        let text = "gpu07: rank 3 of llama on gpu07.cluster.example, not llamas or gpu07-x (anna)";
        assert_eq!(
            names().cleaned(text),
            "host-0: rank 3 of job-1 on host-0, not llamas or gpu07-x (user-1)"
        );
    }

    #[test]
    fn numbers_and_root_are_no_names() {
        let mut names = names();
        names.learn("job", "4711");
        names.learn("user", "root");
        assert_eq!(names.cleaned("job 4711 of root"), "job 4711 of root");
    }

    #[test]
    fn paths_in_homes_go_whole_and_others_stay() {
        let names = names();
        assert_eq!(names.cleaned("see /gpfs/a/anna/x/y.log: no"), "see ~/…: no");
        assert_eq!(
            names.cleaned("/usr/lib/libnccl.so.2 and \"/home/bob/a\""),
            "/usr/lib/libnccl.so.2 and \"~/…\""
        );
        assert_eq!(names.cleaned("/gpfs/a/annabel and and/or"), "/gpfs/a/annabel and and/or");
        let mut value = json!({ "path": "/gpfs/a/anna/my secret project/x" });
        names.clean(&mut value);
        assert_eq!(value["path"], "~/…");
    }

    #[test]
    fn addresses_go_and_loopback_and_versions_stay() {
        let names = names();
        let text =
            "rank 1 at 10.1.2.3:4242, [fe80::1]:80, fe80::2, 127.0.0.1:9090, ::1, NCCL 2.28.9, 12:30:01.";
        let expected =
            "rank 1 at (address):4242, (address):80, (address), 127.0.0.1:9090, ::1, NCCL 2.28.9, 12:30:01.";
        assert_eq!(names.cleaned(text), expected);
    }

    #[test]
    fn a_job_that_is_called_like_a_word_of_ours_changes_only_names_and_sentences() {
        let mut names = names();
        names.learn("job", "vendor");
        let mut value =
            json!({ "label": "vendor#2", "job": "vendor", "path": "vendor", "text": "job vendor ended" });
        names.clean(&mut value);
        let expected =
            json!({ "label": "job-2#2", "job": "job-2", "path": "vendor", "text": "job job-2 ended" });
        assert_eq!(value, expected);
    }

    #[test]
    fn names_that_are_kept_are_kept_and_homes_go_all_the_same() {
        let names = Names { is_kept: true, ..names() };
        assert_eq!(names.cleaned("gpu07 10.0.0.1 /home/anna/x"), "gpu07 10.0.0.1 ~/…");
    }
}
