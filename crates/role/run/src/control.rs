//! What is asked of a run while it goes on: requests at the socket of its folder, answered between
//! two turns of its loop.
//!
//! ```text
//!  socket ──Request──► thread: respond ──A──► the loop, between two turns
//!         ◄──Answer──                  ◄─its answer─
//! ```

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use lineside_account::Budget;
use lineside_host::FolderError;
use lineside_store::RunFolder;

use crate::Answering;
use crate::request::{Answer, Request, answer_to_json};

/// The end of the thread that takes requests; `A` is what may be asked of the loop.
#[derive(Debug)]
pub struct Asking<A>(Sender<A>);

/// Where an answer of the loop goes; the error is why nothing has changed.
pub type Reply<T> = SyncSender<Result<T, String>>;

/// What a run does with a request, with the help of its loop.
type Respond<A> = Box<dyn FnMut(Request, &Asking<A>) -> Answer + Send>;

/// A run that takes requests: the socket in its folder, and what responds to them.
pub struct Controlled<A> {
    answering: Answering,
    respond: Respond<A>,
}

impl<A> Asking<A> {
    /// Asks the loop, and waits for its answer. The error is why nothing has changed.
    pub fn ask<T>(&self, asked: impl FnOnce(Reply<T>) -> A) -> Result<T, String> {
        const ENDING: &str = "the run is ending";
        let (answer, answered) = sync_channel(1);
        let sent = self.0.send(asked(answer));
        sent.map_err(|_| ENDING)?;
        answered.recv().map_err(|_| ENDING)?
    }
}

impl<A: Send> Controlled<A> {
    /// Listens in the run's folder, where requests draw on `budget`; to be called before privileges
    /// are dropped.
    pub fn listen(
        folder: &RunFolder,
        budget: &Budget,
        respond: impl FnMut(Request, &Asking<A>) -> Answer + Send + 'static,
    ) -> Result<Self, FolderError> {
        Ok(Self {
            answering: Answering::listen(folder, budget)?,
            respond: Box::new(respond),
        })
    }
}

/// The two ends of what is asked of a loop.
pub fn asking<A>() -> (Asking<A>, Receiver<A>) {
    let (sender, asked) = channel();
    (Asking(sender), asked)
}

/// The answer to the text of a request; `None` if it cannot be written.
pub fn responded(text: &str, respond: impl FnOnce(Request) -> Answer) -> Option<String> {
    answer_to_json(&Request::read(text).and_then(respond)).ok()
}

/// Runs `run` with the requests that come meanwhile.
pub fn while_controlled<A: Send, T>(
    controlled: Option<Controlled<A>>,
    run: impl FnOnce(Receiver<A>) -> T,
) -> T {
    let (asking, asked) = asking();
    let Some(Controlled {
        answering,
        mut respond,
    }) = controlled
    else {
        return run(asked);
    };
    let respond = move |text: &str| responded(text, |request| respond(request, &asking));
    // With the receiver go the requests that nobody will answer.
    answering.during(respond, move || run(asked))
}
