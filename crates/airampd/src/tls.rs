//! TLS of the server: certificate and key from PEM files, checked to belong together before anybody connects.
//! TLS 1.2 and 1.3 with the safe suites of rustls; no client certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::failure::Failure;
use crate::small_file;

/// A chain of a few certificates takes some kilobytes.
const MOST_FILE_BYTES: u64 = 256 * 1024;

pub(crate) fn from_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let chain = CertificateDer::pem_slice_iter(&read(certificate, "certificate", "AIRAMP_METRICS_TLS_CERT")?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable("certificate", certificate, "AIRAMP_METRICS_TLS_CERT", &error))?;
    if chain.is_empty() {
        let why = "no certificate is in it; expected PEM, from `-----BEGIN CERTIFICATE-----` on";
        return Err(unusable("certificate", certificate, "AIRAMP_METRICS_TLS_CERT", &why));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key, "key", "AIRAMP_METRICS_TLS_KEY")?)
        .map_err(|error| unusable("key", key, "AIRAMP_METRICS_TLS_KEY", &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::Certificate(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| do_not_fit(certificate, key, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path, what: &str, setting: &str) -> Result<Vec<u8>, Failure> {
    small_file::read(path, MOST_FILE_BYTES).map_err(|error| unusable(what, path, setting, &error))
}

fn unusable(what: &str, path: &Path, setting: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::Certificate(format!(
        "the {what} in {} ({setting}) cannot be used: {why}; name a PEM file that this user can read",
        path.display()
    ))
}

fn do_not_fit(certificate: &Path, key: &Path, error: &rustls::Error) -> Failure {
    Failure::Certificate(format!(
        "certificate {} and key {} cannot be used together: {error}; both must come from the same request, the \
         server's own certificate first in its file",
        certificate.display(),
        key.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_serves_with_its_own_key_and_with_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
            std::fs::write(path(&format!("{name}.crt")), made.cert.pem()).expect("a file");
            std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).expect("a file");
        }
        assert!(from_files(&path("a.crt"), &path("a.key")).is_ok());
        for (certificate, key) in
            [("a.crt", "b.key"), ("a.key", "a.key"), ("a.crt", "a.crt"), ("none", "a.key")]
        {
            let failure = from_files(&path(certificate), &path(key)).expect_err("a refusal");
            assert!(matches!(failure, Failure::Certificate(_)), "{certificate} with {key}: {failure}");
        }
    }
}
