//! Requests as they are parsed, and the answers to them as they are parsed.

use super::*;
use crate::{End, Heads, Parser, Role, Sink};

/// A server of one connection: it answers each request when that has come whole.
struct Server<'a> {
    responder: &'a Responder,
    reply: Option<Reply>,
    out: Vec<u8>,
}

impl Server<'_> {
    fn send(&mut self, reply: Reply) {
        let mut at = 0;
        // In pieces of 7 bytes, as a window might take them.
        loop {
            let mut piece = [0; 7];
            let len = self.responder.fill(reply, at, &mut piece);
            self.out.extend_from_slice(&piece[..len]);
            at += len as u64;
            if len == 0 {
                break;
            }
        }
        assert_eq!(at, self.responder.len(reply));
    }
}

impl Sink for Server<'_> {
    fn on_head(&mut self, head: &Head<'_>) {
        let reply = self.responder.on_head(head);
        self.out
            .extend_from_slice(reply.continues().unwrap_or_default());
        self.reply = Some(reply);
    }

    fn on_end(&mut self, _: End<'_>) {
        let reply = self.reply.take().expect("a head before");
        self.send(reply);
    }
}

/// What comes back for `bytes`.
fn answer(bytes: &str) -> String {
    let body = |text: &str| Body::Bytes(text.as_bytes().to_vec());
    let response = |text| ResponseTemplate::new::<&str>(200, &[], body(text)).expect("a response");
    let mut responder = Responder::new();
    for (path, text) in [("/", "root"), ("/b", "old"), ("/a", "a"), ("/b", "b")] {
        responder
            .route(path, response(text))
            .expect("few templates");
    }
    let mut server = Server {
        responder: &responder,
        reply: None,
        out: Vec::new(),
    };
    let mut parser = Parser::new(Role::Request);
    let pushed = parser.push(0, bytes.as_bytes(), &mut Heads::new(1), &mut server);
    if let Err(error) = pushed
        && let Some(reply) = responder.on_error(error.kind)
    {
        assert!(reply.closes());
        server.send(reply);
    }
    String::from_utf8(server.out).expect("text")
}

const NO_BODY: &str = "Content-Length: 0\r\n";

#[test]
fn answers_are_chosen_by_path_and_method() {
    let ok = |body: &str| {
        let len = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}")
    };
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ok("root")),
        ("GET /b?/a HTTP/1.1\r\nHost: a\r\n\r\n", ok("b")),
        ("GET http://x:1/a?y HTTP/1.1\r\nHost: x\r\n\r\n", ok("a")),
        ("GET http://x?y HTTP/1.1\r\nHost: x\r\n\r\n", ok("root")),
        (
            "HEAD /b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n".to_owned(),
        ),
        (
            "GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
            format!("HTTP/1.1 404 Not Found\r\n{NO_BODY}\r\n"),
        ),
        (
            "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
            format!("HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n{NO_BODY}\r\n"),
        ),
        (
            "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n",
            ok("a") + &ok("b"),
        ),
    ] {
        assert_eq!(answer(request), expected, "{request}");
    }
}

#[test]
fn connections_close_as_the_client_asks() {
    for (request, connection) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "Connection: close\r\n",
        ),
        ("GET / HTTP/1.0\r\n\r\n", "Connection: close\r\n"),
        (
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "Connection: keep-alive\r\n",
        ),
    ] {
        let expected = format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n{connection}\r\nroot");
        assert_eq!(answer(request), expected, "{request}");
    }
}

#[test]
fn a_client_that_waits_for_100_gets_it_first() {
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(answer(head), "HTTP/1.1 100 Continue\r\n\r\n");
    let whole = answer(&format!("{head}ab"));
    assert!(
        whole.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 405 "),
        "{whole}"
    );
    let old = answer("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
    assert!(old.starts_with("HTTP/1.1 200 "), "{old}");
}

#[test]
fn bad_requests_are_refused_and_the_connection_closed() {
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "400 Bad Request",
        ),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
            "501 Not Implemented",
        ),
        (
            &"A".repeat(crate::HEAD_MAX + 1),
            "431 Request Header Fields Too Large",
        ),
    ] {
        let expected = format!("HTTP/1.1 {status}\r\n{NO_BODY}Connection: close\r\n\r\n");
        assert_eq!(answer(request), expected);
    }
    assert_eq!(Responder::new().on_error(ErrorKind::Truncated), None);
}

#[test]
fn other_paths_may_have_an_answer_too() {
    let mut responder = Responder::default();
    let others = ResponseTemplate::new::<&str>(200, &[], Body::Synthetic(1 << 40));
    responder
        .route_others(others.expect("a response"))
        .expect("few templates");
    let mut server = Server {
        responder: &responder,
        reply: None,
        out: Vec::new(),
    };
    let mut parser = Parser::new(Role::Request);
    let request = b"HEAD /any HTTP/1.1\r\nHost: a\r\n\r\n";
    let pushed = parser.push(0, request, &mut Heads::new(1), &mut server);
    assert_eq!(pushed, Ok(()));
    let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n";
    assert_eq!(server.out, expected);
    assert!(size_of::<Reply>() <= 8);
}
