//! Lines of agents: of one to three hosts in any order, and the certificate of what came of them;
//! and lines for an agent.

use lineside_load::agents::{FromAgent, ToAgent, receive};
use lineside_load::certificate::{Known, Machine, Planned, certificate};
use lineside_load::gathering::Gathering;
use lineside_trace::certificate::load::{Asked, Limits};

/// How far the clock of each host is ahead.
const AHEAD_NS: [i64; 3] = [0, 5_000_000_000, -86_400_000_000_000];

/// The first byte is how many hosts there are; then each line has the host first.
pub(crate) fn run(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    let hosts = usize::from(first % 3) + 1;
    let names = AHEAD_NS.iter().take(hosts).enumerate();
    let mut gathering = Gathering::new(names.map(|(number, ahead)| (number.to_string(), *ahead)));
    let (mut shown, mut line) = (0, String::new());
    for text in rest.split_inclusive(|&byte| byte == b'\n') {
        let Some((&host, mut text)) = text.split_first() else {
            continue;
        };
        let _ = receive::<ToAgent>(&mut { text }, &mut line);
        let Ok(Some(message)) = receive::<FromAgent>(&mut text, &mut line) else {
            continue;
        };
        let host = usize::from(host) % hosts;
        let news = gathering.on_message(host, message, &mut |second| {
            shown += 1;
            assert_eq!(second.number, shown);
        });
        if let Err(error) = news {
            assert!(!error.to_string().is_empty());
            return;
        }
    }
    let asked = Asked {
        arrivals: (first & 4 != 0).then(|| "constant".to_owned()),
        ..Asked::default()
    };
    let known = Known {
        planned: asked.is_open_loop().then_some(Planned {
            arrivals: 1_000,
            span_ns: 1_000_000_000,
        }),
        fitness: None,
        operations: &["a", "b"],
        status_name: &|status| status.to_string(),
        machine: Machine::default(),
        failures: Vec::new(),
    };
    let outcome = gathering.into_outcome();
    let found = certificate(asked, &outcome, known, Limits::default());
    serde_json::to_string(&found).expect("it can be written");
}
