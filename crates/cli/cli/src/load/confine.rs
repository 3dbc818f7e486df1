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
use crate::config::Sandboxing;
use crate::confine;

/// The first port that every user may listen at, unless the machine says otherwise.
const PORT_OF_ALL: u16 = 1_024;

/// Files beside the folder of the run that are open.
pub(super) struct Written<'a> {
    /// That of `--write-pcap`.
    pub(super) capture: Option<BorrowedFd<'a>>,
    /// That of `--hdr`.
    pub(super) log: Option<&'a HdrLog>,
    /// That of `--junit`.
    pub(super) junit: Option<BorrowedFd<'a>>,
}

impl Arguments {
    /// Opens the ports, drops all privileges and enters the sandbox; notes in `trace.json` whether
    /// it holds. Of a load that hosts make, `starts` starts their programs before.
    pub(super) fn confine<T>(
        &self,
        (prepared, other_end): (&Prepared, Option<&ServeSettings>),
        written: &Written<'_>,
        run: &mut Run,
        clock: RunClock,
        starts: impl FnOnce() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        let started = starts()?;
        if started.is_none() {
            if let Some(serving) = other_end {
                open_for_server_before(serving, clock)
                    .map_err(|error| ServeError::from(LoadError::from(error)))?;
            }
            open_before(&prepared.settings, clock).map_err(LoadError::from)?;
        }
        let folder = run.folder.as_ref();
        let maker = (started.is_none()).then_some(prepared);
        let sandbox = self.sandbox(maker, folder);
        self.drop_privileges(maker, written, folder)?;
        let sandboxing = self.keys.sandbox.unwrap_or_default();
        let facts = match sandboxing.applied(sandbox) {
            None => not_confined(Sandboxing::NONE),
            Some(sandbox) => {
                let confined = sandbox.enter()?;
                confine::note(&confined);
                sandbox_facts(&confined)
            }
        };
        run.manifest.sandbox = Some(facts);
        Ok(started)
    }

    /// `maker` is the load that this process makes itself.
    fn drop_privileges(
        &self,
        maker: Option<&Prepared>,
        written: &Written<'_>,
        folder: Option<&RunFolder>,
    ) -> anyhow::Result<()> {
        if let Some(prepared) = maker
            && prepared.needs_no_privilege()
        {
            let log = written.log.map(HdrLog::file);
            let files = { written.capture.into_iter() }
                .chain(log)
                .chain(written.junit);
            let files: Vec<_> = files.collect();
            lineside_host::drop_privileges(folder, &files)?;
            return Ok(());
        }
        let writes = folder.map(RunFolder::path).into_iter();
        let outputs = [self.keys.write_pcap.as_deref(), self.keys.hdr.as_deref()];
        let outputs = outputs.into_iter().flatten().map(folder_of);
        let further = match maker {
            Some(prepared) => prepared.priority(),
            // Programs that became other users are ended too.
            None => Some(Capability::Kill),
        };
        let kept: Vec<_> = { to_write(writes.chain(outputs)).into_iter() }
            .chain(further)
            .collect();
        Ok(lineside_host::keep_capabilities(&kept)?)
    }

    fn sandbox(&self, maker: Option<&Prepared>, folder: Option<&RunFolder>) -> Sandbox {
        let mut sandbox = lineside_run::sandbox(folder, self.keys.write_pcap.as_deref());
        // A log that is a file is removed again if the run fails, and so is that of --junit.
        let files = [self.keys.hdr.as_deref(), self.junit.as_deref()];
        for file in files.into_iter().flatten().filter(|file| file.is_file()) {
            sandbox = sandbox.may_write_below(folder_of(file));
        }
        match maker {
            Some(prepared) => prepared.may_reach_servers(sandbox),
            None => sandbox.may_signal(),
        }
    }
}

impl Prepared {
    /// The same of a load that writes nothing itself: that of another host, or a search.
    pub(super) fn confine(&self, sandboxing: Sandboxing, clock: RunClock) -> anyhow::Result<()> {
        open_before(&self.settings, clock).map_err(LoadError::from)?;
        if self.needs_no_privilege() {
            lineside_host::drop_privileges(None, &[])?;
        } else {
            lineside_host::keep_capabilities(self.priority().as_slice())?;
        }
        if let Some(sandbox) = sandboxing.applied(self.may_reach_servers(Sandbox::new())) {
            confine::note(&sandbox.enter()?);
        }
        Ok(())
    }

    /// Once its interface is open. The kernel's sockets are opened meanwhile, as the user.
    fn needs_no_privilege(&self) -> bool {
        matches!(self.settings.transport, Transport::Stack(_)) && !self.settings.real_time
    }

    fn priority(&self) -> Option<Capability> {
        self.settings.real_time.then_some(Capability::SysNice)
    }

    fn may_reach_servers(&self, sandbox: Sandbox) -> Sandbox {
        if matches!(self.settings.transport, Transport::Stack(_)) {
            return sandbox;
        }
        match &self.requests {
            Requests::Dns(_) | Requests::Udp { .. } => sandbox.may_use_datagrams(),
            // The server says which port its mounts have.
            Requests::Nfs(_) => sandbox.may_connect_everywhere(),
            _ => { self.settings.targets.iter() }
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
        let sandbox = match (&settings.stack, self.what) {
            (Some(_), _) => Sandbox::new(),
            (None, Service::Dns | Service::Udp) => Sandbox::new().may_use_datagrams(),
            (None, _) => Sandbox::new().may_listen(port),
        };
        if let Some(sandbox) = self.confining.applied(sandbox) {
            confine::note(&sandbox.enter()?);
        }
        Ok(())
    }
}
