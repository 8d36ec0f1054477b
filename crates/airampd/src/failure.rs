//! Why the daemon does not start or cannot do what was asked, in sentences that say what to do, each kind with an exit code of its own.

use std::io;
use std::net::SocketAddr;

/// Ended for a reason that has no code of its own.
pub(crate) const FAILED: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A setting that would leave the node less protected than asked for is never ignored.
    #[error("{0}")]
    Setting(String),
    #[error(
        "{0} is in use by another program (Prometheus itself and RHEL's Cockpit use port 9090 by default): set \
         AIRAMP_METRICS_PORT, or metrics_port in the settings file, to a free port, or end that program; `ss -ltnp` shows it"
    )]
    PortInUse(SocketAddr),
    #[error(
        "{0} is not an address of this machine: set AIRAMP_METRICS_ADDR to one that `ip address` shows, or to \
         127.0.0.1, 0.0.0.0, ::1 or ::"
    )]
    AddressNotAvailable(SocketAddr),
    #[error(
        "this user may not listen at {0}: ports below 1024 need CAP_NET_BIND_SERVICE; set AIRAMP_METRICS_PORT to \
         1024 or above"
    )]
    NotPermitted(SocketAddr),
    #[error("{0}")]
    Certificate(String),
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("what was asked for cannot be written to standard output, at least not all of it: {0}")]
    Output(io::Error),
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl Failure {
    pub(crate) fn listening(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::PortInUse(address),
            io::ErrorKind::AddrNotAvailable => Self::AddressNotAvailable(address),
            io::ErrorKind::PermissionDenied => Self::NotPermitted(address),
            _ => Self::Listen(address, error),
        }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Setting(_) => 3,
            Self::PortInUse(_) => 4,
            Self::AddressNotAvailable(_) => 5,
            Self::NotPermitted(_) => 6,
            Self::Certificate(_) => 7,
            Self::Listen(..) | Self::Output(_) | Self::Start(_) => FAILED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_not_getting_an_address_has_its_own_code_and_names_the_setting_to_change() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        for (errno, code) in
            [(libc::EADDRINUSE, 4), (libc::EADDRNOTAVAIL, 5), (libc::EACCES, 6), (libc::ENOMEM, 1)]
        {
            let failure = Failure::listening(address, io::Error::from_raw_os_error(errno));
            assert_eq!(failure.exit_code(), code, "{failure}");
            assert!(code == 1 || failure.to_string().contains("AIRAMP_METRICS_"), "{failure}");
        }
    }
}
