//! How long a head takes to read on one core.
//!
//!     cargo run --profile dist -p lineside-http --example http_rate
//!
//! The same messages again and again, so that all of them is in the cache; pieces of 64 KiB, as a
//! socket gives them at best. It does not show what a connection's state costs when it is not in a
//! cache, nor what the caller makes of a message.

use std::hint::black_box;
use std::time::Instant;

use lineside_http::{End, Head, Heads, ParseError, Parser, Role, Sink};

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Wed, 25 Nov 2026 19:03:49 GMT\r\nContent-Type: text/html\r\nContent-Length: 64\r\n\
    Last-Modified: Wed, 25 Nov 2026 18:00:00 GMT\r\nConnection: keep-alive\r\n\
    ETag: \"6560f6c0-40\"\r\nAccept-Ranges: bytes\r\n\r\n";
const REQUEST: &str = "GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// How often each stream is read.
const ROUNDS: usize = 20_000;
/// Bytes of a push.
const PIECE: usize = 65_536;

#[derive(Default)]
struct Count {
    heads: u64,
    bytes: u64,
    ends: u64,
}

impl Sink for Count {
    fn on_head(&mut self, head: &Head<'_>) {
        self.heads += 1;
        black_box(head);
    }

    fn on_body(&mut self, _: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }

    fn on_end(&mut self, _: End<'_>) {
        self.ends += 1;
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() -> Result<(), ParseError> {
    let body = "x".repeat(64);
    for (name, role, message, halves) in [
        (
            "nginx response, head alone",
            Role::Response,
            RESPONSE.replace("64", "0"),
            false,
        ),
        (
            "nginx response, 64-byte body",
            Role::Response,
            format!("{RESPONSE}{body}"),
            false,
        ),
        (
            "the same, its head in two pieces",
            Role::Response,
            format!("{RESPONSE}{body}"),
            true,
        ),
        ("request as wrk's", Role::Request, REQUEST.to_owned(), false),
    ] {
        let count = PIECE / message.len();
        let stream = message.repeat(count);
        let (mut parser, mut heads) = (Parser::new(role), Heads::new(1));
        let (mut sink, mut at) = (Count::default(), 0);
        let piece = if halves { message.len() / 2 } else { PIECE };
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            for piece in black_box(stream.as_bytes()).chunks(piece) {
                parser.push(at, piece, &mut heads, &mut sink)?;
                at += piece.len() as u64;
            }
        }
        let ns = begin.elapsed().as_secs_f64() * 1e9 / sink.ends as f64;
        assert_eq!(sink.heads, (ROUNDS * count) as u64);
        let len = message.len();
        println!(
            "{ns:6.1} ns a message of {len} bytes, {} of body: {name}",
            sink.bytes / sink.ends
        );
    }
    println!("{} bytes a connection", size_of::<Parser>());
    Ok(())
}
