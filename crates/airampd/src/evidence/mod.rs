//! Evidence: one file per anomaly with the calls before and after it, written once, bounded in size and number.
//! A thread of its own writes, so that a disk that hangs holds up neither looks nor answers; a disk that is full
//! or gone costs a counter and a line in the log.

mod folder;
mod records;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use airamp_observer::anomaly::Window;

pub(crate) use folder::Folder;

use crate::board::Board;
use crate::log::say;

/// Windows that wait for the disk; what comes on top is dropped and counted.
const MOST_WAITING: usize = 4;

/// The way from the looks to the disk; the thread ends with the last copy of it.
#[derive(Clone)]
pub(crate) struct Writer {
    waiting: SyncSender<Window>,
    board: Arc<Board>,
}

impl Writer {
    pub(crate) fn start(folder: Arc<Folder>, board: Arc<Board>) -> std::io::Result<Self> {
        let (waiting, windows) = sync_channel(MOST_WAITING);
        let counted = Arc::clone(&board);
        std::thread::Builder::new()
            .name("evidence".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || write_all(&windows, &folder, &counted))?;
        Ok(Self { waiting, board })
    }

    pub(crate) fn keep(&self, window: Window) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.waiting.try_send(window) {
            self.count_dropped(1);
        }
    }

    /// Counts windows that do not come, or never came here.
    pub(crate) fn count_dropped(&self, windows: u64) {
        self.board.counts.evidence_dropped.fetch_add(windows, Relaxed);
    }
}

fn write_all(windows: &Receiver<Window>, folder: &Folder, board: &Board) {
    folder.remove_unfinished();
    let mut was_well = true;
    for window in windows {
        let written = folder.write(&window);
        match &written {
            Ok(name) => {
                board.counts.evidence_written.fetch_add(1, Relaxed);
                say(format_args!("{}: {} ({name})", window.finding.kind.name(), window.finding.text));
            }
            Err(error) => {
                board.counts.evidence_dropped.fetch_add(1, Relaxed);
                if was_well {
                    say(format_args!("evidence cannot be written to {}: {error}", folder.path().display()));
                }
            }
        }
        was_well = written.is_ok();
    }
}
