//! `/metrics`, `/healthz` and `/readyz` over HTTP, on a thread of its own.
//!
//! Whoever can connect may read: nothing here is secret, and nothing can be changed. Connections
//! are few, short and small, so that a stranger cannot make the process busy. No web page may read:
//! no answer allows another origin to (CORS), and a page whose own name was made to lead here (DNS
//! rebinding) is known by that name, as whoever listens on a loopback address has none but
//! `localhost`.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tracing::debug;

/// Connections at a time; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 16;

/// How long a request's head may take, and how long a connection may be idle.
const HEAD_LIMIT: Duration = Duration::from_secs(5);

/// How long a connection may last.
const CONNECTION_LIMIT: Duration = Duration::from_secs(60);

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How long to wait after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What OpenMetrics calls its text format.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All is well, or why not, line by line.
pub type Verdict = Result<(), Vec<String>>;

/// What is shown. Every method may block for a few seconds.
pub trait Source: Send + Sync + 'static {
    /// All metrics as text; none while there is nothing to say yet.
    fn metrics(&self) -> Option<String>;
    /// Whether the process does what it is there for at all. If not for long, start it anew.
    fn alive(&self) -> Verdict;
    /// Whether it can be counted on now.
    fn ready(&self) -> Verdict;
}

/// Serves until the process ends.
///
/// # Errors
/// What the system says.
pub fn serve(listener: TcpListener, source: impl Source) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(CONNECTIONS_MAX)
        .build()?;
    let thread = std::thread::Builder::new().name("metrics".to_owned());
    thread.spawn(move || runtime.block_on(accept(listener, Arc::new(source))))?;
    Ok(())
}

async fn accept(listener: TcpListener, source: Arc<impl Source>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot serve metrics"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = source.clone();
                tokio::spawn(async move {
                    let connection = tokio::time::timeout(CONNECTION_LIMIT, talk(stream, source));
                    if connection.await.is_err() {
                        debug!("a metrics client was too slow");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                debug!(%error, "cannot accept a metrics client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn talk(stream: TcpStream, source: Arc<impl Source>) {
    let local = stream.local_addr().ok();
    let service = service_fn(move |request: Request<Incoming>| {
        let host = request.headers().get(HOST).map(|host| host.as_bytes());
        let is_ours = !local.is_some_and(is_loopback) || is_local(host);
        let (is_get, path) = (request.method() == Method::GET, request.uri().path().to_owned());
        let source = source.clone();
        async move {
            if !is_ours {
                let why =
                    "this listens on a loopback address: ask for localhost or for an address\n";
                return Ok::<_, Infallible>(text(StatusCode::MISDIRECTED_REQUEST, why.to_owned()));
            }
            Ok(answer(is_get, path, source).await)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        debug!(%error, "a metrics client disconnected");
    }
}

/// Whether only this machine reaches this address, also of a listener for both versions of IP, to
/// which 127.0.0.1 looks like `::ffff:127.0.0.1`.
fn is_loopback(local: SocketAddr) -> bool {
    local.ip().to_canonical().is_loopback()
}

/// Whether a request is for this machine by its address or as `localhost`, and not by a name that
/// somebody else gave it. A browser always says for whom its request is.
fn is_local(host: Option<&[u8]>) -> bool {
    let Some(host) = host else { return true };
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_address = host.parse::<SocketAddr>().is_ok()
        || name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    is_address || name.eq_ignore_ascii_case("localhost")
}

async fn answer(is_get: bool, path: String, source: Arc<impl Source>) -> Response<Full<Bytes>> {
    if !is_get {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET"));
        return response;
    }
    // A source may block.
    let answer = tokio::task::spawn_blocking(move || look(&path, &*source));
    let failed = |_| text(StatusCode::INTERNAL_SERVER_ERROR, "failed\n".to_owned());
    answer.await.unwrap_or_else(failed)
}

fn look(path: &str, source: &impl Source) -> Response<Full<Bytes>> {
    match path {
        "/metrics" => match source.metrics() {
            Some(page) => {
                let mut response = text(StatusCode::OK, page);
                let kind = hyper::header::HeaderValue::from_static(OPEN_METRICS);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            None => text(StatusCode::SERVICE_UNAVAILABLE, "no answer\n".to_owned()),
        },
        "/healthz" => say("alive", source.alive()),
        "/readyz" => say("ready", source.ready()),
        _ => text(StatusCode::NOT_FOUND, "there are /metrics, /healthz and /readyz\n".to_owned()),
    }
}

fn say(what: &str, verdict: Verdict) -> Response<Full<Bytes>> {
    match verdict {
        Ok(()) => text(StatusCode::OK, format!("{what}\n")),
        Err(reasons) => {
            let page = format!("not {what}\n{}\n", reasons.join("\n"));
            text(StatusCode::SERVICE_UNAVAILABLE, page)
        }
    }
}

fn text(status: StatusCode, page: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    struct Well;

    impl Source for Well {
        fn metrics(&self) -> Option<String> {
            Some("some 1\n".to_owned())
        }
        fn alive(&self) -> Verdict {
            Ok(())
        }
        fn ready(&self) -> Verdict {
            Ok(())
        }
    }

    /// The status of an answer.
    fn get(address: SocketAddr, host: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).expect("it listens");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    }

    #[test]
    fn a_page_of_another_name_reads_nothing_on_a_loopback_address() {
        for listen in ["127.0.0.1:0", "[::]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let port = listener.local_addr().expect("an address").port();
            serve(listener, Well).expect("a thread");
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            assert_eq!(get(address, "evil.example"), "421", "{listen}");
            assert_eq!(get(address, &format!("localhost:{port}")), "200", "{listen}");
            assert_eq!(get(address, &format!("127.0.0.1:{port}")), "200", "{listen}");
        }
        let local = |address: &str| is_loopback(address.parse().expect("an address"));
        assert!(local("[::ffff:127.0.0.1]:1") && local("[::1]:1") && local("127.0.0.2:1"));
        assert!(!local("[::ffff:10.0.0.1]:1") && !local("10.0.0.1:1"));
    }

    #[test]
    fn a_name_that_somebody_else_gave_is_not_local() {
        let ours =
            ["localhost", "LOCALHOST:9100", "127.0.0.1", "127.0.0.1:9100", "[::1]:9100", "[::1]"];
        assert!(ours.iter().all(|host| is_local(Some(host.as_bytes()))));
        let others =
            ["evil.example", "evil.example:9100", "127.0.0.1.evil.example:9100", "", "a:b"];
        assert!(!others.iter().any(|host| is_local(Some(host.as_bytes()))));
        assert!(is_local(None) && !is_local(Some(b"\xff")));
    }
}
