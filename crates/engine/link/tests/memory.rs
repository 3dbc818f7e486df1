//! The memory of frames under way: spilled in steps, and nothing allocated a frame.

use std::cell::RefCell;
use std::rc::Rc;

use lineside_account::Budget;
use lineside_alloc::allocations;
use lineside_frame::{Descriptor, Frame, Pool};
use lineside_link::{Departure, Item, Link, Segment, Settings, words};

fn settings(delay: &str, duplicate: &str) -> Settings {
    Settings {
        delay: words::delay(delay, &mut words::no_files).expect("a delay"),
        duplicate: words::chance("duplicate", duplicate).expect("a share"),
        ..Settings::default()
    }
}

/// A frame that notes when it is spilled.
struct Noted {
    number: u32,
    len_bytes: u32,
    spilled: Rc<RefCell<Vec<u32>>>,
}

impl Item for Noted {
    type Copies = ();

    fn copies(_: usize) {}

    fn len_bytes(&self) -> u32 {
        self.len_bytes
    }

    fn flip_bit(&mut self, _: u32) {}

    fn duplicate(&self, _: &mut ()) -> Self {
        Self {
            number: self.number + 10_000,
            spilled: Rc::clone(&self.spilled),
            ..*self
        }
    }

    fn spill(&mut self, _: &mut ()) {
        self.spilled.borrow_mut().push(self.number);
    }

    fn segment(&self) -> Option<Segment> {
        None
    }
}

#[test]
fn a_step_of_spilling_is_bounded_and_takes_the_last_due() {
    let spilled = Rc::<RefCell<Vec<u32>>>::default();
    let mut out: Vec<Departure<Noted>> = Vec::new();
    let mut link = Link::new(settings("100ms", "0%"), 1, 0, 64 << 20);
    let push =
        |link: &mut Link<Noted>, out: &mut Vec<_>, numbers: std::ops::Range<u32>, len_bytes| {
            for number in numbers {
                let item = Noted {
                    number,
                    len_bytes,
                    spilled: Rc::clone(&spilled),
                };
                link.push(i64::from(number), item, out);
            }
        };
    push(&mut link, &mut out, 0..9_000, 1_500);
    let step = |link: &mut Link<Noted>| {
        link.spill(32 << 10);
        spilled.take()
    };
    let expected = |numbers: std::ops::Range<u32>| numbers.rev().collect::<Vec<_>>();
    assert_eq!(step(&mut link), expected(8_978..9_000));
    // Those that have come since are due later still.
    push(&mut link, &mut out, 9_000..9_010, 1_500);
    assert_eq!(
        step(&mut link)[..],
        [expected(9_000..9_010), expected(8_966..8_978)].concat()
    );
    // However short they are.
    push(&mut link, &mut out, 9_010..9_100, 60);
    assert_eq!(step(&mut link), expected(9_068..9_100));
    // Frames that leave need no copy, and each is copied once.
    link.on_timer(100_000_000 + 8_000, &mut out);
    assert_eq!(link.held(), 1_099);
    let mut rest: Vec<_> = std::iter::from_fn(|| Some(step(&mut link)))
        .take_while(|step| !step.is_empty())
        .flatten()
        .collect();
    rest.sort_unstable();
    let left = (8_001..8_966).chain(9_010..9_068);
    assert_eq!(rest, left.collect::<Vec<_>>());
}

#[test]
fn a_duplicate_is_not_spilled_again() {
    let spilled = Rc::<RefCell<Vec<u32>>>::default();
    let mut out: Vec<Departure<Noted>> = Vec::new();
    let mut link = Link::new(settings("100ms", "100%"), 1, 0, 64 << 20);
    for number in 0..10 {
        let item = Noted {
            number,
            len_bytes: 60,
            spilled: Rc::clone(&spilled),
        };
        link.push(0, item, &mut out);
    }
    link.spill(usize::MAX);
    assert_eq!(link.held(), 20);
    assert_eq!(spilled.take(), (0..10).rev().collect::<Vec<_>>());
}

#[test]
fn duplicates_and_spills_allocate_nothing_a_frame() {
    // With jitter the most that wait at once still rises now and then.
    let jitter = "1ms 200us distribution normal order reorder";
    for (delay, allocations_max) in [("1ms", 0), (jitter, 50)] {
        let budget = Budget::new(16 << 20);
        let mut pool = Pool::new(256 << 10, 16, &budget).expect("it fits");
        let mut link = Link::new(settings(delay, "100%"), 1, 0, 16 << 20);
        let mut writer = pool.take().expect("it is unused");
        let mut out = Vec::with_capacity(4_096);
        let mut run = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                let len = [60, 200, 1_500][number % 3];
                if writer.unfilled().len() < len {
                    writer = pool.take().expect("frames were spilled or left");
                }
                writer.unfilled()[..len].fill(number as u8);
                writer.advance(len);
                let descriptor = Descriptor {
                    wire_len: len as u32,
                    ..Descriptor::default()
                };
                let now = number as i64 * 5_000;
                link.push(now, writer.take(len, descriptor), &mut out);
                if number % 3 == 0 {
                    link.spill(6 << 10);
                }
                let whole = |frame: &Frame| frame.bytes().windows(2).all(|two| two[0] == two[1]);
                assert!(out.iter().all(|departure| whole(&departure.item)));
                out.clear();
            }
            allocations()
        };
        let before = run(0..100_000);
        let after = run(100_000..150_000);
        assert!(
            after - before <= allocations_max,
            "{delay}: {}",
            after - before
        );
        assert_eq!(link.counters().duplicated, 150_000);
    }
}
