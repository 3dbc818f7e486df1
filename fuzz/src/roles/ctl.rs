//! Requests at the socket of a run, as a link and a forwarder read them, and answers as `ctl` reads
//! them. Whatever comes, there is one answer, which reads back.

use lineside_forward::settings::ForwardWords;
use lineside_link::words::LinkWords;
use lineside_path::settings::{LinkSpec, StepContext, Ways};
use lineside_run::control::{Asking, asking, responded};
use lineside_run::request::read_answer;

/// The first byte chooses the run; the rest is the text.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let _ = read_answer(text);
    let answer = match choice % 2 {
        0 => {
            let words = LinkWords {
                delay: Some(vec!["10ms".to_owned()]),
                ..LinkWords::default()
            };
            let ways = Ways::between(None).expect("two sides");
            let spec = LinkSpec::read(&words, ways, &[]).expect("words of a link");
            let context = StepContext {
                ports: vec!["client".to_owned(), "server".to_owned()],
                monitors: 1,
            };
            let mut respond = lineside_path::settings::responding(spec, context, None);
            responded(text, |request| respond(request, &of_no_loop()))
        }
        _ => {
            let words = ForwardWords {
                ports: vec!["a".to_owned(), "b".to_owned()],
                services: vec!["tcp 10.0.0.1:80 to 10.0.1.1:80, 10.0.1.2:80".to_owned()],
                nat: vec!["10.0.1.100".to_owned()],
                connections_max: 1_000,
                ..ForwardWords::default()
            };
            let ports = ["a", "b"].map(|name| lineside_balancer::PortSettings {
                name: name.to_owned(),
                ethernet: [2, 0, 0, 0, 0, name.as_bytes()[0]],
                mtu: 1_500,
            });
            let settings = words.settings(ports.into()).expect("words of a forwarder");
            let read = lineside_cli::forward_words;
            let mut respond = lineside_forward::settings::responding(words, &settings, read);
            responded(text, |request| respond(request, &of_no_loop()))
        }
    };
    let answer = answer.expect("an answer can be written");
    read_answer(&answer)
        .expect("and read")
        .expect_err("nothing is done without a loop");
}

/// The loop is over: what would change it is refused.
fn of_no_loop<A>() -> Asking<A> {
    asking().0
}
