//! Making and ending communicators.

use std::ffi::c_int;
use std::sync::Arc;

use airamp_vendor_abi::nccl::{
    API_MAGIC, CONFIG_UNDEF_INT, Comm, Config, NcclResult, SHRINK_ABORT, SPLIT_NOCOLOR, UNIQUE_ID_BYTES,
    UniqueId,
};

use super::exported;
use crate::gpu;
use crate::nccl::communicator::creation::{self, Recipe};
use crate::nccl::communicator::{Communicator, ending, registry};
use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::group;
use crate::nccl::net::unique_id::Meeting;

/// Whether calls on the new communicator wait; the environment overrides the caller.
fn blocking(config: *const Config, inherited: bool) -> Outcome<bool> {
    let mut wish = inherited;
    if !config.is_null() {
        // SAFETY: a non-null argument points to an ncclConfig_t of any version; all of them
        // begin with these fields.
        let (size, magic, asked) = unsafe { ((*config).size, (*config).magic, (*config).blocking) };
        if magic != API_MAGIC || size < std::mem::offset_of!(Config, cga_cluster_size) {
            return Err(NcclError::InvalidArgument("ncclConfig_t was not initialised".into()));
        }
        wish = match asked {
            CONFIG_UNDEF_INT => inherited,
            0 => false,
            1 => true,
            other => return Err(NcclError::InvalidArgument(format!("blocking={other} is neither 0 nor 1"))),
        };
    }
    Ok(match std::env::var("NCCL_COMM_BLOCKING").as_deref() {
        Ok("0") => false,
        Ok("1") => true,
        _ => wish,
    })
}

fn current_device() -> Outcome<i32> {
    gpu::current_device()
        .map_err(|code| NcclError::Device(format!("there is no current device: error {}", code.0)))
}

fn init_rank(out: *mut Comm, size: c_int, id: &UniqueId, rank: c_int, config: *const Config) -> Outcome {
    if out.is_null() {
        return Err(NcclError::null("where the communicator goes"));
    }
    let blocking = blocking(config, true)?;
    if size < 1 || !(0..size).contains(&rank) {
        return Err(NcclError::InvalidArgument(format!("rank {rank} of {size} cannot be")));
    }
    let meeting = Meeting::decode(id)?;
    let comm = Communicator::new(current_device()?, rank as usize, blocking);
    let recipe = Recipe::Fresh { meeting, size: size as usize, rank: rank as usize };
    group::create(comm, recipe, out)
}

/// One communicator per device, all in this process.
fn init_all(out: *mut Comm, count: c_int, devices: *const c_int) -> Outcome {
    if out.is_null() {
        return Err(NcclError::null("where the communicators go"));
    }
    if count < 1 {
        return Err(NcclError::InvalidArgument(format!("{count} devices make no communicator")));
    }
    let before = current_device()?;
    let mut id = UniqueId { internal: [0; UNIQUE_ID_BYTES] };
    // Hidden from the optimiser, which would call the function of this file.
    let get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> NcclResult =
        std::hint::black_box(ncclGetUniqueId);
    // SAFETY: the id is this function's own.
    NcclError::passed(unsafe { get_unique_id(&mut id) })?;
    let meeting = Meeting::decode(&id)?;
    group::start();
    let added = (0..count as usize).try_for_each(|rank| {
        // SAFETY: a device list, where given, has `count` entries, and so has `out`.
        let (device, out) =
            unsafe { (if devices.is_null() { rank as i32 } else { *devices.add(rank) }, out.add(rank)) };
        gpu::set_current(device)
            .map_err(|_| NcclError::InvalidArgument(format!("there is no device {device}")))?;
        let comm = Communicator::new(device, rank, blocking(std::ptr::null(), true)?);
        group::create(comm, Recipe::Fresh { meeting, size: count as usize, rank }, out)
    });
    if let Err(error) = &added {
        group::refuse(error.clone());
    }
    let restored = gpu::set_current(before);
    let ended = group::end();
    added.and(ended).and(restored.map_err(|code| NcclError::Device(format!("error {}", code.0))))
}

fn split(comm: Comm, color: c_int, key: c_int, out: *mut Comm, config: *const Config) -> Outcome {
    let parent = registry::lookup(comm, "ncclCommSplit")?;
    parent.health.can_be_parent()?;
    if out.is_null() {
        return Err(NcclError::null("where the communicator goes"));
    }
    if color < SPLIT_NOCOLOR {
        return Err(NcclError::InvalidArgument(format!("color {color} is negative")));
    }
    let blocking = blocking(config, parent.blocking)?;
    let child = Communicator::new(parent.device, parent.job_rank, blocking);
    group::create_child(child, Recipe::split(parent, color, key), out, color == SPLIT_NOCOLOR)
}

fn shrink(
    comm: Comm,
    excluded: *const c_int,
    count: c_int,
    out: *mut Comm,
    config: *const Config,
    flags: c_int,
) -> Outcome {
    let parent = registry::lookup(comm, "ncclCommShrink")?;
    if out.is_null() || (excluded.is_null() && count > 0) {
        return Err(NcclError::null("where the communicator goes, or the list of ranks"));
    }
    if flags & SHRINK_ABORT == 0 {
        parent.health.can_be_parent()?;
    }
    let own = parent.membership()?;
    // SAFETY: the list has `count` entries.
    let listed = (0..count.max(0) as usize).map(|index| unsafe { *excluded.add(index) });
    let mut ranks = Vec::new();
    for rank in listed {
        match usize::try_from(rank)
            .ok()
            .filter(|rank| *rank < own.size() && *rank != own.rank && !ranks.contains(rank))
        {
            Some(rank) => ranks.push(rank),
            None => return Err(NcclError::InvalidArgument(format!("rank {rank} cannot be excluded"))),
        }
    }
    if ranks.is_empty() {
        return Err(NcclError::InvalidArgument("a shrink excludes at least one rank".into()));
    }
    let blocking = blocking(config, parent.blocking)?;
    if flags & SHRINK_ABORT != 0 {
        ending::interrupt(&parent);
    }
    let child = Communicator::new(parent.device, parent.job_rank, blocking);
    group::create(child, Recipe::shrink(parent, ranks), out)
}

fn grow(
    comm: Comm,
    size: c_int,
    id: *const UniqueId,
    rank: c_int,
    out: *mut Comm,
    config: *const Config,
) -> Outcome {
    if out.is_null() {
        return Err(NcclError::null("where the communicator goes"));
    }
    if comm.is_null() {
        if id.is_null() {
            return Err(NcclError::null("the id that a new rank comes with"));
        }
        // SAFETY: not null, and the caller owns it.
        return init_rank(out, size, unsafe { &*id }, rank, config);
    }
    let parent = registry::lookup(comm, "ncclCommGrow")?;
    parent.health.usable()?;
    if rank != -1 || size < 0 || size as usize <= parent.membership()?.size() {
        let text = "an existing rank grows to more ranks, and passes -1 as its own";
        return Err(NcclError::InvalidArgument(text.into()));
    }
    let blocking = blocking(config, parent.blocking)?;
    let child: Arc<Communicator> = Communicator::new(parent.device, parent.job_rank, blocking);
    group::create(child, Recipe::grow(parent, size as usize), out)
}

exported! {
    fn ncclGetUniqueId / pncclGetUniqueId (id: *mut UniqueId) {
        if id.is_null() {
            return Err(NcclError::null("where the id goes"));
        }
        let meeting = creation::new_meeting()?;
        // SAFETY: not null, and the caller owns it.
        unsafe { *id = meeting.encode() };
        Ok(())
    }

    fn ncclCommInitRank / pncclCommInitRank (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int) {
        init_rank(comm, nranks, &id, rank, std::ptr::null())
    }

    fn ncclCommInitRankConfig / pncclCommInitRankConfig (comm: *mut Comm, nranks: c_int, id: UniqueId, rank: c_int, config: *mut Config) {
        init_rank(comm, nranks, &id, rank, config)
    }

    /// All ranks meet at the first id.
    fn ncclCommInitRankScalable / pncclCommInitRankScalable (comm: *mut Comm, nranks: c_int, rank: c_int, id_count: c_int, ids: *mut UniqueId, config: *mut Config) {
        if ids.is_null() {
            return Err(NcclError::null("the list of ids"));
        }
        if id_count < 1 || id_count > nranks {
            return Err(NcclError::InvalidArgument(format!("{id_count} ids for {nranks} ranks")));
        }
        // SAFETY: the list has at least one entry.
        init_rank(comm, nranks, unsafe { &*ids }, rank, config)
    }

    fn ncclCommInitAll / pncclCommInitAll (comms: *mut Comm, device_count: c_int, devices: *const c_int) {
        init_all(comms, device_count, devices)
    }

    fn ncclCommSplit / pncclCommSplit (comm: Comm, color: c_int, key: c_int, new_comm: *mut Comm, config: *mut Config) {
        split(comm, color, key, new_comm, config)
    }

    fn ncclCommShrink / pncclCommShrink (comm: Comm, excluded: *mut c_int, excluded_count: c_int, new_comm: *mut Comm, config: *mut Config, flags: c_int) {
        shrink(comm, excluded, excluded_count, new_comm, config, flags)
    }

    fn ncclCommGrow / pncclCommGrow (comm: Comm, nranks: c_int, id: *const UniqueId, rank: c_int, new_comm: *mut Comm, config: *mut Config) {
        grow(comm, nranks, id, rank, new_comm, config)
    }

    fn ncclCommGetUniqueId / pncclCommGetUniqueId (comm: Comm, id: *mut UniqueId) {
        let comm = registry::lookup(comm, "ncclCommGetUniqueId")?;
        comm.health.usable()?;
        if id.is_null() {
            return Err(NcclError::null("where the id goes"));
        }
        let meeting = creation::next_grow(&comm)?;
        // SAFETY: not null, and the caller owns it.
        unsafe { *id = meeting.encode() };
        Ok(())
    }

    fn ncclCommFinalize / pncclCommFinalize (comm: Comm) {
        ending::finalize(comm)
    }

    fn ncclCommDestroy / pncclCommDestroy (comm: Comm) {
        ending::destroy(comm)
    }

    fn ncclCommAbort / pncclCommAbort (comm: Comm) {
        ending::abort(comm)
    }

    fn ncclCommRevoke / pncclCommRevoke (comm: Comm, flags: c_int) {
        ending::revoke(comm, flags)
    }

    /// There is no memory of the communicator's to give back.
    fn ncclCommSuspend / pncclCommSuspend (comm: Comm, flags: c_int) {
        registry::lookup(comm, "ncclCommSuspend")?.health.usable()?;
        if flags & !1 != 0 {
            return Err(NcclError::InvalidArgument(format!("ncclCommSuspend knows no flags {flags:#x}")));
        }
        Ok(())
    }

    fn ncclCommResume / pncclCommResume (comm: Comm) {
        registry::lookup(comm, "ncclCommResume")?.health.usable()
    }
}
