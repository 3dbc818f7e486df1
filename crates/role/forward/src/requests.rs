//! What is asked of a forwarder while it runs: changes of its services, its counts, and why a
//! connection goes to its node.

use std::net::SocketAddr;

use lineside_balancer::{Change, Explanation};
use lineside_run::control::{Asking, Reply};
use serde_json::Value;

/// What is asked of the loop.
pub enum Asked {
    /// To change nodes or services; the answer says what was done.
    Change {
        change: Box<Change>,
        answer: Reply<String>,
    },
    /// What it has counted so far.
    Stats { answer: Reply<Value> },
    /// To which node a connection goes, and why.
    Explain {
        client: SocketAddr,
        service: SocketAddr,
        answer: Reply<Explanation>,
    },
}

/// The end of the thread that takes requests.
pub(crate) struct ChangeSender<'a>(pub(crate) &'a Asking<Asked>);

/// A run that takes requests.
pub type Controlled = lineside_run::control::Controlled<Asked>;

impl ChangeSender<'_> {
    /// Has the loop make a change, and waits until it has; returns what it did. The error is why
    /// nothing has changed.
    pub(crate) fn change(&self, change: Change) -> Result<String, String> {
        let change = Box::new(change);
        self.0.ask(|answer| Asked::Change { change, answer })
    }

    /// What the loop has counted so far.
    pub(crate) fn stats(&self) -> Result<Value, String> {
        self.0.ask(|answer| Asked::Stats { answer })
    }

    /// To which node a connection goes, and why.
    pub(crate) fn explain(
        &self,
        client: SocketAddr,
        service: SocketAddr,
    ) -> Result<Explanation, String> {
        self.0.ask(|answer| Asked::Explain {
            client,
            service,
            answer,
        })
    }
}
