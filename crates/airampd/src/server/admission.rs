//! Whether a question is answered at all: its method, its length, the host it was meant for, the token.
//! The path is known here only as open or not.

use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::host;
use crate::token::Token;

/// Paths and queries of ours are a tenth of it.
const MOST_URI_BYTES: usize = 4096;

/// They hold no data of the node: probes carry no token, and the page asks for it itself.
const OPEN: [&str; 3] = ["/", "/healthz", "/readyz"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    Unauthorized,
    MethodNotAllowed,
    BodyNotAllowed,
    UriTooLong,
    Misdirected,
}

/// `loopback` tells whether the daemon listens on the loopback interface only.
pub(crate) fn check(question: &Parts, loopback: bool, token: Option<&Token>) -> Result<(), Refusal> {
    if !matches!(question.method, Method::GET | Method::HEAD) {
        return Err(Refusal::MethodNotAllowed);
    }
    if question.uri.path_and_query().is_some_and(|text| text.as_str().len() > MOST_URI_BYTES) {
        return Err(Refusal::UriTooLong);
    }
    if has_body(&question.headers) {
        return Err(Refusal::BodyNotAllowed);
    }
    check_host(question, loopback)?;
    match token {
        Some(token) if !OPEN.contains(&question.uri.path()) && !carries(&question.headers, token) => {
            Err(Refusal::Unauthorized)
        }
        _ => Ok(()),
    }
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

fn carries(headers: &HeaderMap, token: &Token) -> bool {
    headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).is_some_and(|value| token.is_in(value))
}

/// A page of another site can have its own name resolve to 127.0.0.1 and then read, as that site, what listens
/// there. The browser still names that site as the host; so on loopback only names of loopback are answered. On
/// other addresses a node has names that are not known here, and a token is what protects.
fn check_host(question: &Parts, loopback: bool) -> Result<(), Refusal> {
    let mut hosts = question.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().map_err(|_| Refusal::Malformed)?,
        (None, _) if question.version == Version::HTTP_10 => return Ok(()),
        _ => return Err(Refusal::Malformed),
    };
    if loopback && !host::is_of_loopback(host) { Err(Refusal::Misdirected) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn asked(build: impl FnOnce(hyper::http::request::Builder) -> hyper::http::request::Builder) -> Parts {
        let builder = Request::builder().uri("/metrics").header(HOST, "localhost:9090");
        build(builder).body(()).expect("a request").into_parts().0
    }

    fn on_loopback(host: &str) -> Result<(), Refusal> {
        let question = Request::builder().uri("/metrics").header(HOST, host).body(()).expect("a request");
        check(&question.into_parts().0, true, None)
    }

    #[test]
    fn on_loopback_only_names_of_loopback_are_answered() {
        for host in [
            "localhost",
            "LOCALHOST:9090",
            "127.0.0.1:9090",
            "127.1.2.3",
            "[::1]:9090",
            "a.localhost:1",
            "localhost.",
        ] {
            assert_eq!(on_loopback(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            "[::2]",
            "[::1].evil.example",
            "localhost:.evil.example",
            "localhost:9090.evil.example",
            "[::1",
        ] {
            assert_eq!(on_loopback(host), Err(Refusal::Misdirected), "{host}");
        }
    }

    #[test]
    fn elsewhere_any_host_is_answered_but_one_it_must_be() {
        let question = Request::builder().uri("/").header(HOST, "node-17:9090").body(()).expect("a request");
        assert_eq!(check(&question.into_parts().0, false, None), Ok(()));
        let none = Request::builder().uri("/").body(()).expect("a request").into_parts().0;
        assert_eq!(check(&none, false, None), Err(Refusal::Malformed));
        let two = asked(|builder| builder.header(HOST, "other"));
        assert_eq!(check(&two, true, None), Err(Refusal::Malformed));
    }

    #[test]
    fn only_reading_is_allowed_and_only_without_a_body() {
        assert_eq!(check(&asked(|b| b.method("HEAD")), true, None), Ok(()));
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
            let refused = check(&asked(|b| b.method(method)), true, None);
            assert_eq!(refused, Err(Refusal::MethodNotAllowed), "{method}");
        }
        assert_eq!(
            check(&asked(|b| b.header(CONTENT_LENGTH, "5")), true, None),
            Err(Refusal::BodyNotAllowed)
        );
        assert_eq!(check(&asked(|b| b.header(CONTENT_LENGTH, "0")), true, None), Ok(()));
        let long = format!("/metrics?{}", "x".repeat(MOST_URI_BYTES));
        assert_eq!(check(&asked(|b| b.uri(long)), true, None), Err(Refusal::UriTooLong));
    }
}
