//! Copies parts of a file that somebody else writes, with pread: a file that shrinks under a mapping would end the
//! reader, and this one only gets an error. The copy is private, so nothing in it changes while it is looked at.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Unreadable;
use crate::atomic::{AtomicU64, Ordering, fence};
use crate::layout::{Section, Words};

/// Items `first..first + count` of a section, as they were at some moment each word for itself.
pub(crate) fn items<T: Words>(
    file: &File,
    section: Section,
    first: u64,
    count: u64,
) -> Result<Vec<T>, Unreadable> {
    let count = count.min(section.count.saturating_sub(first));
    let count = usize::try_from(count).map_err(|_| Unreadable::Damaged)?;
    let mut items: Vec<T> = Vec::with_capacity(count);
    // SAFETY: there is room for `count` items; `Words` promises that any bytes, zeros among them, are a value, and that
    // there is no padding, so the same room may be written as bytes before it is looked at as items.
    let bytes = unsafe {
        items.as_mut_ptr().write_bytes(0, count);
        items.set_len(count);
        std::slice::from_raw_parts_mut(items.as_mut_ptr().cast::<u8>(), size_of::<T>() * count)
    };
    // The kernel's copies stay in their order: `Three` relies on it.
    fence(Ordering::SeqCst);
    file.read_exact_at(bytes, section.offset + first * section.size).map_err(truncated)?;
    fence(Ordering::SeqCst);
    Ok(items)
}

fn truncated(error: std::io::Error) -> Unreadable {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Unreadable::Truncated,
        _ => Unreadable::Io(error),
    }
}

/// Three copies of the same items, one after the other. Words that a version guards are taken from the second one, if the
/// first and the third agree on the version: then nobody wrote them in between. One copy would not do, since nothing
/// says in which order the kernel copies the words of one.
pub(crate) struct Three<T>([Vec<T>; 3]);

impl<T: Words> Three<T> {
    pub(crate) fn read(file: &File, section: Section, first: u64, count: u64) -> Result<Self, Unreadable> {
        let copy = || items(file, section, first, count);
        Ok(Self([copy()?, copy()?, copy()?]))
    }

    pub(crate) fn len(&self) -> usize {
        self.0[1].len()
    }

    /// The item, without regard to versions.
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.0[1].get(place)
    }

    /// The item and the version that guards a part of it. `None`: that part was being written.
    pub(crate) fn whole(&self, place: usize, version: impl Fn(&T) -> &AtomicU64) -> Option<(&T, u64)> {
        let of = |copy: &Vec<T>| copy.get(place).map(|item| version(item).load(Ordering::Relaxed));
        let (before, after) = (of(&self.0[0])?, of(&self.0[2])?);
        (before == after && before & 1 == 0).then_some((self.get(place)?, before))
    }
}
