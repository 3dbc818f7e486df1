//! Each rule with a case, in their order, and what several make of a state.

use lineside_frame::LinkType;
use lineside_port::Interface;

use super::*;

fn counters(values: &[(Counter, u64)]) -> Evidence<'static> {
    let mut counters = Counters::new();
    for &(counter, value) in values {
        counters.add(counter, value);
    }
    Evidence {
        counters,
        ..Evidence::default()
    }
}

fn named() -> Facts {
    Facts {
        name: "a".to_owned(),
        ..Facts::default()
    }
}

fn recorded() -> Facts {
    let interface = |dropped, dropped_by_system| Interface {
        dropped,
        dropped_by_system,
        ..Interface::default()
    };
    Facts {
        interfaces: vec![interface(Some(3), Some(5)), interface(Some(1), None)],
        ..named()
    }
}

fn live() -> Facts {
    let live = LiveFacts {
        arrived: 90,
        dropped_interface: 10,
        dropped_pool: 15,
        ..LiveFacts::default()
    };
    Facts {
        live: Some(live),
        ..named()
    }
}

fn cut() -> Facts {
    Facts {
        warnings: vec!["a: its last frame is cut".to_owned()],
        ..named()
    }
}

fn link(change: impl FnOnce(&mut LinkEvidence)) -> Evidence<'static> {
    let mut link = LinkEvidence {
        name: "outbound".to_owned(),
        ..LinkEvidence::default()
    };
    change(&mut link);
    Evidence {
        links: vec![LinkEvidence::default(), link],
        ..Evidence::default()
    }
}

fn load(change: impl FnOnce(&mut LoadEvidence)) -> Evidence<'static> {
    let mut load = LoadEvidence {
        arrivals: 1_000,
        missed_share_max: 0.001,
        departures: 1_000,
        late: 1,
        moved: Some(Moved {
            quantile: 0.99,
            from_ns: 1_000_000,
            to_ns: 3_000_000,
        }),
        lateness_p99_ns: 1_000_000,
        lateness_p99_max_ns: Some(1_000_000),
        lateness_max_ns: 5_000_000,
        ended: 1_000,
        failed: 100,
        failures: "reset 100".to_owned(),
        failed_share_max: 0.1,
        stalled: 5,
        planned: 1_000,
        waited: 10,
        waited_share_max: 0.01,
        busy_share: 0.95,
        busy_share_max: 0.95,
        stall_limit_ns: 10_000_000,
        steal_share_max: 0.01,
        drift: 1.5,
        drift_max: 1.5,
        ..LoadEvidence::default()
    };
    change(&mut load);
    Evidence {
        load: Some(load),
        ..Evidence::default()
    }
}

/// A load against which each rule has something, in their order.
fn load_cases() -> Vec<(Evidence<'static>, &'static str)> {
    vec![
        (
            load(|load| load.failed = 101),
            "101 of 1,000 requests failed (10.1 %, limit 10 %: --errors-max): reset 100",
        ),
        (
            load(|load| (load.stalls, load.stall_max_ns) = (4, 12_300_000)),
            "the generator stood still 4 times for more than 1 ms, 12.3 ms the longest (limit 10.0 \
            ms), while some 5 of 1,000 requests were due or under way: something else took its core",
        ),
        (
            load(|load| (load.steal_share, load.late) = (0.05, 7)),
            "the hypervisor gave 5 % of this machine's processor time to others (limit 1 %): \
            another machine, or another time",
        ),
        (
            load(|load| load.missed_share = 0.002),
            "the rate was missed: 0.2 % of 1,000 arrivals did not become requests in time (limit \
            0.1 %): lower it (-R), or give more connections (-c) or workers (-t)",
        ),
        (
            // Those that waited are late, which is reported once.
            load(|load| (load.waited, load.lateness_p99_ns) = (11, 2_000_000)),
            "11 of 1,000 requests found no connection at their instant (1.1 %, limit 1 %), so that \
            the server sees another load than was asked for: more connections (-c), or --pipeline",
        ),
        (
            load(|load| load.late = 7),
            "requests left late: 7 of 1,000 by more than 1 ms (limit 0.1 %), so that 99 % of the \
            latencies are within 3.00 ms instead of 1.00 ms: a machine with less to do, --pin, \
            'chrt -f 50', or a lower rate",
        ),
        (
            load(|load| load.busy_share = 0.97),
            "the generator is saturated: its busiest worker was running 97 % of the time (limit \
            95 %): more workers (-t), or a lower rate",
        ),
        (
            load(|load| load.frames_dropped = 1_234),
            "1,234 frames were dropped at this end's own port, which a network's loss would look \
            like: a lower rate, or more workers (-t); joined frames are too long for AF_PACKET: \
            'ethtool -K IF gro off', and at a veth's other end 'tso off gso off'",
        ),
        (
            load(|load| load.without_local = 3),
            "3 connections or requests found no local port, descriptor or memory: more addresses \
            (--from, --address), --close rst (no TIME-WAIT), 'ulimit -n', or --memory",
        ),
        (
            load(|load| load.drift = 2.0),
            "latency was not stationary: its median differs by a factor of 2.00 between the thirds \
            of the run (limit 1.5): a longer run, after the server has warmed up, or a rate that \
            it holds",
        ),
        (
            load(|load| load.broken_identity = Some("a = b".to_owned())),
            "the counts contradict each other (a = b): a fault of lineside, please report it",
        ),
        (
            load(|load| load.rows_dropped = 7),
            "7 requests have no row, because the writer of the trace did not keep up: --row-sample N for \
            every Nth, or a faster disk",
        ),
    ]
}

#[test]
fn a_load_within_its_limits_is_complete() {
    assert_eq!(judge(&load(|_| {})).state, State::Complete);
    let closed = Evidence {
        load: Some(LoadEvidence::default()),
        ..Evidence::default()
    };
    assert_eq!(judge(&closed).reasons, [""; 0]);
}

/// One late frame of many, a stall that no request waited for, and processor time that nobody
/// missed are no disturbance; a limit that was asked for is kept.
#[test]
fn a_run_is_disturbed_in_proportion() {
    let frames = |late, left, limit_ns: Option<u64>| {
        let evidence = link(|link| {
            (link.late, link.left, link.lateness_max_ns) = (late, left, 1_200_000);
            link.limits.lateness_max_ns = limit_ns;
        });
        judge(&evidence).state
    };
    for (late, left, limit_ns, state) in [
        (1, 26_587, None, State::Complete),
        (26, 26_587, None, State::Complete),
        (27, 26_587, None, Disturbed),
        (1, 1, None, State::Complete),
        (2, 100, None, Disturbed),
        (1_000, 1_000_000, None, State::Complete),
        (1_001, 1_000_000, None, Disturbed),
        (1, 26_587, Some(1_000_000), Disturbed),
        (1, 26_587, Some(2_000_000), State::Complete),
    ] {
        let found = frames(late, left, limit_ns);
        assert_eq!(found, state, "{late} of {left}, {limit_ns:?}");
    }
    for (change, state) in [
        // Late, and long latencies bear it.
        (
            (|load| (load.late, load.moved) = (500, None)) as fn(&mut LoadEvidence),
            State::Complete,
        ),
        (
            |load| load.late_limits.lateness_max_ns = Some(1_000_000),
            Disturbed,
        ),
        (|load| load.lateness_p99_max_ns = Some(999_999), Disturbed),
        (|load| load.steal_share = 0.5, State::Complete),
        (
            |load| (load.stall_max_ns, load.stalled) = (500_000_000, 1),
            State::Complete,
        ),
        (|load| load.frames_dropped = 1, State::Complete),
    ] {
        let verdict = judge(&load(change));
        assert_eq!(verdict.state, state, "{:?}", verdict.reasons);
    }
}

/// Requests that waited for a connection while the generator stood still are late by the stall.
#[test]
fn after_a_stall_the_first_reason_is_the_stall() {
    let evidence = load(|load| {
        (load.stalls, load.stall_max_ns, load.stalled) = (1, 200_000_000, 200);
        (load.waited, load.missed_share) = (150, 0.01);
    });
    let reasons = judge(&evidence).reasons;
    assert!(
        reasons[0].starts_with("the generator stood still"),
        "{reasons:?}"
    );
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}

fn inputs<'a>(facts: &[&'a Facts]) -> Evidence<'a> {
    Evidence {
        inputs: facts.to_vec(),
        ..Evidence::default()
    }
}

#[test]
fn each_rule_has_its_state_and_its_sentence() {
    let (plain, recorded, live, cut) = (named(), recorded(), live(), cut());
    let orphans = [(Counter::RepliesWithoutCall, 2), (Counter::Replies, 199)];
    let failed = |text: &str| vec![text.to_owned()];
    let mut cases = vec![
        (
            counters(&[
                (Counter::TlsBytes, 3072),
                (Counter::StreamBytes, 4096),
                (Counter::ConnectionsTls, 2),
            ]),
            "not read: 3 KiB of TLS (75.0 % of the TCP payload) in 2 connections of RPC: capture \
            where it is in the clear (of stunnel for EFS or Azure, the client's interface lo), or \
            mount without TLS (xprtsec=none)",
        ),
        (
            counters(&[(Counter::SealedBytes, 2048), (Counter::RpcBytes, 4096)]),
            "not read: 2 KiB of calls and replies that krb5p encrypts (50.0 % of RPC): their times \
            are known and not their contents; mount with sec=krb5i to see them",
        ),
        (
            counters(&[
                (Counter::RoceBytes, 1024),
                (Counter::StreamBytes, 3072),
                (Counter::RpcCalls, 1),
            ]),
            "not read: 1 KiB of RDMA (25.0 % of the payload), which may carry NFS: NFS over RDMA \
            is not read: mount with proto=tcp, or trace the client's events 'rpcrdma'",
        ),
        (
            counters(&[(Counter::RpcUnread, 1000), (Counter::RpcBytes, 3000)]),
            "1,000 bytes (25.000 %) of the connections with RPC are no message that was \
            understood: bytes between records, or messages whose heads did not come",
        ),
        (
            Evidence {
                looks_for_rpc: true,
                filter: Some("tcp port 2049"),
                ..counters(&[
                    (Counter::FramesReceived, 12_345),
                    (Counter::FramesFiltered, 12_345),
                    (Counter::FramesFilteredTagged, 12_212),
                ])
            },
            "none of 12,345 frames matches the filter 'tcp port 2049', and 12,212 of them are \
            tagged: 'vlan and tcp port 2049'",
        ),
        (
            counters(&[
                (Counter::StreamLost, 2048),
                (Counter::StreamBytes, 4096),
                (Counter::HolesNotSeen, 1),
                (Counter::HolesGivenUp, 2),
            ]),
            "2 KiB of the TCP payload (50.000 %) never came: 1 holes not seen by the tap, 0 \
            cut by the snap length, 2 given up",
        ),
        (
            counters(&[(Counter::DatagramsIncomplete, 1000)]),
            "1,000 fragmented packets lack some of their fragments",
        ),
        (
            counters(&[(Counter::DatagramsChecksumWrong, 1)]),
            "1 fragmented datagrams do not match their checksum and were not read",
        ),
        (
            counters(&[(Counter::ConnectionsReusedUnseen, 1)]),
            "1 connections began again, or went on elsewhere, without a SYN: the tap missed \
            more than a hole",
        ),
        (
            counters(&[(Counter::StampsBack, 2)]),
            "2 frames are stamped before the frame before them: a clock was set, a stamp is \
            wrong, or files were joined out of order, and times and holes do not hold",
        ),
        (
            counters(&[(Counter::SegmentsAfterAcknowledgement, 3)]),
            "3 segments came after they were acknowledged: stamps of the two directions do \
            not agree, or the tap missed a first copy, and their times do not hold",
        ),
        (
            counters(&[(Counter::AcknowledgedAtLast, 2)]),
            "2 streams end with an acknowledgement of bytes that never came: the capture \
            ended too early, or the tap missed the last bytes",
        ),
        (
            counters(&[(Counter::AcknowledgementsBack, 1)]),
            "1 directions were acknowledged behind what had been acknowledged, after a silence: \
            the tap may have missed nearly 2^32 bytes of them, and what follows was not read",
        ),
        (
            counters(&[(Counter::OverlapConflicts, 4)]),
            "4 bytes came twice with different values: copies of the same segment differ",
        ),
        (
            counters(&[(Counter::RepliesWithoutCallBegun, 5)]),
            "5 replies have no call, although the beginning of their connection was captured",
        ),
        (
            counters(&[(Counter::RepliesAmbiguous, 1)]),
            "1 replies may be those of another call with the same xid",
        ),
        (
            counters(&[(Counter::RepliesWithoutCallCut, 6)]),
            "6 replies have no call, because the snap length cut the calls: capture whole frames \
            (-s 0)",
        ),
        (
            counters(&[(Counter::ConnectionsUnpaired, 2)]),
            "2 connections were seen in both directions and have more calls without reply and \
            replies without call than pairs of both",
        ),
        (
            counters(&[(Counter::RepliesContradicting, 4)]),
            "4 replies contradict their calls: more bytes than were sent or asked for, another \
            slot or sequence, or results that do not fit the status",
        ),
        (
            Evidence {
                inputs: vec![&plain, &plain],
                ..counters(&orphans)
            },
            "2 of 199 replies have no call: the inputs' clocks differ by more than \
            --late-window, or one lacks what another has",
        ),
        (
            counters(&[(Counter::RepliesWithoutCallUdp, 2), (Counter::CallsUdp, 39)]),
            "2 replies over UDP have no call, beside 39 calls: the tap missed them, or sees \
            one direction only",
        ),
        (
            counters(&[(Counter::CallsUdpUnanswered, 1), (Counter::CallsUdp, 19)]),
            "1 of 19 calls over UDP have no reply: the server gave none, or the tap missed it",
        ),
        (
            counters(&[(Counter::CallsTcpUnanswered, 16)]),
            "16 calls over TCP have no reply after 1 s or longer: the server gave none, or the tap \
            missed it",
        ),
        (
            counters(&[(Counter::OperationsUdpIncomplete, 3)]),
            "3 operations over UDP lack a part: a snap length cut it, fragments were lost, or it is \
            malformed",
        ),
        (
            counters(&[(Counter::RepliesShort, 5)]),
            "5 replies end before their last field, although they were seen whole: their server \
            ends them early, and the report names it",
        ),
        (
            counters(&[(Counter::FramesDamagedNotTcp, 2)]),
            "2 damaged frames were not read, and nothing shows whether they came again",
        ),
        (
            counters(&[(Counter::ChecksumsWrongRead, 1)]),
            "1 packets were read whose checksum turned out to be wrong",
        ),
        (
            counters(&[
                (Counter::FramesIpUnread, 3),
                (Counter::MalformedIp, 4),
                (Counter::RecordsMalformed, 2),
            ]),
            "not read: 3 frames with IP that is encrypted, compressed, or wrapped in a way \
            that is not known, 4 malformed IP packets, 2 malformed RPC messages, which contradict \
            the protocol or end before their fields do",
        ),
        (
            inputs(&[&recorded]),
            "a: its recorder says that 6 frames were dropped",
        ),
        (
            inputs(&[&live]),
            "a: 25 frames (25.000 %) were dropped: 10 by the adapter or its driver, 15 because \
            no memory was free",
        ),
        (inputs(&[&cut]), "a: its last frame is cut"),
        (
            Evidence {
                tap: Some(TapEvidence {
                    captured: 90,
                    dropped_queue: 8,
                    dropped_memory: 2,
                }),
                ..Evidence::default()
            },
            "tap: 10 of 100 frames were neither captured nor measured: 8 found the queue full, 2 no \
            memory",
        ),
        (
            link(|link| link.dropped_by_derived_limit = vec![(0, "1b".into()), (3, "9b".into())]),
            "outbound: 3 frames found a queue of 9b full, which was worked out from rate and \
            delay: give the link's own with --limit",
        ),
        (
            link(|link| link.dropped_by_memory = 4),
            "outbound: 4 frames were dropped because memory for frames under way was full: \
            give more with --memory",
        ),
        (
            link(|link| (link.late, link.left, link.lateness_max_ns) = (5, 1_200, 4_200_000)),
            "outbound: 5 of 1,200 frames left more than 1 ms late, by up to 4.20 ms (limit 0.1 %): \
            a machine with less to do, --wait spin, or 'chrt -f 50'",
        ),
        (
            Evidence {
                failures: failed("the disk is full"),
                ..Evidence::default()
            },
            "the disk is full",
        ),
        (
            Evidence {
                signal: Some(2),
                ..Evidence::default()
            },
            "ended by signal 2 before the end of the input",
        ),
        (
            counters(&[(Counter::HeldLimit, 1)]),
            "limits.held_bytes: 1 times that all streams together held too many bytes and the \
            oldest gap was given up (give more: memory)",
        ),
    ];
    let loads = RULES.iter().position(|rule| matches!(rule.check, Load(_)));
    let loads = loads.expect("rules about a load");
    cases.splice(loads..loads, load_cases());
    assert_eq!(
        cases.len(),
        RULES.len(),
        "a case for each rule, in their order"
    );
    for ((evidence, sentence), rule) in cases.iter().zip(RULES) {
        let verdict = judge(evidence);
        // Processor time that others had is a reason for another one alone.
        let all = match sentence.starts_with("the hypervisor") {
            true => &verdict.reasons[..1],
            false => &verdict.reasons[..],
        };
        assert_eq!(all, [*sentence]);
        assert_eq!(verdict.state, rule.state, "{sentence}");
    }
}

#[test]
fn nothing_against_a_run_makes_it_complete() {
    let plain = named();
    for evidence in [
        Evidence::default(),
        inputs(&[&plain]),
        counters(&[(Counter::RepliesWithoutCall, 5), (Counter::Replies, 5)]),
        Evidence {
            inputs: vec![&plain, &plain],
            ..counters(&[(Counter::RepliesWithoutCall, 1), (Counter::Replies, 199)])
        },
        Evidence {
            tap: Some(TapEvidence::default()),
            ..link(|_| ())
        },
    ] {
        let verdict = judge(&evidence);
        assert_eq!(verdict.state, State::Complete, "{:?}", verdict.reasons);
        assert!(verdict.reasons.is_empty() && verdict.shares.is_empty());
    }
}

#[test]
fn each_limit_makes_a_run_limited() {
    for &counter in Counter::ALL {
        let state = judge(&counters(&[(counter, 1), (Counter::StreamBytes, 1)])).state;
        assert_eq!(
            state == Limited,
            counter.kind() == Kind::Limit,
            "{}",
            counter.name()
        );
    }
}

#[test]
fn the_state_that_weighs_most_wins_and_all_reasons_stay() {
    let (cut, live) = (cut(), live());
    let mut evidence = Evidence {
        inputs: vec![&cut, &live],
        signal: Some(15),
        ..link(|link| link.late = 2)
    };
    let verdict = judge(&evidence);
    assert_eq!((verdict.state, verdict.reasons.len()), (Disturbed, 4));
    evidence.links.clear();
    assert_eq!(judge(&evidence).state, Incomplete);
    evidence.counters.count(Counter::DuplicatesLimit);
    let verdict = judge(&evidence);
    assert_eq!((verdict.state, verdict.reasons.len()), (Limited, 4));
    assert_eq!(verdict.shares["frames_dropped"], 0.25);
}

#[test]
fn a_run_that_found_no_rpc_says_what_is_there() {
    let looking = |values: &[(Counter, u64)]| Evidence {
        looks_for_rpc: true,
        ..counters(values)
    };
    let reason = |evidence: &Evidence<'_>| {
        let verdict = judge(evidence);
        assert_eq!(verdict.state, Incomplete);
        verdict.reasons.concat()
    };
    assert_eq!(reason(&looking(&[])), "no frame came");
    let filtered = Evidence {
        filter: Some("port 1"),
        ..looking(&[])
    };
    assert_eq!(
        reason(&filtered),
        "no frame came that matches the filter 'port 1'"
    );
    let other = looking(&[
        (Counter::FramesReceived, 3000),
        (Counter::FramesTcp, 2000),
        (Counter::FramesNotIp, 1000),
    ]);
    assert_eq!(
        reason(&other),
        "no RPC in 3,000 frames: 2,000 with TCP, 1,000 without IP; where a port carries RPC \
        all the same, --decode-as says so"
    );
    let found = looking(&[(Counter::FramesReceived, 3), (Counter::Replies, 1)]);
    assert_eq!(judge(&found).state, State::Complete);
}

#[test]
fn what_is_no_rpc_is_named_with_a_way_on() {
    let facts = Facts {
        link_types: [1, 189].map(LinkType).to_vec(),
        ..Facts::default()
    };
    let reasons = |values: &[(Counter, u64)]| {
        let evidence = Evidence {
            looks_for_rpc: true,
            inputs: vec![&facts],
            ..counters(values)
        };
        judge(&evidence).reasons
    };
    let frames = (Counter::FramesReceived, 30);
    assert_eq!(
        reasons(&[frames, (Counter::FramesUnknownLink, 30)]),
        [
            "no RPC in 30 frames: 30 of link type 189 (USB_LINUX), which is not read",
            "not read: 30 frames of link type 189 (USB_LINUX), which is not read"
        ]
    );
    assert_eq!(
        reasons(&[frames, (Counter::FramesUdp, 30), (Counter::RoceBytes, 2048)]),
        [
            "no RPC in 30 frames: 30 with UDP; there is RoCEv2 (RDMA) 2 KiB: NFS over RDMA is not \
            read: mount with proto=tcp, or trace the client's events 'rpcrdma'"
        ]
    );
    // What is named makes no verdict where there is RPC.
    for counter in [Counter::TlsOtherBytes, Counter::SflowBytes] {
        assert!(reasons(&[frames, (Counter::RpcCalls, 1), (counter, 9)]).is_empty());
    }
    // But RDMA may carry more of the same RPC.
    let iwarp = [frames, (Counter::RpcCalls, 1), (Counter::IwarpBytes, 9)];
    assert!(reasons(&iwarp)[0].starts_with("not read: 9 B of RDMA"));
}

#[test]
fn the_reasons_of_one_input_stand_together() {
    let (one, other) = (recorded(), cut());
    let both = Facts {
        warnings: vec!["a: again".to_owned()],
        ..recorded()
    };
    let reasons = judge(&inputs(&[&both, &other, &one])).reasons;
    let dropped = "a: its recorder says that 6 frames were dropped";
    assert_eq!(
        reasons,
        [dropped, "a: again", "a: its last frame is cut", dropped]
    );
}
