//! Messages that are written once and sent often.

use std::fmt::Write;

use crate::fields::{is_token, is_value};
use crate::start_line::Method;
use crate::url::Url;

#[cfg(test)]
mod tests;

/// A request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestTemplate {
    bytes: Vec<u8>,
    head_len: usize,
    method: Method,
    keep_alive: bool,
    expects_continue: bool,
}

/// A response, ready to be sent: its head in three forms, and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseTemplate {
    /// By [`Persistence`].
    heads: [Vec<u8>; 3],
    body: Body,
}

/// The body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many bytes of printable text, made when they are sent.
    Synthetic(u64),
}

/// What a response says about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It stays open, as HTTP/1.1 has it.
    Implied = 0,
    /// It stays open, and a header announces it to a client of HTTP/1.0.
    KeepAlive = 1,
    /// It is closed after this response.
    Close = 2,
}

/// Why a message cannot be written.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The method.
    #[error("'{0}' is no method: use letters, such as GET")]
    Method(String),
    /// CONNECT, whose target is no path.
    #[error("CONNECT makes a tunnel, which load does not use: choose another method")]
    Connect,
    /// No colon.
    #[error("header '{0}' has no colon: write 'Name: value'")]
    NoColon(String),
    /// The name.
    #[error("header name '{0}' is no token: use letters, digits and -")]
    Name(String),
    /// The value; would end the line, and begin another.
    #[error("header {0} has a line break or control character in its value: remove it")]
    Value(String),
    /// Content-Length, Transfer-Encoding.
    #[error("header {0} is written by itself, from the body: leave it out")]
    Framing(String),
    /// A second Host.
    #[error("header Host is given twice: give it once")]
    SecondHost,
    /// Not from 200 to 599.
    #[error("status {0} is none of a final response: use 200 to 599")]
    Status(u16),
    /// 204 and 304.
    #[error("a response with status {0} has no body: leave it out")]
    BodyForbidden(u16),
    /// The number of templates.
    #[error("more than 65,535 responses: use fewer")]
    TooMany,
}

/// Text that repeats in a synthetic body; 64 bytes, so that a body can be checked by eye.
const PATTERN: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-\n";

/// The methods whose requests say the length of their body, even if it is 0 (RFC 9110 section 8.6).
const WITH_BODY: [Method; 3] = [Method::Post, Method::Put, Method::Patch];

impl RequestTemplate {
    /// A request for `url`. `headers` are lines of `Name: value`; a Host among them takes the place
    /// of the URL's.
    pub fn new<H: AsRef<str>>(
        method: &str,
        url: &Url,
        headers: &[H],
        body: &[u8],
    ) -> Result<Self, TemplateError> {
        if !is_token(method.as_bytes()) {
            return Err(TemplateError::Method(shown(method)));
        }
        let kind = Method::from_name(method.as_bytes());
        if kind == Method::Connect {
            return Err(TemplateError::Connect);
        }
        let (mut host, mut keep_alive, mut expects_continue) = (None, true, false);
        let mut lines = String::new();
        for header in headers {
            let (name, value) = checked(header.as_ref())?;
            if name.eq_ignore_ascii_case("Host") {
                if host.replace(value).is_some() {
                    return Err(TemplateError::SecondHost);
                }
                continue;
            }
            keep_alive &= !closes(name, value);
            expects_continue |=
                name.eq_ignore_ascii_case("Expect") && value.eq_ignore_ascii_case("100-continue");
            let _ = write!(lines, "{name}: {value}\r\n");
        }
        let authority = url.authority();
        let host = host.unwrap_or(&authority);
        let mut head = format!(
            "{method} {} HTTP/1.1\r\nHost: {host}\r\n{lines}",
            url.target
        );
        if !body.is_empty() || WITH_BODY.contains(&kind) {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let head_len = head.len();
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        Ok(Self {
            bytes,
            head_len,
            method: kind,
            keep_alive,
            expects_continue,
        })
    }

    /// Head and body.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the head: where the body begins.
    pub fn head_len(&self) -> usize {
        self.head_len
    }

    /// The method, as [`Sink::asked`](crate::Sink::asked) has to return it.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The connection may carry another request; false with `Connection: close`.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// It has `Expect: 100-continue`: the body waits for the answer to the head.
    pub fn expects_continue(&self) -> bool {
        self.expects_continue
    }
}

impl ResponseTemplate {
    /// A response with these lines of `Name: value`. Its length is always stated.
    pub fn new<H: AsRef<str>>(
        status: u16,
        headers: &[H],
        body: Body,
    ) -> Result<Self, TemplateError> {
        if !(200..600).contains(&status) {
            return Err(TemplateError::Status(status));
        }
        let has_body = !matches!(status, 204 | 304);
        if !has_body && !body.is_empty() {
            return Err(TemplateError::BodyForbidden(status));
        }
        let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
        for header in headers {
            let (name, value) = checked(header.as_ref())?;
            if name.eq_ignore_ascii_case("Connection") {
                return Err(TemplateError::Framing(name.to_owned()));
            }
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if has_body {
            let _ = write!(head, "Content-Length: {}\r\n", body.len());
        }
        let ends = [
            "\r\n",
            "Connection: keep-alive\r\n\r\n",
            "Connection: close\r\n\r\n",
        ];
        Ok(Self {
            heads: ends.map(|end| format!("{head}{end}").into_bytes()),
            body,
        })
    }

    pub(crate) fn head(&self, persistence: Persistence) -> &[u8] {
        &self.heads[persistence as usize]
    }

    /// Its body.
    pub fn body(&self) -> &Body {
        &self.body
    }
}

impl Body {
    /// Bytes of it.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Synthetic(len) => *len,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the bytes from `at` on into `out`, and returns how many there were.
    pub fn fill(&self, at: u64, out: &mut [u8]) -> usize {
        let left = self.len().saturating_sub(at);
        let len = (out.len() as u64).min(left) as usize;
        match self {
            Self::Bytes(bytes) => {
                let at = bytes.len() - left as usize;
                out[..len].copy_from_slice(&bytes[at..at + len]);
            }
            Self::Synthetic(_) => {
                let mut done = 0;
                while done < len {
                    let from = (at.wrapping_add(done as u64) % PATTERN.len() as u64) as usize;
                    let part = (PATTERN.len() - from).min(len - done);
                    out[done..done + part].copy_from_slice(&PATTERN[from..from + part]);
                    done += part;
                }
            }
        }
        len
    }
}

/// Name and value of a line that may stand in a head.
fn checked(line: &str) -> Result<(&str, &str), TemplateError> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(TemplateError::NoColon(shown(line)));
    };
    if !is_token(name.as_bytes()) {
        return Err(TemplateError::Name(shown(name)));
    }
    if !is_value(value.as_bytes()) {
        return Err(TemplateError::Value(name.to_owned()));
    }
    let own = ["Content-Length", "Transfer-Encoding"];
    if own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(TemplateError::Framing(name.to_owned()));
    }
    Ok((name, value.trim_matches([' ', '\t'])))
}

fn closes(name: &str, value: &str) -> bool {
    let mut options = value.split(',').map(str::trim);
    name.eq_ignore_ascii_case("Connection")
        && options.any(|option| option.eq_ignore_ascii_case("close"))
}

/// Foreign text in a message, on one line.
fn shown(text: &str) -> String {
    text.escape_debug().take(80).collect()
}

/// The reason phrases of RFC 9110 section 15 and RFC 6585; clients ignore them.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
