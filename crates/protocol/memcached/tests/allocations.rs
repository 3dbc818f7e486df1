//! Nothing is allocated for a retrieval, a reply or a line in pieces, and one block for each value
//! that is stored.

use lineside_alloc::allocations;
use lineside_memcached::{Connection, Limits, Lines, Reply, ReplyParser, ReplySink, Store};

#[derive(Default)]
struct Count(u64);

impl ReplySink for Count {
    fn on_reply(&mut self, _: u64, _: Reply<'_>) {
        self.0 += 1;
    }
}

/// Allocations and answers of `rounds` times the same commands, cut into pieces of 10 bytes.
fn measured(commands: &[u8], rounds: u64) -> (u64, u64) {
    let (mut store, mut lines) = (Store::new(Limits::default()), Lines::new(2));
    let (mut connection, mut parser) = (Connection::new(), ReplyParser::new());
    let (mut out, mut count) = (Vec::new(), Count::default());
    let mut before = 0;
    for round in 0..rounds + 2 {
        // The first two make tables and buffers grow: a new value comes before the old one goes.
        if round == 2 {
            before = allocations();
            count.0 = 0;
        }
        for piece in commands.chunks(10) {
            let pushed = connection.push(1, 0, piece, &mut lines, &mut store, &mut out);
            assert!(pushed.is_ok_and(|progress| progress.taken == piece.len()));
        }
        for piece in out.chunks(10) {
            let pushed = parser.push(0, piece, &mut lines, &mut count);
            assert_eq!(pushed, Ok(()));
        }
        out.clear();
    }
    (allocations() - before, count.0)
}

#[test]
fn only_a_value_that_is_stored_allocates() {
    let reading = b"get a b c\r\ngets a\r\ndelete a\r\ntouch a 5\r\nincr a 1\r\nbogus\r\n";
    assert_eq!(measured(reading, 100), (0, 600));
    let storing = b"set a 0 0 3\r\nabc\r\nset b 0 0 1\r\n7\r\nget a b\r\nincr b 1\r\n";
    assert_eq!(measured(storing, 100), (200, 400));
}
