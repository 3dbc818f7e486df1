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
const PLACES: usize = 2;

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
pub fn wait_until_still<T: PartialEq>(what: &str, mut look: impl FnMut() -> T) -> T {
    let (mut seen, mut looks) = (look(), 0);
    wait_until(what, || {
        let now = look();
        looks = if now == seen { looks + 1 } else { 0 };
        seen = now;
        looks == 30
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
    static PLACE: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// Waits for one of the places, of all test binaries together; the thread, which is the test's,
/// has it until its end.
pub fn take_place() {
    let watch = Stopwatch::start();
    while !PLACE.with_borrow_mut(|place| place.is_some() || is_taken(place)) {
        watch.wait_until(watch.elapsed() + PAUSE);
    }
}

/// Takes a place; false if there is none now.
fn is_taken(place: &mut Option<File>) -> bool {
    (0..PLACES).any(|number| {
        let path = std::env::temp_dir().join(format!("lineside-wires-{number}"));
        // Another user's file can be read at least.
        let file = File::open(&path).or_else(|_| File::create(&path));
        // Where there can be no file, nothing is limited.
        let Ok(file) = file else { return true };
        let is_free = file.try_lock().is_ok();
        if is_free {
            *place = Some(file);
        }
        is_free
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
