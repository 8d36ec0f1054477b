//! What the daemon shall do: arguments over environment over settings file, with everything read that has to be read.
//! A setting that protects is honoured or the daemon does not start, and so is a name that looks like one; any other wrong
//! value is a warning and the default, as everywhere in the product. Read at the start and again at SIGHUP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use airamp_settings::{DEFAULT_EVIDENCE_DIR, Loaded, Settings, Unknown};
use rustls::ServerConfig;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::tls;
use crate::token::Token;

/// Wrong values of these would leave the node open that somebody meant to protect.
const PROTECTING: [&str; 4] =
    ["AIRAMP_METRICS_ADDR", "AIRAMP_METRICS_TOKEN_FILE", "AIRAMP_METRICS_TLS_CERT", "AIRAMP_METRICS_TLS_KEY"];

/// Words of which one in an unknown name says what it is for.
const PROTECTION: [&str; 8] = ["token", "tls", "ssl", "cert", "certificate", "auth", "password", "bearer"];

/// What is written behind one of them without anything between, as in `tokenfile`.
const OF_PROTECTION: [&str; 3] = ["file", "cert", "key"];

pub(crate) struct Configuration {
    pub(crate) listen: SocketAddr,
    pub(crate) access: Access,
    pub(crate) looks: Looks,
    pub(crate) evidence: Evidence,
    /// What was wrong and is ignored, one line each.
    pub(crate) warnings: Vec<String>,
    /// What is right and yet worth a line.
    pub(crate) notice: Option<String>,
}

/// Who gets in, and how.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub(crate) token: Option<Arc<Token>>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Looks {
    pub(crate) bases: Vec<PathBuf>,
    pub(crate) hang_after: Duration,
    pub(crate) late_after: Duration,
    pub(crate) devices: bool,
    pub(crate) nics: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Somebody asked for it there: that it cannot be written is worth a line.
    In(PathBuf),
    /// In the usual place, if that exists.
    Usual(PathBuf),
}

impl Configuration {
    pub(crate) fn load(arguments: &Arguments) -> Result<Self, Failure> {
        Self::from(airamp_settings::load(), arguments)
    }

    fn from(loaded: Loaded, arguments: &Arguments) -> Result<Self, Failure> {
        refuse_unprotected(&loaded)?;
        let settings = &loaded.settings;
        let listen = arguments.listen.unwrap_or((settings.metrics_addr, settings.metrics_port).into());
        let access = Access::from(settings)?;
        Ok(Self {
            listen,
            notice: exposure(listen, &access),
            access,
            looks: looks(settings, arguments),
            evidence: evidence(settings, arguments),
            warnings: loaded.warnings,
        })
    }
}

fn refuse_unprotected(loaded: &Loaded) -> Result<(), Failure> {
    if let Some(why) = &loaded.file_ignored {
        return Err(Failure::Setting(format!(
            "{why}: it may hold what protects this node; put it right or take it away"
        )));
    }
    if let Some(unknown) = loaded.unknown.iter().find(|unknown| may_protect(unknown)) {
        return Err(Failure::Setting(format!(
            "{}: it may be meant to protect this node; correct its name or take it away",
            unknown.said
        )));
    }
    match loaded.rejected_of_daemon.iter().find(|name| PROTECTING.contains(name)) {
        Some(name) => {
            let key = name.trim_start_matches("AIRAMP_").to_lowercase();
            let is_why = |line: &&String| line.contains(name) || line.contains(&format!(": {key}: "));
            let why = loaded.warnings.iter().find(is_why).map_or("", String::as_str);
            // Nothing else is used: the daemon does not start.
            let why = why.rsplit_once("; ").map_or(why, |(why, _)| why);
            Err(Failure::Setting(format!("{name} protects this node and its value is wrong: {why}")))
        }
        None => Ok(()),
    }
}

/// A name like those of the settings that protect, as `metrics_token`, `tokenFile` or a key of a table `[tls]`.
fn may_protect(unknown: &Unknown) -> bool {
    let name = unknown.name.to_lowercase();
    let is_of_metrics = name.trim_start_matches("airamp_").starts_with("metric");
    !is_of_a_service(&name)
        && (is_of_metrics
            || speaks_of_protection(&unknown.name)
            || unknown.meant.is_some_and(speaks_of_protection))
}

fn speaks_of_protection(name: &str) -> bool {
    words(name).iter().any(|word| is_of_protection(word))
}

fn is_of_protection(mut word: &str) -> bool {
    while !PROTECTION.contains(&word) {
        match OF_PROTECTION.iter().find_map(|end| word.strip_suffix(end)) {
            Some(shorter) => word = shorter,
            None => return false,
        }
    }
    true
}

/// In small letters: what stands between underscores, dots and the like, and what begins with a capital.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends_capitals = before.is_uppercase() && letters.peek().is_some_and(|next| next.is_lowercase());
        if !letter.is_alphanumeric() || letter.is_uppercase() && (before.is_lowercase() || ends_capitals) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

/// What Kubernetes makes of a Service, were it `airamp-metrics`: hosts and ports, which no setting that protects is.
fn is_of_a_service(name: &str) -> bool {
    let port = name.rsplit_once("_port_").map_or("", |(_, port)| port).split_once('_');
    let is_a_port = port.is_some_and(|(number, protocol)| {
        number.parse::<u16>().is_ok()
            && ["tcp", "udp", "sctp"].iter().any(|known| protocol.starts_with(known))
    });
    is_a_port || name.ends_with("_port") || name.ends_with("_service_host") || name.contains("_service_port_")
}

impl Access {
    fn from(settings: &Settings) -> Result<Self, Failure> {
        let token = settings.metrics_token_file.as_deref().map(Token::from_file).transpose()?.map(Arc::new);
        let tls = match (&settings.metrics_tls_cert, &settings.metrics_tls_key) {
            (Some(certificate), Some(key)) => Some(tls::from_files(certificate, key)?),
            (None, None) => None,
            _ => {
                return Err(Failure::Setting(
                    "TLS takes both AIRAMP_METRICS_TLS_CERT and AIRAMP_METRICS_TLS_KEY: set the other one too, or \
                     none"
                        .to_owned(),
                ));
            }
        };
        Ok(Self { token, tls })
    }
}

/// White papers and pods serve to the network without further ado; they are told what that means.
fn exposure(listen: SocketAddr, access: &Access) -> Option<String> {
    if listen.ip().to_canonical().is_loopback() {
        return None;
    }
    match (&access.token, &access.tls) {
        (None, _) => Some(format!(
            "serving at {listen} to whoever can reach it: set AIRAMP_METRICS_TOKEN_FILE to ask for a token"
        )),
        (Some(_), None) => Some(format!(
            "the token for {listen} travels unencrypted: set AIRAMP_METRICS_TLS_CERT and AIRAMP_METRICS_TLS_KEY"
        )),
        (Some(_), Some(_)) => None,
    }
}

fn looks(settings: &Settings, arguments: &Arguments) -> Looks {
    let mut bases = arguments.telemetry_dir.clone();
    if bases.is_empty() {
        bases.extend(settings.telemetry_dir.clone());
    }
    Looks {
        bases,
        hang_after: Duration::from_millis(settings.hang_after_ms),
        late_after: Duration::from_millis(settings.late_after_ms),
        devices: settings.device_metrics,
        nics: settings.nic_metrics,
    }
}

fn evidence(settings: &Settings, arguments: &Arguments) -> Evidence {
    let named = arguments.evidence_dir.clone().or_else(|| settings.evidence_dir.clone());
    named.map_or_else(|| Evidence::Usual(DEFAULT_EVIDENCE_DIR.into()), Evidence::In)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_settings::Environment;
    use std::ffi::OsString;
    use std::path::Path;

    fn with(variables: &[(&str, &str)]) -> Result<Configuration, Failure> {
        let environment: Environment =
            variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let loaded = airamp_settings::resolve(&environment, Path::new("/nonexistent/airamp.conf"));
        Configuration::from(loaded, &Arguments::default())
    }

    #[test]
    fn nothing_said_means_loopback_without_a_warning() {
        let configuration = with(&[]).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(configuration.listen, "127.0.0.1:9090".parse().unwrap());
        assert_eq!((configuration.warnings, configuration.notice), (Vec::new(), None));
    }

    #[test]
    fn a_wrong_address_is_refused_and_not_said_to_be_replaced() {
        let failure = with(&[("AIRAMP_METRICS_ADDR", "banana")]).err().expect("refused");
        assert_eq!(failure.exit_code(), 3, "{failure}");
        let said = failure.to_string();
        assert!(said.contains("found \"banana\"") && !said.contains("using"), "{said}");
    }

    #[test]
    fn another_address_without_a_token_is_served_with_a_notice() {
        for address in ["0.0.0.0", "::", "10.1.2.3"] {
            let configuration = with(&[("AIRAMP_METRICS_ADDR", address)]).unwrap_or_else(|f| panic!("{f}"));
            let notice = configuration.notice.unwrap_or_default();
            assert!(notice.contains("AIRAMP_METRICS_TOKEN_FILE"), "{address}: {notice}");
        }
        let inside = with(&[("AIRAMP_METRICS_ADDR", "::ffff:127.0.0.1")]).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(inside.notice, None, "a mapped loopback address is loopback");
    }

    #[test]
    fn a_settings_file_that_cannot_be_read_keeps_the_daemon_from_starting() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("airamp.conf");
        for (content, starts) in [("late_after_ms = 5\n", true), ("metrics_token_file = \"/x\n", false)] {
            std::fs::write(&file, content).expect("a settings file");
            let loaded = airamp_settings::resolve(&Environment::default(), &file);
            let failure = Configuration::from(loaded, &Arguments::default()).err();
            assert_eq!(failure.map(|failure| failure.exit_code()), (!starts).then_some(3), "{content}");
        }
        let named = folder.path().join("nowhere");
        let failure = with(&[("AIRAMP_CONFIG", &named.to_string_lossy())]).err();
        assert_eq!(failure.map(|failure| failure.exit_code()), None, "an optional file");
    }

    #[test]
    fn a_protection_that_cannot_be_had_keeps_the_daemon_from_starting() {
        let long = "x".repeat(5000);
        for (name, value) in [
            ("AIRAMP_METRICS_TOKEN_FILE", "/nonexistent/token"),
            ("AIRAMP_METRICS_TOKEN_FILE", long.as_str()),
            ("AIRAMP_METRICS_TLS_CERT", "/etc/hostname"),
            ("AIRAMP_METRICS_TLS_KEY", long.as_str()),
            ("AIRAMP_METRICS_ADDR", "localhost"),
        ] {
            let failure = with(&[(name, value)]).err().unwrap_or_else(|| panic!("{name} was ignored"));
            assert_eq!(failure.exit_code(), 3, "{failure}");
        }
    }

    #[test]
    fn a_misspelt_protection_keeps_the_daemon_from_starting() {
        let refused = |name: &str| {
            let failure = with(&[(name, "/x")]).err().unwrap_or_else(|| panic!("{name} was ignored"));
            assert_eq!(failure.exit_code(), 3, "{failure}");
            failure.to_string()
        };
        for name in ["AIRAMP_METRICS_TOKEN", "AIRAMP_METRIC_TOKEN_FILE", "AIRAMP_MERTICS_TOKEN_FILE"] {
            let said = refused(name);
            assert!(said.contains("did you mean AIRAMP_METRICS_TOKEN_FILE?"), "{said}");
        }
        for name in ["AIRAMP_TOKEN_FILE", "AIRAMP_TLS_CERT", "AIRAMP_MERTICS_TSL_KEY", "AIRAMP_BEARER"] {
            refused(name);
        }
        for name in ["AIRAMP_TOKENFILE", "AIRAMP_TLSCERT", "AIRAMP_HTTP_TLSCERTFILE", "AIRAMP_tlsKey"] {
            refused(name);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("airamp.conf");
        for content in [
            "metrics_token = \"/x\"\n",
            "metrics.token_file = \"/x\"\n",
            "[metrics]\ntoken_file = 1\n",
            "token_file = \"/x\"\n",
            "[airampd]\nlisten = 1\ntoken_file = \"/x\"\n",
            "[tls]\n",
            "[airampd.metrics]\ntoken_file = \"/x\"\n",
            "airampd.http.tls.on = true\n",
            "[[listen]]\nport = 1\n[[listen]]\ntoken_file = \"/x\"\n",
            "listen = [{ at = { bearer = \"/x\" } }]\n",
            "tokenFile = \"/x\"\n",
            "tlsCert = \"/x\"\n",
            "[airampd]\ntokenFile = \"/x\"\n",
            "[airampd]\nserverTLSOn = true\n",
            "\"the token\" = \"/x\"\n",
        ] {
            std::fs::write(&file, content).expect("a settings file");
            let loaded = airamp_settings::resolve(&Environment::default(), &file);
            let failure = Configuration::from(loaded, &Arguments::default()).err();
            assert_eq!(failure.map(|failure| failure.exit_code()), Some(3), "{content}");
        }
    }

    #[test]
    fn an_unknown_name_that_protects_nothing_is_a_warning() {
        // Most are what Kubernetes makes of Services airamp, airamp-api, airamp-metrics and airamp-token.
        for name in [
            "AIRAMP_LOGS",
            "AIRAMP_MASTER_ADDR",
            "AIRAMP_MASTER_PORT",
            "AIRAMP_TOKENIZERS",
            "AIRAMP_SERVICE_HOST",
            "AIRAMP_SERVICE_PORT",
            "AIRAMP_API_PORT",
            "AIRAMP_METRICS_SERVICE_HOST",
            "AIRAMP_METRICS_SERVICE_PORT_HTTP",
            "AIRAMP_METRICS_PORT_9090_TCP",
            "AIRAMP_SERVICE_PORT_TLS",
            "AIRAMP_SERVICE_PORT_TOKEN",
            "AIRAMP_TOKEN_PORT_9090_TCP_PROTO",
        ] {
            let configuration = with(&[(name, "1")]).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(configuration.warnings.len(), 1, "{name}");
        }
    }

    #[test]
    fn a_wrong_protection_is_told_with_its_place() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("airamp.conf");
        std::fs::write(&file, "metrics_addr = \"localhost\"\n").expect("a settings file");
        let loaded = airamp_settings::resolve(&Environment::default(), &file);
        let failure = Configuration::from(loaded, &Arguments::default()).err().expect("a failure");
        assert!(failure.to_string().contains("airamp.conf:1: metrics_addr"), "{failure}");
    }
}
