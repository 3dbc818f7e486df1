//! The settings of an emulated link, as flags and keys.

use std::collections::BTreeMap;

use lineside_link::{Chance, Order, PathFile, PathStep, Schedule, Setting, Settings, words};
use lineside_path::EXPRESSIONS_MAX;
use serde::{Deserialize, Serialize};

use super::files::Files;
use super::ways::Ways;
use super::words::{NONE, Words, find, kept, refused, trace_name};
use crate::config::{ConfigError, key, keys};

keys! {
    /// Words of a link's settings: for both directions, or for one if they begin with `out:` or
    /// `in:`; with `match EXPR:` after that, for the frames that match.
    #[derive(Serialize, Deserialize)]
    #[serde(default)]
    pub(crate) struct LinkWords {
        delay: Vec<String> = key("Delay each way: 40ms adds 80 ms to a round trip; '100us 10us 25% \
        distribution normal order reorder'; one way alone: 'out: 40ms', 'in: 40ms'")
            .long("delay").value("WORDS").hyphens().or_one()
            .example("10ms");
        rate: Vec<String> = key("Limit the rate: '1gbit', '10mbit burst 15k overhead ethernet drop', \
        'trace FILE' (mahimahi's)")
            .long("rate").value("WORDS").hyphens().or_one()
            .example("100mbit");
        loss: Vec<String> = key("Drop frames: '0.1%', 'gemodel 1% 10%', 'burst 50ms every \
        10s', 'every 100', 'frames 3,17', 'segment 3 times 2'")
            .long("loss").value("WORDS").hyphens().or_one()
            .example("1%");
        duplicate: Vec<String> = key("Duplicate frames: '1%'")
            .long("duplicate").value("WORDS").hyphens().or_one()
            .example("1%");
        corrupt: Vec<String> = key("Flip a bit of frames: '0.1%'")
            .long("corrupt").value("WORDS").hyphens().or_one()
            .example("0.1%");
        reorder: Vec<String> = key("Let frames skip the delay, and overtake others: '25% 50%'")
            .long("reorder").value("WORDS").hyphens().or_one()
            .example("25%");
        path: Vec<String> = key("Read delay, loss and rate over time from a path file, in place \
        of those flags")
            .long("path").value("FILE").or_one();
        limit: Vec<String> = key("Queue limit: frames ('1000') or bytes ('64kb'); by default it \
        follows from rate and delay")
            .long("limit").value("WORDS").hyphens().or_one()
            .example("64kb");
        link: Vec<String> = key("State of the link: 'up', 'down', 'down carrier', 'flap 10s 1s'")
            .long("link").value("WORDS").or_one()
            .example("up");
    }
}

impl LinkWords {
    /// Whether no setting was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Fails if two settings apply to the same frames: same direction, or both, and same
    /// expression.
    pub(super) fn refuse_doubles(&self, ways: &Ways) -> Result<(), ConfigError> {
        for setting in Setting::ALL {
            let (flag, mut known) = (setting.name(), BTreeMap::new());
            for text in self.of(setting).iter().flatten() {
                let words = Words::read(ways, text)?;
                let of = (words.way, words.expression);
                if let Some(earlier) = known.insert(of, text) {
                    return Err(ConfigError::usage(&format!(
                        "{flag}: '{earlier}' and '{text}' apply to the same frames: leave out one \
                        of them"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The words of a setting.
    fn of(&self, setting: Setting) -> &Option<Vec<String>> {
        match setting {
            Setting::Delay => &self.delay,
            Setting::Rate => &self.rate,
            Setting::Loss => &self.loss,
            Setting::Duplicate => &self.duplicate,
            Setting::Corrupt => &self.corrupt,
            Setting::Reorder => &self.reorder,
            Setting::Path => &self.path,
            Setting::Limit => &self.limit,
            Setting::Link => &self.link,
        }
    }

    /// The same, to add others.
    pub(super) fn of_mut(&mut self, setting: Setting) -> &mut Option<Vec<String>> {
        match setting {
            Setting::Delay => &mut self.delay,
            Setting::Rate => &mut self.rate,
            Setting::Loss => &mut self.loss,
            Setting::Duplicate => &mut self.duplicate,
            Setting::Corrupt => &mut self.corrupt,
            Setting::Reorder => &mut self.reorder,
            Setting::Path => &mut self.path,
            Setting::Limit => &mut self.limit,
            Setting::Link => &mut self.link,
        }
    }

    /// Whether the words in force for these frames, which `given` has changed, are those of
    /// `given`.
    pub(super) fn is_given(
        &self,
        ways: &Ways,
        setting: Setting,
        given: &Self,
        way: usize,
        matched: &[&str],
    ) -> Result<bool, ConfigError> {
        let own = find(ways, self.of(setting).as_deref(), way, matched)?;
        let given = find(ways, given.of(setting).as_deref(), way, matched)?;
        Ok(match (own, given) {
            (Some(own), Some(given)) => own == given,
            (None, Some(given)) => given.trim() == NONE,
            (_, None) => false,
        })
    }

    /// The expressions by which frames of a way are classified, in their order on the command line,
    /// those of `later` words last.
    pub(super) fn expressions(
        &self,
        ways: &Ways,
        way: usize,
        later: &[&Self],
    ) -> Result<Vec<String>, ConfigError> {
        const CLASSIFYING: [Setting; 5] = [
            Setting::Delay,
            Setting::Loss,
            Setting::Duplicate,
            Setting::Corrupt,
            Setting::Reorder,
        ];
        let mut expressions: Vec<String> = Vec::new();
        let all = [self].into_iter().chain(later.iter().copied());
        for (words, setting) in all
            .clone()
            .flat_map(|words| CLASSIFYING.map(|each| (words, each)))
        {
            for words in words.of(setting).iter().flatten() {
                let words = Words::read(ways, words)?;
                let is_here =
                    { words.way }.map_or_else(|| ways.is_general(way), |given| given == way);
                if let Some(expression) = words.expression.filter(|_| is_here)
                    && !expressions.iter().any(|known| known == expression)
                {
                    expressions.push(expression.to_owned());
                }
            }
        }
        let others = Setting::ALL.into_iter();
        let others = others.filter(|setting| !CLASSIFYING.contains(setting));
        for (words, setting) in all.flat_map(|words| others.clone().map(move |each| (words, each)))
        {
            for words in words.of(setting).iter().flatten() {
                if Words::read(ways, words)?.expression.is_some() {
                    return Err(ConfigError::usage(&format!(
                        "'{words}': match works with delay, loss, duplicate, corrupt and reorder; \
                        the other settings apply to all frames of the link"
                    )));
                }
            }
        }
        if expressions.len() > EXPRESSIONS_MAX {
            return Err(ConfigError::usage(&format!(
                "match: more than {EXPRESSIONS_MAX} different expressions for one direction"
            )));
        }
        Ok(expressions)
    }

    /// These words, with those of `given` in place of those for the same frames: one direction and
    /// expression, or both directions. Of rate, limit and path, `none` removes the setting.
    pub(super) fn changed(&self, ways: &Ways, given: &Self) -> Result<Self, ConfigError> {
        let changed = |known: &Option<Vec<String>>, given: &Option<Vec<String>>, can_go| {
            let mut changed = known.clone().unwrap_or_default();
            let read = given.iter().flatten();
            let read: Result<Vec<_>, _> = read
                .map(|text| Ok((text, Words::read(ways, text)?)))
                .collect();
            let mut read = read?;
            // Words for both directions replace known ones, but not words that are given together
            // with them.
            read.sort_by_key(|(_, new)| new.way.is_some());
            for (text, new) in read {
                changed = kept(ways, &changed, &new)?;
                if !(can_go && new.words.trim() == NONE) {
                    changed.push(text.clone());
                }
            }
            Ok::<_, ConfigError>(Some(changed).filter(|words| !words.is_empty()))
        };
        Ok(Self {
            delay: changed(&self.delay, &given.delay, false)?,
            rate: changed(&self.rate, &given.rate, true)?,
            loss: changed(&self.loss, &given.loss, false)?,
            duplicate: changed(&self.duplicate, &given.duplicate, false)?,
            corrupt: changed(&self.corrupt, &given.corrupt, false)?,
            reorder: changed(&self.reorder, &given.reorder, false)?,
            path: changed(&self.path, &given.path, true)?,
            limit: changed(&self.limit, &given.limit, true)?,
            link: changed(&self.link, &given.link, false)?,
        })
    }

    /// The settings of a way for frames that match these expressions and no others.
    pub(super) fn settings(
        &self,
        ways: &Ways,
        way: usize,
        matched: &[&str],
        files: &mut Files,
    ) -> Result<Settings, ConfigError> {
        let mut settings = Settings::default();
        if let Some(words) = find(ways, self.delay.as_deref(), way, matched)? {
            settings.delay = refused(words::delay(words, &mut |name| files.table(name)))?;
        }
        if let Some(words) = find(ways, self.rate.as_deref(), way, matched)? {
            match trace_name(words) {
                Some(name) => {
                    settings.schedule = Some(Schedule::Deliveries(files.deliveries(name)?));
                }
                None => settings.rate = Some(refused(words::rate(words))?),
            }
        }
        if let Some(words) = find(ways, self.loss.as_deref(), way, matched)? {
            settings.loss = refused(words::loss(words))?;
        }
        if let Some(words) = find(ways, self.limit.as_deref(), way, matched)? {
            settings.limit = refused(words::limit(words))?;
        }
        if let Some(words) = find(ways, self.link.as_deref(), way, matched)? {
            settings.state = refused(words::state(words))?;
        }
        if let Some(name) = find(ways, self.path.as_deref(), way, matched)? {
            let path = files.path(name.trim())?;
            self.refuse_twice(name, &path, settings.schedule.is_some())?;
            settings.schedule = Some(Schedule::Path(path));
        }
        let chance = |setting, words: &Option<Vec<String>>| match find(
            ways,
            words.as_deref(),
            way,
            matched,
        )? {
            Some(words) => refused(words::chance(setting, words)),
            None => Ok(Chance::default()),
        };
        settings.duplicate = chance("duplicate", &self.duplicate)?;
        settings.corrupt = chance("corrupt", &self.corrupt)?;
        settings.reorder = chance("reorder", &self.reorder)?;
        if settings.reorder.share > 0.0 {
            if settings.delay == lineside_link::Delay::default() && self.path.is_none() {
                return Err(ConfigError::usage(
                    "reorder: frames can overtake others only where there is a delay: add --delay",
                ));
            }
            settings.delay.order = Order::Reorder;
        }
        Ok(settings)
    }

    /// Fails if a path file sets the same as another flag.
    fn refuse_twice(
        &self,
        name: &str,
        path: &PathFile,
        has_schedule: bool,
    ) -> Result<(), ConfigError> {
        let first = path.steps().first();
        let gives = |column: &dyn Fn(&PathStep) -> bool| first.is_some_and(column);
        for (flag, is_twice) in [
            (
                "--rate",
                self.rate.is_some() && path.has_rate() || has_schedule,
            ),
            (
                "--delay",
                self.delay.is_some() && gives(&|step| step.delay_ns.is_some()),
            ),
            (
                "--loss",
                self.loss.is_some() && gives(&|step| step.loss.is_some()),
            ),
        ] {
            if is_twice {
                return Err(ConfigError::usage(&format!(
                    "path: '{name}' sets the same as {flag}: leave out one of them"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lineside_path::Direction;

    use super::*;
    use crate::link::spec::LinkSpec;

    #[test]
    fn words_are_for_both_directions_or_for_one() {
        let words = |given: &[&str], direction, matched: &[&str]| {
            let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
            let way = direction as usize;
            let found = find(&Ways::default(), Some(&given), way, matched);
            let found = found.expect("valid words");
            found.map(str::to_owned)
        };
        use Direction::{Inbound, Outbound};
        for (given, outbound, inbound) in [
            (&[][..], None, None),
            (&["1ms"], Some("1ms"), Some("1ms")),
            (&["in:5ms", "1ms"], Some("1ms"), Some("5ms")),
            (&["out: 5ms"], Some("5ms"), None),
            (&["match udp: 5ms", "1ms"], Some("1ms"), Some("1ms")),
        ] {
            assert_eq!(words(given, Outbound, &[]).as_deref(), outbound);
            assert_eq!(words(given, Inbound, &[]).as_deref(), inbound);
        }
        let given = [
            "1ms",
            "in: match udp: 5ms",
            "match host fe80:: or net ::/0: 7ms",
            "in: 2ms",
        ];
        for (direction, matched, found) in [
            (Outbound, &["udp"][..], "1ms"),
            (Inbound, &["udp"], "5ms"),
            (Inbound, &["tcp"], "2ms"),
            (Inbound, &["host fe80:: or net ::/0", "udp"], "7ms"),
            (Outbound, &["udp", "host fe80:: or net ::/0"], "7ms"),
        ] {
            assert_eq!(words(&given, direction, matched).as_deref(), Some(found));
        }
        for wrong in ["match udp:5ms", "match : 5ms", "in: match  : 5ms"] {
            assert!(Words::read(&Ways::default(), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_given_twice_for_the_same_frames_are_refused() {
        let refused = |delay: &[&str]| {
            let delay = delay.iter().map(|&words| words.to_owned()).collect();
            let words = LinkWords {
                delay: Some(delay),
                ..LinkWords::default()
            };
            let error = LinkSpec::read(&words, Ways::default(), &[]).err()?;
            Some(error.to_string())
        };
        for valid in [
            &["1ms", "in: 2ms"][..],
            &["in: 1ms", "out: 2ms"],
            &["1ms", "match udp: 2ms", "in: match udp: 3ms"],
        ] {
            assert_eq!(refused(valid), None);
        }
        for wrong in [
            ["1ms", "2ms"],
            ["in: 1ms", "in:2ms"],
            ["match udp: 1ms", "match udp : 2ms"],
        ] {
            let why = refused(&wrong).expect("it is refused");
            assert!(wrong.iter().all(|words| why.contains(words)), "{why}");
        }
    }

    #[test]
    fn a_change_replaces_only_the_settings_it_names() {
        let ways = Ways::default();
        let words = |delay: &[&str], rate: &[&str]| {
            let list = |words: &[&str]| {
                let words: Vec<_> = words.iter().map(|&words| words.to_owned()).collect();
                Some(words).filter(|words| !words.is_empty())
            };
            LinkWords {
                delay: list(delay),
                rate: list(rate),
                loss: list(&["1%"]),
                ..LinkWords::default()
            }
        };
        for (known, given, after) in [
            (&["10ms"][..], &["40ms"][..], &["40ms"][..]),
            (&["10ms", "in: 5ms"], &["40ms"], &["40ms"]),
            (&["10ms"], &["in: 5ms"], &["out: 10ms", "in: 5ms"]),
            (&["10ms"], &["in: 5ms", "40ms"], &["out: 40ms", "in: 5ms"]),
            (
                &["in: 5ms", "10ms"],
                &["out: 2ms"],
                &["in: 5ms", "out: 2ms"],
            ),
            (
                &["out: 1ms", "in: 5ms"],
                &["out:2ms"],
                &["in: 5ms", "out:2ms"],
            ),
            (
                &["match udp: 1ms", "10ms"],
                &["40ms", "in: match udp: 2ms"],
                &["out: match udp: 1ms", "40ms", "in: match udp: 2ms"],
            ),
        ] {
            let given = words(given, &["in: none"]);
            let changed = words(known, &["1mbit"]).changed(&ways, &given);
            let expected = words(after, &["out: 1mbit"]);
            assert_eq!(changed.expect("valid words"), expected);
        }
        let changed = words(&["1ms"], &["1mbit"]).changed(&ways, &words(&[], &["none"]));
        assert_eq!(changed.expect("valid words"), words(&["1ms"], &[]));
    }
    #[test]
    fn words_name_ports_where_there_are_some() {
        let ports = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            Ways::between(Some(&names))
        };
        let three = ports(&["a", "b", "c"]).expect("three ports");
        let delay = |ways: &Ways, given: &[&str], way| {
            let given: Vec<_> = given.iter().map(|&words| words.to_owned()).collect();
            let found = find(ways, Some(&given), way, &[]).map_err(|error| error.to_string());
            found.map(|found| found.map(str::to_owned))
        };
        let given = ["1ms", "b in: 5ms", "c out : 2ms"];
        let found = [0, 1, 2, 3, 4, 5].map(|way| delay(&three, &given, way).expect("valid"));
        let once = |words: &str| Some(words.to_owned());
        assert_eq!(
            found,
            [
                once("1ms"),
                once("5ms"),
                once("1ms"),
                None,
                None,
                once("2ms")
            ],
            "words without a port are met once"
        );
        let two = ports(&["a", "b"]).expect("two ports");
        for (words, way) in [
            ("a in: 1ms", 0),
            ("b out:1ms", 0),
            ("b in: 1ms", 1),
            ("a out: 1ms", 1),
        ] {
            assert_eq!(delay(&two, &[words], way), Ok(once("1ms")), "{words}");
            assert_eq!(delay(&two, &[words], 1 - way), Ok(None), "{words}");
        }
        for (ways, words, why) in [
            (&three, "in: 1ms", "'a in: WORDS'"),
            (&three, "d in: 1ms", "the ports are a, b, c"),
            (&Ways::default(), "a in: 1ms", "write 'out:' or 'in:'"),
        ] {
            let error = delay(ways, &[words], 0).expect_err(words);
            assert!(error.contains(why), "{error}");
        }
        for (names, why) in [
            (&["a"][..], "names two interfaces"),
            (&["a", "a"], "two different ends"),
            (&["a", "b", "a"], "'a' is there twice"),
            (&["1", "2", "3", "4", "5", "6", "7", "8", "9"], "at most 8"),
        ] {
            let error = ports(names).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        let known = |words: &[&str]| LinkWords {
            delay: Some(words.iter().map(|&words| words.to_owned()).collect()),
            ..LinkWords::default()
        };
        for (before, given, after) in [
            (
                &["1ms"][..],
                "a in: 2ms",
                &["b in: 1ms", "c in: 1ms", "a in: 2ms"][..],
            ),
            (&["1ms"], "a out: 2ms", &["1ms", "a out: 2ms"]),
            (&["a out: 1ms", "b in: 3ms"], "2ms", &["a out: 1ms", "2ms"]),
        ] {
            let changed = known(before).changed(&three, &known(&[given]));
            assert_eq!(changed.expect("valid words"), known(after), "{given}");
        }
    }
}
