//! Flags that choose operations of a trace.

use clap::Args;
use lineside_analyze::{Filter, Moment, Zone};

/// The selected operations.
#[derive(Debug, Args)]
pub(crate) struct FilterArguments {
    /// Only from this time on: RFC 3339, local time (13:35), or a time after the start (10s)
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only before this time, e.g. 10s after the start
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Only this client
    #[arg(long, value_name = "ADDRESS")]
    client: Option<String>,
    /// Only this server
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// Only this user
    #[arg(long, value_name = "UID")]
    user: Option<i64>,
    /// Only files whose path matches: '*.o' the last name, '/vfs/a/*' the whole path; or this
    /// file_id
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    file: Option<String>,
    /// Only this connection: its connection_id, or one of its ends as ADDRESS:PORT
    #[arg(long, value_name = "ID|END")]
    connection: Option<String>,
    /// Only operations of this name, e.g. READ
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Print times in UTC, not in this machine's time zone (TZ)
    #[arg(long)]
    utc: bool,
}

impl FilterArguments {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            since: self.since,
            until: self.until,
            client: self.client.clone(),
            server: self.server.clone(),
            user_id: self.user,
            file: self.file.clone(),
            connection: self.connection.clone(),
            operation: self.operation.clone(),
            zone: self.zone(),
        }
    }

    /// In which times are written, and those that were given without an offset are read.
    pub(crate) fn zone(&self) -> Zone {
        if self.utc {
            Zone::default()
        } else {
            Zone::local()
        }
    }
}
