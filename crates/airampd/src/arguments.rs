//! The command line. Every value has its place in the settings too; an argument wins over both of their sources.
//! It only reads words; what they mean together is found out in `configuration`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Command, CommandFactory, Parser};

const ABOUT: &str = "\
Shows what AIRamp-Accel does on this node: metrics for Prometheus, a live page, an API.

airampd finds every process that runs with the library, reads its telemetry once a second, and serves the sum \
at http://127.0.0.1:9090/. It needs no configuration, changes nothing in the jobs it watches, and listens on no \
other address unless told to.";

const AFTER_HELP: &str = "\
Addresses:
  /                     the live page
  /metrics              for Prometheus: OpenMetrics or the older text format, as the client accepts
  /healthz, /readyz     200 while it runs; 200 once it has looked and its last look is recent
  /api/v1/node          all of the last look as JSON
  /api/v1/timeline      the last ten minutes of a job (?job=NAME)
  /api/v1/events        what happened (?since=NUMBER)
  /api/v1/evidence      records of calls around anomalies

Examples:
  airampd                                     serve at 127.0.0.1:9090
  airampd --once                              print the metrics of now and end
  airampd --check-config                      say what holds, and what is wrong with it
  AIRAMP_METRICS_ADDR=0.0.0.0 airampd         serve to the network: set a token as well
  airampd --telemetry-dir /airamp             as a sidecar, with the pod's shared volume

Settings come from the environment, then from /etc/airamp.conf: AIRAMP_METRICS_ADDR, AIRAMP_METRICS_PORT, \
AIRAMP_METRICS_TOKEN_FILE, AIRAMP_METRICS_TLS_CERT, AIRAMP_METRICS_TLS_KEY, AIRAMP_TELEMETRY_DIR, \
AIRAMP_EVIDENCE_DIR, AIRAMP_DEVICE_METRICS, AIRAMP_NIC_METRICS, AIRAMP_HANG_AFTER_MS, AIRAMP_LATE_AFTER_MS; \
`airamp config` shows them all. SIGHUP reads them, the token and the certificate again; SIGTERM and SIGINT end it.

Exit codes: 0 ended as asked, 1 anything else, 2 wrong arguments, 3 a setting that cannot be honoured, 4 the port \
is in use, 5 the address is not one of this machine, 6 not permitted to listen there, 7 a certificate or key that \
cannot be used.";

#[derive(Clone, Debug, Default, Parser)]
#[command(name = "airampd", version, about = ABOUT, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Serve at this address and port; with port 0 at a free one. The address is printed as the first line of output
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,

    /// Look for telemetry in this folder instead of the usual ones; may be given more than once
    #[arg(long, value_name = "FOLDER", value_parser = airamp_observer::base_folder)]
    pub(crate) telemetry_dir: Vec<PathBuf>,

    /// Keep records of calls around anomalies in this folder
    #[arg(long, value_name = "FOLDER")]
    pub(crate) evidence_dir: Option<PathBuf>,

    /// Look once, print the metrics and end
    #[arg(long, conflicts_with_all = ["check_config", "listen"])]
    pub(crate) once: bool,

    /// Print what the settings come to and whether they can be honoured, and end
    #[arg(long)]
    pub(crate) check_config: bool,

    /// Print what this shell offers after `airampd`, and end: for deploy/release/tree
    #[arg(long, value_name = "SHELL", hide = true)]
    pub(crate) completions: Option<clap_complete::Shell>,
}

/// A script for the shell, without what only we ask for.
pub(crate) fn completions(shell: clap_complete::Shell) -> Vec<u8> {
    let whole = Arguments::command();
    let shown = whole.get_arguments().filter(|argument| !argument.is_hide_set());
    let mut copy = Command::new("airampd").version(env!("CARGO_PKG_VERSION")).args(shown);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut copy, "airampd", &mut text);
    text
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected a numeric address and a port from 0 to 65535, as 127.0.0.1:9090 or [::1]:9090".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_folder_of_telemetry_is_refused_with_what_to_give_instead() {
        for folder in ["telemetry", "./telemetry", "../shm", ""] {
            let refused = Arguments::try_parse_from(["airampd", "--telemetry-dir", folder]).unwrap_err();
            assert!(refused.to_string().contains("an absolute path"), "{folder:?}: {refused}");
            assert_eq!(refused.exit_code(), 2);
        }
        let taken = Arguments::try_parse_from(["airampd", "--telemetry-dir", "/airamp"]).unwrap();
        assert_eq!(taken.telemetry_dir, [PathBuf::from("/airamp")]);
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_what_one_looks_like() {
        for wrong in ["127.0.0.1", ":9090", "localhost:9090", "127.0.0.1:99999", ""] {
            let refused = Arguments::try_parse_from(["airampd", "--listen", wrong]).unwrap_err();
            assert!(refused.to_string().contains("as 127.0.0.1:9090 or [::1]:9090"), "{wrong:?}: {refused}");
            assert_eq!(refused.exit_code(), 2);
        }
    }

    #[test]
    fn the_arguments_are_well_formed_and_the_help_names_every_setting_of_the_daemon() {
        Arguments::command().debug_assert();
        for setting in airamp_settings::TABLE.iter().filter(|row| row.part == airamp_settings::Part::Daemon) {
            assert!(AFTER_HELP.contains(setting.env), "{} is not in the help", setting.env);
        }
    }

    #[test]
    fn every_shell_offers_the_options_but_not_the_one_that_makes_its_script() {
        use clap_complete::Shell;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell)).expect("text");
            assert!(script.contains("evidence-dir") && script.contains("check-config"), "{shell}: {script}");
            assert!(!script.contains("completions"), "{shell}: {script}");
        }
    }
}
