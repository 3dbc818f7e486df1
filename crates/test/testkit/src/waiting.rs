//! What tests that need the machine's own time wait with: for conditions, never for a while; and
//! the two places of those that make network namespaces.

use std::cell::RefCell;
use std::fs::{self, File};
use std::time::Duration;

use lineside_host::Stopwatch;

/// Beyond this a condition is taken for one that will never hold: no machine that is merely busy
/// takes as long.
const PATIENCE: Duration = Duration::from_secs(240);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// So many tests on this machine make network namespaces at once.
const PLACES: usize = 3;

/// Waits until a condition holds that another process or thread brings about.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let watch = Stopwatch::start();
    while !done() {
        let waited = watch.elapsed();
        assert!(waited < PATIENCE, "not within {PATIENCE:?}: {what}");
        watch.wait_until(waited + PAUSE);
    }
}

/// Looks until nothing changes any more, for 30 looks in a row; what it saw then.
pub fn wait_until_still<T: PartialEq>(what: &str, look: impl FnMut() -> T) -> T {
    wait_until_still_for(30, what, look)
}

/// Looks until nothing changes any more, for so many looks in a row; what it saw then. Few are
/// enough where whoever moves things answers each look.
pub fn wait_until_still_for<T: PartialEq>(
    enough: u32,
    what: &str,
    mut look: impl FnMut() -> T,
) -> T {
    let (mut seen, mut looks) = (look(), 0);
    wait_until(what, || {
        let now = look();
        looks = if now == seen { looks + 1 } else { 0 };
        seen = now;
        looks == enough
    });
    seen
}

/// Bytes in sockets of this thread's network namespace, or in those of one local port of it, that
/// no program has read yet.
pub fn unread_bytes(port: Option<u16>) -> u64 {
    let tables = ["udp", "udp6", "tcp", "tcp6"].into_iter();
    let text: String = tables
        .filter_map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok())
        .collect();
    let hexadecimal = |digits| u64::from_str_radix(digits, 16).ok();
    // proc(5): the second column is `address:port`, the fifth `tx_queue:rx_queue`.
    let unread = text.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = columns.get(1)?.rsplit_once(':')?;
        let is_asked = port.is_none_or(|port| hexadecimal(local) == Some(port.into()));
        let (_, unread) = columns.get(4)?.split_once(':')?;
        is_asked.then(|| hexadecimal(unread)).flatten()
    });
    unread.sum()
}

thread_local! {
    static PLACE: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Waits for one of the places, of all test binaries together; the thread, which is the test's,
/// has it until its end.
pub fn take_place() {
    let is_placed = PLACE.with_borrow(Option::is_some);
    if !is_placed {
        let names: Vec<_> = (0..PLACES).map(|at| format!("wires-{at}")).collect();
        PLACE.set(Some(Turn::first_of(&names)));
    }
}

/// What one test on this machine has at a time, of all test binaries together. Dropped, it is free.
#[derive(Debug)]
pub struct Turn {
    _locked: Option<File>,
}

impl Turn {
    /// Waits until this is free.
    pub fn take(name: &str) -> Self {
        Self::first_of(&[name])
    }

    fn first_of(names: &[impl AsRef<str>]) -> Self {
        let watch = Stopwatch::start();
        loop {
            if let Some(turn) = names.iter().find_map(|name| Self::free(name.as_ref())) {
                return turn;
            }
            watch.wait_until(watch.elapsed() + PAUSE);
        }
    }

    /// `None` if another test has it now.
    fn free(name: &str) -> Option<Self> {
        let path = std::env::temp_dir().join(format!("lineside-{name}"));
        // Another user's file can be read at least. Where there can be no file, nothing is limited.
        let file = File::open(&path).or_else(|_| File::create(&path)).ok();
        let is_free = file.as_ref().is_none_or(|file| file.try_lock().is_ok());
        is_free.then_some(Self { _locked: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_free_once_it_is_dropped() {
        let name = format!("turn-{}", std::process::id());
        let turn = Turn::take(&name);
        assert!(Turn::free(&name).is_none(), "it is taken");
        drop(turn);
        assert!(Turn::free(&name).is_some());
        let _ = fs::remove_file(std::env::temp_dir().join(format!("lineside-{name}")));
    }

    #[test]
    fn a_thread_that_ends_leaves_its_place() {
        // More threads than places, each of which asks twice.
        let threads = (0..3 * PLACES).map(|_| {
            std::thread::spawn(|| {
                take_place();
                take_place();
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
    }
}
