//! Captured collectives: replayed on changing inputs, in groups, and between live calls.

use airamp_vendor::gpu::GraphExec;

use super::Case;
use super::groups::in_group;
use super::lanes::Lanes;
use crate::error::RankError;
use crate::session::{Observed, Session};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("graph/replays_see_new_inputs", |session| replayed(session, false)),
        Case::new("graph/captured_group", |session| replayed(session, true)),
        Case::new("graph/between_live_calls", between_live_calls),
        Case::new("graph/two_graphs_take_turns", two_graphs),
    ]
}

fn captured(session: &Session, lanes: Lanes, grouped: bool) -> Result<GraphExec, RankError> {
    let enqueue_all = || {
        (0..lanes.number).try_for_each(|lane| {
            lanes.call(session, lane).enqueue(&session.nccl, session.comm.raw(), session.stream.raw())
        })
    };
    session.stream.capture(|| if grouped { in_group(&session.nccl, enqueue_all) } else { enqueue_all() })
}

fn launch(
    session: &Session,
    graph: &GraphExec,
    lanes: Lanes,
    observed: &mut Observed,
) -> Result<(), RankError> {
    lanes.prepare(session, &session.comm)?;
    graph.launch(&session.stream)?;
    session.stream.synchronize()?;
    lanes.check(session, &session.comm, observed)
}

fn replayed(session: &mut Session, grouped: bool) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(3, 4097));
    // Live first: the first use of an algorithm connects the ranks, which a capture may not.
    lanes.run(session, &session.comm, &mut observed)?;
    let graph = captured(session, lanes, grouped)?;
    for round in 1..4 {
        launch(session, &graph, lanes.in_round(round), &mut observed)?;
    }
    Ok(observed)
}

fn between_live_calls(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(2, 2000));
    lanes.run(session, &session.comm, &mut observed)?;
    let graph = captured(session, lanes, false)?;
    for round in 1..4 {
        launch(session, &graph, lanes.in_round(2 * round), &mut observed)?;
        lanes.in_round(2 * round + 1).run(session, &session.comm, &mut observed)?;
    }
    Ok(observed)
}

fn two_graphs(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(2, 999));
    lanes.run(session, &session.comm, &mut observed)?;
    let graphs = [captured(session, lanes, false)?, captured(session, lanes, true)?];
    for round in 1..5 {
        launch(session, &graphs[round % 2], lanes.in_round(round), &mut observed)?;
    }
    Ok(observed)
}
