//! What is asked for, from words.

use lineside_analyze::Plan;
use lineside_replay::{Pace, Script, Settings};
use lineside_rerun::{Ground, Runner, Url};
use lineside_trace::certificate::replay::Asked;
use serde_json::{Value, json};

use super::flags::Arguments;
use crate::config::ConfigError;

/// What is asked for.
pub(super) struct Wanted {
    pace: Pace,
    speed: f64,
    user: Option<(u32, u32)>,
    clients: u32,
    pub(super) timeout_ns: i64,
}

impl Wanted {
    pub(super) fn of(arguments: &Arguments) -> Result<Self, ConfigError> {
        let pace = match arguments.pace.as_str() {
            "closed" => Pace::Closed,
            "open" => Pace::Open,
            "fast" => Pace::Fast,
            other => {
                let why = format!("--loop '{other}' is unknown: write closed, open or fast");
                return Err(ConfigError::usage(&why));
            }
        };
        let speed = arguments.speed.parse::<f64>().ok();
        let speed = speed.filter(|speed| speed.is_finite() && *speed > 0.0);
        let speed = speed.ok_or_else(|| {
            let speed = &arguments.speed;
            ConfigError::usage(&format!(
                "--speed {speed}: give a number above 0, such as 2; --loop fast leaves thought out"
            ))
        })?;
        if pace == Pace::Fast && speed != 1.0 {
            let why = "--speed has no effect on --loop fast: leave one of them out";
            return Err(ConfigError::usage(why));
        }
        let user = arguments.credential.as_deref().map(user).transpose()?;
        let clients = clients(&arguments.clients)?;
        Ok(Self {
            clients,
            pace,
            speed,
            user,
            timeout_ns: i64::try_from(arguments.timeout.max(1)).unwrap_or(i64::MAX / 2),
        })
    }

    /// Who makes the directory.
    pub(super) fn user_of_preparation(&self, script: &Script) -> (u32, u32) {
        self.user.or_else(|| first_user(script)).unwrap_or_default()
    }

    /// Where each client works.
    pub(super) fn places(&self, url: &Url) -> Vec<Url> {
        match self.clients {
            1 => vec![url.clone()],
            many => (1..=many)
                .map(|copy| url.below(&format!("copy-{copy}")))
                .collect(),
        }
    }

    /// What each client does on its ground.
    pub(super) fn copies<'a>(&self, grounds: &'a [Ground]) -> Vec<Runner<'a>> {
        let copies = (0..).zip(grounds).map(|(number, ground)| Runner {
            settings: self.settings(number, ground),
            ground,
        });
        copies.collect()
    }

    fn settings(&self, number: u64, ground: &Ground) -> Settings {
        Settings {
            seed: number.wrapping_mul(SEED_STEP),
            pace: self.pace,
            speed: self.speed,
            user: self.user,
            patience_ns: self.timeout_ns,
            export: ground.export.clone(),
            top: ground.top.clone(),
            tops: ground.tops.clone(),
        }
    }

    /// For the configuration of the run.
    pub(super) fn words(&self, arguments: &Arguments) -> Value {
        json!({
            "trace": arguments.trace.display().to_string(),
            "to": arguments.to,
            "loop": arguments.pace,
            "speed": self.speed,
            "as": arguments.credential,
            "clients": self.clients,
            "in_place": arguments.in_place,
            "timeout_ns": self.timeout_ns,
            "idle_ns": arguments.idle,
        })
    }

    /// For the certificate.
    pub(super) fn asked(&self, arguments: &Arguments, plan: &Plan) -> Asked {
        Asked {
            trace: arguments.trace.display().to_string(),
            trace_id: plan.trace_id.clone().unwrap_or_default(),
            url: arguments.to.clone(),
            pace: arguments.pace.clone(),
            speed: self.speed,
            user: arguments.credential.clone(),
            clients: self.clients.into(),
        }
    }
}

/// Copies of a workload: each has connections of its own, and a process may have some thousands.
const CLIENTS_MAX: u32 = 1_000;
/// Between the seeds of two clients, that the blocks of one are not those of the other: the golden
/// ratio.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn clients(text: &str) -> Result<u32, ConfigError> {
    let number = text
        .strip_prefix('x')
        .and_then(|number| number.parse().ok());
    number
        .filter(|number| (1..=CLIENTS_MAX).contains(number))
        .ok_or_else(|| {
            ConfigError::usage(&format!(
                "--clients '{text}': give x and a number from 1 to {CLIENTS_MAX}, such as x4"
            ))
        })
}

fn user(text: &str) -> Result<(u32, u32), ConfigError> {
    let parsed = text.split_once(':').and_then(|(uid, gid)| {
        let parse = |of: &str| of.parse::<u32>().ok();
        parse(uid).zip(parse(gid))
    });
    parsed.ok_or_else(|| {
        ConfigError::usage(&format!(
            "--as '{text}': give two numbers, such as 1000:1000"
        ))
    })
}

/// The user of the first call that has one.
fn first_user(script: &Script) -> Option<(u32, u32)> {
    script.survey.user
}
