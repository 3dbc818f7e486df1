//! After its start the polling loop allocates nothing.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use lineside_account::Budget;
use lineside_alloc::process_allocations;
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Pool};
use lineside_link::{Settings, words};
use lineside_path::{Departures, LivePath, Path, SideId, Switch, loop_facts};
use lineside_port::{LivePort, PortError, Receive, Received};
use lineside_reactor::{TapPoints, Tapped, Wait, tap};
use lineside_testkit::memory::{Ends, Memory};

/// Frames that go round: what is sent at one end may come again.
type Ring = Arc<Mutex<VecDeque<Frame>>>;

struct End {
    comes: Ring,
    goes: Ring,
    /// Never readable: a wait for it is a sleep.
    silent: UdpSocket,
}

impl Ends for End {
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
        let mut comes = self.comes.lock().expect("one thread");
        let count = max.min(comes.len()).min(7);
        for mut frame in comes.drain(..count) {
            frame.descriptor_mut().stamp_ns = None;
            burst.push(frame);
        }
        Ok(match count {
            0 => Received::Idle { until_ns: 0 },
            count => Received::Frames(count),
        })
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let count = burst.len();
        self.goes
            .lock()
            .expect("one thread")
            .extend(burst.drain(..));
        Ok(count)
    }

    fn wakers<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        descriptors.push(self.silent.as_fd());
    }
}

#[test]
fn the_loop_allocates_nothing_for_a_frame_or_a_turn() {
    let settings = || Settings {
        delay: words::delay("100us 20us distribution normal", &mut words::no_files)
            .expect("a delay"),
        rate: Some(words::rate("1gbit").expect("a rate")),
        ..Settings::default()
    };
    let budget = Budget::new(32 << 20);
    let path = Path::new([settings(), settings()], 7, 8 << 20, &budget).expect("it fits");
    let [near, far] = [(); 2].map(|()| Ring::default());
    let end = |comes: &Ring, goes: &Ring| {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (comes, goes) = (Arc::clone(comes), Arc::clone(goes));
        let end = End {
            comes,
            goes,
            silent,
        };
        vec![Box::new(Memory(end)) as Box<dyn LivePort>]
    };
    // What leaves by one end comes from the other: it goes round and round.
    let sides = vec![end(&near, &far), end(&far, &near)];
    let mut live = LivePath::between(path, sides, Wait::Sleep, true);
    let points = TapPoints {
        came: Some(128),
        left: Some(usize::MAX),
        dropped: Some(128),
    };
    let (tap, mut port) = tap(2, points, 4 << 20, &budget).expect("it fits");
    live.engine_mut().set_tap(Some(tap));
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        wire_len: 200,
        ..Descriptor::default()
    };
    for _ in 0..20 {
        let frame = Frame::copied(&[7; 200], descriptor);
        near.lock().expect("one thread").push_back(frame);
    }
    let mut now = 1_000_000;
    let mut burst = Burst::with_capacity(4096);
    let mut turn = |turns: usize| {
        for _ in 0..turns {
            live.turn(&mut || {
                now += 300;
                now
            })
            .expect("ports that work");
            port.receive(&mut burst, 4096).expect("a tap never fails");
            burst.clear();
        }
        loop_facts(&live).tap.expect("there is one").tapped
    };
    let before = turn(1500);
    let began = process_allocations();
    let after = turn(1500);
    // The facts of the loop are made of histograms: only asking for them allocates.
    let asked = process_allocations();
    turn(0);
    let asking = process_allocations() - asked;
    let allocated = asked - began - asking;
    assert!(after > before + 50, "{before} {after}");
    assert_eq!(allocated, 0, "of {} frames", after - before);
    // Here too, since another test would allocate beside this one.
    a_switch_allocates_nothing_for_a_frame(&budget);
}

fn a_switch_allocates_nothing_for_a_frame(budget: &Budget) {
    let switch = Switch::new(4, Switch::AGE_NS, 16, budget).expect("it fits");
    let names = (0..4).map(|port| port.to_string()).collect();
    let settings = vec![Settings::default(); 8];
    let path = Path::star(Box::new(switch), names, settings, 7, 8 << 20, budget);
    let mut path = path.expect("it fits");
    let (mut out, mut burst) = (Departures::default(), Burst::with_capacity(32));
    let mut pool = Pool::new(64 << 10, 4, budget).expect("it fits");
    let mut pass = |rounds: u8| {
        for round in 0..rounds {
            let mut writer = pool.take().expect("all have left");
            for port in 0..4 {
                for host in 0..8 {
                    // Sources come and go; each second frame is for all.
                    let to = [0xff, 2][usize::from(host % 2)];
                    let frame = [to, 0, 0, 0, 0, host, 2, 0, 0, 0, round, host, 8, 0];
                    writer.unfilled()[..14].copy_from_slice(&frame);
                    writer.advance(14);
                    let descriptor = Descriptor {
                        link_type: LinkType::ETHERNET,
                        ..Descriptor::default()
                    };
                    burst.push(writer.take(14, descriptor));
                }
                path.on_burst(round.into(), SideId::new(port), &mut burst, &mut out);
            }
            path.on_timer(round.into(), &mut out);
            (4..8).for_each(|side| out[side].clear());
        }
        path.core().expect("it counts").addresses.displaced
    };
    let before = pass(100);
    let began = process_allocations();
    let after = pass(100);
    let allocated = process_allocations() - began;
    let asked = process_allocations();
    pass(0);
    let asking = process_allocations() - asked;
    assert!(after > before + 500, "{before} {after}");
    assert_eq!(allocated, asking, "but for the report");
}
