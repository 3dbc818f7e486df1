//! `--server CMD`: a server in a network of its own behind an emulated link, and our own TCP at the
//! other end, without privileges. `lineside emulate` makes both networks and runs this program once
//! more in the client's.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, anyhow};
use lineside_link::Setting;
use lineside_load::settings::StackSettings;
use lineside_path::emulate::{CLIENT, INTERFACE, SERVER};
use lineside_port::live::LinkEnd;
use lineside_words::nearest;

use super::flags::{Arguments, Section};
use crate::config::{ConfigError, Keys as _};
use crate::link::section;

/// Set in the environment of what runs in the client's network.
const INSIDE: &str = "LINESIDE_LOAD_INSIDE";
impl Section {
    /// Becomes `emulate`, with this command as its client; inside, uses the interface there.
    pub(super) fn go_behind(&mut self, arguments: &Arguments) -> anyhow::Result<()> {
        let Some(server) = &self.server else {
            return match self.link {
                None => Ok(()),
                Some(_) => Err(ConfigError::usage(
                    "link: it is the link to the server of --server: name that too",
                )
                .into()),
            };
        };
        if std::env::var_os(INSIDE).is_some() {
            let is_v6 = self.url.iter().flatten().any(|url| url.contains("://["));
            let address = match is_v6 {
                true => CLIENT.v6.to_string(),
                false => CLIENT.v4.to_string(),
            };
            self.stack.interface = Some(INTERFACE.to_owned());
            self.stack.addresses = Some(vec![address]);
            return Ok(());
        }
        let is_elsewhere = self.serve_on.is_some() || self.hosts.is_some();
        if self.stack.interface.is_some() || self.stack.addresses.is_some() || is_elsewhere {
            let why = "--server has an interface and an address of its own: leave out -i, \
                       --address, --serve-on and --hosts";
            return Err(ConfigError::usage(why).into());
        }
        let program = std::env::current_exe().context("this program has no path")?;
        let mut emulate = Command::new(&program);
        emulate.args(["emulate", "--bare-client", "--server", server]);
        emulate.args(flags(self.link.as_deref().unwrap_or_default())?);
        if arguments.quiet || arguments.json {
            emulate.arg("--quiet");
        }
        emulate.arg("--").arg(&program);
        emulate.args(std::env::args_os().skip(1)).env(INSIDE, "1");
        // Returns only if it fails.
        Err(anyhow!(emulate.exec()).context("cannot start 'lineside emulate'"))
    }
}

/// Nobody in these networks asks for a neighbour.
pub(super) fn stand_at_the_end(stack: &mut StackSettings) {
    let LinkEnd { ethernet, v4, v6 } = SERVER;
    stack.neighbours = Some(vec![(v4.into(), ethernet), (v6.into(), ethernet)]);
}

/// Words such as `delay 20ms, loss 0.1%` as flags of `emulate`, which says what is wrong with their
/// values.
fn flags(words: &str) -> Result<Vec<String>, ConfigError> {
    let error = |why: String| Err(ConfigError::new(format!("link: '{words}': {why}")));
    let declared = section::Section::declared();
    let known: Vec<_> = declared.iter().filter_map(|key| key.long).collect();
    let settings = words.split(',').map(str::trim);
    let mut flags = Vec::new();
    for setting in settings.filter(|setting| !setting.is_empty()) {
        let setting = setting.trim_start_matches('-');
        let (name, value) = setting
            .split_once(char::is_whitespace)
            .unwrap_or((setting, ""));
        if !known.contains(&name) {
            return error(format!(
                "'{name}' is not a setting of a link; the nearest known one is {}",
                nearest(name, known)
            ));
        }
        // A word that names a setting begins another one, but where netem has it as a value.
        let mut words = value
            .split_whitespace()
            .zip(value.split_whitespace().skip(1));
        let further = words.find(|(before, word)| {
            Setting::ALL.iter().any(|known| known.name() == *word) && *before != "order"
        });
        if let Some((_, further)) = further.filter(|_| name != "step" && name != "path") {
            return error(format!(
                "put a comma before '{further}': settings are separated by commas, as in \
                'delay 20ms, rate 5mbit'"
            ));
        }
        flags.push(format!("--{name}"));
        let value = value.trim();
        flags.extend((!value.is_empty()).then(|| value.to_owned()));
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_link_are_flags() {
        let expected = [
            "--delay",
            "20ms 2ms order reorder",
            "--loss",
            "0.1%",
            "--tap",
        ];
        let words = "delay 20ms 2ms order reorder, --loss 0.1%,tap";
        assert_eq!(flags(words).expect("flags"), expected);
        assert!(flags(" ").expect("none").is_empty());
        for (words, why) in [
            ("rate 5mbit delay 2ms", "put a comma before 'delay'"),
            ("dely 2ms", "nearest known one is delay"),
        ] {
            let error = flags(words).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains(words), "{error}");
        }
    }
}
