//! What newer libraries do with communicators: shrink, grow and revoke; and InitAll,
//! with the one device that every machine has.

use airamp_vendor_abi::nccl::UniqueId;

use super::Case;
use super::communicators::use_it;
use crate::error::RankError;
use crate::nccl::{Communicator, Making};
use crate::session::{Observed, Session};

pub(super) fn cases(session: &Session) -> Vec<Case> {
    let functions = &session.nccl.functions;
    let mut cases = vec![Case::new("communicator/init_all_with_one_device", alone)];
    if functions.ncclCommShrink.is_some() {
        cases.push(Case::new("communicator/shrunk_by_the_last_rank", shrunk));
    }
    if functions.ncclCommRevoke.is_some() {
        cases.push(Case::new("communicator/revoked_then_destroyed", revoked));
    }
    if functions.ncclCommShrink.is_some() && functions.ncclCommGrow.is_some() {
        cases.push(Case::new("communicator/shrunk_and_grown_again", grown));
    }
    cases
}

fn alone(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let device = session.nccl.device(session.comm.raw())?;
    let comm = Communicator::alone(&session.nccl, device)?;
    use_it(session, &comm, &mut observed)?;
    comm.destroy()?;
    Ok(observed)
}

/// A communicator without the last rank, which does not call and gets `None`.
fn without_the_last(
    parent: &Communicator,
    observed: &mut Observed,
) -> Result<Option<Communicator>, RankError> {
    let last = parent.size - 1;
    if parent.rank == last {
        return Ok(None);
    }
    let child = parent.shrink(&[last as i32])?;
    let found = child.as_ref().map(|child| (child.rank, child.size));
    observed.expect(found == Some((parent.rank, last)), || format!("rank and size are {found:?}"));
    Ok(child)
}

fn shrunk(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, parent) = (Observed::new(), session.another_communicator(Making::Plain)?);
    use_it(session, &parent, &mut observed)?;
    if let Some(child) = without_the_last(&parent, &mut observed)? {
        use_it(session, &child, &mut observed)?;
        child.destroy()?;
    }
    parent.destroy()?;
    Ok(observed)
}

fn revoked(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, comm) = (Observed::new(), session.another_communicator(Making::Plain)?);
    use_it(session, &comm, &mut observed)?;
    session.wait_for_everyone()?;
    comm.revoke()?;
    let refused = super::lanes::Lanes::new(1, 10).call(session, 0);
    let refused = refused.enqueue(&session.nccl, comm.raw(), session.stream.raw());
    observed.expect(refused.is_err(), || "a revoked communicator took a call".into());
    observed.result = refused.err().and_then(|error| error.nccl_code()).unwrap_or(0);
    let state = session.nccl.async_error(comm.raw())?;
    observed.expect(state == 0, || format!("a revoked communicator says that it failed: {state}"));
    session.wait_for_everyone()?;
    comm.destroy()?;
    use_it(session, &session.comm, &mut observed)?;
    Ok(observed)
}

fn grown(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, parent) = (Observed::new(), session.another_communicator(Making::Plain)?);
    let size = parent.size;
    let small = without_the_last(&parent, &mut observed)?;
    let mut id = UniqueId { internal: [0; 128] };
    if let Some(small) = small.as_ref().filter(|small| small.rank == 0) {
        id = small.grow_id()?;
    }
    session.world.broadcast(&mut id.internal)?;
    let whole = match &small {
        Some(small) => small.grow(size, (small.rank == 0).then_some(&id))?,
        None => Some(Communicator::join(&session.nccl, &id, size - 1, size)?),
    };
    let found = whole.as_ref().map(|whole| (whole.rank, whole.size));
    observed.expect(found == Some((parent.rank, size)), || format!("rank and size are {found:?}"));
    for comm in [whole, small].into_iter().flatten() {
        use_it(session, &comm, &mut observed)?;
        comm.destroy()?;
    }
    parent.destroy()?;
    Ok(observed)
}
