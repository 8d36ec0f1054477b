//! `airampd`: looks at the telemetry of a node's processes once a second and serves what it sees.
//! `metrics` and `page` make text out of a look; the other modules get it to who asks.
//! It writes nothing but evidence files, and never touches the processes that it watches.

pub mod metrics;
pub mod page;

mod arguments;
mod board;
mod budget;
mod configuration;
mod daemon;
mod evidence;
mod failure;
mod history;
mod itself;
mod log;
mod looks;
mod notify;
mod server;
mod small_file;
mod tls;
mod token;

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;
use board::Board;
use configuration::{Configuration, Evidence};
use failure::Failure;
pub use server::{host, query};

/// The program.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = if let Some(shell) = arguments.completions {
        print(&arguments::completions(shell))
    } else if arguments.check_config {
        check(&arguments)
    } else if arguments.once {
        print_once(&arguments)
    } else {
        daemon::run(&arguments)
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log::say(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn print_once(arguments: &Arguments) -> Result<(), Failure> {
    let configuration = Configuration::load(arguments)?;
    configuration.warnings.iter().for_each(log::say);
    let (node, took) = looks::once(&configuration.looks);
    let board = Board::new(itself::unix_ms());
    board.publish(node, took);
    let look = board.latest();
    let text = look.and_then(|look| board.metrics(&look, metrics::Format::Text).ok()).unwrap_or_default();
    print(&text)
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let configuration = Configuration::load(arguments)?;
    let printed = print(describe(&configuration).as_bytes());
    configuration.warnings.iter().chain(&configuration.notice).for_each(log::say);
    printed?;
    match configuration.warnings.len() {
        0 => Ok(()),
        wrong => Err(Failure::Setting(format!("{wrong} of the settings are wrong and would be ignored"))),
    }
}

fn describe(configuration: &Configuration) -> String {
    let (Configuration { access, looks, .. }, mut text) = (configuration, String::new());
    let yes = |is: bool| if is { "yes" } else { "no" };
    let bases: Vec<_> = looks.bases.iter().map(|base| base.display().to_string()).collect();
    let evidence = match &configuration.evidence {
        Evidence::In(path) => path.display().to_string(),
        Evidence::Usual(path) => format!("{}, if it can be written to", path.display()),
    };
    let rows = [
        ("serves at", configuration.listen.to_string()),
        ("asks for a token", yes(access.token.is_some()).to_owned()),
        ("TLS", yes(access.tls.is_some()).to_owned()),
        ("telemetry in", if bases.is_empty() { "the usual folders".to_owned() } else { bases.join(", ") }),
        ("evidence in", evidence),
        ("a rank is late after", format!("{:?}", looks.late_after)),
        ("a call hangs after", format!("{:?}", looks.hang_after)),
        ("GPU counters", yes(looks.devices).to_owned()),
        ("interface counters", yes(looks.nics).to_owned()),
    ];
    for (what, value) in rows {
        let _ = writeln!(text, "{what:<22}{value}");
    }
    text
}

/// Whoever stopped reading has read enough; a file that was cut must not look like a whole one.
fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}
