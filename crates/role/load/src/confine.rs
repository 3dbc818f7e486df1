//! The sandbox of a load and of its servers: entered when all ports of our own TCP are open, before
//! there is a second thread or the first answer. What the kernel's sockets need is a rule for the
//! ports of the servers.

use std::os::fd::BorrowedFd;

use lineside_host::{Capability, Confined, RunClock, Sandbox};
use lineside_run::to_write;
use lineside_store::RunFolder;

use crate::error::{LoadError, ServeError};
use crate::prepared::Prepared;
use crate::protocol::Carrier;
use crate::settings::{ServeSettings, Transport};
use crate::stack_transport::{open_before, open_for_server_before};

/// The first port that every user may listen at, unless the machine says otherwise.
const PORT_OF_ALL: u16 = 1_024;

/// What a load writes.
#[derive(Default)]
pub struct Outputs<'a> {
    /// The folder of the run.
    pub folder: Option<&'a RunFolder>,
    /// Files beside it that are open.
    pub files: Vec<BorrowedFd<'a>>,
}

impl Outputs<'_> {
    fn sandbox(&self) -> Sandbox {
        lineside_run::sandbox(self.folder)
    }

    fn keep_capabilities(&self, further: Option<Capability>) -> Result<(), LoadError> {
        let kept = to_write(self.folder.map(RunFolder::path).into_iter());
        let kept: Vec<_> = kept.into_iter().chain(further).collect();
        Ok(lineside_host::keep_capabilities(&kept)?)
    }
}

/// Confines a process that directs others, which make the load.
pub fn confine_director(
    outputs: &Outputs<'_>,
    applied: impl FnOnce(Sandbox) -> Option<Sandbox>,
) -> Result<Option<Confined>, LoadError> {
    let sandbox = outputs.sandbox();
    outputs.keep_capabilities(None)?;
    let sandbox = applied(sandbox);
    Ok(sandbox.map(Sandbox::enter).transpose()?)
}

impl Prepared {
    /// Opens the ports of the load and of its server, if it has one, drops all privileges, and
    /// enters the sandbox that `applied` makes of the one that the load needs, if it makes one.
    pub fn confine(
        &self,
        server: Option<&ServeSettings>,
        outputs: &Outputs<'_>,
        clock: RunClock,
        applied: impl FnOnce(Sandbox) -> Option<Sandbox>,
    ) -> Result<Option<Confined>, LoadError> {
        if let Some(server) = server {
            open_for_server_before(server, clock)
                .map_err(|error| LoadError::Server(Box::new(LoadError::from(error).into())))?;
        }
        open_before(&self.settings, clock)?;
        let sandbox = outputs.sandbox();
        if self.needs_no_privilege() {
            lineside_host::drop_privileges(outputs.folder.map(|it| it as _), &outputs.files)?;
        } else {
            let priority = self.settings.real_time.then_some(Capability::SysNice);
            outputs.keep_capabilities(priority)?;
        }
        let sandbox = applied(self.may_reach_servers(sandbox));
        Ok(sandbox.map(Sandbox::enter).transpose()?)
    }

    /// Once its interface is open. The kernel's sockets are opened meanwhile, as the user.
    fn needs_no_privilege(&self) -> bool {
        matches!(self.settings.transport, Transport::Stack(_)) && !self.settings.real_time
    }

    fn may_reach_servers(&self, sandbox: Sandbox) -> Sandbox {
        if matches!(self.settings.transport, Transport::Stack(_)) {
            return sandbox.may_ask_about_links();
        }
        match self.protocol.carrier {
            Carrier::Udp => sandbox.may_use_datagrams(),
            Carrier::Tcp if self.protocol.has_further_ports => sandbox.may_connect_everywhere(),
            Carrier::Tcp => { self.settings.targets.iter() }
                .fold(sandbox, |sandbox, &(_, port)| sandbox.may_connect(port)),
        }
    }
}

/// The same of a server.
pub fn confine_server(
    settings: &ServeSettings,
    carrier: Carrier,
    clock: RunClock,
    applied: impl FnOnce(Sandbox) -> Option<Sandbox>,
) -> Result<Option<Confined>, ServeError> {
    open_for_server_before(settings, clock).map_err(LoadError::from)?;
    let port = settings.at.port();
    if settings.stack.is_some() {
        lineside_host::drop_privileges(None, &[]).map_err(LoadError::from)?;
    } else {
        let is_low = port != 0 && port < PORT_OF_ALL;
        let kept = is_low.then_some(Capability::NetBindService);
        lineside_host::keep_capabilities(kept.as_slice()).map_err(LoadError::from)?;
    }
    let sandbox = applied(match (&settings.stack, carrier) {
        (Some(_), _) => Sandbox::new().may_ask_about_links(),
        (None, Carrier::Udp) => Sandbox::new().may_use_datagrams(),
        (None, Carrier::Tcp) => Sandbox::new().may_listen(port),
    });
    Ok({ sandbox.map(Sandbox::enter) }
        .transpose()
        .map_err(LoadError::from)?)
}
