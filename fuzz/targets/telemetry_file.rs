//! Any bytes laid over a telemetry file, or in its place: the reader refuses it or gives bounded values, and never panics.
//! An input is a list of patches: three bytes of offset, one of length, then so many bytes; the first byte says whether
//! they go over a writer's file or over nothing, and whether the file is cut short.
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use airamp_telemetry::{
    AgreementState, CommunicatorFacts, Datatype, EventKind, Identity, Kind, Path, Reader, create, folders, now,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, mut rest)) = bytes.split_first() else { return };
    static TARGET: OnceLock<File> = OnceLock::new();
    let file = TARGET.get_or_init(|| tempfile::tempfile().expect("a file"));
    let template: &[u8] = if how & 1 == 0 { template() } else { &[] };
    file.set_len(0).expect("to empty it");
    file.write_all_at(template, 0).expect("to fill it");
    while let Some(([low, middle, high, length], after)) = rest.split_first_chunk() {
        let (patch, after) = after.split_at(after.len().min(usize::from(*length)));
        let offset = u64::from(u32::from_le_bytes([*low, *middle, *high, 0]));
        file.write_all_at(patch, offset % (1 << 20)).expect("to patch it");
        rest = after;
    }
    if how & 2 == 0 {
        file.set_len(template.len() as u64).expect("its own length");
    }
    read(file.try_clone().expect("a second descriptor"));
});

fn read(file: File) {
    let Ok(reader) = Reader::from_file(file) else { return };
    reader.liveness();
    if let Ok(snapshot) = reader.snapshot() {
        assert!(snapshot.communicators.len() <= 32 && snapshot.counts.len() <= 780);
        assert!(snapshot.active_ns <= snapshot.taken_ns && snapshot.started_ns <= snapshot.taken_ns);
        for one in &snapshot.communicators {
            assert!(one.arrivals.len() <= 64 && one.milestones.len() <= 64);
            assert!(one.arrivals.iter().all(|arrival| arrival.sequence <= one.issued));
            assert!(!one.agreement_reason.contains(char::is_control));
        }
    }
    for cursor in [0, 3] {
        if let Ok(found) = reader.calls_since(cursor) {
            assert!(found.items.len() <= 4096 && found.items.is_sorted_by_key(|call| call.number));
        }
        if let Ok(found) = reader.events_since(cursor) {
            assert!(found.items.len() <= 512 && !found.items.iter().any(|event| event.text.contains(char::is_control)));
        }
        if let Ok(found) = reader.decisions_since(cursor) {
            assert!(found.items.len() <= 128 && found.items.iter().all(|decision| decision.json.len() <= 3000));
        }
    }
}

fn template() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let base = tempfile::tempdir().expect("a folder");
        let writer = create(Some(base.path()), &Identity::of_this_process("0", 0)).expect("a file");
        for name in 0..3 {
            let slot = writer.open(&CommunicatorFacts { name, ..Default::default() });
            let Some(slot) = slot else { continue };
            slot.issued(300, now());
            slot.agreement(AgreementState::Off, "a reason");
            writer.event(EventKind::Note, Some(slot), name, 0, "an event");
            writer.decision("{}");
        }
        writer.count(Kind::AllReduce, Path::Vendor, Datatype(6), 1, 1, 1, 1);
        let folder = folders(Some(base.path())).pop().expect("the folder");
        let name = folder.files().pop().expect("the file");
        std::fs::read(folder.path().join(name)).expect("its bytes")
    })
}
