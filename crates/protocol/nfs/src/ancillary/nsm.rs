//! The network status monitor, version 1 (X/Open XNFS chapter 11): which hosts have restarted, so
//! that locks are reclaimed.

use lineside_rpc::xdr::{Name, Void};

use super::{Named, Summary};

/// Its RPC program number.
pub const PROGRAM: u32 = 100_024;
/// The version described here.
pub const VERSION: u32 = 1;

lineside_rpc::procedures! {
    0 Null "NULL": () => Void<'a>;
    1 Stat "STAT": Host<'a> => StatResult;
    2 Mon "MON": Monitor<'a> => StatResult;
    3 Unmon "UNMON": Monitored<'a> => State;
    4 UnmonAll "UNMON_ALL": Callback<'a> => State;
    5 SimuCrash "SIMU_CRASH": () => ();
    6 Notify "NOTIFY": Change<'a> => ();
}

lineside_rpc::xdr! {
    /// sm_res.
    pub enum Status {
        SUCCESS = 0, "STAT_SUCC";
        FAILURE = 1, "STAT_FAIL";
    }

    /// sm_name.
    pub struct Host<'a> { name: Option<Name<'a>> }

    /// my_id: the procedure to be called on the host `name` when a monitored host changes.
    pub struct Callback<'a> {
        name: Option<Name<'a>>,
        program: Option<u32>,
        version: Option<u32>,
        procedure: Option<u32>,
    }

    /// mon_id.
    pub struct Monitored<'a> { host: Option<Name<'a>>, callback: Callback<'a> }

    /// mon.
    pub struct Monitor<'a> {
        monitored: Monitored<'a>,
        /// Returned in the call that reports a change.
        private: Option<[u8; 16]>,
    }

    /// sm_stat_res.
    pub struct StatResult { status: Option<Status>, state: Option<u32> }

    /// sm_stat: the state number, odd while the host is up.
    pub struct State { state: Option<u32> }

    /// stat_chge: a host has a new state.
    pub struct Change<'a> { host: Option<Name<'a>>, state: Option<u32> }
}

/// The specification's name of a status.
pub fn status_name(status: u32) -> Option<&'static str> {
    Status(status).name()
}

impl<'a> Callback<'a> {
    fn summarise(&self, summary: &mut Summary<'a>) {
        summary.name2 = self.name.map(|name| name.view());
        summary.target_program = self.program;
        summary.target_version = self.version;
        summary.target_procedure = self.procedure;
    }
}

impl<'a> Monitored<'a> {
    fn summarise(&self, summary: &mut Summary<'a>) {
        summary.name = self.host.map(|host| host.view());
        self.callback.summarise(summary);
    }
}

impl<'a> Call<'a> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'a>) {
        match self {
            Self::Null(()) | Self::SimuCrash(()) => {}
            Self::Stat(host) => summary.name = host.name.map(|name| name.view()),
            Self::Mon(monitor) => monitor.monitored.summarise(summary),
            Self::Unmon(monitored) => monitored.summarise(summary),
            Self::UnmonAll(callback) => callback.summarise(summary),
            Self::Notify(change) => {
                summary.name = change.host.map(|host| host.view());
                summary.state = change.state;
            }
        }
    }
}

impl Reply<'_> {
    pub(crate) fn summarise(&self, summary: &mut Summary<'_>) {
        match self {
            Self::Null(_) | Self::SimuCrash(()) | Self::Notify(()) => {}
            Self::Stat(result) | Self::Mon(result) => {
                let status = result.status;
                summary.status = status.map(|status| Named::new(status.0, status_name));
                summary.state = result.state;
            }
            Self::Unmon(state) | Self::UnmonAll(state) => summary.state = state.state,
        }
    }
}
