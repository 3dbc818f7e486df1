//! HTTP/1.1 (RFC 9110, RFC 9112), by the parser and templates of `lineside-http`.

use std::io::Write;

use lineside_http::{
    Body, End, Head, Heads, Method, Parser, Reply, RequestTemplate, Responder, ResponseTemplate,
    Role, Sink, TemplateError, Url,
};
use lineside_words::WordError;
use lineside_workload::{Keys, Template};

use super::{
    Answer, Answers, Broken, Client, Key, KeyKind, Named, Outstanding, Preset, PresetValue,
    Protocol, Request, Server, Service,
};
use crate::launch::{Requests, Streams};
use crate::serve::ServeStreams;
use crate::words::{UsageError, Words};

/// Heads that come in pieces, at once.
const HEADS_MAX: usize = 1 << 14;

/// The longest body: a request lies in memory whole.
const BODY_BYTES_MAX: u64 = 16 << 20;
/// Bytes of an answer's body, as of the load that servers are measured with.
const ANSWER_BYTES: u64 = 64;

/// The protocol `http`.
pub(super) static HTTP: Protocol = Protocol {
    keys: &[
        Key {
            kind: KeyKind::Texts,
            short: Some('H'),
            value: "NAME: VALUE",
            example: Some("Accept: text/html"),
            ..Key::new(
                "headers",
                "header",
                "Add a header to each request; can be repeated",
            )
        },
        Key {
            short: Some('X'),
            value: "METHOD",
            ..Key::new(
                "http_method",
                "request",
                "Method of the requests [default: GET, or POST with --body]",
            )
        },
        Key {
            value: "TEXT|@FILE",
            has_hyphens: true,
            ..Key::new(
                "body",
                "body",
                "Body of the requests: this text, or @FILE for a file's content",
            )
        },
        Key {
            kind: KeyKind::Switch,
            ..Key::new(
                "fields",
                "fields",
                "Fill in fields of URL, headers and body: {number} of the request, {key}, \
                 {random:1..1000}, {hex:16}, {bytes:64}; {{ is a brace",
            )
        },
    ],
    shared_keys: &["keys"],
    ..Protocol::new(
        "http",
        "http://HOST[:PORT][/PATH]",
        client,
        Service {
            place: 0,
            about: "HTTP/1.1: each request gets 200 and a body",
            port: 8080,
            size: Some(("each body", "64")),
            server: |words| {
                let bytes = words.size.unwrap_or(ANSWER_BYTES);
                Ok(Box::new(ServeStreams(move || {
                    HttpServer::new(responder(bytes))
                })))
            },
        },
    )
};

/// 3GPP TR 37.868, table 6.1.1, traffic model 1: 30,000 devices come within 60 s.
pub(super) static IOT: Preset = Preset {
    name: "iot",
    about: Some("many devices"),
    of: &["http", "echo", "memcached"],
    keys: &[
        ("rate", PresetValue::Text("500 for 60s")),
        ("arrivals", PresetValue::Text("poisson")),
        ("arrivals_of", PresetValue::Text("connections")),
        ("connections", PresetValue::Count(1_000)),
    ],
    ..Preset::NONE
};

/// RFC 9411, section 7.3.3.1: ten transactions of each connection.
pub(super) static WEB: Preset = Preset {
    name: "web",
    about: None,
    of: &["http"],
    keys: &[("requests_per_connection", PresetValue::Count(10))],
    with_rate: &[("arrivals", PresetValue::Text("poisson"))],
    ..Preset::NONE
};

/// Requests, all alike or with fields.
fn client(words: &Words<'_>) -> Result<(Url, Box<dyn Requests>), UsageError> {
    let url = Url::parse(words.url).map_err(|error| words.wrong(error))?;
    let body = words.text("body").map(body).transpose()?;
    let method = match (words.text("http_method"), &body) {
        (Some(method), _) => method,
        (None, Some(_)) => "POST",
        (None, None) => "GET",
    };
    let headers = words.texts("headers");
    let body = body.unwrap_or_default();
    let template = RequestTemplate::new(method, &url, &headers, &body).map_err(UsageError::of)?;
    if template.expects_continue() {
        return Err(UsageError::new(
            "Expect: 100-continue has the body wait for an answer, which a load does not do: \
             leave it out",
        ));
    }
    let http = if words.is_set("fields") {
        let body = String::from_utf8(body)
            .map_err(|_| UsageError::new("body: it is not text, and --fields is about text"))?;
        let keys = words.text("keys").map(str::parse).transpose();
        let keys = keys.map_err(|error: WordError| UsageError::of(error))?;
        let http = Http::with_fields(method, &url, &headers, &body, keys, words.seed);
        http.map_err(UsageError::of)?
    } else {
        Http::new(template)
    };
    let peer = ServeStreams(|| HttpServer::new(responder(ANSWER_BYTES)));
    Ok((
        url,
        Box::new(Streams::with_peer(move || http.clone(), peer)),
    ))
}

/// A body: the text, or what is in a file.
fn body(text: &str) -> Result<Vec<u8>, UsageError> {
    let Some(name) = text.strip_prefix('@') else {
        return Ok(text.as_bytes().to_vec());
    };
    let at = |error: std::io::Error| format!("body: '{name}': {error}");
    let len = std::fs::metadata(name)
        .map_err(|error| UsageError(at(error)))?
        .len();
    if len > BODY_BYTES_MAX {
        return Err(UsageError(format!(
            "body: '{name}' has {}: a body has at most 16 MiB",
            lineside_words::bytes(len)
        )));
    }
    let read = std::fs::read(name);
    read.map_err(|error| UsageError(format!("the body of requests: {}", at(error))))
}

/// What a server answers.
fn responder(bytes: u64) -> Responder {
    let mut responder = Responder::new();
    let response = ResponseTemplate::new(200, &[] as &[&str], Body::Synthetic(bytes));
    let added = responder.route_others(response.expect("200 may have a body"));
    added.expect("room for one");
    responder
}

/// A client that asks for one URL, or for those of a template.
#[derive(Debug)]
pub struct Http {
    template: RequestTemplate,
    fields: Option<Fields>,
    heads: Heads,
}

impl Clone for Http {
    /// One of its own, with no head under way.
    fn clone(&self) -> Self {
        Self {
            template: self.template.clone(),
            fields: self.fields.clone(),
            heads: Heads::new(HEADS_MAX),
        }
    }
}

/// A request with fields, each with its own values in each request.
#[derive(Debug, Clone)]
struct Fields {
    /// The head up to the length of the body.
    head: Template,
    body: Option<Template>,
    /// The body of the request at hand.
    written: Vec<u8>,
}

/// An answer that is not over.
#[derive(Debug)]
pub struct HttpReader {
    parser: Parser,
    content_bytes: u64,
    status: u16,
    closes: bool,
}

impl Default for HttpReader {
    fn default() -> Self {
        Self {
            parser: Parser::new(Role::Response),
            content_bytes: 0,
            status: 0,
            closes: false,
        }
    }
}

impl Http {
    /// Requests as the template has them.
    pub fn new(template: RequestTemplate) -> Self {
        Self {
            template,
            fields: None,
            heads: Heads::new(HEADS_MAX),
        }
    }

    /// Requests for a URL whose path and query, header lines and body have
    /// [fields](lineside_workload::Template).
    pub fn with_fields(
        method: &str,
        url: &Url,
        headers: &[impl AsRef<str>],
        body: &str,
        keys: Option<Keys>,
        seed: u64,
    ) -> Result<Self, HttpError> {
        let template = RequestTemplate::new(method, url, headers, b"")?;
        let text = String::from_utf8_lossy(template.bytes());
        let head = text.trim_end_matches("\r\n");
        let head = head.strip_suffix("Content-Length: 0").unwrap_or(head);
        let head = Template::parse(&format!("{}\r\n", head.trim_end()), keys, seed)?;
        let body = match body {
            "" => None,
            body => Some(Template::parse(body, keys, seed ^ 1)?),
        };
        Ok(Self {
            template,
            fields: Some(Fields {
                head,
                body,
                written: Vec::new(),
            }),
            heads: Heads::new(HEADS_MAX),
        })
    }
}

/// Why a request cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Method, target or headers.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A field.
    #[error(transparent)]
    Field(#[from] WordError),
}

impl Fields {
    fn write(&mut self, request: Request, method: Method, out: &mut Vec<u8>) {
        let (ordinal, slot) = (request.ordinal, u64::from(request.slot));
        self.head.write(ordinal, slot, out);
        if let Some(body) = &self.body {
            self.written.clear();
            body.write(ordinal, slot, &mut self.written);
        }
        if self.body.is_some() || matches!(method, Method::Post | Method::Put | Method::Patch) {
            // Writing to memory does not fail.
            let _ = write!(out, "Content-Length: {}\r\n", self.written.len());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.written);
    }
}

/// What the parser reports, on its way to the requests.
struct Reading<'a, O> {
    outstanding: &'a mut O,
    method: Method,
    content_bytes: &'a mut u64,
    status: &'a mut u16,
    closes: &'a mut bool,
    is_broken: bool,
}

impl<O: Outstanding> Sink for Reading<'_, O> {
    fn asked(&mut self) -> Method {
        self.method
    }

    fn on_interim(&mut self, _: &Head<'_>) {
        self.is_broken |= self.outstanding.oldest().is_none();
    }

    fn on_head(&mut self, head: &Head<'_>) {
        *self.status = head.status();
        *self.closes = !head.keep_alive;
        *self.content_bytes = 0;
    }

    fn on_body(&mut self, _: u64, bytes: &[u8]) {
        *self.content_bytes += bytes.len() as u64;
    }

    fn on_end(&mut self, _: End<'_>) {
        let answer = Answer {
            status: (*self.status).into(),
            is_success: (200..400).contains(self.status),
            content_bytes: *self.content_bytes,
            closes: *self.closes,
            request: None,
            operation: 0,
        };
        self.is_broken |= self.outstanding.answered(answer).is_err();
    }
}

/// Feeds a parser with a sink of these requests.
fn feed<O: Outstanding>(
    reader: &mut HttpReader,
    method: Method,
    outstanding: &mut O,
    feed: impl FnOnce(&mut Parser, &mut Reading<'_, O>) -> bool,
) -> Result<(), Broken> {
    let HttpReader {
        parser,
        content_bytes,
        status,
        closes,
    } = reader;
    let mut reading = Reading {
        outstanding,
        method,
        content_bytes,
        status,
        closes,
        is_broken: false,
    };
    let is_whole = feed(parser, &mut reading);
    match is_whole && !reading.is_broken {
        true => Ok(()),
        false => Err(Broken),
    }
}

impl Client for Http {
    type Reader = HttpReader;

    fn write(&mut self, request: Request, out: &mut Vec<u8>) {
        match &mut self.fields {
            None => out.extend_from_slice(self.template.bytes()),
            Some(fields) => fields.write(request, self.template.method(), out),
        }
    }

    fn read(
        &mut self,
        reader: &mut HttpReader,
        bytes: &[u8],
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        if reader.parser.is_idle() && outstanding.oldest().is_none() {
            return Err(Broken);
        }
        let (method, heads) = (self.template.method(), &mut self.heads);
        feed(reader, method, outstanding, |parser, reading| {
            parser.push(0, bytes, heads, reading).is_ok()
        })?;
        // The beginning of an answer to nothing.
        match reader.parser.is_idle() || outstanding.oldest().is_some() {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    fn end(
        &mut self,
        reader: &mut HttpReader,
        outstanding: &mut impl Outstanding,
    ) -> Result<(), Broken> {
        let (method, heads) = (self.template.method(), &mut self.heads);
        feed(reader, method, outstanding, |parser, reading| {
            parser.finish(0, heads, reading).is_ok()
        })
    }

    fn release(&mut self, mut reader: HttpReader) {
        reader.parser.release(&mut self.heads);
    }
}

impl Named for Http {
    fn operation(&self, _: Request) -> &'static str {
        self.template.method().name()
    }
}

/// A server that answers from templates.
#[derive(Debug)]
pub struct HttpServer {
    responder: Responder,
    heads: Heads,
}

/// A request that is not over.
#[derive(Debug)]
pub struct HttpRequest {
    parser: Parser,
    reply: Option<Reply>,
    /// The last answer was given.
    is_over: bool,
}

impl Default for HttpRequest {
    fn default() -> Self {
        Self {
            parser: Parser::new(Role::Request),
            reply: None,
            is_over: false,
        }
    }
}

impl HttpServer {
    /// Answers as `responder` says.
    pub fn new(responder: Responder) -> Self {
        Self {
            responder,
            heads: Heads::new(HEADS_MAX),
        }
    }
}

/// Requests on their way to their answers.
struct Serving<'a, A> {
    responder: &'a Responder,
    answers: &'a mut A,
    reply: &'a mut Option<Reply>,
    is_over: &'a mut bool,
}

impl<A: Answers<Reply>> Serving<'_, A> {
    fn answer(&mut self, reply: Reply) {
        self.answers.content(reply, self.responder.len(reply));
        if reply.closes() {
            *self.is_over = true;
            self.answers.close();
        }
    }
}

impl<A: Answers<Reply>> Sink for Serving<'_, A> {
    fn on_head(&mut self, head: &Head<'_>) {
        if *self.is_over {
            return;
        }
        let reply = self.responder.on_head(head);
        if let Some(interim) = reply.continues() {
            self.answers.bytes(interim);
        }
        *self.reply = Some(reply);
    }

    fn on_end(&mut self, _: End<'_>) {
        if let Some(reply) = self.reply.take() {
            self.answers.request();
            self.answer(reply);
        }
    }
}

impl Server for HttpServer {
    type Reader = HttpRequest;
    type Content = Reply;

    fn rests(&self, request: &HttpRequest) -> bool {
        request.parser.is_idle() && request.reply.is_none() && !request.is_over
    }

    fn read(&mut self, request: &mut HttpRequest, bytes: &[u8], answers: &mut impl Answers<Reply>) {
        let HttpRequest {
            parser,
            reply,
            is_over,
        } = request;
        if *is_over {
            return;
        }
        let mut serving = Serving {
            responder: &self.responder,
            answers,
            reply,
            is_over,
        };
        let Err(error) = parser.push(0, bytes, &mut self.heads, &mut serving) else {
            return;
        };
        if let Some(refusal) = self
            .responder
            .on_error(error.kind)
            .filter(|_| !*serving.is_over)
        {
            serving.answer(refusal);
        }
    }

    fn content(&self, reply: Reply, offset: u64, bytes: &mut [u8]) {
        self.responder.fill(reply, offset, bytes);
    }

    fn release(&mut self, mut request: HttpRequest) {
        request.parser.release(&mut self.heads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_request_follow_from_its_number() {
        let url = Url::parse("http://h/a?n={n:03}").expect("a URL");
        let headers = ["X-Key: {hex:4}".to_owned()];
        let body = r#"{{"n": {n}}}"#;
        let mut http = Http::with_fields("POST", &url, &headers, body, None, 7).expect("a request");
        let mut written = |ordinal| {
            let mut out = Vec::new();
            http.write(Request { ordinal, slot: 0 }, &mut out);
            String::from_utf8(out).expect("text")
        };
        for (ordinal, body) in [(7, r#"{"n": 7}"#), (1_234, r#"{"n": 1234}"#)] {
            let text = written(ordinal);
            let target = format!("POST /a?n={ordinal:03} HTTP/1.1\r\nHost: h\r\nX-Key: ");
            assert!(text.starts_with(&target), "{text}");
            let end = format!("\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            assert!(text.ends_with(&end), "{text}");
            assert_eq!(text, written(ordinal));
        }
    }
}
