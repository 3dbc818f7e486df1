//! Values that a [`Summary`](super::Summary) holds as they came.

lineside_rpc::xdr! {
    /// fsh_mode: what others may not do meanwhile.
    pub enum DenyMode {
        NONE = 0, "FSM_DN";
        READ = 1, "FSM_DR";
        WRITE = 2, "FSM_DW";
        READ_WRITE = 3, "FSM_DRW";
    }

    /// fsh_access: what the caller wants to do.
    pub enum Access {
        NONE = 0, "FSA_NONE";
        READ = 1, "FSA_R";
        WRITE = 2, "FSA_W";
        READ_WRITE = 3, "FSA_RW";
    }

    /// sq_dqblk: limits of blocks and files, what is used of them, and the seconds left above the
    /// soft ones.
    pub fixed struct Limits {
        blocks_hard: Option<u32>,
        blocks_soft: Option<u32>,
        blocks_used: Option<u32>,
        files_hard: Option<u32>,
        files_soft: Option<u32>,
        files_used: Option<u32>,
        blocks_seconds_left: Option<u32>,
        files_seconds_left: Option<u32>,
    }
}
