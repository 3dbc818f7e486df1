//! curl asks the responder over a socket of this host.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use lineside_http::{
    Body, End, Head, Heads, Parser, Reply, Responder, ResponseTemplate, Role, Sink,
};

/// A connection: what is to be sent, and whether it ends then.
struct Server<'a> {
    responder: &'a Responder,
    reply: Option<Reply>,
    out: Vec<u8>,
    is_done: bool,
}

impl Server<'_> {
    fn send(&mut self, reply: Reply) {
        let at = self.out.len();
        self.out.resize(at + self.responder.len(reply) as usize, 0);
        self.responder.fill(reply, 0, &mut self.out[at..]);
        self.is_done |= reply.closes();
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

fn serve(mut stream: TcpStream, responder: &Responder) -> std::io::Result<()> {
    let mut server = Server {
        responder,
        reply: None,
        out: Vec::new(),
        is_done: false,
    };
    let (mut parser, mut heads) = (Parser::new(Role::Request), Heads::new(1));
    let (mut buffer, mut at) = ([0; 1000], 0);
    while !server.is_done {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        let outcome = parser.push(at, &buffer[..len], &mut heads, &mut server);
        if let Err(error) = outcome
            && let Some(reply) = responder.on_error(error.kind)
        {
            server.send(reply);
        }
        at += len as u64;
        stream.write_all(&server.out)?;
        server.out.clear();
    }
    Ok(())
}

/// A server that answers as long as the test runs.
fn server() -> SocketAddr {
    let response = |body| ResponseTemplate::new(200, &["Content-Type: text/plain"], body);
    let mut responder = Responder::new();
    for (path, body) in [
        ("/", Body::Bytes(b"root".to_vec())),
        ("/big", Body::Synthetic(300_000)),
    ] {
        responder
            .route(path, response(body).expect("a response"))
            .expect("few templates");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away early ends its own connection only.
            let _ = serve(stream, &responder);
        }
    });
    address
}

/// For each transfer: status, connections made for it, bytes of body.
const FORMAT: &str = "%{http_code} %{num_connects} %{size_download}\\n";

fn curl(arguments: &[&str]) -> Option<(String, String)> {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--noproxy",
            "*",
            "--max-time",
            "60",
            "--write-out",
            FORMAT,
        ])
        .args(arguments)
        .output();
    let Ok(output) = output else {
        println!("SKIP: http against curl: there is no curl");
        return None;
    };
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn curl_takes_what_the_responder_answers() {
    let address = server();
    let url = |path: &str| format!("http://{address}{path}");
    let (root, big, none) = (url("/"), url("/big?x=y"), url("/none"));
    let files = ["-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null"];
    let three = [root.as_str(), &big, &none];
    for (arguments, expected) in [
        // One connection for all; one each.
        (&[][..], "200 1 4\n200 0 300000\n404 0 0\n"),
        (
            &["-H", "Connection: close"],
            "200 1 4\n200 1 300000\n404 1 0\n",
        ),
        (&["--http1.0"], "200 1 4\n200 1 300000\n404 1 0\n"),
        (
            &["--http1.0", "-H", "Connection: keep-alive"],
            "200 1 4\n200 0 300000\n404 0 0\n",
        ),
        (&["--head"], "200 1 0\n200 0 0\n404 0 0\n"),
        (&["-X", "DELETE"], "405 1 0\n405 0 0\n405 0 0\n"),
        (&["-H", "Host:"], "400 1 0\n400 1 0\n400 1 0\n"),
    ] {
        let arguments = [arguments, &files, &three].concat();
        let Some((out, _)) = curl(&arguments) else {
            return;
        };
        assert_eq!(out, expected, "{arguments:?}");
    }
    // A body that waits for 100 Continue; one in chunks.
    let post = [
        "-v",
        "--expect100-timeout",
        "50",
        "-H",
        "Expect: 100-continue",
        "-d",
        "a=b",
        &root,
    ];
    let chunked = ["-v", "-H", "Transfer-Encoding: chunked", "-d", "a=b", &root];
    let Some((out, log)) = curl(&post) else {
        return;
    };
    assert_eq!(out, "405 1 0\n");
    assert!(log.contains("< HTTP/1.1 100 Continue"), "{log}");
    let (out, log) = curl(&chunked).expect("it was there before");
    assert_eq!(out, "405 1 0\n");
    assert!(log.contains("> Transfer-Encoding: chunked"), "{log}");
}
