//! What pNFS puts into opaque bodies, for the layout types whose data servers speak NFS: files (RFC
//! 8881 section 13) and flexible files (RFC 8435).

use lineside_rpc::xdr::{Array, Counted, Name, Xdr};

use super::types::{Body, DeviceId, Handle, IoMode, LayoutType, NetAddress, StateId, Status, Time};

lineside_rpc::xdr! {
    /// layout4: which bytes of the file, and where they are.
    pub struct Layout<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        io_mode: Option<IoMode>,
        layout_type: Option<LayoutType>,
        body: Option<Body<'a>>,
    }

    /// device_addr4.
    pub struct DeviceAddress<'a> { layout_type: Option<LayoutType>, body: Option<Body<'a>> }

    /// layoutupdate4, of LAYOUTCOMMIT and LAYOUTSTATS.
    pub struct LayoutUpdate<'a> { layout_type: Option<LayoutType>, body: Option<Body<'a>> }

    /// nfsv4_1_file_layout4.
    pub struct FileLayout<'a> {
        device: Option<DeviceId>,
        /// Bits: 1 dense, 2 commit through the metadata server; the rest is the stripe unit in
        /// bytes.
        utility: Option<u32>,
        first_stripe: Option<u32>,
        pattern_offset: Option<u64>,
        handles: Counted<'a, Option<Handle<'a>>>,
    }

    /// nfsv4_1_file_layout_ds_addr4: each stripe's place in the list of servers, and each server's
    /// addresses.
    pub struct FileDevice<'a> {
        stripes: Array<'a, u32, 0x1_0000>,
        servers: Counted<'a, Counted<'a, NetAddress<'a>>>,
    }

    /// ff_layout4 (RFC 8435 section 5.1).
    pub struct FlexLayout<'a> {
        stripe_unit: Option<u64>,
        /// Each mirror, with its data servers.
        mirrors: Counted<'a, Counted<'a, FlexDataServer<'a>>>,
        /// Bits: 1 no LAYOUTCOMMIT, 2 no I/O through the metadata server, 4 no READ, 8 write one
        /// mirror.
        flags: Option<u32>,
        /// Seconds between two reports of statistics that the server would like.
        stats_seconds: Option<u32>,
    }

    /// ff_data_server4.
    pub struct FlexDataServer<'a> {
        device: Option<DeviceId>,
        efficiency: Option<u32>,
        stateid: Option<StateId>,
        /// The file's handle there, for each version that the server speaks.
        handles: Counted<'a, Option<Handle<'a>>>,
        user: Option<Name<'a>>,
        group: Option<Name<'a>>,
    }

    /// ff_device_addr4 (RFC 8435 section 4.1).
    pub struct FlexDevice<'a> {
        addresses: Counted<'a, NetAddress<'a>>,
        versions: Counted<'a, FlexVersion>,
    }

    /// ff_device_versions4: a version that a data server speaks.
    pub struct FlexVersion {
        version: Option<u32>,
        minor_version: Option<u32>,
        read_size: Option<u32>,
        write_size: Option<u32>,
        tightly_coupled: Option<bool>,
    }

    /// ff_layoutreturn4 (RFC 8435 section 9.3): errors and statistics of the layout that is
    /// returned.
    pub struct FlexReturn<'a> {
        errors: Counted<'a, FlexError<'a>>,
        statistics: Counted<'a, FlexStatistics<'a>>,
    }

    /// ff_ioerr4.
    pub struct FlexError<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        errors: Counted<'a, DeviceError>,
    }

    /// device_error4 (RFC 7862 section 15.6).
    pub struct DeviceError {
        device: Option<DeviceId>,
        status: Option<Status>,
        /// The number of the operation that failed.
        operation: Option<u32>,
    }

    /// ff_iostats4.
    pub struct FlexStatistics<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        read: Option<IoInfo>,
        write: Option<IoInfo>,
        device: Option<DeviceId>,
        update: FlexUpdate<'a>,
    }

    /// io_info4 (RFC 7862 section 15.7).
    pub scalar struct IoInfo { count: u64, bytes: u64 }

    /// ff_layoutupdate4.
    pub struct FlexUpdate<'a> {
        address: NetAddress<'a>,
        handle: Option<Handle<'a>>,
        read: Option<FlexLatency>,
        write: Option<FlexLatency>,
        duration: Option<Time>,
        local: Option<bool>,
    }

    /// ff_io_latency4.
    pub scalar struct FlexLatency {
        operations_requested: u64,
        bytes_requested: u64,
        operations_completed: u64,
        bytes_completed: u64,
        bytes_not_delivered: u64,
        busy_time: Time,
        completion_time: Time,
    }
}

/// The body of a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayoutBody<'a> {
    /// Of [`LayoutType::FILES`].
    Files(FileLayout<'a>),
    /// Of [`LayoutType::FLEX_FILES`].
    FlexFiles(FlexLayout<'a>),
}

/// The body of a [`DeviceAddress`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeviceBody<'a> {
    /// Of [`LayoutType::FILES`].
    Files(FileDevice<'a>),
    /// Of [`LayoutType::FLEX_FILES`].
    FlexFiles(FlexDevice<'a>),
}

impl<'a> Layout<'a> {
    /// The body, if it is of a type known here and was seen.
    pub fn content(&self) -> Option<LayoutBody<'a>> {
        match self.layout_type? {
            LayoutType::FILES => parse(self.body).map(LayoutBody::Files),
            LayoutType::FLEX_FILES => parse(self.body).map(LayoutBody::FlexFiles),
            _ => None,
        }
    }
}

impl<'a> DeviceAddress<'a> {
    /// The body, if it is of a type known here and was seen.
    pub fn content(&self) -> Option<DeviceBody<'a>> {
        match self.layout_type? {
            LayoutType::FILES => parse(self.body).map(DeviceBody::Files),
            LayoutType::FLEX_FILES => parse(self.body).map(DeviceBody::FlexFiles),
            _ => None,
        }
    }
}

impl<'a> LayoutUpdate<'a> {
    /// What LAYOUTSTATS reports of a flexible file.
    pub fn flex_files(&self) -> Option<FlexUpdate<'a>> {
        (self.layout_type? == LayoutType::FLEX_FILES)
            .then(|| parse(self.body))
            .flatten()
    }
}

/// A body as a type: as far as it goes, since a short body is its sender's fault.
pub(super) fn parse<'a, T: Xdr<'a>>(body: Option<Body<'a>>) -> Option<T> {
    Some(T::decode(&mut body?.cursor()))
}
