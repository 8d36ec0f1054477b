//! Hostile telemetry files seen by the daemon: found, read, added up over several looks, and shown as metrics and as JSON.
//! Nothing panics, each page is one that a scraper takes, and no counter goes backwards.
//! An input is a list of steps. The first byte of a step says which: a look, or a patch of one of two ranks' files, with three
//! bytes of offset, one of length and so many bytes; or a cut of that file.
#![no_main]

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use airamp_observer::view::Node;
use airamp_observer::{Observer, Options};
use airamp_telemetry::{
    AgreementState, CodecCounters, CommunicatorFacts, Datatype, EventKind, Identity, Kind, Path, PatternState, Reason,
    create, folders, now,
};
use airampd::metrics::{Daemon, Format, render};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const RANKS: usize = 2;
const MOST_LOOKS: usize = 4;
/// Far more than two ranks can have, with 32 communicators each and every kind, path and datatype.
const MOST_LINES: usize = 200_000;

fuzz_target!(|bytes: &[u8]| {
    static HOUSE: OnceLock<House> = OnceLock::new();
    let house = HOUSE.get_or_init(House::build);
    house.restore();
    let mut watch = Watch::begin(house);
    let mut rest = bytes;
    while let Some((how, after)) = rest.split_first() {
        rest = after;
        let file = &house.files[usize::from(how >> 1) % RANKS];
        match how & 0b1001 {
            0 => rest = patch(file, after),
            8 => _ = file.set_len(u64::from(after.first().copied().unwrap_or(0)) << 12),
            _ => watch.look(),
        }
    }
    watch.look();
});

fn patch<'a>(file: &File, bytes: &'a [u8]) -> &'a [u8] {
    let Some(([low, middle, high, length], after)) = bytes.split_first_chunk() else { return &[] };
    let (patch, after) = after.split_at(after.len().min(usize::from(*length)));
    let offset = u64::from(u32::from_le_bytes([*low, *middle, *high, 0]));
    file.write_all_at(patch, offset % (1 << 20)).expect("to patch it");
    after
}

/// One observer, from its first look to its last.
struct Watch {
    observer: Observer,
    looks: usize,
    counters: HashMap<String, f64>,
}

impl Watch {
    fn begin(house: &House) -> Self {
        let bases = vec![house.folder.path().to_owned()];
        Self { observer: Observer::new(Options { bases, ..Options::default() }), looks: 0, counters: HashMap::new() }
    }

    fn look(&mut self) {
        self.looks += 1;
        if self.looks > MOST_LOOKS {
            return;
        }
        let node = self.observer.look();
        self.check_pages(&node);
        check_json(&node);
        self.observer.windows().iter().for_each(check_json);
    }

    fn check_pages(&mut self, node: &Node) {
        let daemon = Daemon::default();
        samples(&render(node, &daemon, Format::Text));
        let page = render(node, &daemon, Format::OpenMetrics);
        let body = page.strip_suffix("# EOF\n").expect("OpenMetrics ends in # EOF");
        for (series, value) in samples(body) {
            let name = series.split('{').next().unwrap_or_default();
            if name.ends_with("_total") {
                let before = self.counters.insert(series.to_owned(), value).unwrap_or(0.0);
                assert!(value >= before, "{series} went from {before} to {value}");
            }
        }
    }
}

/// Series and value of each line; panics where a line is none of the format's.
fn samples(body: &str) -> HashMap<&str, f64> {
    assert!(body.lines().count() <= MOST_LINES);
    let mut found = HashMap::new();
    for line in body.lines().filter(|line| !line.starts_with("# ")) {
        assert!(!line.contains(char::is_control), "{line:?}");
        let line = line.split(" # {").next().unwrap_or_default();
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line:?}"));
        assert!(found.insert(series, value).is_none(), "twice: {series}");
    }
    found
}

/// What the API serves is what any reader of JSON takes.
fn check_json(value: &impl serde::Serialize) {
    let bytes = serde_json::to_vec(value).expect("it serialises");
    let read: serde_json::Value = serde_json::from_slice(&bytes).expect("it is JSON");
    assert!(read.is_object());
}

/// A folder as the library makes it, with a file of each rank.
struct House {
    folder: TempDir,
    files: [File; RANKS],
    originals: [Vec<u8>; RANKS],
}

impl House {
    fn build() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let made = [0, 1].map(written_by);
        let files = [0, 1].map(|rank: usize| {
            let (inner, name, bytes) = &made[rank];
            let path = folder.path().join(inner);
            std::fs::create_dir_all(&path).expect("the user's folder");
            std::fs::write(path.join(name), bytes).expect("a file");
            File::options().write(true).open(path.join(name)).expect("the same file")
        });
        Self { folder, files, originals: made.map(|(_, _, bytes)| bytes) }
    }

    fn restore(&self) {
        for (file, original) in self.files.iter().zip(&self.originals) {
            file.set_len(original.len() as u64).expect("its length");
            file.write_all_at(original, 0).expect("its bytes");
        }
    }
}

/// The user's folder, the file's name and its bytes, as a rank in the middle of its job leaves them.
fn written_by(rank: i32) -> (String, String, Vec<u8>) {
    let base = tempfile::tempdir().expect("a folder");
    let identity = Identity::of_this_process("0", 2);
    let identity = Identity { job: "a job".into(), world_rank: rank, local_rank: rank, ..identity };
    let writer = create(Some(base.path()), &identity).expect("a file");
    for name in 1..4 {
        let facts = CommunicatorFacts { name, rank, ranks: 2, device: rank, ..Default::default() };
        let Some(slot) = writer.open(&facts) else { continue };
        slot.issued(300 + u64::from(rank.unsigned_abs()), now());
        slot.completed(200, now());
        slot.pending(250, now());
        slot.agreement(AgreementState::On, "a reason");
        slot.plan(3, &[0x40; 64]);
        slot.accuracy(1e-4);
        slot.codec(CodecCounters { saturated: 1, nonfinite: 1, foreign: 0, blocks: 9 });
        slot.codec_time(1000, 4096);
        slot.compressed(5);
        slot.trials(2);
        slot.pattern(PatternState::Locked, 0.9, 12, 1_000_000, 7);
        writer.event(EventKind::PlanChanged, Some(slot), name, 0, "an event");
        writer.decision(r#"{"communicator":"01","rank":0,"ranks":2,"decision":"vendor","reason":"x"}"#);
    }
    writer.count(Kind::AllReduce, Path::Vendor, Datatype(6), 4, 4096, 4096, 4096);
    writer.count(Kind::AllReduce, Path::Compressed, Datatype(7), 4, 4096, 1100, 4096);
    writer.duration(Kind::AllReduce, Path::Vendor, 3, 20_000);
    writer.fallback(Reason::Size, 3);
    writer.error(2);
    let found = folders(Some(base.path())).pop().expect("the folder");
    let inner = found.path().file_name().expect("its name").to_string_lossy().into_owned();
    let name = found.files().pop().expect("the file");
    let bytes = std::fs::read(found.path().join(&name)).expect("its bytes");
    (inner, name, bytes)
}
