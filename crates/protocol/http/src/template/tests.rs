//! What templates write is what the parser reads.

use super::*;
use crate::{End, Field, Framing, Head, Heads, Parser, Role, Sink};

#[derive(Default)]
struct Seen {
    fields: Vec<(String, String)>,
    framing: Vec<Framing>,
    body: Vec<u8>,
    end: u64,
}

impl Sink for Seen {
    fn on_head(&mut self, head: &Head<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = head
            .fields
            .map(|Field { name, value }| (text(name), text(value)));
        self.fields.extend(fields);
        self.framing.push(head.framing);
    }

    fn on_body(&mut self, _: u64, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    fn on_end(&mut self, end: End<'_>) {
        self.end = end.at;
    }
}

fn read(role: Role, bytes: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let pushed = Parser::new(role).push(0, bytes, &mut Heads::new(0), &mut seen);
    assert_eq!(pushed, Ok(()));
    assert_eq!(seen.end, bytes.len() as u64);
    seen
}

fn url() -> Url {
    Url::parse("http://[::1]:8080/a?b").expect("a URL")
}

#[test]
fn a_request_is_written_once() {
    let get = RequestTemplate::new::<&str>("GET", &url(), &[], b"").expect("a request");
    assert_eq!(
        get.bytes(),
        b"GET /a?b HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"
    );
    assert!(get.keep_alive() && !get.expects_continue());
    assert_eq!(get.head_len(), get.bytes().len());

    let headers = [
        "X-a:  b c ",
        "host: other",
        "Connection: x, Close",
        "Expect: 100-continue",
    ];
    let post = RequestTemplate::new("POST", &url(), &headers, b"body").expect("a request");
    assert!(!post.keep_alive() && post.expects_continue());
    assert_eq!(post.method(), Method::Post);
    assert_eq!(&post.bytes()[post.head_len()..], b"body");
    let seen = read(Role::Request, post.bytes());
    assert_eq!(seen.body, b"body");
    assert_eq!(seen.framing, [Framing::Length(4)]);
    let fields: Vec<_> = seen
        .fields
        .iter()
        .map(|(name, value)| (&name[..], &value[..]))
        .collect();
    let expected = [
        ("Host", "other"),
        ("X-a", "b c"),
        ("Connection", "x, Close"),
        ("Expect", "100-continue"),
        ("Content-Length", "4"),
    ];
    assert_eq!(fields, expected);
    let empty = RequestTemplate::new::<&str>("PUT", &url(), &[], b"").expect("a request");
    assert!(empty.bytes().ends_with(b"\r\nContent-Length: 0\r\n\r\n"));
}

#[test]
fn headers_that_inject_are_refused() {
    for (method, header, expected) in [
        ("G T", "A: b", "'G T' is no method"),
        ("", "A: b", "'' is no method"),
        ("GET\r\n", "A: b", "'GET\\r\\n' is no method"),
        ("CONNECT", "A: b", "CONNECT makes a tunnel"),
        ("GET", "A", "header 'A' has no colon"),
        ("GET", "A b: c", "header name 'A b'"),
        ("GET", " A: c", "header name ' A'"),
        ("GET", ": c", "header name ''"),
        ("GET", "A\r\nB: c", "header name 'A\\r\\nB'"),
        ("GET", "A: b\r\nC: d", "header A has a line break"),
        ("GET", "A: b\nC", "header A has a line break"),
        ("GET", "A: b\0", "header A has a line break"),
        ("GET", "A: b\r\n", "header A has a line break"),
        (
            "GET",
            "content-length: 3",
            "header content-length is written by itself",
        ),
        (
            "GET",
            "Transfer-Encoding: chunked",
            "header Transfer-Encoding is written",
        ),
    ] {
        let error = RequestTemplate::new(method, &url(), &[header], b"").expect_err(header);
        assert!(error.to_string().starts_with(expected), "{error}");
        if method == "GET" {
            let error = ResponseTemplate::new(200, &[header], Body::Synthetic(0));
            let error = error.expect_err(header).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
    let twice = RequestTemplate::new("GET", &url(), &["Host: a", "host: b"], b"");
    assert_eq!(twice, Err(TemplateError::SecondHost));
}

#[test]
fn a_response_states_the_length_of_its_body() {
    let response = |status, body| ResponseTemplate::new::<&str>(status, &[], body);
    let no_body = response(204, Body::Synthetic(0)).expect("a response");
    let expected = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    assert_eq!(no_body.head(Persistence::Close), expected);
    let some = response(200, Body::Bytes(b"ab".to_vec())).expect("a response");
    let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(some.head(Persistence::KeepAlive), expected);
    let forbidden = response(304, Body::Synthetic(1));
    assert_eq!(forbidden, Err(TemplateError::BodyForbidden(304)));
    for status in [0, 100, 199, 600] {
        let refused = response(status, Body::Synthetic(0));
        assert_eq!(refused, Err(TemplateError::Status(status)));
    }
}

#[test]
fn a_body_is_the_same_from_wherever_it_is_filled() {
    for body in [
        Body::Synthetic(150),
        Body::Bytes((0..150).collect()),
        Body::Synthetic(0),
    ] {
        let mut whole = vec![0; 200];
        let len = body.fill(0, &mut whole);
        assert_eq!(len as u64, body.len());
        for at in 0..=200 {
            let mut part = vec![0; 70];
            let part_len = body.fill(at as u64, &mut part);
            let expected = &whole[at.min(len)..(at + 70).min(len).max(at.min(len))];
            assert_eq!(&part[..part_len], expected, "{at}");
        }
    }
}
