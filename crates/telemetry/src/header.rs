//! The file's first kilobyte: what it is, who writes it and by which clock. Written once, before the file has its name;
//! checked whole by every reader.

use crate::clock::{self, Anchor, ClockKind};
use crate::layout::{FILE_BYTES, HEADER_BYTES, MAGIC, SECTIONS, Section, VERSION};
use crate::text::{cut, unpack_padded};
use crate::{Identity, JobSource, Unreadable, time_namespace};

const FIRST_TEXT: usize = 320;
/// Bytes of job, pod, node, step, version and command, in this order from `FIRST_TEXT` on.
const TEXTS: [usize; 6] = [128, 128, 128, 64, 64, 64];
const _: () = assert!(FIRST_TEXT + 128 * 3 + 64 * 3 <= HEADER_BYTES);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) owner: Owner,
    pub(crate) clock: ClockKind,
    /// In the file by the machine's clock, and once it is read by that of the reader's time namespace.
    pub(crate) anchor: Anchor,
    pub(crate) unix_ns: u64,
    /// Without the vendor, who is known later.
    pub(crate) identity: Identity,
}

/// The process, told apart from every other one that has or had its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// The inode of its pid namespace; 0: not known.
    pub(crate) namespace: u64,
    /// When it started, as in /proc/<pid>/stat; 0: not known.
    pub(crate) started: u64,
    pub(crate) boot: [u8; 16],
}

impl Header {
    pub(crate) fn of_this_process(identity: &Identity) -> Self {
        let clock = clock::kind();
        let anchor = Anchor::take(clock).shifted(time_namespace::ahead_ns().wrapping_neg());
        let owner = crate::liveness::this_process();
        Self { owner, clock, anchor, unix_ns: clock::unix_ns(), identity: identity.clone() }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Out { bytes: [0; HEADER_BYTES], at: 0 };
        out.put(&MAGIC);
        out.put(&VERSION.to_le_bytes());
        out.put(&(HEADER_BYTES as u32).to_le_bytes());
        out.put(&(FILE_BYTES as u64).to_le_bytes());
        for section in SECTIONS {
            [section.offset, section.size, section.count]
                .iter()
                .for_each(|word| out.put(&word.to_le_bytes()));
        }
        let Owner { pid, uid, namespace, started, boot } = self.owner;
        out.put(&pid.to_le_bytes());
        out.put(&uid.to_le_bytes());
        out.put(&namespace.to_le_bytes());
        out.put(&started.to_le_bytes());
        out.put(&boot);
        let times = [self.clock as u64, self.anchor.ticks, self.anchor.ns, self.unix_ns];
        times.iter().for_each(|word| out.put(&word.to_le_bytes()));
        let identity = &self.identity;
        out.put(&identity.world_rank.to_le_bytes());
        out.put(&identity.local_rank.to_le_bytes());
        out.put(&[identity.job_source as u8, identity.mode]);
        out.at = FIRST_TEXT;
        let Identity { job, pod, node, step_id, version, command, .. } = identity;
        for (text, room) in [job, pod, node, step_id, version, command].into_iter().zip(TEXTS) {
            let start = out.at;
            // A zero ends the text, so one within it would hide the rest.
            out.put(cut(text.split('\0').next().unwrap_or_default(), room).as_bytes());
            out.at = start + room;
        }
        out.bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Unreadable> {
        let mut input = In { bytes, at: 0 };
        if input.take::<8>() != MAGIC {
            return Err(Unreadable::NotTelemetry);
        }
        let found = u32::from_le_bytes(input.take());
        if found != VERSION {
            return Err(Unreadable::Version { found, known: VERSION });
        }
        let sizes = (u32::from_le_bytes(input.take()), input.word());
        let mut section = || Section { offset: input.word(), size: input.word(), count: input.word() };
        let sections: [Section; SECTIONS.len()] = std::array::from_fn(|_| section());
        if sizes != (HEADER_BYTES as u32, FILE_BYTES as u64) || sections != SECTIONS {
            return Err(Unreadable::Damaged);
        }
        let owner = Owner {
            pid: u32::from_le_bytes(input.take()),
            uid: u32::from_le_bytes(input.take()),
            namespace: input.word(),
            started: input.word(),
            boot: input.take(),
        };
        let clock = ClockKind::from_number(input.word()).ok_or(Unreadable::Damaged)?;
        let anchor = Anchor { ticks: input.word(), ns: input.word() };
        let unix_ns = input.word();
        let identity = identity(&mut input)?;
        Ok(Self { owner, clock, anchor, unix_ns, identity })
    }
}

fn identity(input: &mut In<'_>) -> Result<Identity, Unreadable> {
    let (world_rank, local_rank) = (i32::from_le_bytes(input.take()), i32::from_le_bytes(input.take()));
    let [source, mode] = input.take();
    let job_source = JobSource::from_number(source.into()).ok_or(Unreadable::Damaged)?;
    input.at = FIRST_TEXT;
    let mut texts = TEXTS.map(|room| {
        let bytes = input.bytes.get(input.at..input.at + room).unwrap_or_default();
        input.at += room;
        unpack_padded(bytes)
    });
    let [job, pod, node, step_id, version, command] =
        std::array::from_fn(|place| std::mem::take(&mut texts[place]));
    let vendor = String::new();
    Ok(Identity {
        job,
        job_source,
        pod,
        node,
        step_id,
        world_rank,
        local_rank,
        version,
        vendor,
        mode,
        command,
    })
}

struct Out {
    bytes: [u8; HEADER_BYTES],
    at: usize,
}

impl Out {
    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }
}

struct In<'a> {
    bytes: &'a [u8; HEADER_BYTES],
    at: usize,
}

impl In<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).copied();
        self.at += N;
        taken.unwrap_or([0; N])
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
