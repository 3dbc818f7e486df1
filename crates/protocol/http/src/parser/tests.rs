//! Tables of cases of RFC 9112, and the property that how a stream is cut changes nothing.

use lineside_time::Random;
use proptest::prelude::*;

use super::*;
use crate::head::Host;
use crate::start_line::{Start, Version};
use crate::{EXTENSION_MAX, FIELDS_MAX, HEAD_MAX};

/// What a sink heard, with neighbouring pieces of a body joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Heard {
    Interim(u16),
    Head {
        at: u64,
        len: usize,
        start: String,
        version: Version,
        framing: Framing,
        keep_alive: bool,
        fields: Vec<(String, String)>,
    },
    Body(u64, Vec<u8>),
    End(u64, Vec<(String, String)>),
}

#[derive(Debug, Default)]
struct Log {
    heard: Vec<Heard>,
    asked: Vec<Method>,
    asked_count: usize,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn listed(fields: Fields<'_>) -> Vec<(String, String)> {
    fields
        .map(|field| (text(field.name), text(field.value)))
        .collect()
}

impl Sink for Log {
    fn asked(&mut self) -> Method {
        self.asked_count += 1;
        self.asked
            .get(self.asked_count - 1)
            .copied()
            .unwrap_or_default()
    }

    fn on_interim(&mut self, head: &Head<'_>) {
        self.heard.push(Heard::Interim(head.status()));
    }

    fn on_head(&mut self, head: &Head<'_>) {
        self.heard.push(Heard::Head {
            at: head.at,
            len: head.len,
            start: match head.start {
                Start::Request { name, target, .. } => format!("{} {}", text(name), text(target)),
                Start::Response { status, reason } => format!("{status} {}", text(reason)),
            },
            version: head.version,
            framing: head.framing,
            keep_alive: head.keep_alive,
            fields: listed(head.fields),
        });
    }

    fn on_body(&mut self, at: u64, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        match self.heard.last_mut() {
            Some(Heard::Body(before, body)) if *before + body.len() as u64 == at => {
                body.extend_from_slice(bytes);
            }
            _ => self.heard.push(Heard::Body(at, bytes.to_vec())),
        }
    }

    fn on_end(&mut self, end: End<'_>) {
        self.heard.push(Heard::End(end.at, listed(end.trailers)));
    }
}

type Outcome = (Vec<Heard>, Result<(), ParseError>);

/// Reads `bytes` cut into pieces, whose lengths `piece` gives, to the end of the stream.
fn read(role: Role, asked: &[Method], bytes: &[u8], mut piece: impl FnMut() -> usize) -> Outcome {
    let mut heads = Heads::new(1);
    let mut log = Log {
        asked: asked.to_vec(),
        ..Log::default()
    };
    let mut parser = Parser::new(role);
    let (mut at, mut outcome) = (0, Ok(()));
    while at < bytes.len() && outcome.is_ok() {
        let to = (at + piece().max(1)).min(bytes.len());
        outcome = parser.push(at as u64, &bytes[at..to], &mut heads, &mut log);
        at = to;
    }
    if let Err(error) = outcome {
        assert!(error.at <= bytes.len() as u64);
        let again = parser.push(at as u64, b"x", &mut heads, &mut log);
        assert_eq!(again, Err(error));
    }
    let outcome = parser.finish(bytes.len() as u64, &mut heads, &mut log);
    assert_eq!(heads.held_count(), 0);
    (log.heard, outcome)
}

fn whole(role: Role, asked: &[Method], bytes: &[u8]) -> Outcome {
    read(role, asked, bytes, || usize::MAX)
}

/// What it becomes whole; byte by byte it becomes the same.
fn both(role: Role, asked: &[Method], bytes: &[u8]) -> Outcome {
    let outcome = whole(role, asked, bytes);
    let bytewise = read(role, asked, bytes, || 1);
    assert_eq!(outcome, bytewise, "{}", text(bytes));
    outcome
}

fn request_error(bytes: &[u8]) -> Option<ErrorKind> {
    both(Role::Request, &[], bytes)
        .1
        .err()
        .map(|error| error.kind)
}

fn response(asked: Method, bytes: &[u8]) -> Outcome {
    both(Role::Response, &[asked, asked, asked], bytes)
}

/// Bodies of the messages, one after another.
fn bodies(outcome: &Outcome) -> Vec<String> {
    let mut bodies = Vec::new();
    for heard in &outcome.0 {
        match heard {
            Heard::Head { .. } => bodies.push(String::new()),
            Heard::Body(_, body) => bodies
                .last_mut()
                .expect("a head before")
                .push_str(&text(body)),
            _ => {}
        }
    }
    bodies
}

fn framings(outcome: &Outcome) -> Vec<(Framing, bool)> {
    let head = |heard: &Heard| match heard {
        Heard::Head {
            framing,
            keep_alive,
            ..
        } => Some((*framing, *keep_alive)),
        _ => None,
    };
    outcome.0.iter().filter_map(head).collect()
}

#[test]
fn a_parser_is_16_bytes() {
    let size = size_of::<Parser>();
    println!("size_of::<Parser>() = {size}");
    assert!(size <= 16, "{size}");
}

#[test]
fn a_request_has_its_parts_and_offsets() {
    let bytes = b"\r\n\nGET /a?b HTTP/1.1\r\nHost: h:1\r\nX:  y z \r\n\r\nPOST / HTTP/1.0\nContent-Length: 3\n\nabc";
    let (heard, outcome) = both(Role::Request, &[], bytes);
    assert_eq!(outcome, Ok(()));
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let head = |at, len, start: &str, version, framing, keep_alive, fields: &[_]| Heard::Head {
        at,
        len,
        start: start.to_owned(),
        version,
        framing,
        keep_alive,
        fields: fields.to_vec(),
    };
    let first = [field("Host", "h:1"), field("X", "y z")];
    let second = [field("Content-Length", "3")];
    let expected = [
        head(
            3,
            42,
            "GET /a?b",
            Version::Http11,
            Framing::None,
            true,
            &first,
        ),
        Heard::End(45, vec![]),
        head(
            45,
            35,
            "POST /",
            Version::Http10,
            Framing::Length(3),
            false,
            &second,
        ),
        Heard::Body(80, b"abc".to_vec()),
        Heard::End(83, vec![]),
    ];
    assert_eq!(heard, expected);
}

#[test]
fn a_response_ends_as_its_framing_says() {
    let until_close = Framing::UntilClose;
    for (asked, bytes, framing, keep_alive, body) in [
        (
            Method::Get,
            "200 OK\r\nContent-Length: 2\r\n\r\nab",
            Framing::Length(2),
            true,
            "ab",
        ),
        (
            Method::Get,
            "200 OK\r\nContent-Length: 0\r\n\r\n",
            Framing::None,
            true,
            "",
        ),
        (Method::Get, "200 OK\r\n\r\nab", until_close, false, "ab"),
        (Method::Get, "200\r\n\r\n", until_close, false, ""),
        (
            Method::Head,
            "200 OK\r\nContent-Length: 2\r\n\r\n",
            Framing::None,
            true,
            "",
        ),
        (
            Method::Head,
            "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            Framing::None,
            true,
            "",
        ),
        (
            Method::Get,
            "204 No\r\nContent-Length: 2\r\n\r\n",
            Framing::None,
            true,
            "",
        ),
        (
            Method::Get,
            "304 No\r\nContent-Length: 2\r\n\r\n",
            Framing::None,
            true,
            "",
        ),
        (
            Method::Get,
            "101 Up\r\nContent-Length: 2\r\n\r\nabc",
            Framing::Tunnel,
            true,
            "abc",
        ),
        (
            Method::Connect,
            "200 OK\r\nContent-Length: 2\r\n\r\nabc",
            Framing::Tunnel,
            true,
            "abc",
        ),
        (
            Method::Connect,
            "403 No\r\nContent-Length: 2\r\n\r\nab",
            Framing::Length(2),
            true,
            "ab",
        ),
        (
            Method::Get,
            "200 OK\r\nTransfer-Encoding: gzip,\r\n Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            Framing::Chunked,
            true,
            "ab",
        ),
        (
            Method::Get,
            "200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab",
            until_close,
            false,
            "ab",
        ),
        (
            Method::Get,
            "200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nab",
            until_close,
            false,
            "ab",
        ),
        (
            Method::Get,
            "200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            Framing::Chunked,
            false,
            "a",
        ),
        (
            Method::Get,
            "200 OK\r\nContent-Length: 2, 2\r\nContent-Length:\r\n\t02\r\n\r\nab",
            Framing::Length(2),
            true,
            "ab",
        ),
    ] {
        let outcome = response(asked, format!("HTTP/1.1 {bytes}").as_bytes());
        assert_eq!(outcome.1, Ok(()), "{bytes}");
        assert_eq!(framings(&outcome), [(framing, keep_alive)], "{bytes}");
        assert_eq!(bodies(&outcome), [body], "{bytes}");
        assert!(matches!(outcome.0.last(), Some(Heard::End(..))), "{bytes}");
    }
}

#[test]
fn connections_stay_open_as_version_and_options_say() {
    for (version, option, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        (
            "1.1",
            "Connection: upgrade\r\nConnection: x, Close\r\n",
            false,
        ),
        ("1.1", "Connection: keep-alive, close\r\n", false),
        ("1.1", "Connection: closed\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.7", "", true),
    ] {
        let bytes = format!("GET / HTTP/{version}\r\n{option}\r\n");
        let outcome = both(Role::Request, &[], bytes.as_bytes());
        assert_eq!(framings(&outcome), [(Framing::None, expected)], "{bytes}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na\
        HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";
    let asked = [Method::Post, Method::Put, Method::Head];
    let outcome = both(Role::Response, &asked, bytes);
    assert_eq!(outcome.0[..2], [Heard::Interim(100), Heard::Interim(103)]);
    assert_eq!(bodies(&outcome), ["a", "", ""]);
    assert_eq!(outcome.1, Ok(()));
}

#[test]
fn chunks_end_with_a_trailer_section() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = format!(
        "{head}3;a=\"b c\" ; d\r\nabc\r\n00A \t;x\r\n0123456789\r\n000\r\nT: 1\r\nu:2\r\n 3\r\n\r\n{head}0\r\n\r\n"
    );
    let outcome = both(Role::Request, &[], bytes.as_bytes());
    assert_eq!(outcome.1, Ok(()));
    assert_eq!(bodies(&outcome), ["abc0123456789", ""]);
    let trailers = outcome.0.iter().filter_map(|heard| match heard {
        Heard::End(_, trailers) => Some(trailers.len()),
        _ => None,
    });
    let trailers: Vec<_> = trailers.collect();
    assert_eq!(trailers, [2, 0]);
}

/// What differs between recipients is refused (RFC 9112 sections 2.2, 3, 5, 6.3 and 11.2).
#[test]
fn requests_that_smuggle_are_refused() {
    use ErrorKind::*;
    for (fields, expected) in [
        (
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            BothLengths,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
            BothLengths,
        ),
        ("Content-Length: 1\r\nContent-Length: 2", BadContentLength),
        ("Content-Length: 1, 2", BadContentLength),
        ("Content-Length: 1,", BadContentLength),
        ("Content-Length:", BadContentLength),
        ("Content-Length: +1", BadContentLength),
        ("Content-Length: -1", BadContentLength),
        ("Content-Length: 0x1", BadContentLength),
        ("Content-Length: 1 1", BadContentLength),
        ("Content-Length: 1e1", BadContentLength),
        ("Content-Length: 9223372036854775808", BadContentLength),
        ("Content-Length: 99999999999999999999999", BadContentLength),
        ("Content-Length : 1", SpaceBeforeColon),
        ("Transfer-Encoding\t: chunked", SpaceBeforeColon),
        (" Content-Length: 1", SpaceAfterStart),
        ("Content-Length: 1\r\n 2", FoldedLine),
        ("X: 1\r\n Transfer-Encoding: chunked", FoldedLine),
        ("Transfer-Encoding: chunked, chunked", BadTransferEncoding),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            BadTransferEncoding,
        ),
        ("Transfer-Encoding: chunked, identity", BadTransferEncoding),
        ("Transfer-Encoding: xchunked", BadTransferEncoding),
        ("Transfer-Encoding: \"chunked\"", BadTransferEncoding),
        ("Transfer-Encoding: chunked;a=b", BadTransferEncoding),
        ("Transfer-Encoding: identity", BadTransferEncoding),
        ("Transfer-Encoding:", BadTransferEncoding),
        ("Transfer-Encoding: \u{b}chunked", ControlInLine),
        ("Transfer-Encoding: chunked\r\r", ControlInLine),
        ("X: a\rContent-Length: 1", ControlInLine),
        ("X: a\0b", ControlInLine),
        ("X", BadFieldName),
        (": 1", BadFieldName),
        ("X\u{e9}: 1", BadFieldName),
        ("X Y: 1", SpaceBeforeColon),
        ("X\r: 1", BadFieldName),
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\nG");
        let expected = match fields.starts_with(' ') {
            true => {
                let first = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
                assert_eq!(request_error(first.as_bytes()), Some(expected), "{fields}");
                FoldedLine
            }
            false => expected,
        };
        assert_eq!(request_error(bytes.as_bytes()), Some(expected), "{fields}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(request_error(old), Some(BadTransferEncoding));
    let answer = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let error = response(Method::Get, answer)
        .1
        .expect_err("no chunks in HTTP/1.0");
    assert_eq!(error.kind, BadTransferEncoding);
}

#[test]
fn start_lines_that_are_none_are_refused() {
    use ErrorKind::*;
    for (line, expected) in [
        ("GET /", BadRequestLine),
        ("GET", BadRequestLine),
        (" GET / HTTP/1.1", BadRequestLine),
        ("GET  / HTTP/1.1", BadVersion),
        ("GET / HTTP/1.1 ", BadVersion),
        ("GET /a b HTTP/1.1", BadVersion),
        ("GET\t/ HTTP/1.1", BadRequestLine),
        ("G(T / HTTP/1.1", BadRequestLine),
        ("GET / http/1.1", BadVersion),
        ("GET / HTTP/2.0", BadVersion),
        ("PRI * HTTP/2.0", BadVersion),
        ("GET / HTTP/1.10", BadVersion),
        ("GET * HTTP/1.1", BadTarget),
        ("GET a HTTP/1.1", BadTarget),
        ("GET /\t HTTP/1.1", BadTarget),
        ("GET /\u{1} HTTP/1.1", BadTarget),
        ("CONNECT /a HTTP/1.1", BadTarget),
        ("GET /\r HTTP/1.1", BadTarget),
        ("\u{16}\u{3}\u{1}", BadRequestLine),
    ] {
        let bytes = format!("{line}\r\n\r\n");
        assert_eq!(request_error(bytes.as_bytes()), Some(expected), "{line:?}");
    }
    for line in [
        "OPTIONS * HTTP/1.1",
        "GET http://a/b HTTP/1.1",
        "CONNECT a:443 HTTP/1.1",
        "x-y /\u{e9} HTTP/1.1",
    ] {
        let bytes = format!("{line}\r\n\r\n");
        assert_eq!(request_error(bytes.as_bytes()), None, "{line}");
    }
    for (line, expected) in [
        ("", BadStatusLine),
        ("HTTP/1.1", BadStatusLine),
        ("HTTP/1.1 20 OK", BadStatusLine),
        ("HTTP/1.1 2000 OK", BadStatusLine),
        ("HTTP/1.1 099 OK", BadStatusLine),
        ("HTTP/1.1  200 OK", BadStatusLine),
        ("HTTP/1.1 2\u{b2}0", BadStatusLine),
        ("HTTP/2.0 200 OK", BadVersion),
        ("SSH-2.0-OpenSSH_9.2", BadVersion),
        ("HTTP/1.1 200 a\rb", ControlInLine),
    ] {
        let outcome = response(Method::Get, format!("{line}\r\n\r\n").as_bytes());
        let error = outcome.1.expect_err(line);
        assert_eq!((error.kind, error.at), (expected, 0), "{line:?}");
    }
}

#[test]
fn chunks_that_smuggle_are_refused() {
    use ErrorKind::*;
    let long = format!("1;{}\r\na", "x".repeat(EXTENSION_MAX));
    for (chunks, expected, at) in [
        ("\r\n", BadChunkSize, 0),
        ("g\r\n", BadChunkSize, 0),
        ("-1\r\n", BadChunkSize, 0),
        ("0x1\r\n", BadChunkSize, 1),
        (" 1\r\na", BadChunkSize, 0),
        ("1 1\r\na", BadChunkSize, 2),
        ("1\na", BadChunkSize, 1),
        ("1;a\nb\r\na", BadChunkExtension, 3),
        ("1;\0\r\na", BadChunkExtension, 2),
        ("1\rX", BadChunkEnd, 2),
        ("1;a\rb\r\na", BadChunkEnd, 4),
        ("1\r\nab\r\n", BadChunkEnd, 4),
        ("1\r\na\n0\r\n", BadChunkEnd, 4),
        ("1\r\na\r0", BadChunkEnd, 5),
        ("8000000000000000\r\n", ChunkTooLarge, 15),
        ("00000000000000001\r\n", ChunkTooLarge, 16),
        (long.as_str(), BadChunkExtension, 1 + EXTENSION_MAX),
        ("0\r\nX\r\n\r\n", BadFieldName, 3),
        ("0\r\n X: 1\r\n\r\n", SpaceAfterStart, 3),
        ("7fffffffffffffff\r\na", Truncated, 19),
        ("0\r\n", Truncated, 3),
        ("0\r\nX: 1\r\n", Truncated, 9),
    ] {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let outcome = both(Role::Request, &[], format!("{head}{chunks}").as_bytes());
        let error = outcome.1.expect_err(chunks);
        let expected = (expected, head.len() + at);
        assert_eq!((error.kind, error.at as usize), expected, "{chunks:?}");
    }
}

#[test]
fn heads_without_end_are_refused_where_they_are_too_long() {
    let line = format!("X: {}\r\n", "y".repeat(1000));
    let fits = "X: y\r\n".repeat(FIELDS_MAX);
    let cases = [
        (line.repeat(70), ErrorKind::HeadTooLong, Some(HEAD_MAX)),
        ("X".repeat(HEAD_MAX), ErrorKind::HeadTooLong, Some(HEAD_MAX)),
        (format!("{fits}X: y\r\n"), ErrorKind::TooManyFields, None),
        (fits, ErrorKind::Truncated, None),
    ];
    for (fields, expected, at) in cases {
        let bytes = format!("\r\nGET / HTTP/1.1\r\n{fields}");
        let outcome = whole(Role::Request, &[], bytes.as_bytes());
        for len in [1, 7, 1000, 70_000] {
            let cut = read(Role::Request, &[], bytes.as_bytes(), || len);
            assert_eq!(cut, outcome, "{expected:?} by {len}");
        }
        let error = outcome.1.expect_err("not complete");
        assert_eq!(error.kind, expected);
        if let Some(at) = at {
            assert_eq!(error.at as usize, at + 2);
        }
    }
    // Exactly as long as allowed.
    let head = "GET / HTTP/1.1\r\nX: \r\n\r\n";
    for (len, expected) in [(0, None), (1, Some(ErrorKind::HeadTooLong))] {
        let value = "y".repeat(HEAD_MAX - head.len() + len);
        let bytes = format!("GET / HTTP/1.1\r\nX: {value}\r\n\r\n");
        assert_eq!(request_error(bytes.as_bytes()), expected);
    }
}

#[test]
fn nothing_follows_the_last_message() {
    let last = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(request_error(format!("{last}\r\n").as_bytes()), None);
    let error = both(Role::Request, &[], format!("{last}\r\nG").as_bytes()).1;
    assert_eq!(error.map_err(|error| error.at), Err(last.len() as u64 + 2));
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\nH";
    let error = response(Method::Get, answer)
        .1
        .expect_err("a byte too many");
    assert_eq!(error.kind, ErrorKind::AfterClose);
}

#[test]
fn a_stream_that_ends_within_a_message_is_truncated() {
    let bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    for len in 1..bytes.len() {
        let outcome = response(Method::Get, &bytes.as_bytes()[..len]);
        let error = outcome.1.expect_err("not complete");
        assert_eq!((error.kind, error.at), (ErrorKind::Truncated, len as u64));
    }
    assert_eq!(response(Method::Get, b"").1, Ok(()));
    assert_eq!(response(Method::Get, bytes.as_bytes()).1, Ok(()));
}

#[test]
fn a_direction_of_requests_may_become_a_tunnel() {
    let mut heads = Heads::new(1);
    let mut log = Log::default();
    let mut parser = Parser::new(Role::Request);
    let request = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    let pushed = parser.push(0, request, &mut heads, &mut log);
    assert_eq!(pushed, Ok(()));
    parser.become_tunnel();
    assert_eq!(parser.push(36, b"\x16\x03", &mut heads, &mut log), Ok(()));
    assert_eq!(log.heard.last(), Some(&Heard::Body(36, vec![0x16, 3])));
    assert!(!parser.is_idle());
}

#[test]
fn the_host_and_expectation_of_a_request_are_known() {
    struct Heads11(Vec<(String, bool)>);
    impl Sink for Heads11 {
        fn on_head(&mut self, head: &Head<'_>) {
            let host = match head.host {
                Host::Missing => "-".to_owned(),
                Host::One(host) => text(host),
                Host::Several => "several".to_owned(),
            };
            self.0.push((host, head.expects_continue));
        }
        fn on_end(&mut self, _: End<'_>) {}
    }
    let bytes = b"GET / HTTP/1.1\r\nHost: \t a:1 \r\nExpect: 100-Continue\r\n\r\nGET / HTTP/1.1\r\nhost:\r\n\r\n\
        GET / HTTP/1.1\r\nhost:a\r\nExpect: x\r\nHost:a\r\n\r\nGET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n";
    let mut sink = Heads11(Vec::new());
    let mut heads = Heads::new(0);
    let pushed = Parser::new(Role::Request).push(0, bytes, &mut heads, &mut sink);
    assert_eq!(pushed, Ok(()));
    let expected = [("a:1", true), ("", false), ("several", false), ("-", false)];
    assert_eq!(
        sink.0,
        expected.map(|(host, expects)| (host.to_owned(), expects))
    );
}

#[test]
fn split_heads_beyond_the_pool_are_named() {
    let mut heads = Heads::new(1);
    let mut log = Log::default();
    let [mut first, mut second] = [(); 2].map(|()| Parser::new(Role::Request));
    assert_eq!(first.push(0, b"GET", &mut heads, &mut log), Ok(()));
    let error = second
        .push(9, b"GET", &mut heads, &mut log)
        .expect_err("full");
    assert_eq!((error.kind, error.at), (ErrorKind::NoRoom, 9));
    assert!(!first.is_idle());
    first.release(&mut heads);
    assert_eq!(heads.held_count(), 0);
}

/// A stream of messages as a random sender makes them, some of them damaged.
fn stream(random: &mut Random, role: Role) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(4) {
        message(random, role, &mut bytes);
    }
    for _ in 0..random.below(3) {
        let at = random.below(bytes.len() as u64) as usize;
        let byte = b"\r\n :;,0aZ\t\0\xff"[random.below(12) as usize];
        match random.below(4) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at + 1),
        }
    }
    bytes
}

fn message(random: &mut Random, role: Role, bytes: &mut Vec<u8>) {
    let end = ["\r\n", "\n"][random.below(2) as usize];
    let mut line = |text: &str| {
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(end.as_bytes());
    };
    let starts: &[&str] = match role {
        Role::Request => &[
            "GET / HTTP/1.1",
            "POST /a?b HTTP/1.0",
            "",
            "OPTIONS * HTTP/1.1",
        ],
        Role::Response => &[
            "HTTP/1.1 200 OK",
            "HTTP/1.1 100 Go",
            "HTTP/1.0 404",
            "HTTP/1.1 304 ",
        ],
    };
    line(starts[random.below(starts.len() as u64) as usize]);
    let fields = [
        "Host: a",
        "Connection: close",
        "Connection: keep-alive",
        "X-Long: some words\t here",
        "Expect: 100-continue",
        " folded, chunked",
    ];
    for _ in 0..random.below(4) {
        line(fields[random.below(6) as usize]);
    }
    match random.below(4) {
        0 => {
            let len = random.below(9) as usize;
            line(&format!("Content-Length: {len}"));
            line("");
            bytes.extend_from_slice(&b"body\r\n\r\n."[..len]);
        }
        1 => {
            line("Transfer-Encoding: chunked");
            line("");
            bytes.extend_from_slice(b"3;x=y\r\na\r\n\r\n00b\r\n0123456789a\r\n0\r\n");
            let ends = ["\r\n", "T: 1\r\nU:\n\r\n"];
            bytes.extend_from_slice(ends[random.below(2) as usize].as_bytes());
        }
        _ => line(""),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_division_of_a_stream_is_heard_alike(seed: u64, is_response: bool, len_max in 1u64..40) {
        let mut random = Random::new(seed);
        let role = if is_response { Role::Response } else { Role::Request };
        let bytes = stream(&mut random, role);
        let asked: Vec<_> = (0..4)
            .map(|_| [Method::Get, Method::Head, Method::Connect][random.below(3) as usize])
            .collect();
        let expected = whole(role, &asked, &bytes);
        let cut = read(role, &asked, &bytes, || 1 + random.below(len_max) as usize);
        prop_assert_eq!(cut, expected);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), is_response: bool) {
        let role = if is_response { Role::Response } else { Role::Request };
        let (heard, _) = both(role, &[], &bytes);
        prop_assert!(heard.len() <= bytes.len());
    }
}
