//! Where the driver cannot order captured calls against others, they go to the vendor; live ones
//! are compressed all the same. Only for a driver of that kind.

use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::{Case, Job, Seen};
use crate::error::RankError;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("uncaptured/beside_live_calls", |job| beside_live_calls(job, false)),
        Case::new("uncaptured/a_group_beside_live_calls", |job| beside_live_calls(job, true)),
    ]
}

fn beside_live_calls(job: &mut Job, grouped: bool) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let captured = |seed| Spec { passes_through: true, ..various(seed) };
    let live = Piece::all(job, &comm, (0..3).map(various))?;
    let mut in_graph = Piece::all(job, &comm, (3..6).map(captured))?;
    live[0].enqueue(job, &comm, &job.stream)?;
    let enqueue = || in_graph.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream));
    let graph = job.stream.capture(|| if grouped { job.group(enqueue) } else { enqueue() })?;
    for (round, live) in live[1..].iter().enumerate() {
        for (number, piece) in in_graph.iter_mut().enumerate() {
            piece.renew(job, 10 * round + number)?;
        }
        graph.launch(&job.stream)?;
        live.enqueue(job, &comm, &job.stream)?;
        job.stream.synchronize()?;
        in_graph.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    }
    live.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    drop(graph);
    comm.comm.destroy()?;
    Ok(seen)
}
