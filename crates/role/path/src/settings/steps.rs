//! Steps in words: `WHEN: ACTION; ACTION`, such as
//! `when tcp port 2049 at inside.came after 20 at most 3 times for 200ms: loss 5%; mark nfs`.

use lineside_filter::Filter;
use lineside_frame::LinkType;
use lineside_link::Setting;
use lineside_link::words::LinkWords;
use lineside_measure::monitor::{PlaceWords, Point};
use lineside_run::ConfigError;
use lineside_words::{nearest, parse_duration};

use super::spec::{LinkSpec, files};
use super::ways::side_name;
use crate::{Action, Step, When};

/// A step as it was read, before the ports and the settings of a run are known.
#[derive(Debug, Clone)]
pub struct StepWords {
    text: String,
    when: WhenWords,
    times: u64,
    /// Written as `times N`, the older form of `at most N times`.
    says_times: bool,
    skips: u64,
    hold_off_ns: i64,
    for_ns: Option<i64>,
    /// The settings that it changes.
    pub link: LinkWords,
    actions: Vec<ActionWords>,
}

#[derive(Debug, Clone)]
enum WhenWords {
    At(i64),
    Every(i64),
    Frame { filter: Filter, at: String },
}

#[derive(Debug, Clone)]
enum ActionWords {
    /// A monitor by its number from 1, or all.
    Monitor {
        number: Option<usize>,
        is_on: bool,
    },
    Mark(String),
    End,
}

/// How often a step fires.
const AT_MOST: &str = "at most";

/// As of the marks of `ctl`.
const MARK_BYTES_MAX: usize = 1_000;

/// What the words of steps are about.
pub struct StepContext {
    /// The ports, in the order of their sides.
    pub ports: Vec<String>,
    /// How many monitors there are.
    pub monitors: usize,
}

/// An error of a step, which is shown whole.
fn wrong(text: &str, why: &str) -> ConfigError {
    ConfigError::usage(&format!("step '{text}': {why}"))
}

impl StepWords {
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        let (when, actions) = split(text).ok_or_else(|| {
            wrong(
                text,
                "write WHEN: ACTION, such as 'at 5s for 2s: link down', with a blank after the \
                colon",
            )
        })?;
        let mut step = Self::of_when(text, when.trim())?;
        for action in actions.split(';').map(str::trim) {
            step.take_action(action)?;
        }
        step.check()?;
        Ok(step)
    }

    fn of_when(text: &str, when: &str) -> Result<Self, ConfigError> {
        let words: Vec<&str> = when.split_whitespace().collect();
        let (when, rest) = match words[..] {
            ["at", time, ref rest @ ..] => (WhenWords::At(time_ns(text, "at", time)?), rest),
            ["every", time, ref rest @ ..] => {
                (WhenWords::Every(time_ns(text, "every", time)?), rest)
            }
            ["when", ref rest @ ..] => {
                let mut pairs = rest.windows(2);
                let place = pairs.rposition(|pair| pair[0] == "at" && pair[1] != "most");
                let (expression, after) = place.map_or((rest, &[][..]), |at| rest.split_at(at));
                let ["at", at, rest @ ..] = after else {
                    return Err(wrong(
                        text,
                        "after the expression comes 'at PORT.POINT', such as 'at inside.came'",
                    ));
                };
                let filter = Filter::parse(&expression.join(" "));
                let filter = filter.map_err(|error| wrong(text, &error.to_string()))?;
                let at = (*at).to_owned();
                (WhenWords::Frame { filter, at }, rest)
            }
            _ => {
                return Err(wrong(
                    text,
                    "it begins with 'at TIME', 'every TIME' or 'when EXPR at PORT.POINT'",
                ));
            }
        };
        let mut step = Self {
            text: text.to_owned(),
            times: match when {
                WhenWords::Every(_) => u64::MAX,
                _ => 1,
            },
            when,
            says_times: false,
            skips: 0,
            hold_off_ns: 0,
            for_ns: None,
            link: LinkWords::default(),
            actions: Vec::new(),
        };
        step.take_options(rest)?;
        Ok(step)
    }

    /// `at most N times`, `after N`, `after TIME`, `for TIME`, each once.
    fn take_options(&mut self, words: &[&str]) -> Result<(), ConfigError> {
        let mut seen = Vec::new();
        let mut left = words;
        while !left.is_empty() {
            let (option, rest) = self.take_option(left)?;
            if seen.contains(&option) {
                return Err(wrong(&self.text, &format!("'{option}' is there twice")));
            }
            seen.push(option);
            left = rest;
        }
        let has = |word| seen.contains(&word);
        match self.when {
            WhenWords::At(_) if has(AT_MOST) || has("after") || has("after TIME") => Err(wrong(
                &self.text,
                "'at' fires once: leave out 'at most' and 'after', or write 'every TIME'",
            )),
            WhenWords::Every(_) if has("after") || has("after TIME") => Err(wrong(
                &self.text,
                "'every' says when already: leave out after",
            )),
            _ => Ok(()),
        }
    }

    /// The option that the words begin with, and those after it.
    fn take_option<'a>(
        &mut self,
        words: &'a [&'a str],
    ) -> Result<(&'static str, &'a [&'a str]), ConfigError> {
        let text = self.text.clone();
        let count = |word: &str, given: &str| {
            let number = given.parse().ok().filter(|number| *number > 0);
            let why = || {
                wrong(
                    &text,
                    &format!("{word}: '{given}' is not a number from 1 on"),
                )
            };
            number.ok_or_else(why)
        };
        Ok(match words {
            ["at", "most", number, "times" | "time", rest @ ..]
            | ["at", "most", number, rest @ ..] => {
                self.times = count(AT_MOST, number)?;
                (AT_MOST, rest)
            }
            ["times", number, rest @ ..] => {
                self.times = count("times", number)?;
                self.says_times = true;
                (AT_MOST, rest)
            }
            ["after", number, rest @ ..] if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let first: u64 = count("after", number)?;
                self.skips = first - 1;
                ("after", rest)
            }
            ["after", time, rest @ ..] => {
                self.hold_off_ns = time_ns(&text, "after", time)?;
                ("after TIME", rest)
            }
            ["for", time, rest @ ..] => {
                self.for_ns = Some(time_ns(&text, "for", time)?);
                ("for", rest)
            }
            [word @ ("times" | "after" | "for")] => {
                return Err(wrong(&text, &format!("'{word}' needs a value")));
            }
            ["at", "most"] => return Err(wrong(&text, "'at most' needs a value")),
            [word, ..] => {
                return Err(wrong(
                    &text,
                    &format!(
                        "'{word}' is unknown here: before the colon may come 'at most N times', \
                        'after N' (from the Nth frame on), 'after TIME' (not again before that) \
                        and 'for TIME' (then undo it)"
                    ),
                ));
            }
            [] => (AT_MOST, words),
        })
    }

    /// What a step in words of old means.
    pub fn note(&self) -> Option<String> {
        let times = self.times;
        self.says_times.then(|| {
            format!(
                "step '{}': 'times {times}' means 'at most {times} times'; 'after {times}' would \
                wait for frame {times}",
                self.text
            )
        })
    }

    fn take_action(&mut self, action: &str) -> Result<(), ConfigError> {
        let error = |why: &str| Err(wrong(&self.text, why));
        let (word, rest) = action
            .split_once(char::is_whitespace)
            .unwrap_or((action, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("", _) => return error("an action is missing"),
            ("end", "") => self.actions.push(ActionWords::End),
            ("mark", "") => return error("mark: the text is missing"),
            ("mark", text) if text.len() > MARK_BYTES_MAX => {
                return error(&format!(
                    "mark: the text is longer than {MARK_BYTES_MAX} bytes"
                ));
            }
            ("mark", text) => self.actions.push(ActionWords::Mark(text.to_owned())),
            ("start" | "stop", of) => {
                let number = match of.split_once(char::is_whitespace) {
                    None if of == "monitors" => None,
                    Some(("monitor", number)) => {
                        let number = number.trim().parse().ok().filter(|number| *number > 0);
                        let Some(number) = number else {
                            return error("monitors are numbered from 1, as they were asked for");
                        };
                        Some(number)
                    }
                    _ => return error("write 'start monitor N', or 'start monitors' for all"),
                };
                let is_on = word == "start";
                self.actions.push(ActionWords::Monitor { number, is_on });
            }
            (setting, words) => {
                let known = Setting::ALL.into_iter();
                let Some(known) = known.clone().find(|known| known.name() == setting) else {
                    let known = known.map(Setting::name);
                    let known = known.chain(["mark", "end", "start", "stop"]);
                    let nearest = nearest(setting, known);
                    return error(&format!(
                        "unknown action '{setting}'; the nearest known one is {nearest}"
                    ));
                };
                if words.is_empty() {
                    return error(&format!("'{setting}' needs a value"));
                }
                self.link.add(known, words.to_owned());
            }
        }
        Ok(())
    }

    /// Fails if it would fire while it holds, or holds nothing.
    fn check(&self) -> Result<(), ConfigError> {
        let Some(for_ns) = self.for_ns else {
            return Ok(());
        };
        if matches!(self.when, WhenWords::Every(every_ns) if every_ns < for_ns) {
            return Err(wrong(
                &self.text,
                "it would fire again before its time is over: let 'for' be at most 'every'",
            ));
        }
        let is_lasting = |action: &ActionWords| matches!(action, ActionWords::Monitor { .. });
        if self.link == LinkWords::default() && !self.actions.iter().any(is_lasting) {
            return Err(wrong(
                &self.text,
                "nothing that it does can be undone: leave out for",
            ));
        }
        Ok(())
    }

    /// Whether it has a monitor measure, by its number from 0.
    pub fn starts(&self, monitor: usize) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| match action {
            ActionWords::Monitor { number, is_on } => {
                *is_on && number.is_none_or(|number| number == monitor + 1)
            }
            _ => false,
        })
    }

    /// The step in a run with this link, which knows its expressions.
    pub fn step(
        &self,
        spec: &LinkSpec,
        files: std::collections::BTreeMap<String, String>,
        context: &StepContext,
    ) -> Result<Step, ConfigError> {
        let when = match &self.when {
            WhenWords::At(after_ns) => When::At(*after_ns),
            WhenWords::Every(every_ns) => When::Every(*every_ns),
            WhenWords::Frame { filter, at } => self.when_frame(filter, at, context)?,
        };
        let has_link = self.link != LinkWords::default();
        let patches = has_link.then(|| Ok(spec.changed(&self.link, files)?.patches()));
        let patches = patches.transpose();
        let actions = self
            .actions
            .iter()
            .map(|action| self.action(action, context));
        let actions: Result<Vec<_>, ConfigError> = actions.collect();
        Ok(Step {
            words: self.text.clone(),
            when,
            times: self.times,
            skips: self.skips,
            hold_off_ns: self.hold_off_ns,
            for_ns: self.for_ns,
            patches: patches.map_err(|error: ConfigError| wrong(&self.text, &error.to_string()))?,
            actions: actions?.into_iter().flatten().collect(),
        })
    }

    fn when_frame(
        &self,
        filter: &Filter,
        at: &str,
        context: &StepContext,
    ) -> Result<When, ConfigError> {
        let place = PlaceWords::read(at);
        let all = context.ports.iter().enumerate();
        let all = all.flat_map(|(number, port)| Point::ALL.map(|point| (number, port, point)));
        let here = all.filter(|(_, port, point)| {
            // A port alone is where frames come.
            let is_point = place.has_point() || *point == Point::Came;
            let side = side_name(&context.ports, port);
            is_point && (place.is_at(port, *point) || place.is_at(side, *point))
        });
        let places: Vec<_> = here.map(|(number, _, point)| (number, point)).collect();
        if places.is_empty() {
            let points = Point::ALL.map(Point::name);
            return Err(wrong(
                &self.text,
                &format!(
                    "no frame passes at {at}: the ports are {}, the points {} and dropped",
                    context.ports.join(", "),
                    points.join(", ")
                ),
            ));
        }
        if context.ports.len() == 2 && places.iter().all(|place| place.1 == Point::DroppedSwitch) {
            return Err(wrong(
                &self.text,
                "no frame passes there: a switch stands between three ports and more",
            ));
        }
        let program = filter.compile(LinkType::ETHERNET.0);
        program.map_err(|error| wrong(&self.text, &error.to_string()))?;
        Ok(When::Frame {
            filter: filter.clone(),
            places,
        })
    }

    fn action(
        &self,
        action: &ActionWords,
        context: &StepContext,
    ) -> Result<Vec<Action>, ConfigError> {
        Ok(match action {
            ActionWords::Mark(text) => vec![Action::Mark(text.clone())],
            ActionWords::End => vec![Action::End],
            ActionWords::Monitor { number, is_on } => {
                let numbers = match number {
                    None => 0..context.monitors,
                    Some(number) => number - 1..*number,
                };
                if numbers.end > context.monitors || numbers.is_empty() {
                    return Err(wrong(
                        &self.text,
                        &format!(
                            "the run has {} monitors: ask for more with --monitor",
                            context.monitors
                        ),
                    ));
                }
                let switch = |number| Action::Monitor {
                    number,
                    is_on: *is_on,
                };
                numbers.map(switch).collect()
            }
        })
    }
}

/// What is before the first colon that a blank or nothing follows, but for those of an IPv6
/// address, and what is after it.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut colons = text
        .match_indices(':')
        .map(|(at, _)| (&text[..at], &text[at + 1..]));
    colons.find(|(before, after)| {
        let is_last = after.is_empty() || after.starts_with(char::is_whitespace);
        is_last && !before.ends_with(':')
    })
}

/// A time above 0, but for `at 0s`.
fn time_ns(text: &str, word: &str, given: &str) -> Result<i64, ConfigError> {
    let ns = parse_duration(given).map_err(|error| wrong(text, &format!("{word}: {error}")))?;
    match i64::try_from(ns) {
        Ok(ns) if ns > 0 || word == "at" => Ok(ns),
        Ok(_) => Err(wrong(
            text,
            &format!("{word}: '{given}' is 0: give a time above that"),
        )),
        Err(_) => Err(wrong(
            text,
            &format!("{word}: '{given}' is longer than 292 years"),
        )),
    }
}

/// Reads steps, and the files that they name, and finds what they are about.
pub fn resolved(
    words: &[StepWords],
    spec: &LinkSpec,
    context: &StepContext,
) -> Result<Vec<Step>, ConfigError> {
    let texts = words.iter().map(|words| {
        let texts = files(&words.link);
        texts.map_err(|error| wrong(&words.text, &error.to_string()))
    });
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let steps = words.iter().zip(&texts);
    let steps = steps.map(|(words, texts)| words.step(spec, texts.clone(), context));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    // Whatever step comes before another one, their words fit together.
    for (number, one) in words.iter().enumerate() {
        let after = spec.changed(&one.link, texts[number].clone())?;
        let others = words.iter().zip(&texts).enumerate();
        for (_, (other, texts)) in others.filter(|(other, _)| *other != number) {
            let both = after.changed(&other.link, texts.clone());
            let before = |error: ConfigError| format!("after step '{}': {error}", one.text);
            both.map_err(|error| wrong(&other.text, &before(error)))?;
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use lineside_link::Patch;

    use super::*;
    use crate::Direction;
    use crate::settings::Ways;

    fn context() -> StepContext {
        StepContext {
            ports: ["inside", "outside"].map(str::to_owned).into(),
            monitors: 2,
        }
    }

    fn read(texts: &[&str]) -> Result<Vec<Step>, ConfigError> {
        let words = texts.iter().map(|text| StepWords::read(text));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let links: Vec<_> = words.iter().map(|words| &words.link).collect();
        let spec = LinkSpec::read(&LinkWords::default(), Ways::default(), &links)?;
        resolved(&words, &spec, &context())
    }

    #[test]
    fn steps_say_when_and_what() {
        let texts = [
            "at 5s for 2s: link down; mark it goes",
            "every 60s: delay in: 20ms 5ms order fifo; start monitor 2",
            "when host fe80:: or net ::/0 at *.dropped at most 3 times after 1s: loss match udp: 5%",
            "when ip at inside: stop monitors; end",
        ];
        let [one, two, three, four] = &read(&texts).expect("right words")[..] else {
            panic!("four of them");
        };
        assert!(matches!(one.when, When::At(5_000_000_000)));
        assert_eq!(one.for_ns, Some(2_000_000_000));
        assert_eq!(one.actions, [Action::Mark("it goes".to_owned())]);
        let gives = |step: &Step, side: Direction, class: usize, setting| {
            let side = step
                .patches
                .as_ref()
                .and_then(|sides| sides[side as usize].as_ref());
            side.is_some_and(|list| Patch::of_set(list, class as u32).gives(setting))
        };
        for side in Direction::BOTH {
            assert!(gives(one, side, 0, Setting::Link) && gives(one, side, 1, Setting::Link));
            assert!(!gives(one, side, 0, Setting::Loss));
        }
        assert!(matches!(two.when, When::Every(60_000_000_000)));
        assert_eq!((two.times, one.times, three.times), (u64::MAX, 1, 3));
        assert!(gives(two, Direction::Inbound, 1, Setting::Delay));
        assert!(!gives(two, Direction::Outbound, 0, Setting::Delay));
        let on = |number, is_on| Action::Monitor { number, is_on };
        assert_eq!(two.actions, [on(1, true)]);
        let When::Frame { filter, places } = &three.when else {
            panic!("{three:?}");
        };
        assert_eq!(filter.expression(), "host fe80:: or net ::/0");
        assert!(places.iter().all(|(_, point)| point.is_drop()) && places.len() > 8);
        assert_eq!(three.hold_off_ns, 1_000_000_000);
        // Class 1 is that of udp.
        assert!(gives(three, Direction::Outbound, 1, Setting::Loss));
        assert!(!gives(three, Direction::Outbound, 0, Setting::Loss));
        assert_eq!(four.actions, [on(0, false), on(1, false), Action::End]);
        let When::Frame { places, .. } = &four.when else {
            panic!("{four:?}");
        };
        assert_eq!(places, &[(0, Point::Came)]);
    }

    #[test]
    fn wrong_steps_name_what_is_wrong() {
        let long = format!("at 5s: mark {}", "x".repeat(1_001));
        for (texts, why) in [
            (&["at 5s link down"][..], "WHEN: ACTION"),
            (&["in 5s: link down"], "'at TIME', 'every TIME'"),
            (&["at 5: link down"], "at: "),
            (&["every 0s: link down"], "'0s' is 0"),
            (&["at 5s times 2: link down"], "fires once"),
            (&["at 5s for 1s for 2s: link down"], "there twice"),
            (&["at 5s for: link down"], "'for' needs a value"),
            (&["at 5s until 6s: link down"], "'until' is unknown here"),
            (&["every 1s for 2s: link down"], "fire again before"),
            (&["at 5s for 2s: mark x"], "can be undone"),
            (&["at 5s: "], "an action is missing"),
            (&["at 5s: lnk down"], "nearest known one is link"),
            (&["at 5s: link sideways"], "link"),
            (&["at 5s: link"], "'link' needs a value"),
            (&["at 5s: start monitor 3"], "has 2 monitors"),
            (&["at 5s: delay distribution nowhere"], "delay"),
            (&["at 5s: path nowhere"], "nowhere: cannot read it"),
            (&[long.as_str()], "longer than 1000 bytes"),
            (&["at 5s: reorder 5%"], "overtake"),
            (&["at 5s: loss match: 5%"], "match"),
            (&["when ip: mark x"], "at PORT.POINT"),
            (
                &["when ip at eth1.came: mark x"],
                "the ports are inside, outside",
            ),
            (&["when ip at inside.dropped_switch: mark x"], "three ports"),
            (&["when tcp prt 5 at inside.came: mark x"], "prt"),
            (&["when ip at inside.came times 0: mark x"], "from 1 on"),
            (&["when ip at inside.came at most 0: mark x"], "from 1 on"),
            (&["when ip at inside.came after 0: mark x"], "from 1 on"),
            (
                &["when ip at inside.came at most: mark x"],
                "'at most' needs a value",
            ),
            (
                &["when ip at inside.came times 2 at most 3: mark x"],
                "'at most' is there twice",
            ),
            (&["every 1s after 3: mark x"], "leave out after"),
        ] {
            let error = read(texts).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains(texts[0].trim()), "{error}");
        }
    }

    #[test]
    fn how_often_a_step_fires_is_said_in_plain_words() {
        let limits = |text: &str| {
            let step = read(&[text]).expect(text).swap_remove(0);
            (step.skips, step.times, step.hold_off_ns)
        };
        for (options, expected) in [
            ("", (0, 1, 0)),
            (" at most 3 times", (0, 3, 0)),
            (" at most 3", (0, 3, 0)),
            (" after 20", (19, 1, 0)),
            (" after 20 at most 2 times after 1s", (19, 2, 1_000_000_000)),
            (" times 3", (0, 3, 0)),
        ] {
            let text = format!("when ip at inside.came{options}: loss 5%");
            assert_eq!(limits(&text), expected, "{text}");
            let note = StepWords::read(&text).expect(&text).note();
            let is_old = options.contains(" times 3") && !options.contains("most");
            assert_eq!(note.is_some(), is_old, "{note:?}");
        }
    }

    #[test]
    fn the_two_ports_are_the_inside_and_the_outside() {
        let places = |ports: &[&str], at: &str| {
            let ports = ports.iter().map(|&port| port.to_owned()).collect();
            let context = StepContext { ports, monitors: 0 };
            let step = StepWords::read(&format!("when ip at {at}: mark x")).expect("right words");
            let spec = LinkSpec::read(&LinkWords::default(), Ways::default(), &[]);
            let step = step.step(&spec.expect("a link"), Default::default(), &context);
            step.map(|step| match step.when {
                When::Frame { places, .. } => places,
                _ => Vec::new(),
            })
        };
        let two = ["eth1", "eth2"];
        for (at, place) in [
            ("inside.came", (0, Point::Came)),
            ("outside.left", (1, Point::Left)),
            ("eth2.came", (1, Point::Came)),
        ] {
            assert_eq!(places(&two, at).expect(at), [place], "{at}");
        }
        assert!(places(&["a", "b", "c"], "inside.came").is_err());
        // An interface of that name is meant by it.
        let odd = ["outside", "b"];
        let found = places(&odd, "outside.came").expect("a port");
        assert_eq!(found, [(0, Point::Came)]);
    }
}
