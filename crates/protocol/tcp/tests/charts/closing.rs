//! How connections end: RFC 9293, 3.6, 3.10.4, 3.10.5.

use crate::chart::Chart;

fn established() -> Chart {
    Chart::established(|_| {})
}

#[test]
fn who_closes_first_waits() {
    let mut chart = established();
    chart.run(
        "* shutdown
         > FA 1:2 ack 1
         < A 1:1 ack 2
         < FA 1:2 ack 2
         = ended
         > A 2:2 ack 2
         = closed finished",
    );
    assert_eq!(
        (chart.stack.connections(), chart.stack.time_waits()),
        (0, 1)
    );
    chart.run("+59.9");
    assert_eq!(chart.stack.time_waits(), 1);
    chart.run("+0.2");
    chart.expect_empty();
}

#[test]
fn who_closes_second_does_not_wait() {
    let mut chart = established();
    chart.run(
        "< FA 1:2 ack 1
         = ended
         > A 1:1 ack 2
         * shutdown
         > FA 1:2 ack 2
         < A 2:2 ack 2
         = closed finished",
    );
    chart.expect_empty();
}

#[test]
fn both_ends_may_close_at_once() {
    // RFC 9293, figure 13.
    let mut chart = established();
    chart.run(
        "* shutdown
         > FA 1:2 ack 1
         < FA 1:2 ack 1
         = ended
         > A 2:2 ack 2
         < A 2:2 ack 2
         = closed finished",
    );
    assert_eq!(chart.stack.time_waits(), 1);
}

#[test]
fn a_fin_may_acknowledge_ours_and_carry_data() {
    let mut chart = established();
    chart.run(
        "* shutdown
         > FA 1:2 ack 1
         < FA 1:12 ack 2
         = data 10
         = ended
         > A 2:2 ack 12
         = closed finished",
    );
}

#[test]
fn a_connection_may_be_closed_by_half() {
    let mut chart = established();
    chart.run(
        "* shutdown
         > FA 1:2 ack 1
         < A 1:1 ack 2
         < A 1:101 ack 2
         = data 100
         +600
         > A 2:2 ack 101
         < A 101:201 ack 2
         = data 100
         +0.05
         > A 2:2 ack 201",
    );
    let mut chart = established();
    chart.run(
        "< FA 1:2 ack 1
         = ended
         > A 1:1 ack 2
         +600
         * send 300
         > PA 1:301 ack 2
         < A 2:2 ack 301
         = acked 300
         * send 5
         > PA 301:306 ack 2
         * shutdown
         > FA 306:307 ack 2
         < A 2:2 ack 307
         = acked 5
         = closed finished",
    );
    chart.expect_empty();
}

#[test]
fn a_fin_is_sent_again_with_the_data_before_it() {
    let mut chart = established();
    chart.run(
        "* send 100
         > PA 1:101 ack 1
         * shutdown
         > FA 101:102 ack 1
         +0.2
         > FA 1:102 ack 1
         < A 1:1 ack 101
         = acked 100
         +0.2
         > FA 101:102 ack 1
         < A 1:1 ack 102",
    );
}

#[test]
fn the_peers_fin_that_comes_again_is_acknowledged_again() {
    let mut chart = established();
    chart.run(
        "< FA 1:2 ack 1
         = ended
         > A 1:1 ack 2
         < FA 1:2 ack 1
         > A 1:1 ack 2
         < A 2:12 ack 1
         > A 1:1 ack 2
         count bytes_refused 10",
    );
}

#[test]
fn data_after_the_owner_closed_are_answered_by_rst() {
    // RFC 9293, 3.6.1; MUST-17 asks for it where data would be lost.
    let mut chart = established();
    chart.run(
        "* close
         > FA 1:2 ack 1
         < A 1:1 ack 2
         < A 1:11 ack 2
         > RA 2:2 ack 1
         = closed aborted",
    );
    chart.expect_empty();
}

#[test]
fn a_closed_connection_does_not_wait_for_ever() {
    let mut chart = Chart::established(|config| config.fin_wait_2_ns = 10_000_000_000);
    chart.run(
        "* close
         > FA 1:2 ack 1
         < A 1:1 ack 2
         +9.9
         +0.2
         = closed timedout",
    );
    chart.expect_empty();
    chart.run(
        "< FA 1:2 ack 2
         > R 2:2",
    );
}

#[test]
fn an_aborted_connection_leaves_nothing() {
    for lines in [
        "",
        "* send 3000
         > A 1:1001 ack 1
         > A 1001:2001 ack 1
         > PA 2001:3001 ack 1",
        "< A 11:21 ack 1
         > A 1:1 ack 1",
        "* shutdown
         > FA 1:2 ack 1
         < A 1:1 ack 2",
        "* window 0",
    ] {
        let mut chart = established();
        chart.run(lines);
        chart.call("abort").expect("it lives");
        let reset = chart.sent();
        assert_eq!(reset.len(), 1, "{reset:?}");
        assert!(reset[0].contains("RA"), "{reset:?}");
        chart.run("= closed aborted");
        chart.expect_empty();
        assert_eq!(chart.stack.counters().bytes_held, 0);
    }
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         * abort
         = closed aborted",
    );
    chart.expect_empty();
}

#[test]
fn a_rst_ends_a_connection_in_every_state() {
    let states = [
        "",
        "* send 10
         > PA 1:11 ack 1",
        "* shutdown
         > FA 1:2 ack 1",
        "* shutdown
         > FA 1:2 ack 1
         < A 1:1 ack 2",
    ];
    for lines in states {
        let mut chart = established();
        chart.run(lines);
        chart.run(
            "< R 1:1
             = closed reset
             count resets 1",
        );
        chart.expect_empty();
    }
    // After the peer's FIN, when all but ours is acknowledged, nothing is lost.
    let after_fin = [
        ("", "reset"),
        (
            "* shutdown
             > FA 1:2 ack 2",
            "finished",
        ),
        (
            "* send 10
             > PA 1:11 ack 2
             * shutdown
             > FA 11:12 ack 2",
            "reset",
        ),
    ];
    for (lines, why) in after_fin {
        let mut chart = established();
        chart.run(
            "< FA 1:2 ack 1
             = ended
             > A 1:1 ack 2",
        );
        chart.run(lines);
        chart.run(&format!(
            "< R 2:2
             = closed {why}"
        ));
        chart.expect_empty();
    }
    // CLOSING.
    let mut chart = established();
    chart.run(
        "* shutdown
         > FA 1:2 ack 1
         < FA 1:2 ack 1
         = ended
         > A 2:2 ack 2
         < R 2:2
         = closed finished",
    );
    chart.expect_empty();
}

#[test]
fn a_shut_connection_that_never_opened_is_over() {
    let mut chart = Chart::new();
    chart.run(
        "* connect
         > S 0:1
         * shutdown
         = closed finished",
    );
    chart.expect_empty();
}
