//! Where a replay goes: `nfs://SERVER[:PORT]/EXPORT/DIR`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use lineside_nfs_client::NFS_PORT;

use crate::error::RerunError;

/// A server and a path on it: the export, and the directory below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// As it was given.
    pub text: String,
    /// The address of the server.
    pub server: IpAddr,
    /// The port of NFS.
    pub port: u16,
    /// The components of the path.
    pub path: Vec<String>,
}

impl Url {
    /// Reads a URL, and looks up its server's name.
    pub fn parse(text: &str) -> Result<Self, RerunError> {
        let wrong = |why: &'static str| RerunError::Url {
            url: text.to_owned(),
            why,
        };
        let rest = text.strip_prefix("nfs://");
        let rest = rest.ok_or_else(|| wrong("it does not begin with nfs://"))?;
        let (host, path) = rest
            .split_once('/')
            .ok_or_else(|| wrong("it has no path"))?;
        let path: Vec<_> = path.split('/').filter(|it| !it.is_empty()).collect();
        if path.contains(&"..") || path.contains(&".") {
            return Err(wrong("its path has a '.' or '..'"));
        }
        if path.is_empty() {
            return Err(wrong("it has no path"));
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && !port.ends_with(']') => {
                let port = port.parse().ok().filter(|&port| port > 0);
                (name, port.ok_or_else(|| wrong("its port is none"))?)
            }
            _ => (host, NFS_PORT),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let found = (name, port).to_socket_addrs();
        let found = found.ok().and_then(|mut all| all.next());
        let address: SocketAddr = found.ok_or_else(|| wrong("its server has no address"))?;
        Ok(Self {
            text: text.to_owned(),
            server: address.ip(),
            port,
            path: path.into_iter().map(str::to_owned).collect(),
        })
    }

    /// A directory in it.
    pub fn below(&self, name: &str) -> Self {
        let mut below = self.clone();
        below.text = format!("{}/{name}", self.text.trim_end_matches('/'));
        below.path.push(name.to_owned());
        below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_and_a_path() {
        let url = Url::parse("nfs://127.0.0.1/export/a//b/").expect("a URL");
        assert_eq!(url.port, 2049);
        assert_eq!(url.path, ["export", "a", "b"]);
        let url = Url::parse("nfs://[::1]:20049/x").expect("a URL");
        assert_eq!((url.port, url.server.is_ipv6()), (20_049, true));
        let below = url.below("y");
        assert_eq!(
            (&*below.text, below.path.len()),
            ("nfs://[::1]:20049/x/y", 2)
        );
        let wrong = [
            "http://a/b",
            "nfs://127.0.0.1",
            "nfs://127.0.0.1/",
            "nfs://127.0.0.1/a/../b",
            "nfs://127.0.0.1:0/a",
            "nfs://127.0.0.1:x/a",
        ];
        for text in wrong {
            let error = Url::parse(text).expect_err(text).to_string();
            assert!(error.contains("nfs://SERVER/EXPORT/DIR"), "{error}");
        }
    }
}
