//! Segments that a stranger might have guessed: RFC 5961.

use crate::chart::Chart;
use crate::text::{options, with_options};

fn established() -> Chart {
    Chart::established(|_| {})
}

#[test]
fn a_rst_that_is_not_exact_is_challenged() {
    let mut chart = established();
    chart.run(
        "< R 2:2
         > A 1:1 ack 1
         < R 19999:19999
         > A 1:1 ack 1
         < R 30000:30000
         < R 0:0
         count challenges 2
         < R 1:1
         = closed reset",
    );
}

#[test]
fn a_syn_in_a_connection_is_challenged() {
    let mut chart = established();
    chart.run(
        "< S 1:2
         > A 1:1 ack 1
         < S 50000:50001
         > A 1:1 ack 1
         < SA 0:1 ack 1
         > A 1:1 ack 1
         < A 1:11 ack 1
         = data 10
         +0.05
         > A 1:1 ack 11",
    );
}

#[test]
fn a_blind_acknowledgement_takes_no_data_with_it() {
    let mut chart = established();
    chart.run(
        "* send 10
         > PA 1:11 ack 1
         < A 1:6 ack 12
         > A 11:11 ack 1
         < A 1:6 ack -70000
         > A 11:11 ack 1
         count challenges 2
         < A 1:6 ack -100
         = data 5
         +0.05
         > A 11:11 ack 6",
    );
}

#[test]
fn challenges_of_a_second_are_limited() {
    let mut chart = established();
    let sent = |chart: &mut Chart| {
        for _ in 0..2000 {
            chart.give_line("R 100:100");
        }
        chart.sent().len()
    };
    let first = sent(&mut chart);
    assert!((500..1500).contains(&first), "{first}");
    chart.run("+1");
    let second = sent(&mut chart);
    assert!((500..1500).contains(&second) && first != second, "{second}");
    let counters = chart.stack.counters();
    assert_eq!(counters.challenges, (first + second) as u64);
    assert_eq!(counters.challenges + counters.challenges_held_back, 4000);
}

#[test]
fn a_strangers_timestamp_is_not_echoed() {
    // RFC 7323, 5.3, R2 and R3: the peer's own segments would be taken for old ones.
    let mut chart = Chart::with(options);
    with_options(&mut chart);
    chart.run(
        "< A 900000:900001 ack 1 ts 9000:0
         > A 1:1 ack 1
         < A -10:-5 ack 1 ts 9000:0
         > A 1:1 ack 1 sack -10:-5
         < S 1:2 ts 9000:0
         > A 1:1 ack 1
         < A 1:11 ack 12 ts 9000:0
         > A 1:1 ack 1
         < A 1:11 ack 1 ts 200:0
         = data 10
         count paws 0",
    );
}
