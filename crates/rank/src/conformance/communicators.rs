//! Communicators: what they say about themselves, every way to make one, children by
//! split, several at once, and every way to end one.

use airamp_vendor_abi::nccl::{NcclResult, SPLIT_NOCOLOR};

use super::lanes::Lanes;
use super::{Case, resizing};
use crate::error::RankError;
use crate::nccl::{Communicator, Making};
use crate::session::{Observed, Session};

const LANES: usize = 2;
const ELEMENTS: usize = 1021;

/// What the library says about itself and a communicator, before anything is run.
pub(super) fn queries() -> Vec<Case> {
    vec![
        Case::new("info/version", |session| {
            let mut observed = Observed::new();
            observed.digest.add(&session.version.to_le_bytes());
            observed.expect(session.version > 0, || format!("version {}", session.version));
            Ok(observed)
        }),
        Case::new("info/error_strings", |session| {
            let mut observed = Observed::new();
            for code in -1..12 {
                let text = session.nccl.error_string(NcclResult(code));
                observed.expect(!text.is_empty(), || format!("no text for {code}"));
                observed.digest.add(text.as_bytes());
            }
            Ok(observed)
        }),
        Case::new("communicator/queries", |session| {
            let (mut observed, comm) = (Observed::new(), session.comm.raw());
            let place = (session.nccl.user_rank(comm)?, session.nccl.count(comm)?);
            let expected = (session.world.rank as i32, session.world.size as i32);
            observed.expect(place == expected, || format!("rank and count are {place:?}"));
            let device = session.nccl.device(comm)?;
            observed.digest.add(&device.to_le_bytes());
            observed.result = session.nccl.async_error(comm)?;
            let at_rest = observed.result == NcclResult::SUCCESS.0;
            observed.expect(at_rest, || "an asynchronous error at rest".into());
            Ok(observed)
        }),
    ]
}

pub(super) fn cases(session: &Session) -> Vec<Case> {
    let functions = &session.nccl.functions;
    let mut cases = vec![
        Case::new("communicator/two_at_once", two_at_once),
        Case::new("communicator/destroyed_and_made_again", made_again),
        Case::new("communicator/aborted_at_rest", |session| ended_by(session, Communicator::abort)),
        Case::new("communicator/destroyed", |session| ended_by(session, Communicator::destroy)),
    ];
    if functions.ncclCommInitRankConfig.is_some() {
        cases.push(Case::new("communicator/init_rank_config", |session| made_by(session, Making::Config)));
    }
    if functions.ncclCommInitRankScalable.is_some() {
        let making = Making::Scalable;
        cases.push(Case::new("communicator/init_rank_scalable", move |session| made_by(session, making)));
    }
    if functions.ncclCommFinalize.is_some() {
        cases.push(Case::new("communicator/finalized_then_destroyed", |session| {
            ended_by(session, |comm| {
                comm.finalize()?;
                comm.destroy()
            })
        }));
    }
    if functions.ncclCommSplit.is_some() {
        cases.extend(splits());
    }
    cases.extend(resizing::cases(session));
    cases
}

/// Runs AllReduces over a communicator and compares, as every case here does.
pub(super) fn use_it(
    session: &Session,
    comm: &Communicator,
    observed: &mut Observed,
) -> Result<(), RankError> {
    let place = [comm.rank as u8, comm.size as u8];
    observed.digest.add(&place);
    Lanes::new(LANES, ELEMENTS).run(session, comm, observed)
}

fn made_by(session: &mut Session, making: Making) -> Result<Observed, RankError> {
    let (mut observed, comm) = (Observed::new(), session.another_communicator(making)?);
    use_it(session, &comm, &mut observed)?;
    comm.destroy()?;
    Ok(observed)
}

fn two_at_once(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, other) = (Observed::new(), session.another_communicator(Making::Plain)?);
    for _ in 0..3 {
        use_it(session, &session.comm, &mut observed)?;
        use_it(session, &other, &mut observed)?;
    }
    other.destroy()?;
    Ok(observed)
}

/// The library may give the second one the first one's address.
fn made_again(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    for _ in 0..3 {
        let comm = session.another_communicator(Making::Plain)?;
        use_it(session, &comm, &mut observed)?;
        comm.destroy()?;
    }
    Ok(observed)
}

fn ended_by(
    session: &mut Session,
    end: impl Fn(Communicator) -> Result<(), RankError>,
) -> Result<Observed, RankError> {
    let (mut observed, comm) = (Observed::new(), session.another_communicator(Making::Plain)?);
    use_it(session, &comm, &mut observed)?;
    session.wait_for_everyone()?;
    end(comm)?;
    use_it(session, &session.comm, &mut observed)?;
    Ok(observed)
}

fn splits() -> Vec<Case> {
    vec![
        Case::new("split/by_parity", |session| {
            let rank = session.comm.rank;
            let place = (rank / 2, (session.comm.size + 1 - rank % 2) / 2);
            split(session, (rank % 2) as i32, rank as i32, Some(place))
        }),
        Case::new("split/keys_reverse_the_order", |session| {
            let (rank, size) = (session.comm.rank, session.comm.size);
            split(session, 0, -(rank as i32), Some((size - 1 - rank, size)))
        }),
        Case::new("split/equal_keys_keep_the_order", |session| {
            let place = (session.comm.rank, session.comm.size);
            split(session, 3, 0, Some(place))
        }),
        Case::new("split/no_color_stays_out", |session| {
            let (rank, last) = (session.comm.rank, session.comm.size - 1);
            let color = if rank == last { SPLIT_NOCOLOR } else { 1 };
            split(session, color, rank as i32, (rank < last).then_some((rank, last)))
        }),
        Case::new("split/of_a_split", split_of_a_split),
    ]
}

fn split(
    session: &Session,
    color: i32,
    key: i32,
    place: Option<(usize, usize)>,
) -> Result<Observed, RankError> {
    let (mut observed, child) = (Observed::new(), session.comm.split(color, key)?);
    let found = child.as_ref().map(|child| (child.rank, child.size));
    observed.expect(found == place, || format!("rank and size in the child are {found:?}, not {place:?}"));
    if let Some(child) = child {
        use_it(session, &child, &mut observed)?;
        child.destroy()?;
    }
    use_it(session, &session.comm, &mut observed)?;
    Ok(observed)
}

fn split_of_a_split(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let rank = session.comm.rank as i32;
    let whole = session.comm.split(0, rank)?;
    let half = whole.as_ref().map(|whole| whole.split(rank % 2, rank)).transpose()?.flatten();
    observed.expect(half.is_some(), || "no communicator came of the second split".into());
    for child in [half, whole].into_iter().flatten() {
        use_it(session, &child, &mut observed)?;
        child.destroy()?;
    }
    Ok(observed)
}
