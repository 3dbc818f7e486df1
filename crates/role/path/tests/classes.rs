//! Frames by more expressions than have a class for each set: whatever they match, their settings
//! are those of the rule.

use lineside_account::Budget;
use lineside_filter::Filter;
use lineside_frame::{Burst, Descriptor, Frame, LinkType};
use lineside_link::{Patch, Setting, Settings, words};
use lineside_path::{Departures, Direction, EXPRESSIONS_MAX, Path};
use lineside_time::Random;
use lineside_wire::build::FrameBuilder;

const MS: i64 = 1_000_000;
const MEMORY: usize = 256 << 20;

/// An expression, and what it gives: a delay in milliseconds, and whether all frames are lost.
struct Given {
    ports: std::ops::RangeInclusive<u16>,
    delay_ms: Option<i64>,
    is_lost: Option<bool>,
}

impl Given {
    fn filter(&self) -> Filter {
        let (low, high) = (self.ports.start(), self.ports.end());
        Filter::parse(&format!("udp dst portrange {low}-{high}")).expect("an expression")
    }

    fn patch(&self) -> Patch {
        let mut settings = Settings::default();
        let mut given = Vec::new();
        if let Some(delay_ms) = self.delay_ms {
            let delay = words::delay(&format!("{delay_ms}ms"), &mut words::no_files);
            settings.delay = delay.expect("a delay");
            given.push(Setting::Delay);
        }
        if let Some(is_lost) = self.is_lost {
            let loss = words::loss(if is_lost { "100%" } else { "none" });
            settings.loss = loss.expect("a loss");
            given.push(Setting::Loss);
        }
        Patch::new(given, settings)
    }
}

/// What frames to a port meet: of each setting, the first expression that they match and that has
/// it decides, or else the general one.
fn rule(general: &Given, expressions: &[Given], port: u16) -> (i64, bool) {
    let matched = || {
        let matched = expressions.iter().filter(|each| each.ports.contains(&port));
        matched.chain([general])
    };
    let delay_ms = matched().find_map(|each| each.delay_ms);
    let is_lost = matched().find_map(|each| each.is_lost);
    (delay_ms.unwrap_or(0), is_lost.unwrap_or(false))
}

fn given(random: &mut Random, number: usize) -> Given {
    let low = random.below(64) as u16;
    let is_delay = random.below(10) < 7;
    Given {
        ports: low..=low + random.below(16) as u16,
        delay_ms: is_delay.then_some(number as i64 + 1),
        is_lost: (random.below(10) < 4).then_some(number.is_multiple_of(3)),
    }
}

fn frame(port: u16, stamp_ns: i64) -> Frame {
    let [one, other] = [1, 2].map(|host| [10, 0, 0, host].into());
    let bytes = FrameBuilder::new(one, other).udp(700, port, b"x");
    let descriptor = Descriptor {
        link_type: LinkType::ETHERNET,
        wire_len: bytes.len() as u32,
        stamp_ns: Some(stamp_ns),
        ..Descriptor::default()
    };
    Frame::copied(&bytes, descriptor)
}

/// The delay of a frame to each port that enters at `now`, and `None` if it is lost.
fn met(path: &mut Path, now: i64, ports: impl Iterator<Item = u16>) -> Vec<(i64, bool)> {
    let mut out = Departures::default();
    let met = ports.map(|port| {
        // Frames of equal delays keep their order: each has the link for itself.
        let at_ns = now + i64::from(port) * 1_000 * MS;
        let mut burst: Burst = vec![frame(port, at_ns)];
        path.on_burst(at_ns, Direction::Outbound, &mut burst, &mut out);
        path.on_timer(at_ns + 999 * MS, &mut out);
        let left = out[0].pop();
        left.map(|left| (left.at_ns - left.entered_ns) / MS)
    });
    met.map(|delay_ms| (delay_ms.unwrap_or(-1), delay_ms.is_none()))
        .collect()
}

fn classified(general: &Given, expressions: &[Given], budget: &Budget) -> Path {
    let settings = general.patch().applied(&Settings::default());
    let both = [settings, Settings::default()];
    let mut path = Path::new(both, 7, MEMORY / 2, budget).expect("memory");
    let filters = expressions.iter().map(Given::filter).collect();
    let patches = [general].into_iter().chain(expressions).map(Given::patch);
    path.classify(Direction::Outbound, filters, patches.collect())
        .expect("memory");
    path.begin(0);
    path
}

fn general(delay_ms: i64) -> Given {
    Given {
        ports: 0..=0,
        delay_ms: Some(delay_ms),
        is_lost: Some(false),
    }
}

#[test]
fn each_setting_is_of_the_first_of_24_expressions() {
    for (seed, count) in (0..20).zip([24, 6, EXPRESSIONS_MAX, 7].into_iter().cycle()) {
        let mut random = Random::new(seed);
        let expressions: Vec<_> = (0..count)
            .map(|number| given(&mut random, number))
            .collect();
        let general = general(100);
        let mut path = classified(&general, &expressions, &Budget::new(MEMORY));
        let expected = |port| match rule(&general, &expressions, port) {
            (_, true) => (-1, true),
            met => met,
        };
        let expected: Vec<_> = (0..80).map(expected).collect();
        assert_eq!(met(&mut path, 0, 0..80), expected, "seed {seed}");
        let certificate = path.certificate("live");
        let counters = certificate.directions["outbound"].counters;
        assert!(counters.is_whole(0) && counters.dropped.memory == 0);
        let entered: u64 = { certificate.directions["outbound"].matches.iter() }
            .map(|matched| matched.entered)
            .sum();
        let matching =
            (0..80).filter(|port| expressions.iter().any(|each| each.ports.contains(port)));
        assert_eq!(entered, matching.count() as u64, "seed {seed}");
    }
}

#[test]
fn a_class_that_comes_after_a_change_has_the_changed_settings() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let expressions: Vec<_> = (0..24).map(|number| given(&mut random, number)).collect();
        let first = general(100);
        let mut path = classified(&first, &expressions, &Budget::new(MEMORY));
        // Half of the sets have had a frame before.
        met(&mut path, 0, (0..80).step_by(2));
        let changed = 5;
        let mut patches = vec![Patch::default(); changed + 2];
        let new = Given {
            ports: expressions[changed].ports.clone(),
            delay_ms: Some(200),
            is_lost: None,
        };
        patches[changed + 1] = new.patch();
        let mut out = Departures::default();
        let now = 100_000 * MS;
        path.apply(now, &vec![Some(patches), None], &mut out)
            .expect("memory");
        let expected = |port: u16| match rule(&first, &expressions, port) {
            (_, true) => (-1, true),
            _ if new.ports.contains(&port) => (200, false),
            met => met,
        };
        let expected: Vec<_> = (0..80).map(expected).collect();
        assert_eq!(met(&mut path, now, 0..80), expected, "seed {seed}");
    }
}

#[test]
fn without_memory_for_classes_equal_settings_share_one() {
    let mut random = Random::new(3);
    let expressions: Vec<_> = (0..24)
        .map(|number| Given {
            delay_ms: Some(20),
            is_lost: None,
            ..given(&mut random, number)
        })
        .collect();
    // Some three classes have room.
    let budget = Budget::new(MEMORY / 2 + 3_000_000);
    let mut path = classified(&general(100), &expressions, &budget);
    let expected: Vec<_> = (0..80)
        .map(|port| rule(&general(100), &expressions, port))
        .collect();
    assert_eq!(met(&mut path, 0, 0..80), expected);
    let certificate = path.certificate("live");
    let report = &certificate.directions["outbound"];
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.contains("counted with those of other expressions"))
    );
    assert_eq!(report.counters.dropped.memory, 0);
}
