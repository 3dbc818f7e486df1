//! The sandbox of a load and of its other end: entered when all ports of our own TCP are open,
//! before there is a second thread or the first answer. What the kernel's sockets need is a rule
//! for the ports of the servers.

use std::os::fd::BorrowedFd;

use lineside_host::{Capability, RunClock, RunFolder, Sandbox};
use lineside_load::run::{LoadError, Transport};
use lineside_load::serve::{ServeError, ServeSettings};
use lineside_load::stack_transport::{open_before, open_for_server_before};
use lineside_run::{Run, folder_of, not_confined, sandbox_facts, to_write};

use super::flags::{Arguments, ServeArguments, Service};
use super::hdr::HdrLog;
use super::settings::{Prepared, Requests};
use crate::confine;

/// The first port that every user may listen at, unless the machine says otherwise.
const PORT_OF_ALL: u16 = 1_024;

/// Files beside the folder of the run that are open.
pub(super) struct Written<'a> {
    /// That of `--write-pcap`.
    pub(super) capture: Option<BorrowedFd<'a>>,
    /// That of `--hdr`.
    pub(super) log: Option<&'a HdrLog>,
}

impl Arguments {
    /// Opens the ports, drops all privileges and enters the sandbox; notes in `trace.json` whether
    /// it holds.
    pub(super) fn confine(
        &self,
        (prepared, other_end): (&Prepared, Option<&ServeSettings>),
        written: &Written<'_>,
        run: &mut Run,
        clock: RunClock,
    ) -> anyhow::Result<()> {
        if let Some(why) = self.obstacle(prepared) {
            run.manifest.sandbox = Some(not_confined(why));
            return Ok(());
        }
        if let Some(serving) = other_end {
            open_for_server_before(serving, clock)
                .map_err(|error| ServeError::from(LoadError::from(error)))?;
        }
        open_before(&prepared.settings, clock).map_err(LoadError::from)?;
        self.drop_privileges(prepared, written, run.folder.as_ref())?;
        let facts = match self.keys.no_sandbox {
            Some(true) => not_confined("--no-sandbox"),
            _ => {
                let confined = self.sandbox(prepared, run.folder.as_ref()).enter()?;
                confine::note(&confined);
                sandbox_facts(&confined)
            }
        };
        run.manifest.sandbox = Some(facts);
        Ok(())
    }

    /// Why there is no sandbox, nor less privileges.
    fn obstacle(&self, prepared: &Prepared) -> Option<&'static str> {
        let is_stack = matches!(prepared.settings.transport, Transport::Stack(_));
        if self
            .keys
            .hosts
            .as_ref()
            .is_some_and(|hosts| !hosts.is_empty())
        {
            Some("other hosts are reached by a program of the user (--rsh), which needs more")
        } else if is_stack && matches!(prepared.requests, Requests::Nfs(_)) {
            Some("a load of NFS opens its interface twice, the first time to look at the export")
        } else {
            None
        }
    }

    fn drop_privileges(
        &self,
        prepared: &Prepared,
        written: &Written<'_>,
        folder: Option<&RunFolder>,
    ) -> anyhow::Result<()> {
        let is_stack = matches!(prepared.settings.transport, Transport::Stack(_));
        if is_stack && !prepared.settings.real_time {
            let log = written.log.map(HdrLog::file);
            let files: Vec<_> = written.capture.into_iter().chain(log).collect();
            lineside_host::drop_privileges(folder, &files)?;
            return Ok(());
        }
        let writes = folder.map(RunFolder::path).into_iter();
        let outputs = [self.keys.write_pcap.as_deref(), self.keys.hdr.as_deref()];
        let outputs = outputs.into_iter().flatten().map(folder_of);
        let priority = prepared.settings.real_time.then_some(Capability::SysNice);
        let kept: Vec<_> = { to_write(writes.chain(outputs)).into_iter() }
            .chain(priority)
            .collect();
        Ok(lineside_host::keep_capabilities(&kept)?)
    }

    fn sandbox(&self, prepared: &Prepared, folder: Option<&RunFolder>) -> Sandbox {
        let mut sandbox = lineside_run::sandbox(folder, self.keys.write_pcap.as_deref());
        // A log that is a file is removed again if the run fails.
        if let Some(log) = self.keys.hdr.as_deref().filter(|log| log.is_file()) {
            sandbox = sandbox.may_write_below(folder_of(log));
        }
        if matches!(prepared.settings.transport, Transport::Stack(_)) {
            return sandbox;
        }
        match &prepared.requests {
            Requests::Dns(_) | Requests::Udp { .. } => sandbox.may_use_datagrams(),
            // The server says which port its mounts have.
            Requests::Nfs(_) => sandbox.may_connect_everywhere(),
            _ => { prepared.settings.targets.iter() }
                .fold(sandbox, |sandbox, &(_, port)| sandbox.may_connect(port)),
        }
    }
}

impl ServeArguments {
    /// The same of a server.
    pub(super) fn confine(&self, settings: &ServeSettings, clock: RunClock) -> anyhow::Result<()> {
        open_for_server_before(settings, clock)
            .map_err(|error| ServeError::from(LoadError::from(error)))?;
        let port = settings.at.port();
        if settings.stack.is_some() {
            lineside_host::drop_privileges(None, &[])?;
        } else {
            let is_low = port != 0 && port < PORT_OF_ALL;
            let kept = is_low.then_some(Capability::NetBindService);
            lineside_host::keep_capabilities(kept.as_slice())?;
        }
        if self.confining.no_sandbox {
            return Ok(());
        }
        let sandbox = match (&settings.stack, self.what) {
            (Some(_), _) => Sandbox::new(),
            (None, Service::Dns | Service::Udp) => Sandbox::new().may_use_datagrams(),
            (None, _) => Sandbox::new().may_listen(port),
        };
        confine::note(&sandbox.enter()?);
        Ok(())
    }
}
