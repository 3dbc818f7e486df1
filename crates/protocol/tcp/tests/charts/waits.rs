//! TIME_WAIT: RFC 9293, 3.6.1 and 3.10.7.4; RFC 6191; RFC 1337.

use crate::chart::Chart;

const CLOSE: &str = "
    * shutdown
    > FA 1:2 ack 1
    < FA 1:2 ack 2
    = ended
    > A 2:2 ack 2
    = closed finished";

/// With a listener, and the first connection in TIME_WAIT.
fn waiting() -> Chart {
    let mut chart = Chart::established(|_| {});
    chart.run(CLOSE);
    chart
}

#[test]
fn a_fin_that_comes_again_makes_it_wait_anew() {
    let mut chart = waiting();
    chart.run(
        "+50
         < FA 1:2 ack 2
         > A 2:2 ack 2
         +59.9",
    );
    assert_eq!(chart.stack.time_waits(), 1);
    chart.run("+0.2");
    chart.expect_empty();
}

/// The peer's last acknowledgement was lost, and its timer waited for longer than TIME-WAIT.
#[test]
fn what_comes_again_after_the_wait_is_answered_by_rst() {
    let mut chart = waiting();
    chart.run("+60.1");
    chart.expect_empty();
    chart.run(
        "< FA 1:2 ack 1
         > R 1:1",
    );
}

#[test]
fn a_rst_does_not_end_the_wait() {
    let mut chart = waiting();
    chart.run(
        "< R 2:2
         < A 2:2 ack 2
         < A 1:1 ack 1
         > A 2:2 ack 2",
    );
    assert_eq!(chart.stack.time_waits(), 1);
}

#[test]
fn a_syn_with_a_larger_number_opens_anew() {
    let mut chart = waiting();
    chart.run(
        "< S 1:2
         > A 2:2 ack 2
         < S 3:4
         > SA 0:1 ack 4
         count time_wait_recycled 1
         < A 4:4 ack 1
         = opened",
    );
    assert_eq!(chart.stack.time_waits(), 0);
}

#[test]
fn a_syn_with_a_later_timestamp_opens_anew() {
    let mut chart = Chart::with(|config| config.timestamps = true);
    chart.run(
        "* listen
         < S 0:1 ts 10:0
         > SA 0:1 ack 1 ts 0:10
         < A 1:1 ack 1 ts 11:0
         = opened
         * shutdown
         > FA 1:2 ack 1 ts 0:11
         < FA 1:2 ack 2 ts 12:0
         = ended
         > A 2:2 ack 2 ts 0:12
         = closed finished
         +0.1
         < S 500:501 ts 12:0
         > A 2:2 ack 2 ts 100:12
         < S -500:-499 ts 13:0
         > SA 0:1 ack -499 ts 100:13
         count time_wait_recycled 1",
    );
}

#[test]
fn the_oldest_goes_when_the_table_is_full() {
    let mut chart = Chart::with(|config| config.time_wait_max = 3);
    chart.run("* listen");
    for port in 2000..2005 {
        chart.run(&format!(
            "peer {port}
             < S 0:1
             > SA 0:1 ack 1
             < A 1:1 ack 1
             = opened
             {CLOSE}
             +0.01"
        ));
    }
    assert_eq!(chart.stack.time_waits(), 3);
    chart.run(
        "count time_wait_overflow 2
         peer 2000
         < FA 1:2 ack 2
         > R 2:2
         peer 2001
         < FA 1:2 ack 2
         > R 2:2
         peer 2002
         < FA 1:2 ack 2
         > A 2:2 ack 2
         +61",
    );
    chart.expect_empty();
}

#[test]
fn a_waiting_four_tuple_is_in_use() {
    let mut chart = waiting();
    let refused = chart.call("connect").expect_err("it waits");
    assert_eq!(
        refused.to_string(),
        "port 7 is in use there: choose another one, or 0"
    );
    chart.run("+61");
    chart.call("connect").expect("it is free");
}
