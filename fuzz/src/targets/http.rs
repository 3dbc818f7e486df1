//! HTTP: a stream of either direction, whole and in pieces. Both are heard alike, offsets only
//! grow, and bodies are bytes of the stream.

use lineside_http::{
    End, Framing, HEAD_MAX, Head, Heads, Method, ParseError, Parser, Responder, Role, Sink, Start,
};

use super::Bytes;

/// What was heard, as numbers: kind, offset, and what matters of it.
struct Log<'a> {
    stream: &'a [u8],
    asked: u8,
    heard: Vec<(char, u64, u64)>,
    at: u64,
    responder: &'a Responder,
}

impl Log<'_> {
    fn goes_on(&mut self, at: u64) {
        assert!(at >= self.at, "{at} after {}", self.at);
        assert!(at <= self.stream.len() as u64);
        self.at = at;
    }
}

impl Sink for Log<'_> {
    fn asked(&mut self) -> Method {
        self.asked = self.asked.rotate_left(1);
        match self.asked & 3 {
            0 => Method::Head,
            1 => Method::Connect,
            _ => Method::Get,
        }
    }

    fn on_interim(&mut self, head: &Head<'_>) {
        self.goes_on(head.at + head.len as u64);
        self.heard.push(('i', head.at, head.len as u64));
    }

    fn on_head(&mut self, head: &Head<'_>) {
        self.goes_on(head.at);
        self.goes_on(head.at + head.len as u64);
        assert!(head.len <= HEAD_MAX);
        let bytes = &self.stream[head.at as usize..head.at as usize + head.len];
        assert!(bytes.ends_with(b"\n"));
        let start = match head.start {
            Start::Request { name, target, .. } => [name, target],
            Start::Response { reason, .. } => [reason, b""],
        };
        let mut longest = 0;
        for field in head.fields {
            assert!(!field.name.is_empty());
            longest = longest.max(field.value.len());
        }
        let sizes = start.map(<[u8]>::len).iter().sum::<usize>() + longest + head.fields.count();
        self.heard.push(('h', head.at, sizes as u64));
        let framing = match head.framing {
            Framing::None => 0,
            Framing::Length(len) => len,
            Framing::Chunked => u64::MAX,
            Framing::UntilClose => u64::MAX - 1,
            Framing::Tunnel => u64::MAX - 2,
        };
        self.heard
            .push((if head.keep_alive { 'k' } else { 'c' }, head.at, framing));
        let reply = self.responder.on_head(head);
        let mut out = [0; 512];
        let len = self.responder.fill(reply, 0, &mut out);
        assert_eq!(len as u64, self.responder.len(reply).min(512));
    }

    fn on_body(&mut self, at: u64, bytes: &[u8]) {
        self.goes_on(at);
        let end = at + bytes.len() as u64;
        assert_eq!(&self.stream[at as usize..end as usize], bytes);
        match self.heard.last_mut() {
            Some(('b', _, to)) if *to == at => *to = end,
            _ => self.heard.push(('b', at, end)),
        }
        self.goes_on(end);
    }

    fn on_end(&mut self, end: End<'_>) {
        self.goes_on(end.at);
        self.heard.push(('e', end.at, end.trailers.count() as u64));
    }
}

type Outcome = (Vec<(char, u64, u64)>, Result<(), ParseError>);

fn read(stream: &[u8], choice: u8, responder: &Responder, step: usize) -> Outcome {
    let role = match choice & 1 {
        0 => Role::Request,
        _ => Role::Response,
    };
    let mut log = Log {
        stream,
        asked: choice >> 1,
        heard: Vec::new(),
        at: 0,
        responder,
    };
    let (mut parser, mut heads) = (Parser::new(role), Heads::new(1));
    let (mut at, mut outcome) = (0, Ok(()));
    for piece in stream.chunks(step) {
        outcome = parser.push(at, piece, &mut heads, &mut log);
        at += piece.len() as u64;
        if outcome.is_err() {
            break;
        }
    }
    let end = parser.finish(stream.len() as u64, &mut heads, &mut log);
    assert_eq!(heads.held_count(), 0);
    if let Err(error) = outcome {
        assert_eq!(end, outcome);
        assert!(error.at <= stream.len() as u64);
    }
    (log.heard, end)
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (choice, step) = (bytes.last(), usize::from(bytes.last()) % 64 + 1);
    let stream = bytes.0;
    let responder = Responder::new();
    let whole = read(stream, choice, &responder, usize::MAX);
    assert_eq!(read(stream, choice, &responder, step), whole);
}
