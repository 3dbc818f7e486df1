//! The networks that are asked for: a point for each combination of the values of the lists.

use lineside_link::words::LinkWords;
use lineside_link::{Jitter, Loss, Patch, Setting, Settings};
use lineside_path::settings::{LinkSpec, Ways};
use lineside_predict::Network;

use super::flags::Arguments;
use crate::config::ConfigError;
use crate::congestion::congestion;

/// Points of a grid.
const POINTS_MAX: usize = 10_000;

/// A network, and the words that it was asked for by.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) words: Vec<(&'static str, String)>,
    pub(super) network: Network,
    /// Whether something is drawn: a loss, a delay.
    pub(super) is_drawn: bool,
}

fn is_drawn(settings: &Settings) -> bool {
    let never = |loss: &Loss| match loss {
        Loss::None => true,
        Loss::Random(chance) => chance.share == 0.0,
        _ => false,
    };
    !never(&settings.loss) || settings.delay.jitter != Jitter::None
}

impl Arguments {
    /// The points, in the order of the lists: the first one changes slowest.
    pub(super) fn points(&self) -> Result<Vec<Point>, ConfigError> {
        let lists = [
            (Setting::Delay, &self.delay),
            (Setting::Rate, &self.rate),
            (Setting::Loss, &self.loss),
            (Setting::Limit, &self.limit),
        ];
        let mut all: Vec<Vec<(Setting, &str)>> = vec![Vec::new()];
        for (setting, list) in lists {
            let Some(list) = list else {
                continue;
            };
            let values: Vec<_> = list.split(',').map(str::trim).collect();
            if all.len() * values.len() > POINTS_MAX {
                return Err(ConfigError::usage(&format!(
                    "more than {POINTS_MAX} points: shorten a list"
                )));
            }
            let longer = all.iter().flat_map(|point| {
                { values.iter() }.map(|&value| [point.as_slice(), &[(setting, value)]].concat())
            });
            all = longer.collect();
        }
        if all.len() == 1 && all[0].is_empty() {
            return Err(ConfigError::usage(
                "no network: name one, such as --delay 1ms,10ms --rate 100mbit",
            ));
        }
        all.iter().map(|point| self.point(point)).collect()
    }

    fn point(&self, values: &[(Setting, &str)]) -> Result<Point, ConfigError> {
        let mut words = LinkWords::default();
        for (setting, value) in values {
            words.add(*setting, (*value).to_owned());
        }
        let spec = LinkSpec::read(&words, Ways::between(None)?, &[])?;
        let patches = spec.patches();
        if patches.iter().flatten().any(|list| list.len() > 1) {
            return Err(ConfigError::usage(
                "match: predict has no frames to look at: leave the expression out",
            ));
        }
        let settings = |list: &Vec<Patch>| Patch::of_set(list, 0).settings().clone();
        let ways = patches
            .iter()
            .map(|list| list.as_ref().map_or_else(Settings::default, settings));
        let ways: Vec<_> = ways.collect();
        let is_drawn = ways.iter().any(is_drawn);
        let [there, back]: [Settings; 2] = ways.try_into().expect("a link has two ways");
        Ok(Point {
            words: { values.iter() }
                .map(|(setting, value)| (setting.name(), (*value).to_owned()))
                .collect(),
            network: Network {
                ways: [there, back],
                congestion: congestion(&self.congestion)?,
                seed: self.seed,
                longest_ns: i64::try_from(self.longest).unwrap_or(i64::MAX),
            },
            is_drawn,
        })
    }
}
