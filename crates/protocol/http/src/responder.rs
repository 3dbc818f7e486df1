//! A server's answers: which template answers a request, and whether the connection stays open.

use crate::error::ErrorKind;
use crate::head::{Head, Host};
use crate::start_line::{Method, Version};
use crate::template::{Body, Persistence, ResponseTemplate, TemplateError};

#[cfg(test)]
mod tests;

/// Answers requests from templates. It holds nothing of a connection, so one serves all of them.
///
/// It reads no clock, and so writes no Date (RFC 9110 section 6.6.1).
#[derive(Debug)]
pub struct Responder {
    templates: Vec<ResponseTemplate>,
    /// Sorted by path.
    paths: Vec<(Box<[u8]>, u16)>,
    fallback: u16,
}

/// The answer to a request: small, because each request of a pipeline has one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    template: u16,
    persistence: Persistence,
    has_body: bool,
    continues: bool,
}

/// The interim response of [`Reply::continues`].
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Places of the templates that every responder has.
const NOT_FOUND: u16 = 0;
const NOT_ALLOWED: u16 = 1;
const BAD_REQUEST: u16 = 2;
const TOO_LARGE: u16 = 3;
const NOT_IMPLEMENTED: u16 = 4;
const NO_ROOM: u16 = 5;
const BAD_VERSION: u16 = 6;
const OWN: [u16; 7] = [404, 405, 400, 431, 501, 503, 505];

impl Responder {
    /// One that answers 404 to every path.
    pub fn new() -> Self {
        let template = |status: u16| {
            let headers: &[&str] = match status {
                405 => &["Allow: GET, HEAD"],
                _ => &[],
            };
            ResponseTemplate::new(status, headers, Body::Synthetic(0))
                .expect("the statuses above are final ones that may have a body")
        };
        Self {
            templates: OWN.into_iter().map(template).collect(),
            paths: Vec::new(),
            fallback: NOT_FOUND,
        }
    }

    /// Answers GET and HEAD of `path`, whatever its query, with `response`.
    pub fn route(&mut self, path: &str, response: ResponseTemplate) -> Result<(), TemplateError> {
        let template = self.add(response)?;
        let path: Box<[u8]> = path.as_bytes().into();
        match self.paths.binary_search_by(|(known, _)| known.cmp(&path)) {
            Ok(at) => self.paths[at].1 = template,
            Err(at) => self.paths.insert(at, (path, template)),
        }
        Ok(())
    }

    /// Answers GET and HEAD of all other paths with `response`, instead of 404.
    pub fn route_others(&mut self, response: ResponseTemplate) -> Result<(), TemplateError> {
        self.fallback = self.add(response)?;
        Ok(())
    }

    fn add(&mut self, response: ResponseTemplate) -> Result<u16, TemplateError> {
        let place = u16::try_from(self.templates.len());
        let place = place.map_err(|_| TemplateError::TooMany)?;
        self.templates.push(response);
        Ok(place)
    }

    /// The answer to a request, known with its head; it is sent after the request's body.
    pub fn on_head(&self, head: &Head<'_>) -> Reply {
        let Some((method, target)) = head.request() else {
            return refusal(BAD_REQUEST);
        };
        let has_host = match head.host {
            Host::One(host) => is_host(host),
            Host::Missing => head.version == Version::Http10,
            Host::Several => false,
        };
        if !has_host {
            return refusal(BAD_REQUEST);
        }
        let template = match method {
            Method::Get | Method::Head => self.find(path(target)),
            _ => NOT_ALLOWED,
        };
        Reply {
            template,
            persistence: match (head.keep_alive, head.version) {
                (false, _) => Persistence::Close,
                (true, Version::Http10) => Persistence::KeepAlive,
                (true, Version::Http11) => Persistence::Implied,
            },
            has_body: method != Method::Head,
            continues: head.expects_continue,
        }
    }

    /// The answer to what is no request, after which the connection is closed; `None`: there is
    /// nobody to answer.
    pub fn on_error(&self, kind: ErrorKind) -> Option<Reply> {
        Some(refusal(match kind {
            ErrorKind::AfterClose | ErrorKind::Truncated => return None,
            ErrorKind::HeadTooLong | ErrorKind::TooManyFields => TOO_LARGE,
            ErrorKind::BadTransferEncoding => NOT_IMPLEMENTED,
            ErrorKind::NoRoom => NO_ROOM,
            ErrorKind::BadVersion => BAD_VERSION,
            _ => BAD_REQUEST,
        }))
    }

    /// Bytes of an answer, without an interim response.
    pub fn len(&self, reply: Reply) -> u64 {
        let template = &self.templates[usize::from(reply.template)];
        let body_len = match reply.has_body {
            true => template.body().len(),
            false => 0,
        };
        template.head(reply.persistence).len() as u64 + body_len
    }

    /// Writes the bytes of an answer from `at` on into `out`, and returns how many there were.
    pub fn fill(&self, reply: Reply, at: u64, out: &mut [u8]) -> usize {
        let template = &self.templates[usize::from(reply.template)];
        let head = template.head(reply.persistence);
        let mut done = 0;
        if at < head.len() as u64 {
            let head = &head[at as usize..];
            done = head.len().min(out.len());
            out[..done].copy_from_slice(&head[..done]);
        }
        if reply.has_body && done < out.len() {
            let body_at = (at + done as u64).saturating_sub(head.len() as u64);
            done += template.body().fill(body_at, &mut out[done..]);
        }
        done
    }

    fn find(&self, path: &[u8]) -> u16 {
        let found = self
            .paths
            .binary_search_by(|(known, _)| known[..].cmp(path));
        found.map_or(self.fallback, |at| self.paths[at].1)
    }
}

impl Default for Responder {
    fn default() -> Self {
        Self::new()
    }
}

impl Reply {
    /// The client waits for this before it sends the body: to be sent as soon as the head is there.
    pub fn continues(self) -> Option<&'static [u8]> {
        self.continues.then_some(CONTINUE)
    }

    /// The connection is closed after the answer.
    pub fn closes(self) -> bool {
        self.persistence == Persistence::Close
    }
}

fn refusal(template: u16) -> Reply {
    Reply {
        template,
        persistence: Persistence::Close,
        has_body: true,
        continues: false,
    }
}

/// The path of a target in origin form or absolute form (RFC 9112 section 3.2).
fn path(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|&byte| byte == b'?');
    let target = &target[..end.unwrap_or(target.len())];
    if target.starts_with(b"/") {
        return target;
    }
    let authority = target.windows(3).position(|part| part == b"://");
    let rest = authority.map_or(target, |at| &target[at + 3..]);
    match rest.iter().position(|&byte| byte == b'/') {
        Some(at) => &rest[at..],
        None => b"/",
    }
}

/// `uri-host [ ":" port ]` (RFC 9110 section 7.2): the characters that it may have.
fn is_host(host: &[u8]) -> bool {
    let is_part =
        |&byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte);
    host.iter().all(is_part)
}
