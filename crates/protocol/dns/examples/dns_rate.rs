//! How long a query and its answer take on one core, without the network.
//!
//!     cargo run --profile dist -p lineside-dns --example dns_rate

use std::hint::black_box;
use std::time::Instant;

use lineside_dns::{Message, NameBuf, Query, Zone, kind, set_id};

const ROUNDS: u32 = 2_000_000;

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn main() {
    let name = |text| NameBuf::parse(text).expect("a name");
    let zone = Zone {
        origin: name("example.org"),
        a: Some([192, 0, 2, 1].into()),
        aaaa: None,
        ttl_s: 60,
    };
    let query = Query {
        id: 0,
        name: name("www.example.org"),
        kind: kind::A,
        recursion_desired: true,
        udp_len: Some(1232),
    };
    let (mut asked, mut answer) = (Vec::new(), Vec::new());
    query.write(&mut asked);
    let begin = Instant::now();
    for round in 0..ROUNDS {
        set_id(&mut asked, round as u16);
        answer.clear();
        assert!(zone.answer(black_box(&asked), &mut answer));
    }
    let answered = Instant::now();
    for _ in 0..ROUNDS {
        let message = Message::parse(black_box(&answer));
        assert!(message.is_ok_and(|message| message.rcode() == 0));
    }
    let each = |time: std::time::Duration| time.as_secs_f64() * 1e9 / f64::from(ROUNDS);
    let (server, client) = (each(answered - begin), each(answered.elapsed()));
    println!("server {server:.1} ns an answer, client {client:.1} ns to read it");
}
