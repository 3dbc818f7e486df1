//! A socket in a run's folder at which the run is asked for changes. Requests and answers are
//! texts; what they mean is not known here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::fs::AtFlags;

use crate::folder::{CONTROL, FolderError, RunFolder};

/// A longer request, or answer, is refused.
const LEN_MAX: u64 = 16 << 20;
/// A client or a server that is slower than this is dropped.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a run takes requests while it lasts: the socket `control` in its folder. It goes when this
/// is dropped.
///
/// Whoever may write to the socket's file may ask: its owner, whom the folder [is given
/// to](crate::drop_privileges), and root.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    folder: RunFolder,
}

/// A request, and whom to answer. One that is dropped unanswered is seen to be.
#[derive(Debug)]
pub struct Request {
    /// What was asked.
    pub text: String,
    stream: UnixStream,
}

impl Control {
    /// Begins to listen.
    pub fn listen(folder: &RunFolder) -> Result<Self, FolderError> {
        folder.clear()?;
        let listener = UnixListener::bind(name_in(folder.file()));
        let listener = listener.map_err(|error| {
            FolderError::io(&folder.path().join(CONTROL), "listen at the socket", error)
        })?;
        Ok(Self {
            listener,
            folder: folder.clone(),
        })
    }

    /// Waits for the next request; `None` once it is [closed](Self::close). What is no request is
    /// passed over.
    pub fn next(&self) -> Option<Request> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(text) = read(&stream) {
                        return Some(Request { text, stream });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Takes no more requests: a thread that waits for one stops.
    pub fn close(&self) {
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder.file(), CONTROL, AtFlags::empty());
    }
}

impl Request {
    /// Answers. The client may have gone meanwhile.
    pub fn answer(mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }
}

/// Asks the run that writes this folder, and waits for its answer. Fails with
/// [`NotFound`](io::ErrorKind::NotFound) or [`ConnectionRefused`](io::ErrorKind::ConnectionRefused)
/// if none takes requests there, and with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if it
/// ended meanwhile.
pub fn ask(folder: &Path, request: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(name_in(&File::open(folder)?))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let answer = read(&stream)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

fn read(stream: &UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The name of a socket is at most 107 bytes long (unix(7)), that of a folder need not be.
fn name_in(folder: &File) -> String {
    format!("/proc/self/fd/{}/{CONTROL}", folder.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_until_the_end() {
        let above = tempfile::tempdir().expect("a folder");
        let path = above.path().join("long".repeat(40));
        let folder = RunFolder::create(&path, false).expect("new");
        assert_eq!(
            ask(&path, "x").expect_err("no one listens").kind(),
            io::ErrorKind::NotFound
        );
        let control = Control::listen(&folder).expect("it listens");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut silent = false;
                while let Some(request) = control.next() {
                    if !std::mem::replace(&mut silent, true) {
                        let text = request.text.to_uppercase();
                        request.answer(&text);
                    }
                }
            });
            assert_eq!(ask(&path, "what?").expect("an answer"), "WHAT?");
            let error = ask(&path, "and now?").expect_err("none");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            control.close();
        });
        // As after a kill: the file stays, and may be replaced with the rest.
        let error = ask(&path, "x").expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        folder.replace("trace.json", b"{}").expect("written");
        let (socket, kept) = (path.join(CONTROL), above.path().join("kept"));
        std::fs::rename(&socket, &kept).expect("renamed");
        drop((control, folder));
        std::fs::rename(&kept, &socket).expect("renamed");
        let again = RunFolder::create(&path, true).expect("replaced");
        drop(Control::listen(&again).expect("it listens"));
        assert!(!socket.exists());
    }
}
