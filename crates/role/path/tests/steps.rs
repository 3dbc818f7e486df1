//! Steps in virtual time: what leaves is what links let through whose settings are changed by hand
//! at the instants that the words mean.

use std::net::IpAddr;

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Carrier, Departure, Link, Patch, Setting, Settings, State, words};
use lineside_measure::monitor::Point;
use lineside_path::{
    Action, Certificate, Direction, DirectionFinder, Inside, Patches, Path, Step, StepError,
    Virtual, When,
};
use lineside_time::Random;
use lineside_trace::certificate::link::FiringEvent;
use lineside_wire::build::FrameBuilder;

const MEMORY: usize = 64 << 20;
const DOWN: State = State::Down {
    carrier: Carrier::Stays,
};
const MS: i64 = 1_000_000;
const BEGAN: i64 = 1_700_000_000_000_000_000;

/// A frame of a direction, with a payload of this many bytes, this long after the first one.
fn frame(direction: Direction, after_ns: i64, len: usize, ordinal: u64) -> Frame {
    let ends: [IpAddr; 2] = [[10, 0, 0, 1].into(), [10, 9, 0, 1].into()];
    let (source, destination) = match direction {
        Direction::Outbound => (ends[0], ends[1]),
        Direction::Inbound => (ends[1], ends[0]),
    };
    let bytes = FrameBuilder::new(source, destination).udp(1, 2, &vec![7; len]);
    let descriptor = Descriptor {
        stamp_ns: Some(BEGAN + after_ns),
        wire_len: bytes.len() as u32,
        link_type: LinkType::ETHERNET,
        ordinal,
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

fn copy(frame: &Frame) -> Frame {
    Frame::copied(frame.bytes(), *frame.descriptor())
}

fn delay(words: &str) -> Settings {
    Settings {
        delay: words::delay(words, &mut words::no_files).expect("a delay"),
        ..Settings::default()
    }
}

fn down() -> Settings {
    Settings {
        state: DOWN,
        ..Settings::default()
    }
}

/// Changes of one setting of the sides that are given.
fn patches(setting: Setting, sides: [Option<Settings>; 2]) -> Option<Patches> {
    let sides = sides.into_iter();
    let sides = sides.map(|settings| Some(vec![Patch::new([setting], settings?)]));
    Some(sides.collect())
}

fn step(when: When, patches: Option<Patches>) -> Step {
    Step {
        words: "a step".to_owned(),
        when,
        times: u64::MAX,
        skips: 0,
        hold_off_ns: 0,
        for_ns: None,
        patches,
        actions: Vec::new(),
    }
}

fn when(expression: &str, places: &[(usize, Point)]) -> When {
    When::Frame {
        filter: Filter::parse(expression).expect("an expression"),
        places: places.to_vec(),
    }
}

/// What leaves and when, by ordinal, and the certificate.
fn run(
    settings: [Settings; 2],
    steps: &[Step],
    frames: Vec<Frame>,
    burst_len: usize,
) -> (Vec<(i64, u64)>, Certificate) {
    let path = Path::new(settings, 7, MEMORY / 2, &Budget::new(MEMORY)).expect("memory");
    let inside: Inside = "10.0.0.0/16".parse().expect("a network");
    let mut emulation = Virtual::new(path, DirectionFinder::new(Some(inside)));
    for step in steps {
        let armed = emulation.path_mut().arm(step.clone(), 0);
        armed.expect("it can be armed");
    }
    let (mut left, mut burst) = (Burst::new(), Burst::new());
    for frame in frames {
        burst.push(frame);
        if burst.len() == burst_len {
            emulation.on_burst(&mut burst, &mut left);
        }
    }
    emulation.on_burst(&mut burst, &mut left);
    while emulation.drain(&mut left) {}
    let left = left.iter().map(|frame| {
        let descriptor = frame.descriptor();
        let at_ns = descriptor.stamp_ns.expect("a stamp");
        (at_ns - BEGAN, descriptor.ordinal)
    });
    (left.collect(), emulation.certificate())
}

/// When a step of the model fires, and for how long its settings hold.
struct Model<'a> {
    step: &'a Step,
    /// Instants of the clock that are still to come.
    due: Vec<i64>,
    fired: u64,
    skipped: u64,
    opens_ns: i64,
    undo: Option<(i64, [Option<Settings>; 2])>,
}

/// Two links by hand: an instant after the other, the undoing of a step before the next one fires.
fn modelled(settings: [Settings; 2], steps: &[Step], frames: &[Frame]) -> Vec<(i64, u64)> {
    let [out, back] = settings;
    let mut links = [out, back].into_iter().zip(0..);
    let mut links = [0; 2].map(|_| {
        let (settings, stream) = links.next().expect("two of them");
        Link::<Frame>::new(settings, 7, stream, MEMORY / 4)
    });
    let mut left: [Vec<Departure<Frame>>; 2] = Default::default();
    let began_ns = frames[0].descriptor().stamp_ns.expect("a stamp");
    links.iter_mut().for_each(|link| link.begin(began_ns));
    let end_ns = frames.last().and_then(|frame| frame.descriptor().stamp_ns);
    let end_ns = end_ns.expect("a frame") + 60_000 * MS;
    let due = |step: &Step| match step.when {
        When::At(after_ns) => vec![began_ns + after_ns],
        When::Every(every_ns) => (1..)
            .map(|times| began_ns + times * every_ns)
            .take_while(|at_ns| *at_ns < end_ns)
            .collect(),
        When::Frame { .. } => Vec::new(),
    };
    let mut models: Vec<_> = { steps.iter() }
        .map(|step| Model {
            step,
            due: due(step),
            fired: 0,
            skipped: 0,
            opens_ns: i64::MIN,
            undo: None,
        })
        .collect();
    let change = |links: &mut [Link<Frame>; 2], left: &mut [_; 2], side, now, new: &Settings| {
        let (link, left): (&mut Link<Frame>, &mut Vec<_>) = (&mut links[side], &mut left[side]);
        if link.settings() != new {
            link.change(now, [new.clone()], left);
        }
    };
    let fire = |links: &mut [Link<Frame>; 2], left: &mut _, model: &mut Model<'_>, now| {
        let patches = model.step.patches.as_ref().expect("it changes something");
        let before = [0, 1].map(|side| {
            let patch = &patches[side].as_ref()?[0];
            let before = links[side].settings().clone();
            change(links, left, side, now, &patch.applied(&before));
            Some(before)
        });
        model.fired += 1;
        let off_ns = model.step.hold_off_ns.max(model.step.for_ns.unwrap_or(0));
        model.opens_ns = now + off_ns;
        model.undo = model.step.for_ns.map(|for_ns| (now + for_ns, before));
    };
    for frame in frames {
        let at_ns = frame.descriptor().stamp_ns.expect("a stamp");
        loop {
            let undo = { models.iter() }.enumerate();
            let undo = undo.filter_map(|(at, model)| Some((model.undo.as_ref()?.0, false, at)));
            let clock = models.iter().enumerate();
            let clock = clock.filter_map(|(at, model)| Some((*model.due.first()?, true, at)));
            let Some((now, is_fire, at)) = undo.chain(clock).min().filter(|next| next.0 <= at_ns)
            else {
                break;
            };
            let model = &mut models[at];
            if is_fire {
                model.due.remove(0);
                if model.fired < model.step.times {
                    fire(&mut links, &mut left, model, now);
                }
            } else if let Some((_, before)) = model.undo.take() {
                let patches = model.step.patches.as_ref().expect("it changed something");
                for (side, before) in before.iter().enumerate() {
                    if let (Some(before), Some(patch)) = (before, &patches[side]) {
                        // Of what it changed: other steps may have changed others.
                        let undone = patch[0].of(before).applied(links[side].settings());
                        change(&mut links, &mut left, side, now, &undone);
                    }
                }
            }
        }
        let side = usize::from(frame.bytes()[26..30] != [10, 0, 0, 1]);
        for model in &mut models {
            let When::Frame { filter, places } = &model.step.when else {
                continue;
            };
            let program = filter.compile(1).expect("it suits Ethernet");
            if places.contains(&(side, Point::Came))
                && program.matches(frame.bytes(), frame.descriptor().wire_len)
                && model.undo.is_none()
                && at_ns >= model.opens_ns
                && model.fired < model.step.times
            {
                if model.skipped < model.step.skips {
                    model.skipped += 1;
                } else {
                    fire(&mut links, &mut left, model, at_ns);
                }
            }
        }
        links[side].push(at_ns, copy(frame), &mut left[side]);
    }
    // What steps do after the last frame reaches none that is under way, but for its rate.
    for (link, left) in links.iter_mut().zip(&mut left) {
        link.on_timer(i64::MAX, left);
    }
    let mut all: Vec<_> = left.into_iter().flatten().collect();
    all.sort_by_key(|departure| (departure.at_ns, departure.item.descriptor().ordinal));
    let all = all.into_iter();
    all.map(|left| (left.at_ns - BEGAN, left.item.descriptor().ordinal))
        .collect()
}

/// Steps of which no two are for the same setting.
fn drawn_steps(random: &mut Random) -> Vec<Step> {
    let side = |random: &mut Random, settings: Settings| match random.below(3) {
        0 => [Some(settings), None],
        1 => [None, Some(settings)],
        _ => [Some(settings.clone()), Some(settings)],
    };
    let loss = Settings {
        loss: words::loss("30%").expect("a loss"),
        ..Settings::default()
    };
    let slow = delay(["30us", "2ms 1ms order reorder", "1ms 900us"][random.below(3) as usize]);
    let mut steps = Vec::new();
    for (setting, settings) in [
        (Setting::Link, down()),
        (Setting::Loss, loss),
        (Setting::Delay, slow),
    ] {
        let ms = |random: &mut Random, most: u64| (1 + random.below(most)).cast_signed() * MS / 4;
        let when = match random.below(4) {
            0 => continue,
            1 => When::At(ms(random, 200)),
            2 => When::Every(ms(random, 100)),
            _ => {
                let expression = ["greater 600", "udp and less 100", "src 10.9.0.1"];
                let places = [
                    &[(0, Point::Came)][..],
                    &[(1, Point::Came)],
                    &[(0, Point::Came), (1, Point::Came)],
                ];
                when(
                    expression[random.below(3) as usize],
                    places[random.below(3) as usize],
                )
            }
        };
        // A step that fires again while it holds is none.
        let for_most_ns = match when {
            When::Every(every_ns) => every_ns - 1,
            _ => 20 * MS,
        };
        let for_ns = random.chance(0.7).then(|| ms(random, 40).min(for_most_ns));
        steps.push(Step {
            times: [1, 3, u64::MAX][random.below(3) as usize],
            skips: match when {
                When::Frame { .. } => [0, 1, 5][random.below(3) as usize],
                _ => 0,
            },
            hold_off_ns: match when {
                When::Frame { .. } => random.below(3).cast_signed() * 5 * MS,
                _ => 0,
            },
            for_ns,
            ..step(when, patches(setting, side(random, settings)))
        });
    }
    steps
}

#[test]
fn steps_change_what_links_changed_by_hand_do() {
    let mut fired = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let mut after_ns = 0;
        let frames = (1..=300).map(|ordinal| {
            after_ns += [0, 60_000, 250_000][random.below(3) as usize];
            let is_out = ordinal == 1 || random.chance(0.5);
            let direction = match is_out {
                true => Direction::Outbound,
                false => Direction::Inbound,
            };
            frame(
                direction,
                after_ns,
                20 + random.below(900) as usize,
                ordinal,
            )
        });
        let frames: Vec<Frame> = frames.collect();
        let steps = drawn_steps(&mut random);
        let settings = || [delay("1ms"), delay("500us 100us")];
        let expected = modelled(settings(), &steps, &frames);
        for burst_len in [1, 64] {
            let copies = frames.iter().map(copy).collect();
            let (left, certificate) = run(settings(), &steps, copies, burst_len);
            assert_eq!(left, expected, "seed {seed}: {steps:?}");
            fired += { certificate.firings.iter() }
                .filter(|firing| firing.event == FiringEvent::Fired)
                .count();
        }
    }
    assert!(fired > 500, "{fired}");
}

fn out_each_ms(count: i64) -> Vec<Frame> {
    let each = |number: i64| {
        let len = 100 + number as usize;
        frame(Direction::Outbound, number * MS, len, number as u64 + 1)
    };
    (0..count).map(each).collect()
}

#[test]
fn a_frame_that_leaves_fires_at_the_instant_it_leaves() {
    // The frame of 105 bytes of payload comes at 5 ms and leaves at 7.5 ms.
    let steps = [Step {
        times: 1,
        ..step(
            when("less 147 and greater 147", &[(1, Point::Left)]),
            patches(Setting::Link, [Some(down()), None]),
        )
    }];
    let (left, certificate) = run([delay("2500us"), delay("0")], &steps, out_each_ms(20), 64);
    let ordinals: Vec<_> = left.iter().map(|&(_, ordinal)| ordinal).collect();
    // Those that came until 7 ms were under way.
    assert_eq!(ordinals, (1..=8).collect::<Vec<u64>>());
    let [firing] = &certificate.firings[..] else {
        panic!("{:?}", certificate.firings);
    };
    assert_eq!((firing.after_ns, firing.step), (7_500_000, 1));
    assert_eq!(certificate.steps[0].fired, 1);
}

#[test]
fn a_step_fires_from_the_match_after_those_it_skips() {
    let steps = [Step {
        times: 2,
        skips: 4,
        ..step(when("ip", &[(0, Point::Came)]), None)
    }];
    let (_, certificate) = run([delay("0"), delay("0")], &steps, out_each_ms(9), 64);
    let firings = certificate.firings.iter().map(|firing| firing.after_ns);
    assert_eq!(firings.collect::<Vec<_>>(), [4 * MS, 5 * MS]);
}

#[test]
fn a_frame_that_is_dropped_fires_before_the_next_one_comes() {
    let lossy = Settings {
        loss: words::loss("frames 4").expect("a loss"),
        ..Settings::default()
    };
    let steps = [Step {
        actions: vec![Action::Mark("a loss".to_owned())],
        ..step(
            when("ip", &[(0, Point::DroppedLoss)]),
            patches(Setting::Link, [Some(down()), None]),
        )
    }];
    let (left, certificate) = run([lossy, Settings::default()], &steps, out_each_ms(9), 64);
    assert_eq!(left.len(), 3, "the fifth one finds the link down");
    assert_eq!(certificate.firings[0].after_ns, 3 * MS);
}

#[test]
fn a_step_ends_the_run_before_its_frame() {
    for (end, entered) in [
        (When::At(5 * MS), 5),
        (when("greater 147", &[(0, Point::Came)]), 5),
        // The frame that leaves had entered.
        (when("greater 147", &[(1, Point::Left)]), 6),
    ] {
        let steps = [Step {
            actions: vec![Action::End],
            ..step(end, None)
        }];
        for burst_len in [1, 3, 64] {
            let (left, certificate) = run(
                [delay("500us"), delay("0")],
                &steps,
                out_each_ms(9),
                burst_len,
            );
            let report = &certificate.directions["outbound"];
            assert_eq!(report.counters.entered, entered);
            assert_eq!(left.len() as u64, entered, "those under way leave");
        }
    }
}

#[test]
fn what_a_step_holds_no_other_changes() {
    let hold = |after_ms: i64, for_ms: i64| Step {
        words: format!("at {after_ms}ms for {for_ms}ms"),
        for_ns: Some(for_ms * MS),
        ..step(
            When::At(after_ms * MS),
            patches(Setting::Link, [Some(down()), None]),
        )
    };
    let path = || {
        let settings = [Settings::default(), Settings::default()];
        Path::new(settings, 7, MEMORY / 2, &Budget::new(MEMORY)).expect("memory")
    };
    for (one, other, is_refused) in [
        (hold(1, 2), hold(3, 2), false),
        (hold(1, 3), hold(3, 2), true),
        (hold(3, 2), hold(1, 3), true),
        (
            hold(3, 2),
            Step {
                for_ns: None,
                ..hold(4, 1)
            },
            true,
        ),
        (
            Step {
                for_ns: None,
                ..hold(1, 1)
            },
            hold(4, 1),
            false,
        ),
    ] {
        let mut path = path();
        path.arm(one, 0).expect("the first one");
        let armed = path.arm(other, 0);
        assert_eq!(matches!(armed, Err(StepError::Held { .. })), is_refused);
    }
    // By frames nobody knows before.
    let frames = Step {
        times: 2,
        ..step(
            when("ip", &[(0, Point::Came)]),
            patches(Setting::Link, [Some(Settings::default()), None]),
        )
    };
    let steps = [hold(2, 3), frames];
    let (left, certificate) = run(Default::default(), &steps, out_each_ms(9), 64);
    // Down from 2 to 5 ms: the two firings by frames had been before.
    assert_eq!(left.len(), 6);
    assert_eq!(certificate.steps[1].refused, 0);
    let mut late = steps[1].clone();
    late.times = u64::MAX;
    let (_, certificate) = run(
        Default::default(),
        &[steps[0].clone(), late],
        out_each_ms(9),
        64,
    );
    assert_eq!(
        (certificate.steps[1].fired, certificate.steps[1].refused),
        (6, 3)
    );
    let refused = certificate.firings.iter();
    let mut refused = refused.filter(|firing| firing.event == FiringEvent::Refused);
    assert!(refused.next().expect("one").why.is_some());
}

#[test]
fn a_step_that_fires_without_end_is_ended() {
    for when in [When::Every(1), when("ip", &[(0, Point::Came)])] {
        let steps = [Step {
            actions: vec![Action::Mark("again".to_owned())],
            ..step(when, None)
        }];
        let frames = (0..12_000).map(|number: i64| {
            let ordinal = number.unsigned_abs() + 1;
            frame(Direction::Outbound, number * MS, 100, ordinal)
        });
        let (left, certificate) = run(Default::default(), &steps, frames.collect(), 64);
        assert_eq!(left.len(), 12_000);
        let fired = certificate.steps[0].fired;
        assert!((9_900..10_000).contains(&fired), "{fired}");
        assert_eq!(certificate.steps[0].refused, 1, "and no more");
        assert_eq!(certificate.firings.len() as u64, fired);
        assert_eq!(certificate.firings_unlisted, 1);
    }
}

#[test]
fn expressions_that_come_later_change_nothing_by_themselves() {
    let jitter = || [delay("1ms 500us"), delay("2ms")];
    let loss = Settings {
        loss: words::loss("100%").expect("a loss"),
        ..Settings::default()
    };
    // Frames of more than 200 bytes are lost from 50 ms on for 20 ms, once there is a class for
    // them.
    let pass = |classifies: bool| {
        let path = Path::new(jitter(), 7, MEMORY / 2, &Budget::new(MEMORY)).expect("memory");
        let inside: Inside = "10.0.0.0/16".parse().expect("a network");
        let mut emulation = Virtual::new(path, DirectionFinder::new(Some(inside)));
        let held = Step {
            for_ns: Some(60 * MS),
            ..step(
                When::At(10 * MS),
                patches(Setting::Duplicate, [Some(loss.clone()), None]),
            )
        };
        emulation.path_mut().arm(held, 0).expect("it is armed");
        let (mut left, mut burst) = (Burst::new(), Burst::new());
        for (number, frame) in out_each_ms(200).into_iter().enumerate() {
            if number == 30 && classifies {
                for expression in ["greater 200", "less 150"] {
                    let filter = Filter::parse(expression).expect("an expression");
                    let path = emulation.path_mut();
                    path.add_expression(Direction::Outbound, filter)
                        .expect("memory");
                }
                let of = |bit: usize| (0..4).map(move |class| class >> bit & 1 == 1);
                let classes = of(0).map(|is_large| {
                    let setting = is_large.then_some(Setting::Loss);
                    Patch::new(setting, loss.clone())
                });
                let lossy = Step {
                    for_ns: Some(20 * MS),
                    ..step(
                        When::At(100 * MS),
                        Some(vec![Some(classes.collect()), None]),
                    )
                };
                let now = BEGAN + 30 * MS - MS / 2;
                emulation.path_mut().arm(lossy, now).expect("it is armed");
            }
            burst.push(frame);
            emulation.on_burst(&mut burst, &mut left);
        }
        while emulation.drain(&mut left) {}
        let left = left.iter().map(|frame| {
            let descriptor = frame.descriptor();
            (descriptor.stamp_ns, descriptor.ordinal)
        });
        (left.collect::<Vec<_>>(), emulation.certificate())
    };
    let (plain, _) = pass(false);
    let (classified, certificate) = pass(true);
    // The step holds from 100 to 120 ms. What is lost draws no delay, so later ones have others.
    let ordinals = |left: &[(Option<i64>, u64)]| {
        let mut ordinals: Vec<_> = left.iter().map(|(_, ordinal)| *ordinal).collect();
        ordinals.sort_unstable();
        ordinals
    };
    let expected = (1..=200).filter(|ordinal| !(101..=120).contains(ordinal));
    assert!(expected.eq(ordinals(&classified)));
    let early = |left: &[(Option<i64>, u64)]| -> Vec<_> {
        let early = left.iter().filter(|(_, ordinal)| *ordinal <= 100);
        early.copied().collect()
    };
    assert_eq!(early(&plain), early(&classified));
    assert_eq!(plain.len(), classified.len() + 20);
    let outbound = &certificate.directions["outbound"];
    let matches: Vec<_> = { outbound.matches.iter() }
        .map(|matching| (matching.expressions.as_str(), matching.entered))
        .collect();
    // 200 bytes are frame 59's; from the thirty-first frame on the classes count.
    assert_eq!(matches, [("greater 200", 142)]);
    assert_eq!(certificate.firings.len(), 4, "{:?}", certificate.firings);
}

#[test]
fn a_path_that_waits_counts_from_its_start() {
    let budget = Budget::new(MEMORY);
    let settings = [Settings::default(), Settings::default()];
    let mut path = Path::new(settings, 7, MEMORY / 2, &budget).expect("memory");
    let step = step(
        When::At(2 * MS),
        patches(Setting::Link, [Some(down()), None]),
    );
    path.arm(step.clone(), 0).expect("it is armed");
    path.wait_until(Some(BEGAN + 10 * MS));
    path.begin(BEGAN);
    let mut out = lineside_path::Departures::default();
    for (after_ms, is_down) in [(3, false), (11, false), (12, true)] {
        let now = BEGAN + after_ms * MS;
        path.on_timer(now, &mut out);
        let state = path.link(Direction::Outbound).settings().state;
        assert_eq!(state == DOWN, is_down, "{after_ms}");
    }
    assert_eq!(path.firings().0[0].after_ns, 2 * MS);
    let error = path.arm(step, BEGAN + 13 * MS).expect_err("it has passed");
    assert!(matches!(error, StepError::Past { .. }));
}
