//! What reads the bytes of a connection.

use crate::decode_as::PortRule;

/// What reads the bytes of a connection: chosen when it opens, by the rules for its ports. Inside a
/// family the content decides: RPC takes a connection for its own when it finds records in it. A
/// protocol beside ONC RPC is one more family, to which [`StreamSink`](lineside_flow::StreamSink)
/// of the crate's operations gives its streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// ONC RPC. `is_forced`: whatever it looks like.
    Rpc { is_forced: bool },
    /// Nothing. `began_as_rpc`: a warning, that RPC may have been left alone.
    Unread { began_as_rpc: bool },
}

impl Family {
    pub(crate) fn of(rule: Option<PortRule>) -> Self {
        match rule {
            Some(PortRule::None) => Self::Unread {
                began_as_rpc: false,
            },
            rule => Self::Rpc {
                is_forced: rule == Some(PortRule::Rpc),
            },
        }
    }

    /// Whether it is RPC's by a rule.
    pub(crate) fn is_forced_rpc(self) -> bool {
        self == Self::Rpc { is_forced: true }
    }
}
