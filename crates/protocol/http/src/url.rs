//! `http://host:port/path?query` (RFC 9110 section 4.2.1, RFC 3986): what a client needs of it.

use std::fmt;
use std::net::Ipv6Addr;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// A name or an address; of IPv6 without the brackets.
    pub host: String,
    /// 80 unless given.
    pub port: u16,
    /// Path and query as they are sent: it begins with `/`. A fragment stays with the client (RFC
    /// 9110 section 7.1).
    pub target: String,
}

/// Why a text is no URL that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {what}: {way}")]
pub struct UrlError {
    /// The column at fault, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: &'static str,
    /// The way out.
    pub way: &'static str,
}

const SCHEME: &str = "http://";
const PORT: u16 = 80;
const WRITE: &str = "write http://HOST[:PORT][/PATH]";
const ENCODE: &str = "percent-encode it: %20 for a space";

impl Url {
    /// Reads a URL, which has at most 64 KiB.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > crate::HEAD_MAX / 2 {
            return Err(error(1, "too long", "use at most 32 KiB"));
        }
        let rest = after_scheme(text)?;
        let authority_at = text.len() - rest.len();
        let len = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(len);
        let (host, port) = authority_parts(authority, authority_at)?;
        let target = target.split('#').next().unwrap_or_default();
        let column = |text: &str| text.bytes().position(|byte| !byte.is_ascii_graphic());
        if let Some(at) = column(target) {
            let what = match target.as_bytes()[at] {
                b' ' => "a space in the path",
                byte if byte < b' ' || byte == 0x7f => "a control character in the path",
                _ => "a character beyond ASCII in the path",
            };
            return Err(error(authority_at + len + at + 1, what, ENCODE));
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            host,
            port,
            target: format!("{slash}{target}"),
        })
    }

    /// Host and port as the field Host has them: the port only if it is not 80.
    pub fn authority(&self) -> String {
        let (open, close) = match self.host.contains(':') {
            true => ("[", "]"),
            false => ("", ""),
        };
        let host = &self.host;
        match self.port {
            PORT => format!("{open}{host}{close}"),
            port => format!("{open}{host}{close}:{port}"),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}", self.authority(), self.target)
    }
}

fn error(column: usize, what: &'static str, way: &'static str) -> UrlError {
    UrlError { column, what, way }
}

fn after_scheme(text: &str) -> Result<&str, UrlError> {
    let scheme = text.get(..SCHEME.len());
    if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
        return Ok(&text[SCHEME.len()..]);
    }
    let Some((scheme, _)) = text.split_once("://") else {
        return Err(error(1, "no scheme", WRITE));
    };
    Err(match scheme.eq_ignore_ascii_case("https") {
        true => error(1, "https is not supported yet", "use http"),
        false => error(1, "not a scheme that is supported", "use http"),
    })
}

/// Host and port of an authority that begins after `at` bytes of the text.
fn authority_parts(authority: &str, at: usize) -> Result<(String, u16), UrlError> {
    if let Some(sign) = authority.rfind('@') {
        let way = "leave it out, and give -H 'Authorization: ...' instead";
        return Err(error(at + sign + 1, "a user name before the host", way));
    }
    let (host, port, port_at) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((host, after)) = rest.split_once(']') else {
                return Err(error(at + 1, "no ] after an IPv6 address", "write [::1]"));
            };
            if host.parse::<Ipv6Addr>().is_err() {
                let way = "write it as [2001:db8::1], without a zone";
                return Err(error(at + 2, "not an IPv6 address", way));
            }
            let port_at = host.len() + 2;
            match (after.strip_prefix(':'), after) {
                (Some(port), _) => (host, port, port_at + 1),
                (None, "") => (host, "", port_at),
                (None, _) => {
                    let way = "write [ADDRESS]:PORT";
                    return Err(error(at + port_at + 1, "text after an IPv6 address", way));
                }
            }
        }
        None => {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            check_name(host, port, at)?;
            (host, port, host.len() + 1)
        }
    };
    Ok((host.to_ascii_lowercase(), parse_port(port, at + port_at)?))
}

fn check_name(host: &str, port: &str, at: usize) -> Result<(), UrlError> {
    if host.is_empty() {
        return Err(error(at + 1, "no host", WRITE));
    }
    if port.contains(':') {
        let way = "write an IPv6 address in brackets: http://[::1]:8080/";
        return Err(error(at + 1, "more than one colon", way));
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    match host.bytes().position(|byte| !is_part(byte)) {
        None => Ok(()),
        Some(wrong) if host.as_bytes()[wrong] >= 0x80 => {
            let way = "write its ASCII form, which begins with xn--";
            Err(error(at + wrong + 1, "a name beyond ASCII", way))
        }
        Some(wrong) => {
            let way = "use letters, digits, - and .";
            Err(error(at + wrong + 1, "not a character of a host name", way))
        }
    }
}

fn parse_port(port: &str, at: usize) -> Result<u16, UrlError> {
    if port.is_empty() {
        return Ok(PORT);
    }
    let is_digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if is_digits && number > 0 => Ok(number),
        _ => Err(error(at + 1, "not a port", "use a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_host_port_and_target() {
        for (text, host, port, target, shown) in [
            ("http://a", "a", 80, "/", "http://a/"),
            (
                "HTTP://A.Example:8080/x?y#z",
                "a.example",
                8080,
                "/x?y",
                "http://a.example:8080/x?y",
            ),
            (
                "http://127.0.0.1:/",
                "127.0.0.1",
                80,
                "/",
                "http://127.0.0.1/",
            ),
            (
                "http://[::1]:81?q=:@",
                "::1",
                81,
                "/?q=:@",
                "http://[::1]:81/?q=:@",
            ),
            (
                "http://[2001:DB8::1]/#",
                "2001:db8::1",
                80,
                "/",
                "http://[2001:db8::1]/",
            ),
            (
                "http://a/b//c/../%20?#",
                "a",
                80,
                "/b//c/../%20?",
                "http://a/b//c/../%20?",
            ),
            ("http://a/@b:1", "a", 80, "/@b:1", "http://a/@b:1"),
        ] {
            let url = Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let parts = (url.host.as_str(), url.port, url.target.as_str());
            assert_eq!(parts, (host, port, target), "{text}");
            assert_eq!(url.to_string(), shown);
            assert_eq!(Url::parse(shown), Ok(url));
        }
    }

    #[test]
    fn other_urls_are_refused_with_column_and_way_out() {
        for (text, column, what) in [
            ("", 1, "no scheme"),
            ("127.0.0.1:8080/", 1, "no scheme"),
            ("https://a/", 1, "https is not supported yet"),
            ("ftp://a/", 1, "not a scheme that is supported"),
            ("http:///x", 8, "no host"),
            ("http://:80/", 8, "no host"),
            ("http://me:pw@a/", 13, "a user name before the host"),
            ("http://a:0/", 10, "not a port"),
            ("http://a:65536/", 10, "not a port"),
            ("http://a:+1/", 10, "not a port"),
            ("http://::1/", 8, "no host"),
            ("http://fe80::1/", 8, "more than one colon"),
            ("http://[::1/", 8, "no ] after an IPv6 address"),
            ("http://[fe80::1%25eth0]/", 9, "not an IPv6 address"),
            ("http://[::1]80/", 13, "text after an IPv6 address"),
            ("http://[::1]:x/", 14, "not a port"),
            ("http://a b/", 9, "not a character of a host name"),
            ("http://b\u{fc}cher/", 9, "a name beyond ASCII"),
            ("http://a/b c", 11, "a space in the path"),
            ("http://a/b\r\nX: 1", 11, "a control character in the path"),
            (
                "http://a/\u{fc}",
                10,
                "a character beyond ASCII in the path",
            ),
        ] {
            let error = Url::parse(text).expect_err(text);
            assert_eq!((error.column, error.what), (column, what), "{text}");
            assert!(error.to_string().len() > what.len() + 10, "{error}");
        }
    }
}
