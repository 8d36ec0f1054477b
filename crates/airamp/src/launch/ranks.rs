//! The processes of a job. Each rank leads a process group of its own, so that what it starts can be ended
//! with it, and is killed by the kernel if we die. Rank processes are reaped only when the job is over: until
//! then their ids cannot be given to strangers, and signalling them is safe.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use airamp_telemetry::Standing;

use super::environment::{Place, Rendezvous};
use super::output::{Kind, Pipe};
use super::{Job, LaunchError, Output};

/// The ranks of a job; dropping them kills what is left of them.
pub(super) struct Ranks(Vec<Rank>);

pub(super) struct Rank {
    child: Child,
    /// The exit code, once the rank has ended.
    pub(super) ended: Option<Ending>,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited(i32),
    Killed(i32),
}

impl Ending {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code as u8,
            Self::Killed(signal) => (128 + signal) as u8,
        }
    }
}

impl Ranks {
    pub(super) fn start(job: &Job, count: u32) -> Result<Self, LaunchError> {
        let rendezvous = Rendezvous::new(count, job.meeting)?;
        let mut ranks = Self(Vec::new());
        for rank in 0..count {
            let mut command = job.command(Some(&Place { rendezvous: &rendezvous, rank }))?;
            command.stdin(stdin_for(rank, &job.output)).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.process_group(0);
            die_with_us(&mut command);
            let child = command.spawn().map_err(|error| LaunchError::of_start(&job.program, error))?;
            ranks.0.push(Rank { child, ended: None });
        }
        Ok(ranks)
    }

    pub(super) fn take_pipes(&mut self) -> Vec<Pipe> {
        let mut pipes = Vec::new();
        for (rank, process) in (0_u32..).zip(&mut self.0) {
            let stdout = process.child.stdout.take().map(|pipe| Pipe::new(rank, Kind::Stdout, pipe.into()));
            let stderr = process.child.stderr.take().map(|pipe| Pipe::new(rank, Kind::Stderr, pipe.into()));
            pipes.extend(stdout.into_iter().chain(stderr));
        }
        pipes
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Rank)> {
        self.0.iter_mut().enumerate()
    }

    pub(super) fn all_ended(&self) -> bool {
        self.0.iter().all(|rank| rank.ended.is_some())
    }

    /// Sends the signal to every rank that still runs, and to nobody else.
    pub(super) fn signal_processes(&self, signal: i32) {
        self.0.iter().filter(|rank| rank.ended.is_none()).for_each(|rank| send(rank.pid(), signal));
    }

    /// Sends the signal to every rank and to all that it started in its group.
    pub(super) fn signal_groups(&self, signal: i32) {
        self.0.iter().for_each(|rank| send(-rank.pid(), signal));
    }

    /// Whether something that the ranks started still runs in their groups.
    pub(super) fn anything_alive(&self) -> bool {
        let groups: Vec<i32> = self.0.iter().map(Rank::pid).collect();
        let Ok(processes) = std::fs::read_dir("/proc") else { return false };
        let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Standing::of).any(|found| !found.is_dead() && groups.contains(&found.group))
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.signal_groups(libc::SIGKILL);
        for rank in &mut self.0 {
            let _ = rank.child.wait();
        }
    }
}

impl Rank {
    pub(super) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Looks whether the rank has ended, without reaping it.
    pub(super) fn look(&mut self) -> io::Result<Option<Ending>> {
        // SAFETY: siginfo_t is a plain C struct for which all zeroes is a valid value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is valid for the call; the id is that of our own child, not reaped yet.
        let result = unsafe { libc::waitid(libc::P_PID, self.child.id(), &raw mut info, flags) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: waitid filled these fields, or left them zero because the child still runs.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        self.ended = match (pid, info.si_code) {
            (0, _) => None,
            (_, libc::CLD_EXITED) => Some(Ending::Exited(status)),
            _ => Some(Ending::Killed(status)),
        };
        Ok(self.ended)
    }
}

/// Rank 0 reads our standard input unless that is a terminal: a process outside the terminal's foreground
/// group would be stopped at its first read.
fn stdin_for(rank: u32, output: &Output) -> Stdio {
    match output {
        Output::Prefixed if rank == 0 && !io::stdin().is_terminal() => Stdio::inherit(),
        _ => Stdio::null(),
    }
}

fn die_with_us(command: &mut Command) {
    let parent = std::process::id() as i32;
    let ask = move || {
        // SAFETY: prctl with these arguments only sets an attribute of the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: getppid has no preconditions. We may have died before the line above took effect.
        if unsafe { libc::getppid() } != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec; it makes two async-signal-safe calls and allocates
    // nothing.
    unsafe { command.pre_exec(ask) };
}

fn send(target: i32, signal: i32) {
    // SAFETY: kill has no memory preconditions. The target is a child that is not reaped yet, or its group.
    unsafe { libc::kill(target, signal) };
}
