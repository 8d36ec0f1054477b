use std::path::Path;

use airamp_telemetry::{Identity, create};

use super::*;

/// A folder in which files come and go whose process, this one, lives.
struct Place {
    base: tempfile::TempDir,
    template: Vec<u8>,
    made: u64,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        create(Some(base.path()), &Identity::of_this_process("0", 0)).unwrap();
        let folder = folders(Some(base.path())).pop().unwrap();
        let file = folder.path().join(&folder.files()[0]);
        let template = std::fs::read(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        Self { base, template, made: 0 }
    }

    fn folder(&self) -> PathBuf {
        self.found().path().to_path_buf()
    }

    fn found(&self) -> Found {
        folders(Some(self.base.path())).pop().unwrap()
    }

    fn add(&mut self, files: usize) -> Vec<PathBuf> {
        let folder = self.folder();
        let names = (self.made..).take(files).map(|number| folder.join(format!("1-{number:016x}.airamp")));
        let names: Vec<PathBuf> = names.collect();
        self.made += files as u64;
        names.iter().for_each(|name| std::fs::write(name, &self.template).unwrap());
        names
    }
}

fn files(base: &Path, most: Most) -> Files {
    Files { most, longest: Duration::MAX, ..Files::new(vec![base.to_path_buf()]) }
}

fn remove(files: &[PathBuf]) {
    files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

/// The ids of those that are open, which are given in the order of opening, from 1 on.
fn open_ids(files: &Files) -> Vec<u64> {
    let mut ids: Vec<u64> = files.open.values().map(|open| open.id).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn files_that_were_removed_are_read_on_until_their_user_has_too_many_open() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 100, per_user: 5 });
    let mut seen = BTreeSet::new();
    for round in 0..4 {
        let added = place.add(3);
        let look = files.look();
        assert!(files.open.len() <= 5, "{} in round {round}", files.open.len());
        seen.extend(look.readings.iter().map(|reading| reading.id));
        look.lost
            .iter()
            .for_each(|id| assert!(seen.remove(id), "the others hear of everyone who was closed"));
        let open: BTreeSet<u64> = files.open.values().map(|open| open.id).collect();
        assert_eq!((open.len(), &open), (if round == 0 { 3 } else { 5 }, &seen));
        let is_open = |name: &PathBuf| files.open.keys().any(|(folder, own)| folder.join(own) == *name);
        assert!(added.iter().all(is_open), "those with a name come first");
        remove(&added);
        assert_eq!(files.look().readings.len(), files.open.len(), "they are read on");
    }
}

#[test]
fn no_more_files_are_open_than_may_be_in_all() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 4, per_user: 5 });
    place.add(6);
    for _ in 0..2 {
        assert_eq!((files.look().readings.len(), files.open.len()), (4, 4));
    }
}

#[test]
fn no_more_files_of_a_user_are_open_than_one_may_have() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 100, per_user: 4 });
    place.add(6);
    for _ in 0..2 {
        assert_eq!((files.look().readings.len(), files.open.len()), (4, 4));
    }
}

#[test]
fn of_files_that_were_removed_the_oldest_are_closed_first_and_never_one_that_is_there() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 100, per_user: 5 });
    place.add(2);
    files.look();
    let removed = place.add(3);
    files.look();
    remove(&removed);
    place.add(2);
    assert_eq!((files.look().lost, open_ids(&files)), (vec![3, 4], vec![1, 2, 5, 6, 7]));
}

#[test]
fn files_that_were_removed_make_room_also_where_too_many_are_open_in_all() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 4, per_user: 100 });
    let removed = place.add(4);
    files.look();
    remove(&removed);
    place.add(2);
    assert_eq!((files.look().lost, open_ids(&files)), (vec![1, 2], vec![3, 4, 5, 6]));
}

#[test]
fn a_folder_says_nothing_of_files_in_another() {
    let mut places = [Place::new(), Place::new()];
    let bases = places.iter().map(|place| place.base.path().to_path_buf()).collect();
    let most = Most { in_all: 100, per_user: 3 };
    let mut files = Files { most, longest: Duration::MAX, ..Files::new(bases) };
    places[0].add(2);
    files.look();
    let removed = places[1].add(1);
    files.look();
    remove(&removed);
    places[1].add(1);
    assert_eq!((files.look().lost, open_ids(&files)), (vec![3], vec![1, 2, 4]));
}

#[test]
fn a_listing_that_is_not_whole_closes_nothing() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 100, per_user: 2 });
    place.add(2);
    files.look();
    let new = place.add(1)[0].file_name().unwrap().to_str().unwrap().to_owned();
    let mut lost = |is_whole| {
        let mut look = Look::default();
        let listing = Listing { names: vec![new.clone()], is_whole };
        files.open_new(&place.found(), &listing, &mut look);
        (look.lost, open_ids(&files))
    };
    assert_eq!(lost(false), (vec![], vec![1, 2]), "those that it does not name may be there");
    assert_eq!(lost(true), (vec![1], vec![2, 3]));
}

#[test]
fn what_a_look_did_not_come_to_is_first_in_the_next() {
    let mut place = Place::new();
    let mut files = files(place.base.path(), Most { in_all: 100, per_user: 100 });
    let order = |look: Look| look.readings.iter().map(|reading| reading.id).collect::<Vec<u64>>();
    place.add(4);
    assert_eq!(order(files.look()), [1, 2, 3, 4]);
    let keys: Vec<Key> = files.open.keys().cloned().collect();
    (files.longest, files.next) = (Duration::ZERO, Some(keys[2].clone()));
    assert!(order(files.look()).is_empty(), "there was no time");
    assert_eq!(files.next, Some(keys[2].clone()));
    files.longest = Duration::MAX;
    assert_eq!(order(files.look()), [3, 4, 1, 2]);
    assert_eq!(order(files.look()), [1, 2, 3, 4]);
}

#[test]
fn of_files_that_cannot_be_read_all_are_counted_and_some_are_named() {
    let place = Place::new();
    for number in 0..MOST_UNREADABLE_SHOWN + 3 {
        std::fs::write(place.folder().join(format!("1-{number:016x}.airamp")), "short").unwrap();
    }
    let look = files(place.base.path(), MOST_OPEN).look();
    assert_eq!(look.unreadable_count, MOST_UNREADABLE_SHOWN as u64 + 3);
    assert_eq!(look.unreadable.len(), MOST_UNREADABLE_SHOWN);
}

#[test]
fn the_last_calls_of_the_gone_say_what_was_lost_and_are_forgotten_when_nobody_asks() {
    let mut files = Files::new(Vec::new());
    let last = Since { items: Vec::new(), next: 300, lost: 7 };
    files.last_calls.extend([(1, last.clone()), (2, last)]);
    let since =
        |files: &Files, id, cursor| files.calls_since(id, cursor).map(|since| (since.next, since.lost));
    assert_eq!((since(&files, 1, 0), since(&files, 1, 299)), (Some((300, 7)), Some((300, 7))));
    assert_eq!(since(&files, 1, 300), Some((300, 0)), "whoever has read them to the end has lost nothing");
    files.keep_last_calls(|id| id == 2);
    assert_eq!((since(&files, 1, 0), since(&files, 2, 0)), (None, Some((300, 7))));
}

#[test]
fn what_was_read_for_the_last_time_is_forgotten_when_it_is_known_not_to_be_there() {
    let place = Place::new();
    let folder = place.found();
    let mut files = Files::new(Vec::new());
    let mut left = |done: &[&str], is_whole| {
        files.done.insert(place.folder(), done.iter().map(|name| (*name).to_owned()).collect());
        files.forget_done(&folder, &Listing { names: vec!["b".to_owned()], is_whole });
        files.done[&place.folder()].len()
    };
    assert_eq!((left(&["a", "b"], false), left(&["a", "b"], true)), (2, 1));
    let many: Vec<String> = (0..=MOST_DONE).map(|number| format!("b{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!((left(&many[1..], false), left(&many, false)), (MOST_DONE, 0));
}
