//! Who gets in: the token, TLS, and that a reload changes both without letting anybody in meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use airamp_tests::daemon::Daemon;
use airamp_tests::http::{self, Answer};
use airamp_tests::process::free_port;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const TOKEN: &str = "0123456789abcdef-first";
const OTHER: &str = "fedcba9876543210-other";

#[test]
fn with_a_token_only_the_page_and_the_probes_are_open() {
    let daemon = with_token();
    for path in ["/", "/healthz", "/readyz"] {
        assert_eq!(daemon.get(path).status, 200, "{path}");
    }
    for path in [
        "/metrics",
        "/api/v1/node",
        "/api/v1/events",
        "/api/v1/evidence",
        "/api/v1/timeline?job=",
        "/nothing",
    ] {
        let refused = daemon.get(path);
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").starts_with("Bearer"), "{path}");
    }
    assert_eq!(with(&daemon, &format!("Bearer {TOKEN}")), 200);
    for wrong in [
        format!("Bearer {OTHER}"),
        format!("Basic {TOKEN}"),
        format!("Bearer {TOKEN}x"),
        "Bearer ".to_owned(),
    ] {
        assert_eq!(with(&daemon, &wrong), 401, "{wrong}");
    }
}

#[test]
fn a_reload_takes_the_new_token_and_keeps_the_old_one_if_the_new_is_unusable() {
    let daemon = with_token();
    let bearer = |token: &str| with(&daemon, &format!("Bearer {token}"));
    write(daemon.folder(), "token", "short");
    daemon.reload();
    assert_eq!((bearer(TOKEN), bearer("short")), (200, 401));
    write(daemon.folder(), "token", OTHER);
    daemon.reload();
    assert_eq!((bearer(TOKEN), bearer(OTHER)), (401, 200));
    std::fs::remove_file(daemon.folder().join("token")).expect("the file is there");
    daemon.reload();
    assert_eq!((bearer(OTHER), daemon.get("/metrics").status), (200, 401), "a lost file opens nothing");
}

#[test]
fn tls_serves_who_trusts_its_certificate_and_nobody_in_clear() {
    let daemon = with_tls();
    let answer =
        over_tls(daemon.address, &trusting(daemon.folder(), "first"), "/healthz").expect("an answer");
    assert_eq!(answer.status, 200);
    make_certificate(daemon.folder(), "stranger");
    assert!(over_tls(daemon.address, &trusting(daemon.folder(), "stranger"), "/healthz").is_none());
    let plain = http::ask(daemon.address, http::question("GET", "/healthz", "localhost", &[]).as_bytes());
    assert!(plain.is_none(), "{plain:?}");
    let again = over_tls(daemon.address, &trusting(daemon.folder(), "first"), "/metrics").expect("an answer");
    assert!(again.text().contains("airamp_status"));
}

#[test]
fn a_reload_takes_the_new_certificate_and_keeps_the_old_one_if_the_new_is_unusable() {
    let daemon = with_tls();
    make_certificate(daemon.folder(), "second");
    let trusts =
        |name: &str| over_tls(daemon.address, &trusting(daemon.folder(), name), "/healthz").is_some();
    assert!(trusts("first") && !trusts("second"));
    // A certificate without its key, as it lies there for a moment during a renewal.
    copy(daemon.folder(), "second.crt", "served.crt");
    daemon.reload();
    assert!(trusts("first"), "{}", daemon.complaints());
    assert!(daemon.complaints().contains("nothing was changed"), "{}", daemon.complaints());
    copy(daemon.folder(), "second.key", "served.key");
    daemon.reload();
    assert!(trusts("second") && !trusts("first"), "{}", daemon.complaints());
}

#[test]
fn a_reload_moves_to_another_port_and_stays_where_it_is_if_that_is_taken() {
    let (first, second) = (free_port(), free_port());
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "airamp.conf", &format!("metrics_port = {first}\n"));
    let run = airamp_tests::daemon::run(folder.path());
    let live = airamp_tests::live::Live::start(&run);
    let answers = |port: u16| {
        let question = http::question("GET", "/healthz", "localhost", &[]);
        http::ask(SocketAddr::from(([127, 0, 0, 1], port)), question.as_bytes()).is_some()
    };
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + http::LIMIT;
        while !holds() {
            assert!(std::time::Instant::now() < deadline, "never: {what}\n{}", live.complaints());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until("it serves", &|| answers(first));
    let taken = std::net::TcpListener::bind(("127.0.0.1", second)).expect("the port is free");
    write(folder.path(), "airamp.conf", &format!("metrics_port = {second}\n"));
    live.signal(libc::SIGHUP);
    until("it says that the port is taken", &|| live.complaints().contains("still serving"));
    until("it serves where it did", &|| answers(first));
    drop(taken);
    live.signal(libc::SIGHUP);
    until("it serves at the new port", &|| answers(second));
    assert!(!answers(first));
}

#[test]
fn a_reload_that_asks_for_tls_ends_the_connections_that_are_in_clear() {
    let daemon = Daemon::start();
    let mut open = Open::to(daemon.address);
    daemon.reload();
    assert!(open.asks().contains("200 OK"), "nothing was changed that concerns it");
    make_certificate(daemon.folder(), "first");
    let path = |name: &str| daemon.folder().join(name);
    let settings =
        format!("metrics_tls_cert = {:?}\nmetrics_tls_key = {:?}\n", path("first.crt"), path("first.key"));
    write(daemon.folder(), "airamp.conf", &settings);
    daemon.reload();
    assert_eq!(open.asks(), "", "{}", daemon.complaints());
    assert!(over_tls(daemon.address, &trusting(daemon.folder(), "first"), "/healthz").is_some());
}

#[test]
fn a_reload_that_narrows_the_address_ends_the_connections_to_the_old_one() {
    let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
    let listen = |address: &str| {
        write(
            folder.path(),
            "airamp.conf",
            &format!("metrics_addr = \"{address}\"\nmetrics_port = {port}\n"),
        );
    };
    listen("0.0.0.0");
    let live = airamp_tests::live::Live::start(&airamp_tests::daemon::run(folder.path()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let deadline = std::time::Instant::now() + http::LIMIT;
        while !holds() {
            assert!(std::time::Instant::now() < deadline, "never: {what}\n{}", live.complaints());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until("it serves", &|| http::connect(address).is_ok());
    let mut open = Open::to(address);
    listen("127.0.0.1");
    live.signal(libc::SIGHUP);
    until("it has reloaded", &|| live.complaints().contains("were read again"));
    assert_eq!(open.asks(), "", "{}", live.complaints());
    assert!(Open::to(address).asks().contains("200 OK"), "{}", live.complaints());
}

/// A connection that stays after its first answer.
struct Open(TcpStream);

impl Open {
    fn to(address: SocketAddr) -> Self {
        let mut open = Self(http::connect(address).expect("it accepts"));
        assert!(open.asks().contains("200 OK"));
        open
    }

    /// What comes first after a question; nothing if the connection is over.
    fn asks(&mut self) -> String {
        let mut bytes = [0; 4096];
        let _ = self.0.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let read = self.0.read(&mut bytes).unwrap_or_else(|error| {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it neither answers nor ends");
            0
        });
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}

fn with_token() -> Daemon {
    Daemon::start_with(|folder, run| {
        write(folder, "token", &format!("{TOKEN}\n"));
        run.env("AIRAMP_METRICS_TOKEN_FILE", folder.join("token"))
    })
}

fn with_tls() -> Daemon {
    Daemon::start_with(|folder, run| {
        make_certificate(folder, "first");
        copy(folder, "first.crt", "served.crt");
        copy(folder, "first.key", "served.key");
        run.env("AIRAMP_METRICS_TLS_CERT", folder.join("served.crt"))
            .env("AIRAMP_METRICS_TLS_KEY", folder.join("served.key"))
    })
}

fn with(daemon: &Daemon, authorization: &str) -> u16 {
    http::get(daemon.address, "/metrics", &[("Authorization", authorization)]).status
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file");
}

fn copy(folder: &Path, from: &str, to: &str) {
    std::fs::copy(folder.join(from), folder.join(to)).expect("a copy");
}

fn make_certificate(folder: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    write(folder, &format!("{name}.crt"), &made.cert.pem());
    write(folder, &format!("{name}.key"), &made.signing_key.serialize_pem());
}

fn trusting(folder: &Path, name: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate =
        CertificateDer::from_pem_file(folder.join(format!("{name}.crt"))).expect("a certificate");
    roots.add(certificate).expect("it can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(builder.expect("versions").with_root_certificates(roots).with_no_client_auth())
}

fn over_tls(address: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> Option<Answer> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::clone(config), name).expect("a client");
    let mut stream: StreamOwned<_, TcpStream> = StreamOwned::new(connection, http::connect(address).ok()?);
    stream.write_all(http::question("GET", path, "localhost", &[]).as_bytes()).ok()?;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::parsed(&bytes)
}
