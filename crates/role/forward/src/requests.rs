//! What is asked of a forwarder while it runs: changes of its services, its counts, and why a
//! connection goes to its node.
//!
//! ```text
//!  socket ──request──► thread: respond (words) ──Asked──► the polling loop, between two turns
//!         ◄──answer───                         ◄──its answer──
//! ```

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use lineside_balancer::{Change, Explanation};
use lineside_host::FolderError;
use lineside_run::Answering;
use lineside_store::RunFolder;
use serde_json::Value;

/// What is asked of the loop.
pub(crate) enum Asked {
    /// To change nodes or services; the answer says what was done.
    Change {
        change: Box<Change>,
        answer: Answer<String>,
    },
    /// What it has counted so far.
    Stats { answer: Answer<Value> },
    /// To which node a connection goes, and why.
    Explain {
        client: SocketAddr,
        service: SocketAddr,
        answer: Answer<Explanation>,
    },
}

/// Where an answer goes; the error is why nothing has changed.
type Answer<T> = SyncSender<Result<T, String>>;

/// The end of the thread that takes requests.
#[derive(Debug, Clone)]
pub struct Asking(Sender<Asked>);

/// Makes the answer to the text of a request; `None` if there is none.
type Respond = Box<dyn FnMut(&str, &Asking) -> Option<String> + Send>;

/// A run that takes requests: the socket in its folder, and what responds to them.
pub struct Controlled {
    answering: Answering,
    respond: Respond,
}

impl Asking {
    /// Has the loop make a change, and waits until it has; returns what it did. The error is why
    /// nothing has changed.
    pub fn change(&self, change: Change) -> Result<String, String> {
        let change = Box::new(change);
        self.ask(|answer| Asked::Change { change, answer })
    }

    /// What the loop has counted so far.
    pub fn stats(&self) -> Result<Value, String> {
        self.ask(|answer| Asked::Stats { answer })
    }

    /// To which node a connection goes, and why.
    pub fn explain(&self, client: SocketAddr, service: SocketAddr) -> Result<Explanation, String> {
        self.ask(|answer| Asked::Explain {
            client,
            service,
            answer,
        })
    }

    /// Asks the loop, and waits for its answer.
    fn ask<T>(&self, asked: impl FnOnce(Answer<T>) -> Asked) -> Result<T, String> {
        const ENDING: &str = "the run is ending";
        let (answer, answered) = sync_channel(1);
        let sent = self.0.send(asked(answer));
        sent.map_err(|_| ENDING)?;
        answered.recv().map_err(|_| ENDING)?
    }
}

impl Controlled {
    /// Listens in the run's folder; to be called before privileges are dropped.
    pub fn listen(
        folder: &RunFolder,
        respond: impl FnMut(&str, &Asking) -> Option<String> + Send + 'static,
    ) -> Result<Self, FolderError> {
        Ok(Self {
            answering: Answering::listen(folder)?,
            respond: Box::new(respond),
        })
    }
}

/// Runs `run` with the requests that come meanwhile.
pub(crate) fn while_controlled<T>(
    controlled: Option<Controlled>,
    run: impl FnOnce(&Receiver<Asked>) -> T,
) -> T {
    let (sender, asked) = channel();
    let asking = Asking(sender);
    let Some(Controlled {
        answering,
        mut respond,
    }) = controlled
    else {
        return run(&asked);
    };
    let respond = move |text: &str| respond(text, &asking);
    answering.during(respond, move || {
        // With these go the requests that nobody will answer.
        let asked = asked;
        run(&asked)
    })
}
