//! `nfs://SERVER[:PORT]/EXPORT/DIR`: where on a server.

use std::net::{SocketAddr, ToSocketAddrs};

/// What is wrong with a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no place on a server: give nfs://SERVER[:PORT]/EXPORT/DIR, perhaps with ?mountport=N \
    or ?version=4.1 behind; {1}"
)]
pub struct UrlError(String, &'static str);

/// A directory that is to be made on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: String,
    /// The port of NFS.
    pub port: u16,
    /// The port of MOUNT, unless the port mapper has it.
    pub mount_port: Option<u16>,
    /// By NFSv4.1 instead of NFSv3.
    pub is_version4: bool,
    /// What is mounted.
    pub export: String,
    /// The directory in it.
    pub directory: String,
}

impl Url {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let wrong = |why| UrlError(text.to_owned(), why);
        let rest = { text.strip_prefix("nfs://") }.ok_or_else(|| wrong("it begins with nfs://"))?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (mut mount_port, mut is_version4) = (None, false);
        for word in query.into_iter().flat_map(|query| query.split('&')) {
            match word.split_once('=') {
                Some(("version", "3")) => is_version4 = false,
                Some(("version", "4.1")) => is_version4 = true,
                Some(("mountport", port)) => {
                    mount_port = port.parse().ok().filter(|port| *port > 0);
                    if mount_port.is_none() {
                        return Err(wrong("mountport is a port"));
                    }
                }
                _ => {
                    return Err(wrong(
                        "behind ? stands mountport=N, version=3 or version=4.1",
                    ));
                }
            }
        }
        let (at, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match at.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                let port = port.parse().ok().filter(|port| *port > 0);
                (
                    host,
                    port.ok_or_else(|| wrong("the port is a number from 1 to 65535"))?,
                )
            }
            _ => (at, lineside_nfs_client::NFS_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let path = path.trim_end_matches('/');
        let (export, directory) = path.rsplit_once('/').unwrap_or_default();
        let is_step = matches!(directory, "" | "." | "..");
        if host.is_empty() || export.is_empty() || is_step {
            return Err(wrong(
                "it has a server, what that exports, and a new directory there",
            ));
        }
        if directory.len() > 255 || path.contains('\0') {
            return Err(wrong("a name has at most 255 bytes"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            mount_port,
            is_version4,
            export: export.to_owned(),
            directory: directory.to_owned(),
        })
    }

    /// The server's address.
    pub fn resolve(&self) -> std::io::Result<SocketAddr> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
        addresses.next().ok_or_else(none)
    }

    /// As it reads, without ports.
    pub fn shown(&self) -> String {
        format!("nfs://{}{}/{}", self.host, self.export, self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_server_an_export_and_a_directory() {
        let url = Url::parse("nfs://server/a/b/new/").expect("a URL");
        let parts = (url.port, url.mount_port, &*url.export, &*url.directory);
        assert_eq!(parts, (2049, None, "/a/b", "new"));
        let url = Url::parse("nfs://[fd77::1]:2050/e/d?mountport=20048").expect("a URL");
        assert_eq!((url.port, url.mount_port), (2050, Some(20048)));
        assert_eq!(
            url.resolve().expect("an address").to_string(),
            "[fd77::1]:2050"
        );
        let url = Url::parse("nfs://s/e/d?version=4.1&mountport=1").expect("a URL");
        assert_eq!((url.is_version4, url.mount_port), (true, Some(1)));
        for wrong in [
            "",
            "server:/e/d",
            "nfs://",
            "nfs:///e/d",
            "nfs://s",
            "nfs://s/e",
            "nfs://s/e/..",
            "nfs://s:0/e/d",
            "nfs://s:x/e/d",
            "nfs://s/e/d?port=1",
            "nfs://s/e/d?mountport=0",
            "nfs://s/e/d?version=4.0",
            "nfs://s/e/d?version",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
