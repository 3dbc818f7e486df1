//! How long a retrieval takes at both ends on one core, without the network.
//!
//!     cargo run --profile dist -p lineside-memcached --example memcached_rate
//!
//! 1,000 keys, values of 100 bytes, 64 commands a push. It does not show what items cost that are
//! not in a cache, nor sockets.

use std::hint::black_box;
use std::time::Instant;

use lineside_memcached::{Connection, Limits, Lines, Reply, ReplyParser, ReplySink, Store};

const ROUNDS: u64 = 20_000;
const PIPELINE: u64 = 64;

#[derive(Default)]
struct Count(u64);

impl ReplySink for Count {
    fn on_reply(&mut self, _: u64, reply: Reply<'_>) {
        black_box(reply);
        self.0 += 1;
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() -> Result<(), lineside_memcached::ParseError> {
    let (mut store, mut lines) = (Store::new(Limits::default()), Lines::new(1));
    let (mut connection, mut parser) = (Connection::new(), ReplyParser::new());
    let (mut out, mut count) = (Vec::new(), Count::default());
    let value = "x".repeat(100);
    let pushes = |verb: &dyn Fn(u64) -> String| -> Vec<String> {
        let push = |first: u64| (0..PIPELINE).map(|at| verb((first + at) % 1000)).collect();
        (0..16).map(|at| push(at * PIPELINE)).collect()
    };
    let sets = pushes(&|key| format!("set a-key-of-load-{key} 0 0 100\r\n{value}\r\n"));
    let gets = pushes(&|key| format!("get a-key-of-load-{key}\r\n"));
    for (name, pushes) in [("set", &sets), ("get", &gets)] {
        let (mut server_ns, mut client_ns) = (0, 0);
        count.0 = 0;
        for round in 0..ROUNDS {
            let push = pushes[(round % 16) as usize].as_bytes();
            let begin = Instant::now();
            connection.push(1, 0, push, &mut lines, &mut store, &mut out)?;
            let between = Instant::now();
            parser.push(0, &out, &mut lines, &mut count)?;
            client_ns += between.elapsed().as_nanos() as u64;
            server_ns += (between - begin).as_nanos() as u64;
            out.clear();
        }
        let each = |ns: u64| ns as f64 / count.0 as f64;
        let (server, client) = (each(server_ns), each(client_ns));
        println!("{name}: server {server:.1} ns, client {client:.1} ns a command");
    }
    println!("{} bytes a server's connection", size_of::<Connection>());
    println!("{} bytes a client's parser", size_of::<ReplyParser>());
    Ok(())
}
