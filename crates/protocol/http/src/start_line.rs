//! Start lines: methods, versions, and which of the two kinds a message is of.

/// A start line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// Of a request.
    Request {
        /// The method, if it is one that is registered.
        method: Method,
        /// The method as it was sent.
        name: &'a [u8],
        /// The target as it was sent (RFC 9112 section 3.2).
        target: &'a [u8],
    },
    /// Of a response.
    Response {
        /// From 100 to 999.
        status: u16,
        /// May be empty.
        reason: &'a [u8],
    },
}

/// Which messages a direction carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Response,
}

/// The methods of RFC 9110 section 9 and RFC 5789.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Method {
    /// Transfer a representation.
    #[default]
    Get,
    /// As GET, without the body.
    Head,
    /// Process the body.
    Post,
    /// Replace the target.
    Put,
    /// Remove the target.
    Delete,
    /// Become a tunnel.
    Connect,
    /// Say what may be asked.
    Options,
    /// Send back what came.
    Trace,
    /// Change the target (RFC 5789).
    Patch,
    /// Any other.
    Other,
}

impl Method {
    /// The name of a registered method; `OTHER` for any other one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other => "OTHER",
        }
    }

    /// The method of this name; names are case-sensitive (RFC 9110 section 9.1).
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }
}

/// The versions that this crate reads; a later minor version is read as 1.1 (RFC 9110 section 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Version {
    /// RFC 1945.
    Http10,
    /// RFC 9112.
    #[default]
    Http11,
}
