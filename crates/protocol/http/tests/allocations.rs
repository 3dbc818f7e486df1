//! Nothing is allocated for a message, whole or in pieces, once the pool has grown.

use lineside_alloc::allocations;
use lineside_http::{
    Body, End, Head, Heads, Parser, Reply, Responder, ResponseTemplate, Role, Sink,
};

struct Server<'a> {
    responder: &'a Responder,
    reply: Option<Reply>,
    sent: u64,
}

impl Sink for Server<'_> {
    fn on_head(&mut self, head: &Head<'_>) {
        self.reply = Some(self.responder.on_head(head));
    }

    fn on_end(&mut self, _: End<'_>) {
        let reply = self.reply.take().expect("a head before");
        let mut out = [0; 200];
        let mut at = 0;
        while at < self.responder.len(reply) {
            at += self.responder.fill(reply, at, &mut out) as u64;
        }
        self.sent += at;
    }
}

#[test]
fn messages_allocate_nothing() {
    let stream = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b?c HTTP/1.1\r\nHost: a\r\nConnection: x, y\r\n\r\n\
        POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n";
    let mut responder = Responder::new();
    let response = ResponseTemplate::new(200, &["X: y"], Body::Synthetic(1000));
    responder
        .route("/a", response.expect("a response"))
        .expect("few templates");
    let mut server = Server {
        responder: &responder,
        reply: None,
        sent: 0,
    };
    let (mut parser, mut heads) = (Parser::new(Role::Request), Heads::new(1));
    let mut before = (0, 0);
    for (round, len) in (1..=stream.len()).rev().chain(1..=stream.len()).enumerate() {
        // The first rounds make the pool grow, once.
        if round == stream.len() {
            before = (allocations(), server.sent);
        }
        for piece in stream.chunks(len) {
            let pushed = parser.push(0, piece, &mut heads, &mut server);
            assert_eq!(pushed, Ok(()));
        }
    }
    assert!(server.sent > before.1, "it has answered");
    assert_eq!(allocations(), before.0);
}
