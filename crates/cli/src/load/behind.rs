//! `--server CMD`: a server in a network of its own behind an emulated link, and our own TCP at the
//! other end, without privileges. `lineside emulate` makes both networks and runs this program once
//! more in the client's.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, anyhow};
use lineside_load::stack_transport::StackSettings;
use lineside_path::emulate::{CLIENT, INTERFACE, SERVER};
use lineside_port::live::LinkEnd;

use super::flags::{Arguments, Section};
use crate::config::ConfigError;

/// Set in the environment of what runs in the client's network.
const INSIDE: &str = "LINESIDE_LOAD_INSIDE";
impl Section {
    /// Becomes `emulate`, with this command as its client; inside, uses the interface there.
    pub(super) fn go_behind(&mut self, arguments: &Arguments) -> anyhow::Result<()> {
        let Some(server) = &self.server else {
            return match self.link {
                None => Ok(()),
                Some(_) => Err(ConfigError::usage(
                    "--link is before the server of --server: name its command with that",
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
        emulate.args(flags(self.link.as_deref().unwrap_or_default()));
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

/// Words such as `delay 20ms, loss 0.1%` as flags of `emulate`, which says what is wrong with them.
fn flags(words: &str) -> Vec<String> {
    let settings = words.split(',').map(str::trim);
    let settings = settings.filter(|setting| !setting.is_empty());
    let flag = |setting: &str| {
        let (name, value) = setting
            .split_once(char::is_whitespace)
            .unwrap_or((setting, ""));
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        std::iter::once(format!("--{name}")).chain(value)
    };
    settings.flat_map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_link_are_flags() {
        let expected = ["--delay", "20ms +- 2ms", "--loss", "0.1%", "--no-reorder"];
        assert_eq!(flags("delay 20ms +- 2ms, loss 0.1%,no-reorder"), expected);
        assert!(flags(" ").is_empty());
    }
}
