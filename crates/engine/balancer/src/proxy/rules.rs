//! Which nodes a connection's first request goes to: by HTTP host and path, or by the name in a TLS
//! ClientHello.

use lineside_http::{End, Head, Heads, Host, Parser, Role, Sink};
use memchr::memmem;

use super::tls::{self, Hello};

/// Nodes of a service that a rule names, by their place in the caller's list.
pub type Group = u16;

/// A condition, and the nodes for connections that meet it. All that it names is to be so.
///
/// Hosts and TLS names are compared without regard to case, a port and a trailing dot; one that
/// begins with `*.` stands for every name below. A path is a prefix of the target as it was sent:
/// nothing is decoded, since the choice of a node is no access control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    host: Option<String>,
    path: Option<String>,
    sni: Option<String>,
    group: Group,
}

/// A rule that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Words come in pairs.
    #[error("`{0}` needs a value: `host example.com`, `path /img/` or `sni example.com`")]
    NoValue(String),
    /// Not a word of rules.
    #[error("`{0}` is no condition: `host`, `path` and `sni` are")]
    UnknownWord(String),
    /// The same word again.
    #[error("`{0}` is there twice: a second rule can name another one")]
    Twice(String),
    /// A path that no target begins with.
    #[error("the path `{0}` does not begin with `/`")]
    Path(String),
    /// A name that no client sends.
    #[error("`{0}` is not the name of a host, without port and scheme")]
    Name(String),
    /// HTTP and TLS.
    #[error("`sni` is what TLS says in the clear: a request's `host` and `path` are not")]
    Both,
    /// There are no words.
    #[error("a rule without a condition: `default` says which nodes take all others")]
    Empty,
}

impl Rule {
    /// Reads words: `host example.com`, `path /img/`, both, or `sni api.example.com`.
    pub fn parse(words: &str, group: Group) -> Result<Self, RuleError> {
        let mut rule = Self {
            host: None,
            path: None,
            sni: None,
            group,
        };
        let mut words = words.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let field = match word {
                "host" => &mut rule.host,
                "path" => &mut rule.path,
                "sni" => &mut rule.sni,
                _ => return Err(RuleError::UnknownWord(word.to_owned())),
            };
            let value = { words.next() }.ok_or_else(|| RuleError::NoValue(word.to_owned()))?;
            if field.is_some() {
                return Err(RuleError::Twice(word.to_owned()));
            }
            *field = Some(match word {
                "path" if value.starts_with('/') => value.to_owned(),
                "path" => return Err(RuleError::Path(value.to_owned())),
                _ if is_name(value) => value.strip_suffix('.').unwrap_or(value).to_owned(),
                _ => return Err(RuleError::Name(value.to_owned())),
            });
        }
        match (&rule.host, &rule.path, &rule.sni) {
            (None, None, None) => Err(RuleError::Empty),
            (None, None, Some(_)) | (_, _, None) => Ok(rule),
            _ => Err(RuleError::Both),
        }
    }

    /// The nodes for connections that meet it.
    pub fn group(&self) -> Group {
        self.group
    }

    fn takes_request(&self, host: Option<&[u8]>, path: &[u8]) -> bool {
        let is_host = |own: &String| host.is_some_and(|host| matches(own, host));
        let is_path = |own: &String| path.starts_with(own.as_bytes());
        self.sni.is_none()
            && self.host.as_ref().is_none_or(is_host)
            && self.path.as_ref().is_none_or(is_path)
    }

    fn takes_name(&self, name: &[u8]) -> bool {
        self.sni.as_ref().is_some_and(|own| matches(own, name))
    }
}

/// The rules of a service, the first of which that fits decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// In their order.
    pub rules: Vec<Rule>,
    /// Where connections go that no rule takes; `None`: they are reset.
    pub default: Option<Group>,
}

/// What the rules say of the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The rules need this many bytes to decide.
    More(usize),
    /// A rule fits.
    Group(Group),
    /// None does: the request is understood.
    Unmatched,
    /// Neither a request of HTTP nor a ClientHello.
    Malformed,
}

impl Rules {
    /// What the rules say of a connection that begins with `bytes`, of which the first `known` were
    /// given before.
    pub fn decide(&self, bytes: &[u8], known: usize) -> Verdict {
        match bytes.first() {
            None => Verdict::More(1),
            Some(&first) if tls::begins(first) => self.decide_hello(bytes),
            Some(_) => self.decide_request(bytes, known),
        }
    }

    fn decide_hello(&self, bytes: &[u8]) -> Verdict {
        match tls::client_hello(bytes) {
            Hello::More(len) => Verdict::More(len),
            Hello::Malformed => Verdict::Malformed,
            Hello::Nameless => Verdict::Unmatched,
            Hello::Name(name) => self.first(|rule| rule.takes_name(without_port(name.bytes()))),
        }
    }

    fn decide_request(&self, bytes: &[u8], known: usize) -> Verdict {
        let more = Verdict::More(bytes.len() + 1);
        // RFC 9112, 2.2: empty lines before a request.
        let is_end = |&byte: &u8| matches!(byte, b'\r' | b'\n');
        let Some(begin) = bytes.iter().position(|byte| !is_end(byte)) else {
            return more;
        };
        // The end may have begun in what was known.
        let from = known.saturating_sub(3).max(begin);
        let has_end = |end: &[u8]| memmem::find(&bytes[from..], end).is_some();
        if !has_end(b"\n\r\n") && !has_end(b"\n\n") {
            return more;
        }
        let mut reader = Reader {
            rules: self,
            verdict: None,
        };
        // Nothing is held in pieces: the head is complete.
        let mut heads = Heads::new(0);
        let parsed = Parser::new(Role::Request).push(0, bytes, &mut heads, &mut reader);
        match (reader.verdict, parsed) {
            // An error after the head is the node's to answer.
            (Some(verdict), _) => verdict,
            (None, _) => Verdict::Malformed,
        }
    }

    fn first(&self, takes: impl Fn(&Rule) -> bool) -> Verdict {
        let rule = self.rules.iter().find(|rule| takes(rule));
        rule.map_or(Verdict::Unmatched, |rule| Verdict::Group(rule.group))
    }
}

/// Hears the head of the first request.
struct Reader<'a> {
    rules: &'a Rules,
    verdict: Option<Verdict>,
}

impl Sink for Reader<'_> {
    fn on_head(&mut self, head: &Head<'_>) {
        if self.verdict.is_some() {
            return;
        }
        let (_, target) = head.request().unwrap_or_default();
        // RFC 9112, 3.2.2: the host of an absolute target takes precedence.
        let absolute = std::str::from_utf8(target).ok().and_then(absolute);
        let verdict = match (absolute, head.host) {
            (Some((host, path)), _) => {
                let host = without_port(host.as_bytes());
                self.rules
                    .first(|rule| rule.takes_request(Some(host), path.as_bytes()))
            }
            // RFC 9112, 3.2: the server refuses it.
            (None, Host::Several) => Verdict::Malformed,
            (None, Host::One(host)) => {
                let host = without_port(host);
                { self.rules }.first(|rule| rule.takes_request(Some(host), target))
            }
            (None, Host::Missing) => self.rules.first(|rule| rule.takes_request(None, target)),
        };
        self.verdict = Some(verdict);
    }

    fn on_end(&mut self, _: End<'_>) {}
}

/// Authority and path of a target with a scheme.
fn absolute(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    Some((authority, if path.is_empty() { "/" } else { path }))
}

/// A host without its port, brackets kept: RFC 3986, 3.2.2.
fn without_port(host: &[u8]) -> &[u8] {
    let end = match host.iter().rposition(|&byte| byte == b']') {
        Some(at) => at + 1,
        None => host
            .iter()
            .position(|&byte| byte == b':')
            .unwrap_or(host.len()),
    };
    host[..end].strip_suffix(b".").unwrap_or(&host[..end])
}

fn is_name(name: &str) -> bool {
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let is_fitting = |byte: u8| byte.is_ascii_graphic() && !b"*/?#@".contains(&byte);
    let rest = rest.strip_suffix('.').unwrap_or(rest);
    let has_no_port = without_port(rest.as_bytes()) == rest.as_bytes();
    !rest.is_empty() && rest.bytes().all(is_fitting) && has_no_port
}

/// Whether a host is the rule's, or one below it.
fn matches(own: &str, host: &[u8]) -> bool {
    let own = own.as_bytes();
    match own.strip_prefix(b"*") {
        None => own.eq_ignore_ascii_case(host),
        Some(suffix) => {
            let begin = host
                .len()
                .checked_sub(suffix.len())
                .filter(|&begin| begin > 0);
            begin.is_some_and(|begin| host[begin..].eq_ignore_ascii_case(suffix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(words: &[&str]) -> Rules {
        let rules = (1..).zip(words);
        Rules {
            rules: rules
                .map(|(group, words)| Rule::parse(words, group).expect("a rule"))
                .collect(),
            default: Some(0),
        }
    }

    fn request(target: &str, host: &str) -> Vec<u8> {
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\nmore").into_bytes()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(&[
            "host a.example path /img/",
            "host *.b.example",
            "path /img/",
        ]);
        for (target, host, group) in [
            ("/img/1", "A.Example:8080", Some(1)),
            ("/img/1", "a.example.", Some(1)),
            ("/img", "a.example", None),
            ("/", "x.y.b.example", Some(2)),
            ("/", "b.example", None),
            ("/img/2", "c.example", Some(3)),
            // RFC 9112, 3.2.2.
            ("http://a.example/img/", "c.example", Some(1)),
        ] {
            let expected = group.map_or(Verdict::Unmatched, Verdict::Group);
            let bytes = request(target, host);
            assert_eq!(rules.decide(&bytes, 0), expected, "{target} of {host}");
            // Byte by byte.
            let (mut known, mut verdict) = (0, Verdict::More(0));
            for end in 1..=bytes.len() {
                verdict = rules.decide(&bytes[..end], known);
                if !matches!(verdict, Verdict::More(_)) {
                    break;
                }
                known = end;
            }
            assert_eq!(verdict, expected, "{target} of {host} byte by byte");
        }
    }

    #[test]
    fn names_of_tls_decide_and_other_protocols_do_not() {
        let rules = rules(&["host api.example.com", "sni API.example.com"]);
        let hello = include_bytes!("client_hello.bin");
        assert_eq!(rules.decide(hello, 0), Verdict::Group(2));
        assert_eq!(rules.decide(b"SSH-2.0-x\r\n\r\n", 0), Verdict::Malformed);
        let several = b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
        assert_eq!(rules.decide(several, 0), Verdict::Malformed);
        assert_eq!(rules.decide(b"\r\n\r\n\r\n", 0), Verdict::More(7));
    }

    #[test]
    fn rules_that_nothing_fits_are_refused() {
        let name = |text: &str| RuleError::Name(text.to_owned());
        for (words, error) in [
            ("", RuleError::Empty),
            ("host", RuleError::NoValue("host".to_owned())),
            ("port 80", RuleError::UnknownWord("port".to_owned())),
            ("path img", RuleError::Path("img".to_owned())),
            ("path / path /a", RuleError::Twice("path".to_owned())),
            ("host a:80", name("a:80")),
            ("host http://a", name("http://a")),
            ("sni a path /", RuleError::Both),
        ] {
            assert_eq!(Rule::parse(words, 0), Err(error), "{words}");
        }
    }
}
