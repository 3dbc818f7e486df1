//! Random messages as Python's standard library reads them, and as the parser does.

use std::io::Write;
use std::process::{Command, Stdio};

use lineside_http::{
    End, Framing, Head, Heads, Method, ParseError, Parser, RequestTemplate, Role, Sink, Url,
};
use lineside_time::Random;

/// Reads lines of `METHOD HEX`: responses to such a request, one after another. Writes of each
/// stream a line: of each response status, body, whether the connection closes, and the offset
/// behind it.
const CLIENT: &str = r#"
import http.client, io, sys
class Kept(io.BytesIO):
    def close(self): pass
class Fake:
    def __init__(self, file): self.file = file
    def makefile(self, *_): return self.file
for line in sys.stdin:
    method, text = line.split()
    stream = Kept(bytes.fromhex(text))
    heard = []
    while stream.tell() < len(stream.getvalue()):
        response = http.client.HTTPResponse(Fake(stream), method=method)
        response.begin()
        body = response.read()
        heard.append(f"{response.status} {body.hex() or '-'} {int(response.will_close)} {stream.tell()}")
        if response.will_close: break
    print("; ".join(heard))
"#;

/// Reads lines of hex: requests, one after another. Writes a line of each stream: of each request
/// method, target, body, the value of X, whether the connection closes.
const SERVER: &str = r#"
import http.server, io, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def __init__(self, stream):
        self.rfile, self.wfile, self.client_address = stream, io.BytesIO(), ("", 0)
        self.heard, self.close_connection = [], False
    def note(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.heard.append(" ".join([self.command, self.path, body.hex() or "-", self.headers.get("X", "-"),
                                    str(int(self.close_connection))]))
    do_GET = do_HEAD = do_POST = do_PUT = note
    def log_message(self, *_): pass
for line in sys.stdin:
    stream = io.BytesIO(bytes.fromhex(line.strip()))
    handler = Handler(stream)
    while stream.tell() < len(stream.getvalue()) and not handler.close_connection:
        handler.handle_one_request()
    print("; ".join(handler.heard))
"#;

/// What `script` writes for `input`; `None`, and a line that says why: there is no Python.
fn python(script: &str, input: &str) -> Option<String> {
    let program = std::env::var("LINESIDE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let child = Command::new(&program)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("SKIP: http against Python: {program} does not run");
        return None;
    };
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The same lines from the parser.
#[derive(Default)]
struct Heard {
    asked: Method,
    is_request: bool,
    heard: Vec<String>,
    begun: String,
    x: String,
    closes: bool,
    body: Vec<u8>,
}

impl Sink for Heard {
    fn asked(&mut self) -> Method {
        self.asked
    }

    fn on_head(&mut self, head: &Head<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.closes = !head.keep_alive || head.framing == Framing::UntilClose;
        self.x = head.fields.value("X").map_or_else(|| "-".to_owned(), text);
        self.begun = match head.start {
            lineside_http::Start::Request { name, target, .. } => {
                format!("{} {}", text(name), text(target))
            }
            lineside_http::Start::Response { status, .. } => status.to_string(),
        };
    }

    fn on_body(&mut self, _: u64, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    fn on_end(&mut self, end: End<'_>) {
        let (begun, body, closes) = (&self.begun, hex(&self.body), u8::from(self.closes));
        self.heard.push(match self.is_request {
            true => format!("{begun} {body} {} {closes}", self.x),
            false => format!("{begun} {body} {closes} {}", end.at),
        });
        self.body.clear();
    }
}

/// In pieces, so that heads are held.
fn read(role: Role, stream: &[u8], heard: &mut Heard) -> Result<(), ParseError> {
    let (mut parser, mut heads) = (Parser::new(role), Heads::new(1));
    let mut at = 0;
    for piece in stream.chunks(37) {
        parser.push(at, piece, &mut heads, heard)?;
        at += piece.len() as u64;
    }
    parser.finish(at, &mut heads, heard)
}

/// A response, and whether it is the last of its connection.
fn response(random: &mut Random, stream: &mut Vec<u8>, is_head: bool) -> bool {
    let mut pick = |from: &[&'static str]| from[random.below(from.len() as u64) as usize];
    let interim = pick(&["", "", "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n"]);
    let version = pick(&["1.1", "1.1", "1.0"]);
    let status = pick(&[
        "200 OK",
        "404 Not Found",
        "204 No",
        "304 Not Modified",
        "503 \u{e9}",
    ]);
    let connection = match version {
        "1.1" => pick(&["", "Connection: close\r\n", "Connection: keep-alive\r\n"]),
        _ => pick(&["", "Connection: Keep-Alive\r\n"]),
    };
    let folded = pick(&["", "Y: one\r\n\ttwo\r\n  three\r\n", "Empty:\r\n"]);
    let mut head = format!("{interim}HTTP/{version} {status}\r\n{folded}{connection}");
    let body: Vec<u8> = (0..random.below(300))
        .map(|_| random.bits() as u8)
        .collect();
    let has_body = !is_head && !status.starts_with("204") && !status.starts_with("304");
    // Python looks for chunks after 204 and 304 too, where there is no body (RFC 9112 section 6.3).
    let may_chunk = version == "1.1" && (has_body || is_head);
    let framing = random.below(if may_chunk { 3 } else { 2 });
    let mut content = Vec::new();
    match framing {
        0 => {
            head += &format!("Content-Length: {}\r\n", body.len());
            content.clone_from(&body);
        }
        1 => content.clone_from(&body),
        _ => {
            head += "Transfer-Encoding: Chunked\r\n";
            for chunk in body.chunks(1 + random.below(99) as usize) {
                let size = format!("{:02X};ext=\"a b\"\r\n", chunk.len());
                content.extend_from_slice(size.as_bytes());
                content.extend_from_slice(chunk);
                content.extend_from_slice(b"\r\n");
            }
            content.extend_from_slice(b"0\r\nTrailer: 1\r\n\r\n");
        }
    }
    stream.extend_from_slice(head.as_bytes());
    stream.extend_from_slice(b"\r\n");
    if has_body {
        stream.extend_from_slice(&content);
    }
    let is_open_end = has_body && framing == 1;
    let keeps = connection.contains("lose") || version == "1.0" && connection.is_empty();
    is_open_end || keeps
}

#[test]
fn responses_are_read_as_python_reads_them() {
    let (mut input, mut ours) = (String::new(), String::new());
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let is_head = random.below(6) == 0;
        let mut stream = Vec::new();
        for _ in 0..4 {
            if response(&mut random, &mut stream, is_head) {
                break;
            }
        }
        let asked = if is_head { Method::Head } else { Method::Get };
        let mut heard = Heard {
            asked,
            ..Heard::default()
        };
        let outcome = read(Role::Response, &stream, &mut heard);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        let method = if is_head { "HEAD" } else { "GET" };
        input += &format!("{method} {}\n", hex(&stream));
        ours += &format!("{}\n", heard.heard.join("; "));
    }
    if let Some(theirs) = python(CLIENT, &input) {
        for (seed, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(ours, theirs, "seed {seed}");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
    }
}

#[test]
fn requests_are_read_as_python_reads_them() {
    let (mut input, mut ours) = (String::new(), String::new());
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut stream = Vec::new();
        for _ in 0..1 + random.below(3) {
            let method = ["GET", "HEAD", "POST", "PUT"][random.below(4) as usize];
            let url = ["http://a/", "http://[::1]:99/b?c=d", "http://127.0.0.1/%20"];
            let url = Url::parse(url[random.below(3) as usize]).expect("a URL");
            let headers = ["X: some", "Y: other", "X-Y:", "Connection: keep-alive"];
            let headers = &headers[..random.below(5) as usize];
            let body: Vec<u8> = (0..random.below(50)).map(|_| random.bits() as u8).collect();
            let request = RequestTemplate::new(method, &url, headers, &body);
            stream.extend_from_slice(request.expect("a request").bytes());
        }
        let mut heard = Heard {
            is_request: true,
            ..Heard::default()
        };
        let outcome = read(Role::Request, &stream, &mut heard);
        assert_eq!(outcome, Ok(()), "seed {seed}");
        input += &format!("{}\n", hex(&stream));
        ours += &format!("{}\n", heard.heard.join("; "));
    }
    if let Some(theirs) = python(SERVER, &input) {
        for (seed, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(ours, theirs, "seed {seed}");
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
    }
}
