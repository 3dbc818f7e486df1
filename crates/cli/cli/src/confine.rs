//! The sandbox of verbs that read traces and captures, which anybody may have made.

use std::path::{Path, PathBuf};

use clap::Args;
use lineside_host::{Confined, Sandbox, make_output, watch_outputs};
use lineside_run::keep_file_capabilities;

use crate::config::Sandboxing;
use crate::print::warn;

/// The flag of these verbs.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Confining {
    /// Read input in a sandbox: on, require (fail where the kernel lacks a part) or off
    #[arg(long, value_name = "WORD", default_value = "on", value_parser = Sandboxing::parse)]
    sandbox: Sandboxing,
    /// The same as --sandbox off
    #[arg(long, hide = true)]
    no_sandbox: bool,
}

impl Confining {
    pub(crate) fn new(sandbox: Sandboxing) -> Self {
        Self {
            sandbox,
            no_sandbox: false,
        }
    }

    pub(crate) fn sandboxing(self) -> Sandboxing {
        match self.no_sandbox {
            true => Sandboxing::Off,
            false => self.sandbox,
        }
    }

    /// The sandbox to enter, if one is wanted.
    pub(crate) fn applied(self, sandbox: Sandbox) -> Option<Sandbox> {
        self.sandboxing().applied(sandbox)
    }

    /// Leaves this process what reading `named` and writing `out` take, a file or `-`. To be called
    /// when all that the user named is known, before the first byte of it is read and before there
    /// is another thread.
    pub(crate) fn enter(self, named: Sandbox, out: Option<&Path>) -> anyhow::Result<()> {
        self.enter_writing(named, out.as_slice())
    }

    /// The same with several files that are written. They are made here, and go again if they are
    /// empty at the end.
    pub(crate) fn enter_writing(self, named: Sandbox, outs: &[&Path]) -> anyhow::Result<()> {
        let outs = outs.iter().copied().filter(|out| out.as_os_str() != "-");
        for out in outs.clone() {
            make_output(out);
        }
        watch_outputs()?;
        let sandbox = outs.clone().fold(named, Sandbox::may_write);
        self.enter_with(sandbox, outs)
    }

    /// The same with a folder in which files are made.
    pub(crate) fn enter_writing_below(
        self,
        named: Sandbox,
        folder: Option<&Path>,
    ) -> anyhow::Result<()> {
        let sandbox = { folder.iter() }.fold(named, |sandbox, it| sandbox.may_write_below(it));
        self.enter_with(sandbox, folder.into_iter())
    }

    /// Enters this sandbox, in which these files and folders are written.
    pub(crate) fn enter_with<'a>(
        self,
        sandbox: Sandbox,
        writes: impl Iterator<Item = &'a Path>,
    ) -> anyhow::Result<()> {
        keep_file_capabilities(writes)?;
        if let Some(sandbox) = self.applied(sandbox) {
            note(&sandbox.enter()?);
        }
        Ok(())
    }
}

/// A sandbox that reads these captures: files, folders, or `-`.
pub(crate) fn captures(inputs: &[PathBuf]) -> Sandbox {
    let files = inputs.iter().filter(|input| input.as_os_str() != "-");
    files.fold(Sandbox::new(), |sandbox, file| sandbox.may_read(file))
}

/// A sandbox that reads this trace, or folder of traces.
pub(crate) fn trace(folder: &Path) -> Sandbox {
    Sandbox::new().may_read_below(folder)
}

/// Says what a sandbox lacks.
pub(crate) fn note(confined: &Confined) {
    confined.shortfall().iter().for_each(|why| warn(why));
}
