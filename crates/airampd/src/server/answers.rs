//! Which question gets which answer. Everything comes from the board or from the folder of evidence; an answer
//! never causes a look.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use serde_json::json;

use super::Terms;
use super::admission::{self, Refusal};
use super::query;
use crate::board::{self, Board, Look, Spent};
use crate::evidence::Folder;
use crate::{metrics, page};

pub(crate) type Answer = Response<Full<Bytes>>;

/// Looks that are older than this are worth no alarm, but nobody should be sent here for them.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// The looking thread is stuck; a restart is what helps.
const HEALTHY_WITHIN: Duration = Duration::from_secs(60);

/// What an answer says in words, with the answer until it is known how to say it.
#[derive(Clone)]
struct Sentence(String);

/// Something is asked for since what is no number.
#[derive(Debug, PartialEq)]
struct NoNumber;

const EVIDENCE: &str = "/api/v1/evidence";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const JSON_LINES: &str = "application/jsonl";

/// For what is no page: nothing may come of it in a browser.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// Answers, and counts the answer.
pub(crate) async fn answer(question: &Parts, terms: Rc<Terms>, board: &Arc<Board>) -> Answer {
    let mut answer = match admission::check(question, terms.loopback(), terms.access.token.as_deref()) {
        Ok(()) => route(question, &terms, board).await,
        Err(refusal) => refuse(refusal),
    };
    if is_of_the_api(question.uri.path()) {
        say_in_json(&mut answer);
    }
    board.counts.answered(answer.status().as_u16());
    answer
}

async fn route(question: &Parts, terms: &Terms, board: &Arc<Board>) -> Answer {
    let query = question.uri.query();
    match question.uri.path() {
        "/" => page_itself(),
        "/healthz" => health(board),
        "/readyz" => readiness(board),
        "/metrics" => with_look(board, |look| metrics_of(question, look, board)),
        "/api/v1/node" => with_look(board, |look| bytes(JSON, board.node(look))),
        "/api/v1/timeline" => timeline(query, board),
        "/api/v1/events" => with_look(board, |look| events(query, look, board)),
        EVIDENCE => evidence_list(terms.evidence.clone(), board).await,
        path => match path.strip_prefix(EVIDENCE).and_then(|rest| rest.strip_prefix('/')) {
            Some(name) => evidence_file(name, terms.evidence.clone(), board).await,
            None => not_found("there is nothing at this address; `airampd --help` lists what there is"),
        },
    }
}

fn refuse(refusal: Refusal) -> Answer {
    let (status, why) = match refusal {
        Refusal::Malformed => (StatusCode::BAD_REQUEST, "a request names exactly one host"),
        Refusal::Unauthorized => {
            (StatusCode::UNAUTHORIZED, "this takes the token: Authorization: Bearer TOKEN")
        }
        Refusal::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are understood"),
        Refusal::BodyNotAllowed => (StatusCode::PAYLOAD_TOO_LARGE, "a request here has no body"),
        Refusal::UriTooLong => (StatusCode::URI_TOO_LONG, "the address is too long"),
        Refusal::Misdirected => (
            StatusCode::MISDIRECTED_REQUEST,
            "on loopback only localhost, 127.0.0.1 and [::1] are answered, so that no site can pose as this one",
        ),
    };
    let mut answer = sentence(status, why);
    let headers = answer.headers_mut();
    match refusal {
        Refusal::Unauthorized => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"airampd\""));
        }
        Refusal::MethodNotAllowed => {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        _ => {}
    }
    if matches!(refusal, Refusal::MethodNotAllowed | Refusal::BodyNotAllowed | Refusal::UriTooLong) {
        // What the client still sends is not worth reading.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn page_itself() -> Answer {
    let mut answer = whole(StatusCode::OK, HTML, Bytes::from_static(page::html().as_bytes()));
    if let Ok(policy) = HeaderValue::from_str(page::content_security_policy()) {
        answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    answer
}

fn health(board: &Board) -> Answer {
    let silence = board.silence();
    match silence > HEALTHY_WITHIN {
        true => unavailable(&format!("no look was over in the last {} s", silence.as_secs())),
        false => sentence(StatusCode::OK, "ok"),
    }
}

fn readiness(board: &Board) -> Answer {
    match board.age() {
        None => unavailable("the first look is not over yet"),
        Some(age) if age > READY_WITHIN => unavailable(&format!("the last look was {} s ago", age.as_secs())),
        Some(_) => sentence(StatusCode::OK, "ready"),
    }
}

fn with_look(board: &Board, then: impl FnOnce(&Look) -> Answer) -> Answer {
    board.latest().map_or_else(|| unavailable("the first look is not over yet"), |look| then(&look))
}

fn metrics_of(question: &Parts, look: &Look, board: &Board) -> Answer {
    let accepts =
        question.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = metrics::negotiate(accepts);
    let mut answer = bytes(format.content_type(), board.metrics(look, format));
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

fn timeline(query: Option<&str>, board: &Board) -> Answer {
    let Some(job) = query::value(query, "job").flatten() else {
        return sentence(StatusCode::BAD_REQUEST, "name a job by its label: /api/v1/timeline?job=LABEL");
    };
    let Ok(since) = since(query) else { return bad_since() };
    match board.timeline(&job, since).transpose() {
        Some(made) => bytes(JSON, made),
        None => sentence(StatusCode::NOT_FOUND, "no such job in the last ten minutes"),
    }
}

fn events(query: Option<&str>, look: &Look, board: &Board) -> Answer {
    let Ok(since) = since(query) else { return bad_since() };
    let events: Vec<_> = look.events_since(since).collect();
    let last = events.last().map_or(since, |event| event.seq);
    bytes(JSON, board.keep(|| board::json(&json!({ "schema": 1, "last": last, "events": events }))))
}

async fn evidence_list(folder: Option<Arc<Folder>>, board: &Arc<Board>) -> Answer {
    let Some(folder) = folder else {
        return bytes(JSON, board.keep(|| board::json(&json!({ "schema": 1, "folder": null, "files": [] }))));
    };
    let path = folder.path().display().to_string();
    match off_thread(move || folder.list()).await {
        Ok(files) => {
            bytes(JSON, board.keep(|| board::json(&json!({ "schema": 1, "folder": path, "files": files }))))
        }
        Err(why) => sentence(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("the folder of evidence cannot be read: {why}"),
        ),
    }
}

async fn evidence_file(name: &str, folder: Option<Arc<Folder>>, board: &Arc<Board>) -> Answer {
    let (name, keeper) = (name.to_owned(), Arc::clone(board));
    let Some(folder) = folder else { return sentence(StatusCode::NOT_FOUND, "no evidence is kept") };
    // Counted where it is read, before the next one may be.
    let read = off_thread(move || folder.read(&name).map(|content| keeper.keep(|| content))).await;
    match read {
        Ok(kept) => bytes(JSON_LINES, kept),
        Err(_) => sentence(StatusCode::NOT_FOUND, "there is no such evidence, or no longer"),
    }
}

/// A disk may hang; the server must not.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// From when on; everything where the question does not say. A mistake is not answered as if nothing were said: the
/// client would take all of it for what is new.
fn since(query: Option<&str>) -> Result<u64, NoNumber> {
    let Some(given) = query::value(query, "since") else { return Ok(0) };
    given.and_then(|text| text.parse().ok()).ok_or(NoNumber)
}

fn bad_since() -> Answer {
    sentence(StatusCode::BAD_REQUEST, &format!("since= takes a whole number from 0 to {}", u64::MAX))
}

fn bytes(content_type: &'static str, made: Result<Bytes, Spent>) -> Answer {
    match made {
        Ok(body) => whole(StatusCode::OK, content_type, body),
        Err(Spent) => unavailable("too many answers are waiting for slow clients"),
    }
}

fn not_found(why: &str) -> Answer {
    sentence(StatusCode::NOT_FOUND, why)
}

fn unavailable(why: &str) -> Answer {
    let mut answer = sentence(StatusCode::SERVICE_UNAVAILABLE, why);
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn sentence(status: StatusCode, text: &str) -> Answer {
    let mut answer = whole(status, TEXT, format!("{text}\n").into());
    answer.extensions_mut().insert(Sentence(text.to_owned()));
    answer
}

fn is_of_the_api(path: &str) -> bool {
    path.strip_prefix("/api").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Every sentence there is an error; what is data has no sentence.
fn say_in_json(answer: &mut Answer) {
    if let Some(Sentence(text)) = answer.extensions_mut().remove() {
        *answer.body_mut() = Full::new(board::json(&json!({ "error": text })).into());
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
}

fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, NOTHING),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Access;
    use crate::token::Token;
    use http_body_util::BodyExt;
    use std::net::SocketAddr;
    use std::time::Instant;

    fn asked(
        method: &str,
        host: &str,
        path: &str,
        access: Access,
        board: &Arc<Board>,
    ) -> (u16, String, String) {
        let request = hyper::Request::builder().method(method).uri(path).header(header::HOST, host).body(());
        let (question, ()) = request.expect("a request").into_parts();
        let terms = Rc::new(Terms { access, listen: SocketAddr::from(([127, 0, 0, 1], 0)), evidence: None });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (head, body) = answer(&question, terms, board).await.into_parts();
            let kind = head.headers[header::CONTENT_TYPE].to_str().expect("text").to_owned();
            let body = body.collect().await.expect("whole").to_bytes();
            (head.status.as_u16(), kind, String::from_utf8(body.to_vec()).expect("text"))
        })
    }

    fn with_token() -> Access {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef").expect("written");
        let token = Token::from_file(file.path()).unwrap_or_else(|failure| panic!("{failure}"));
        Access { token: Some(Arc::new(token)), tls: None }
    }

    #[test]
    fn every_error_under_api_is_json_and_every_other_a_sentence() {
        let board = Arc::new(Board::new(0));
        for (status, method, host, path, access) in [
            (404, "GET", "localhost", "nothing", Access::default()),
            (401, "GET", "localhost", "v1/node", with_token()),
            (405, "POST", "localhost", "v1/node", Access::default()),
            (421, "GET", "example.org", "v1/node", Access::default()),
            (503, "GET", "localhost", "v1/node", Access::default()),
            (404, "GET", "localhost", "v1/timeline?job=x", Access::default()),
            (400, "GET", "localhost", "v1/timeline?job=x&since=now", Access::default()),
        ] {
            let (got, kind, body) = asked(method, host, &format!("/api/{path}"), access, &board);
            assert_eq!((got, kind.as_str()), (status, JSON), "{path}: {body}");
            let body: serde_json::Value =
                serde_json::from_str(&body).unwrap_or_else(|e| panic!("{path}: {e}"));
            assert!(body["error"].is_string(), "{body}");
        }
        for (status, path) in [(404, "/apis"), (503, "/metrics"), (200, "/healthz")] {
            let (got, kind, _) = asked("GET", "localhost", path, Access::default(), &board);
            assert_eq!((got, kind.as_str()), (status, TEXT), "{path}");
        }
    }

    #[test]
    fn a_since_that_is_no_number_is_refused_and_one_that_is_left_out_is_zero() {
        for wrong in ["abc", "-1", "18446744073709551616", "1.5", "", "%", "%ff"] {
            assert_eq!(since(Some(&format!("job=x&since={wrong}"))), Err(NoNumber), "{wrong}");
        }
        assert_eq!(since(Some("since=18446744073709551615")), Ok(u64::MAX));
        assert_eq!([since(Some("job=x")), since(None)], [Ok(0), Ok(0)]);
    }

    #[test]
    fn a_first_look_that_hangs_is_unhealthy_after_a_minute() {
        let mut board = Board::new(0);
        board.began = Instant::now().checked_sub(HEALTHY_WITHIN * 2).expect("a time");
        let (status, _, body) = asked("GET", "localhost", "/healthz", Access::default(), &Arc::new(board));
        assert_eq!(status, 503, "{body}");
        // `airamp doctor` knows us by it.
        assert!(body.starts_with("no look was over in the last "), "{body}");
    }
}
