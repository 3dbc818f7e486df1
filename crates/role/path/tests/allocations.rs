//! After its start the polling loop allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lineside_account::Budget;
use lineside_frame::{Burst, Descriptor, Frame, LinkType, Pool};
use lineside_link::{Settings, words};
use lineside_path::{Departures, LivePath, Path, SideId, Switch, loop_facts};
use lineside_port::{Facts, Live, LivePort, Port, PortError, Receive, Received, Transmit};
use lineside_reactor::{TapPoints, Wait, tap};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
// JUSTIFICATION: only a global allocator sees every allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frames that go round: what is sent at one end may come again.
type Ring = Arc<Mutex<VecDeque<Frame>>>;

struct End {
    comes: Ring,
    goes: Ring,
    /// Never readable: a wait for it is a sleep.
    silent: UdpSocket,
}

impl Port for End {
    fn facts(&self) -> Vec<&Facts> {
        Vec::new()
    }
}

impl Receive for End {
    fn receive(&mut self, burst: &mut Burst, max: usize) -> Result<Received, PortError> {
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

    fn leave(&mut self, ahead: &mut Burst) {
        ahead.clear();
    }
}

impl Transmit for End {
    fn transmit(&mut self, burst: &mut Burst) -> Result<usize, PortError> {
        let count = burst.len();
        self.goes
            .lock()
            .expect("one thread")
            .extend(burst.drain(..));
        Ok(count)
    }

    fn reclaim(&mut self) -> usize {
        0
    }

    fn stamp_next(&mut self) -> bool {
        false
    }

    fn handed_over(&mut self) -> Option<Option<i64>> {
        None
    }
}

impl Live for End {
    fn wake_on<'a>(&'a self, descriptors: &mut Vec<BorrowedFd<'a>>) {
        descriptors.push(self.silent.as_fd());
    }

    fn backlog(&self) -> f32 {
        0.0
    }

    fn account(&mut self) {}

    fn shut(&mut self) {}
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
        vec![Box::new(end) as Box<dyn LivePort>]
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
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let after = turn(1500);
    // The facts of the loop are made of histograms: only asking for them allocates.
    let asked = ALLOCATIONS.load(Ordering::Relaxed);
    turn(0);
    let asking = ALLOCATIONS.load(Ordering::Relaxed) - asked;
    let allocated = asked - allocations - asking;
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
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    let after = pass(100);
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    let asked = ALLOCATIONS.load(Ordering::Relaxed);
    pass(0);
    let asking = ALLOCATIONS.load(Ordering::Relaxed) - asked;
    assert!(after > before + 500, "{before} {after}");
    assert_eq!(allocated, asking, "but for the report");
}
