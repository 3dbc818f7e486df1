//! What must hold of a lab: comparisons of metrics at points, `answered(delay="100us") >= 0.5 *
//! answered(delay="0")`. An axis that is left free must hold at each of its values.

use std::collections::{BTreeMap, BTreeSet};

use lineside_words::nearest;

use crate::sweep::{Axis, Plan, point_text};

/// Something that must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// As it stands in the file.
    pub words: String,
    left: Term,
    relation: &'static str,
    right: Term,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// As it stands in the file.
    pub words: String,
    /// At how many points it was asked.
    pub points: usize,
    /// Where it does not hold, with both sides.
    pub failed: Vec<String>,
    /// Where it cannot be judged, and why.
    pub undecided: Vec<String>,
}

impl Judged {
    /// Whether it holds at each point: what cannot be judged has not held.
    pub fn holds(&self) -> bool {
        self.failed.is_empty() && self.undecided.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Term {
    Number(f64),
    /// A metric, with the axes that are given.
    Metric(String, BTreeMap<String, String>),
    /// The metric of the claim in the baseline.
    Baseline,
    Of(char, Box<(Self, Self)>),
}

/// What a metric is at the values of axes.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str, &BTreeMap<String, String>) -> Option<f64>;

/// The longer ones first.
const RELATIONS: [&str; 6] = [">=", "<=", "==", "!=", ">", "<"];

/// Letters of an assertion: each parenthesis is a call of the reader within another.
const WORDS_MAX: usize = 2_000;

/// What a claim may ask for.
pub(crate) struct Known<'a> {
    pub(crate) axes: &'a [Axis],
    /// The names of metrics.
    pub(crate) metrics: Vec<&'a str>,
}

impl Claim {
    /// Reads a claim about a lab.
    pub(crate) fn parse(name: &str, words: &str, known: &Known<'_>) -> Result<Self, String> {
        if words.len() > WORDS_MAX {
            return Err(format!("an assertion has {WORDS_MAX} letters at most"));
        }
        let mut reader = Reader {
            rest: words,
            words,
            known,
        };
        let left = reader.sum()?;
        let relation = RELATIONS.into_iter().find(|relation| reader.take(relation));
        let relation = relation.ok_or_else(|| reader.wrong("one of >= <= == != > <"))?;
        let right = reader.sum()?;
        if !reader.peek().is_empty() {
            return Err(reader.wrong("an operator, or the end"));
        }
        let claim = Self {
            name: name.to_owned(),
            words: words.to_owned(),
            left,
            relation,
            right,
        };
        match claim.first_metric() {
            Some(_) => Ok(claim),
            None => Err(format!("'{words}' names no metric")),
        }
    }

    /// The metric that `baseline` stands for: the first one.
    fn first_metric(&self) -> Option<(&str, &BTreeMap<String, String>)> {
        let mut found = Vec::new();
        self.left.metrics(&mut found);
        self.right.metrics(&mut found);
        found.first().copied()
    }

    /// Whether the baseline is asked.
    pub fn needs_baseline(&self) -> bool {
        self.left.has_baseline() || self.right.has_baseline()
    }

    /// The values of axes that it leaves free, at which all points are run that it names.
    pub(crate) fn points(&self, plan: Plan<'_>) -> BTreeSet<BTreeMap<String, String>> {
        let mut found = Vec::new();
        self.left.metrics(&mut found);
        self.right.metrics(&mut found);
        let is_free = |axis: &str| found.iter().any(|(_, given)| !given.contains_key(axis));
        let names = plan.axes.iter().map(|axis| axis.name.as_str());
        let free: BTreeSet<&str> = names.filter(|axis| is_free(axis)).collect();
        let points = (1..=plan.chosen.len()).map(|point| {
            let mut values = plan.values(point);
            values.retain(|axis, _| free.contains(axis.as_str()));
            values
        });
        let mut points: BTreeSet<_> = points.collect();
        points.retain(|at| {
            let mut given = found.iter().map(|(_, given)| over(at, given));
            given.all(|values| plan.point_at(&values).is_some())
        });
        points
    }

    /// Judges it at every point that it leaves free.
    pub(crate) fn judge(&self, plan: Plan<'_>, value: Lookup<'_>, baseline: Lookup<'_>) -> Judged {
        let points = self.points(plan);
        let mut judged = Judged {
            name: self.name.clone(),
            words: self.words.clone(),
            points: points.len(),
            failed: Vec::new(),
            undecided: Vec::new(),
        };
        for at in points {
            let of_baseline = || {
                let (metric, given) = self.first_metric()?;
                baseline(metric, &over(&at, given))
            };
            let asked = |term: &Term| term.value(&at, value, &of_baseline);
            let place = match at.is_empty() {
                true => String::new(),
                false => format!("{}: ", point_text(&at)),
            };
            match (asked(&self.left), asked(&self.right)) {
                (Ok(left), Ok(right)) if holds(left, self.relation, right) => {}
                (Ok(left), Ok(right)) => {
                    let [left, right] = [left, right].map(lineside_words::number);
                    let relation = self.relation;
                    judged
                        .failed
                        .push(format!("{place}{left} {relation} {right} does not hold"));
                }
                (Err(why), _) | (_, Err(why)) => judged.undecided.push(format!("{place}{why}")),
            }
        }
        judged
    }
}

/// The axes of a point, with those that are given in place of them.
fn over(
    at: &BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut values = at.clone();
    values.extend(given.clone());
    values
}

fn holds(left: f64, relation: &str, right: f64) -> bool {
    match relation {
        ">=" => left >= right,
        "<=" => left <= right,
        "==" => left == right,
        "!=" => left != right,
        ">" => left > right,
        _ => left < right,
    }
}

impl Term {
    fn metrics<'a>(&'a self, found: &mut Vec<(&'a str, &'a BTreeMap<String, String>)>) {
        match self {
            Self::Metric(name, given) => found.push((name, given)),
            Self::Of(_, both) => {
                both.0.metrics(found);
                both.1.metrics(found);
            }
            Self::Number(_) | Self::Baseline => {}
        }
    }

    fn has_baseline(&self) -> bool {
        match self {
            Self::Baseline => true,
            Self::Of(_, both) => both.0.has_baseline() || both.1.has_baseline(),
            Self::Number(_) | Self::Metric(..) => false,
        }
    }

    fn value(
        &self,
        at: &BTreeMap<String, String>,
        value: Lookup<'_>,
        baseline: &dyn Fn() -> Option<f64>,
    ) -> Result<f64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Baseline => baseline().ok_or_else(|| "there is no baseline for it".to_owned()),
            Self::Metric(name, given) => {
                let values = over(at, given);
                value(name, &values)
                    .ok_or_else(|| format!("{name} was not measured at {}", point_text(&values)))
            }
            Self::Of(operator, both) => {
                let one = both.0.value(at, value, baseline)?;
                let other = both.1.value(at, value, baseline)?;
                Ok(match operator {
                    '+' => one + other,
                    '-' => one - other,
                    '*' => one * other,
                    _ => one / other,
                })
            }
        }
    }
}

struct Reader<'a> {
    words: &'a str,
    rest: &'a str,
    known: &'a Known<'a>,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn take(&mut self, wanted: &str) -> bool {
        let rest = self.peek().strip_prefix(wanted);
        rest.map(|rest| self.rest = rest).is_some()
    }

    fn wrong(&mut self, expected: &str) -> String {
        let rest = self.peek().len();
        let column = self.words.len() - rest + 1;
        format!("'{}', column {column}: expected {expected}", self.words)
    }

    fn sum(&mut self) -> Result<Term, String> {
        let mut term = self.product()?;
        while let Some(operator) = self.operator(['+', '-']) {
            term = Term::Of(operator, Box::new((term, self.product()?)));
        }
        Ok(term)
    }

    fn product(&mut self) -> Result<Term, String> {
        let mut term = self.factor()?;
        while let Some(operator) = self.operator(['*', '/']) {
            term = Term::Of(operator, Box::new((term, self.factor()?)));
        }
        Ok(term)
    }

    fn operator(&mut self, of: [char; 2]) -> Option<char> {
        let operator = self.peek().chars().next().filter(|it| of.contains(it))?;
        self.rest = &self.rest[1..];
        Some(operator)
    }

    fn factor(&mut self) -> Result<Term, String> {
        if self.take("(") {
            let term = self.sum()?;
            return match self.take(")") {
                true => Ok(term),
                false => Err(self.wrong(")")),
            };
        }
        let rest = self.peek();
        if rest.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            let is_of = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == 'e';
            let end = rest.find(|letter| !is_of(letter)).unwrap_or(rest.len());
            let number = rest[..end].parse().map_err(|_| self.wrong("a number"))?;
            self.rest = &rest[end..];
            return Ok(Term::Number(number));
        }
        match self.name() {
            Some("baseline") => Ok(Term::Baseline),
            Some(name) => self.metric(name),
            None => Err(self.wrong("a metric or a number")),
        }
    }

    fn name(&mut self) -> Option<&'a str> {
        let rest = self.peek();
        let is_of = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = rest.find(|letter| !is_of(letter)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        (end > 0).then(|| &rest[..end])
    }

    fn metric(&mut self, name: &str) -> Result<Term, String> {
        let known = self.known.metrics.iter().copied();
        if !known.clone().any(|known| known == name) {
            let nearest = nearest(name, known);
            return Err(format!("no metric {name}; the nearest one is {nearest}"));
        }
        let mut given = BTreeMap::new();
        if self.take("(") {
            loop {
                let (axis, value) = self.given()?;
                given.insert(axis, value);
                if !self.take(",") {
                    break;
                }
            }
            if !self.take(")") {
                return Err(self.wrong(")"));
            }
        }
        Ok(Term::Metric(name.to_owned(), given))
    }

    /// An axis with one of its values.
    fn given(&mut self) -> Result<(String, String), String> {
        let name = self.name().ok_or_else(|| self.wrong("an axis"))?;
        let axis = self.known.axes.iter().find(|axis| axis.name == name);
        let axis = axis.ok_or_else(|| {
            let known = self.known.axes.iter().map(|axis| axis.name.as_str());
            format!(
                "no axis {name}; the nearest one is {}",
                nearest(name, known)
            )
        })?;
        if !self.take("=") {
            return Err(self.wrong("="));
        }
        let rest = self.peek();
        let value = match rest
            .chars()
            .next()
            .filter(|first| ['"', '\''].contains(first))
        {
            Some(quote) => {
                let (value, rest) = rest[1..]
                    .split_once(quote)
                    .ok_or_else(|| self.wrong("a text"))?;
                self.rest = rest;
                value
            }
            None => {
                let end = rest.find([',', ')']).unwrap_or(rest.len());
                self.rest = &rest[end..];
                rest[..end].trim()
            }
        };
        match axis.values.iter().any(|known| known == value) {
            true => Ok((name.to_owned(), value.to_owned())),
            false => Err(format!(
                "{name}={value} is no point: its values are {}",
                axis.values.join(", ")
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::{WHOLE, parse};

    fn known(lab: &crate::Experiment) -> Known<'_> {
        Known {
            axes: &lab.sweep,
            metrics: lab.metrics().map(|metric| metric.name.as_str()).collect(),
        }
    }

    fn judged(words: &str) -> Judged {
        let lab = parse(WHOLE).expect("it is right");
        let claim = Claim::parse("it", words, &known(&lab)).expect(words);
        let value = |_: &str, at: &BTreeMap<String, String>| {
            let connections: f64 = at["connections"].parse().expect("a number");
            let share = if at["delay"] == "0" { 1.0 } else { 0.4 };
            (connections > 0.0).then_some(1_000.0 * connections * share)
        };
        let baseline =
            |_: &str, at: &BTreeMap<String, String>| (at["delay"] == "0").then_some(1_000.0);
        claim.judge(lab.plan(), &value, &baseline)
    }

    #[test]
    fn axes_that_are_free_must_hold_at_each_point() {
        let all = judged("answered(delay=\"25us\") >= 0.4 * answered(delay=\"0\")");
        assert!(all.holds() && all.points == 2, "{all:?}");
        let none = judged("answered(delay=25us) > 0.5 * answered(delay='0')");
        assert_eq!(none.failed.len(), 2, "{none:?}");
        assert!(none.failed[0].starts_with("connections=1: "), "{none:?}");
        let some = judged("answered >= 1000");
        assert_eq!((some.points, some.failed.len()), (4, 1), "{some:?}");
        let one = judged("answered(delay=\"0\", connections=4) == (1 + 3) * 1000");
        assert_eq!((one.points, one.holds()), (1, true), "{one:?}");
    }

    #[test]
    fn what_has_no_baseline_has_not_held() {
        let judged = judged("answered >= 0.3 * baseline");
        assert_eq!(
            (judged.failed.len(), judged.undecided.len()),
            (0, 2),
            "{judged:?}"
        );
        assert!(!judged.holds());
    }

    #[test]
    fn what_a_claim_cannot_ask_is_refused() {
        let lab = parse(WHOLE).expect("it is right");
        for (words, expected) in [
            ("answered", "column 9: expected one of"),
            ("answred > 1", "the nearest one is answered"),
            ("answered(dealy=\"0\") > 1", "the nearest one is delay"),
            ("answered(delay=\"1s\") > 1", "its values are 0, 25us"),
            ("1 > 2", "names no metric"),
            ("answered > ", "a metric or a number"),
            ("answered > 1 2", "an operator, or the end"),
            ("(answered > 1", "expected )"),
        ] {
            let error = Claim::parse("it", words, &known(&lab)).expect_err(words);
            assert!(error.contains(expected), "{words}: {error}");
        }
    }
}
