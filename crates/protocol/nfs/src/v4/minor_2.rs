//! The arguments and results of operations that came with NFSv4.2, and extended attributes.
//!
//! Sections are RFC 7862's, of operations 72 to 75 RFC 8276's. COPY and CLONE have the saved file
//! handle as their source.

use lineside_rpc::xdr::{Counted, Name};

use super::attributes::Bitmap;
use super::layouts::{DeviceError, IoInfo, LayoutUpdate};
use super::types::{
    Body, ChangeInfo, Content, DeviceId, NetLocation, StableHow, StateId, Time, WriteResponse,
};

lineside_rpc::xdr! {
    /// ALLOCATE4args (15.1) and DEALLOCATE4args (15.4).
    pub struct AllocateArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        length: Option<u64>,
    }

    /// COPY4args (15.2).
    pub struct CopyArgs<'a> {
        source_stateid: Option<StateId>,
        stateid: Option<StateId>,
        source_offset: Option<u64>,
        offset: Option<u64>,
        /// Bytes; 0 is up to the end of the source.
        count: Option<u64>,
        consecutive: Option<bool>,
        synchronous: Option<bool>,
        source_servers: Counted<'a, NetLocation<'a>>,
    }

    /// COPY4res.
    pub union CopyResult<'a> {
        0 => Ok(body: CopyOk<'a>),
        10094 => Requirements(requirements: CopyRequirements),
        _ => Other,
    }

    /// COPY4resok.
    pub struct CopyOk<'a> { response: WriteResponse<'a>, requirements: CopyRequirements }

    /// copy_requirements4.
    pub struct CopyRequirements { consecutive: Option<bool>, synchronous: Option<bool> }

    /// COPY_NOTIFY4args (15.3).
    pub struct CopyNotifyArgs<'a> {
        stateid: Option<StateId>,
        destination: NetLocation<'a>,
    }

    /// COPY_NOTIFY4resok.
    pub struct CopyNotifyOk<'a> {
        lease: Option<Time>,
        stateid: Option<StateId>,
        source_servers: Counted<'a, NetLocation<'a>>,
    }

    /// IO_ADVISE4args (15.5).
    pub struct IoAdviseArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        count: Option<u64>,
        hints: Option<Bitmap>,
    }

    /// IO_ADVISE4resok.
    pub struct IoAdviseOk { hints: Option<Bitmap> }

    /// LAYOUTERROR4args (15.6).
    pub struct LayoutErrorArgs<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        errors: Counted<'a, DeviceError>,
    }

    /// LAYOUTSTATS4args (15.7).
    pub struct LayoutStatsArgs<'a> {
        offset: Option<u64>,
        length: Option<u64>,
        stateid: Option<StateId>,
        read: Option<IoInfo>,
        write: Option<IoInfo>,
        device: Option<DeviceId>,
        update: LayoutUpdate<'a>,
    }

    /// OFFLOAD_STATUS4resok (15.9).
    pub struct OffloadStatusOk<'a> {
        /// Bytes copied so far.
        count: Option<u64>,
        /// The status with which it ended, if it did.
        complete: Counted<'a, Option<u32>, 1>,
    }

    /// read_plus_res4 (15.10) up to the first [`Segment`], where the cursor then stands.
    pub struct ReadPlusOk {
        eof: Option<bool>,
        /// Segments that follow.
        segment_count: Option<u32>,
    }

    /// read_plus_content: a segment of the file. After [`Data`](Self::Data) the cursor stands at
    /// its data.
    pub union Segment {
        0 => Data(data: SegmentData),
        1 => Hole(hole: SegmentHole),
        _ => Other,
    }

    /// data4 up to the data.
    pub struct SegmentData {
        offset: Option<u64>,
        /// Bytes of data that follow, before padding.
        data_len: Option<u32>,
    }

    /// data_info4.
    pub struct SegmentHole { offset: Option<u64>, length: Option<u64> }

    /// SEEK4args (15.11).
    pub struct SeekArgs {
        stateid: Option<StateId>,
        offset: Option<u64>,
        what: Option<Content>,
    }

    /// seek_res4.
    pub struct SeekOk { eof: Option<bool>, offset: Option<u64> }

    /// WRITE_SAME4args (15.12) up to the pattern, where the cursor then stands.
    pub struct WriteSameArgs {
        stateid: Option<StateId>,
        stable: Option<StableHow>,
        offset: Option<u64>,
        block_size: Option<u64>,
        block_count: Option<u64>,
        number_offset: Option<u64>,
        first_number: Option<u32>,
        pattern_offset: Option<u64>,
        /// Bytes of the pattern that follow, before padding.
        data_len: Option<u32>,
    }

    /// WRITE_SAME4res's body.
    pub struct WriteSameOk<'a> { response: WriteResponse<'a> }

    /// CLONE4args (15.13).
    pub struct CloneArgs {
        source_stateid: Option<StateId>,
        stateid: Option<StateId>,
        source_offset: Option<u64>,
        offset: Option<u64>,
        /// Bytes; 0 is up to the end of the source.
        count: Option<u64>,
    }

    /// GETXATTR4args (8.4.1) and REMOVEXATTR4args (8.4.4).
    pub struct XattrArgs<'a> { name: Option<Name<'a>> }

    /// GETXATTR4res's body.
    pub struct GetXattrOk<'a> { value: Option<Body<'a>> }

    /// setxattr_option4.
    pub enum SetXattrOption {
        EITHER = 0, "SETXATTR4_EITHER";
        CREATE = 1, "SETXATTR4_CREATE";
        REPLACE = 2, "SETXATTR4_REPLACE";
    }

    /// SETXATTR4args (8.4.2).
    pub struct SetXattrArgs<'a> {
        option: Option<SetXattrOption>,
        name: Option<Name<'a>>,
        value: Option<Body<'a>>,
    }

    /// SETXATTR4res's and REMOVEXATTR4res's body: the file's change attribute.
    pub struct XattrOk { change: Option<ChangeInfo> }

    /// LISTXATTRS4args (8.4.3).
    pub struct ListXattrsArgs { cookie: Option<u64>, count_max: Option<u32> }

    /// LISTXATTRS4resok.
    pub struct ListXattrsOk<'a> {
        cookie: Option<u64>,
        names: Counted<'a, Option<Name<'a>>>,
        eof: Option<bool>,
    }
}
