//! Requests that a run answers while it goes on, in a thread at the socket of its folder.

use lineside_account::Budget;
use lineside_host::FolderError;
use lineside_store::{Control, RunFolder};

/// Makes the answer to the text of a request; `None` if there is none.
pub type Respond = Box<dyn FnMut(&str) -> Option<String> + Send>;

/// A run that answers requests.
pub struct Answering(Control);

impl Answering {
    /// Listens in the run's folder, where requests draw on `budget`; to be called before privileges
    /// are dropped.
    pub fn listen(folder: &RunFolder, budget: &Budget) -> Result<Self, FolderError> {
        Control::listen(folder, budget).map(Self)
    }

    /// Runs `run` while another thread answers by `respond`.
    pub fn during<T>(
        self,
        mut respond: impl FnMut(&str) -> Option<String> + Send,
        run: impl FnOnce() -> T,
    ) -> T {
        /// However the run ends, the thread that answers does too.
        struct Closer<'a>(&'a Control);
        impl Drop for Closer<'_> {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        let control = &self.0;
        std::thread::scope(|scope| {
            let _closer = Closer(control);
            scope.spawn(move || {
                while let Some(request) = control.next() {
                    if let Some(text) = respond(&request.text) {
                        request.answer(&text);
                    }
                }
            });
            run()
        })
    }
}
