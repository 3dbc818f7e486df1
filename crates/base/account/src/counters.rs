//! The one registry: every number that a run counts has its name, its kind and its meaning here.

/// What a counter is to the identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A frame's one outcome: their sum is `frames.received`.
    Outcome,
    /// A part of `stream.bytes`: their sum is that.
    StreamByte,
    /// An end of a call: their sum is `rpc.calls`.
    CallEnd,
    /// A limit that changed the result: not 0 means verdict `limited`.
    Limit,
    /// Anything else that is worth a number.
    Plain,
}

macro_rules! registry {
    ($($variant:ident = $name:literal, $kind:ident, $meaning:literal;)*) => {
        /// A number that a run counts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $meaning] $variant,)* }

        impl Counter {
            /// Every counter, in the order of the registry.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in `trace.json`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is to the identities.
            pub fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }

            /// What it counts.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

registry! {
    FramesReceived = "frames.received", Plain, "frames read from all inputs";
    FrameBytes = "frames.bytes", Plain, "bytes of those frames on the wire";
    FramesCut = "frames.cut", Plain, "frames of which a snap length kept only the beginning";
    StampsMissing = "frames.without_stamp", Plain, "frames whose time stamp is missing or does not \
        fit";
    StampsBack = "frames.stamped_back", Plain, "frames stamped more than 0.1 s before the frame \
        before them: the clock was set, a stamp is wrong, or files were joined out of order";
    FramesTcp = "frames.outcome.tcp", Outcome, "frames with a TCP segment that the flow engine took";
    FramesUdp = "frames.outcome.udp", Outcome, "frames with a UDP datagram that the flow engine \
        took";
    FramesFragment = "frames.outcome.fragment", Outcome, "frames with an IP fragment that the flow \
        engine took";
    FramesHeaderCut = "frames.outcome.header_cut", Outcome, "frames of which the snap length cut \
        the headers";
    FramesFiltered = "frames.outcome.filtered", Outcome, "frames that the filter (-f) took away";
    FramesOtherTap = "frames.outcome.other_tap", Outcome, "frames of a second tap, which another \
        input has as well: they give times, not rows";
    FramesFilteredTagged = "frames.filtered_tagged", Plain, "of the frames that the filter took away, \
        those with a VLAN tag, which an expression without 'vlan' cannot match";
    FramesElsewhere = "frames.outcome.elsewhere", Outcome, "frames of a file of 'emulate \
        --write-pcap' at other places of their path than the one that is read (--at)";
    FramesNotIp = "frames.outcome.not_ip", Outcome, "frames that carry neither IPv4 nor IPv6";
    FramesIpUnread = "frames.outcome.ip_unread", Outcome, "frames that carry IP which is encrypted, \
        compressed, or wrapped in a way that is not known";
    FramesOtherProtocol = "frames.outcome.other_protocol", Outcome, "IP packets that are neither \
        TCP nor UDP nor a tunnel";
    FramesTooDeep = "frames.outcome.too_deep", Outcome, "frames with more than 8 tags or tunnels \
        around a packet";
    FramesDuplicate = "frames.outcome.duplicate", Outcome, "frames with a packet that another \
        frame had just brought: mirrored twice (--duplicate-window)";
    FramesDamaged = "frames.outcome.damaged", Outcome, "damaged frames, which were not read: their \
        recorder marks them so, or their checksum is wrong where others of their direction are right";
    FramesDamagedNotTcp = "frames.damaged_not_tcp", Plain, "of these, those that are no TCP \
        segments: no hole shows whether the same came again";
    FramesUnknownLink = "frames.outcome.unknown_link_type", Outcome, "frames of a link type that \
        is not known";
    MalformedLink = "frames.outcome.malformed.link", Outcome, "frames too short for their link \
        header";
    MalformedIp = "frames.outcome.malformed.ip", Outcome, "packets whose IP header contradicts \
        itself or is cut";
    MalformedTunnel = "frames.outcome.malformed.tunnel", Outcome, "packets whose tunnel header \
        contradicts itself or is cut";
    MalformedTcp = "frames.outcome.malformed.tcp", Outcome, "segments whose TCP header contradicts \
        itself or is cut";
    MalformedUdp = "frames.outcome.malformed.udp", Outcome, "datagrams whose UDP header \
        contradicts itself or is cut";
    MalformedFragment = "frames.outcome.malformed.fragment", Outcome, "fragments that reach beyond \
        65,535 bytes or overlap";
    DroppedConnections = "frames.outcome.dropped.connections_max", Outcome, "frames of connections \
        for which there was no room";

    ChecksumIpv4Wrong = "checksums.ipv4_wrong", Plain, "IPv4 header checksums that do not match";
    ChecksumsWrongRead = "checksums.wrong_read", Plain, "packets with a wrong checksum of TCP or UDP \
        that were read, since only later ones of their direction showed that it was not offloaded";
    ChecksumOffloaded = "checksums.offloaded", Plain, "checksums that the sender left to its \
        adapter";

    FragmentsHeld = "fragments.received", Plain, "IP fragments received";
    DatagramsWhole = "fragments.datagrams_whole", Plain, "packets put together from fragments";
    DatagramsIncomplete = "fragments.datagrams_incomplete", Plain, "fragmented packets of which \
        some fragment never came";
    DatagramsChecksumWrong = "fragments.datagrams_checksum_wrong", Plain, "UDP datagrams put \
        together from fragments whose checksum does not match, and which were not read: fragments \
        of two of the same identification, or damaged";
    SegmentsDamaged = "fragments.segments_damaged", Plain, "TCP segments put together from \
        fragments whose checksum is wrong where those of their direction are right; they were not \
        read";
    DatagramsUnread = "fragments.datagrams_unread", Plain, "packets put together from fragments that \
        carry IP which could not be read: malformed, in fragments itself, encrypted, or wrapped in \
        a way that is not known";
    DatagramsDuplicate = "fragments.datagrams_duplicate", Plain, "packets in a tunnel, put \
        together from fragments, that had just come before";
    FragmentsLimit = "limits.fragments", Limit, "fragmented packets given up because too many \
        bytes of fragments were held";

    DuplicatesLimit = "limits.duplicates", Limit, "packets forgotten within --duplicate-window, \
        because too many came or memory was short";

    Connections = "connections.seen", Plain, "connections seen: TCP connections, UDP pairs of \
        addresses and ports";
    ConnectionsReused = "connections.reused", Plain, "connections that began on the four-tuple of \
        an earlier one";
    ConnectionsReusedUnseen = "connections.reused_unseen", Plain, "of these, those whose SYN the \
        tap missed: there is no way to know what else";
    ConnectionsRpc = "connections.rpc", Plain, "connections on which RPC was found";
    ConnectionsUnpaired = "connections.unpaired", Plain, "connections seen in both directions with \
        more calls without reply and replies without call than pairs of both";
    ConnectionsForced = "connections.forced", Plain, "connections that --decode-as declares to be \
        RPC";
    ConnectionsForcedInVain = "connections.forced_in_vain", Plain, "of them, those on which no RPC \
        was found";
    ConnectionsLeftAlone = "connections.left_alone", Plain, "connections that were not read \
        because --decode-as declares that they are no RPC";
    ConnectionsLeftAloneRpc = "connections.left_alone_rpc", Plain, "of them, those that began like \
        RPC";
    ConnectionsTls = "connections.tls", Plain, "connections of RPC with TLS, which is not read: by \
        the probe of RFC 9289, or from the first byte at port 111, 2049 or one that --decode-as \
        declares to be RPC";
    TlsBytes = "tls.bytes", Plain, "TCP payload bytes of those connections, from the handshake on";
    TlsRecords = "tls.records", Plain, "TLS records of connections that were seen from their \
        handshake on";
    ConnectionsTlsOther = "other.tls_connections", Plain, "connections with TLS from the first byte \
        at other ports";
    TlsOtherBytes = "other.tls_bytes", Plain, "TCP payload bytes of those connections";
    RoceBytes = "other.roce_bytes", Plain, "bytes of datagrams of RoCEv2 (RDMA), which is not read";
    IwarpBytes = "other.iwarp_bytes", Plain, "TCP payload bytes of connections with iWARP (RDMA), \
        which is not read";
    SmbEncryptedBytes = "other.smb_encrypted_bytes", Plain, "TCP payload bytes of connections with \
        encrypted SMB3";
    SflowBytes = "other.sflow_bytes", Plain, "bytes of datagrams of sFlow, which hold samples of \
        other frames";
    EspBytes = "other.esp_bytes", Plain, "bytes of frames with ESP (IPsec)";
    ConnectionsLimit = "limits.connections", Limit, "connections refused or evicted because the \
        table was full";

    HalfOpenLimit = "connections.given_up_half_open", Plain, "of these, those of which only one SYN \
        was seen: the oldest first";
    IdleLimit = "connections.given_up_idle", Plain, "of these, those without an answered call: those \
        that were over or silent for longest first";
    ValuedLimit = "connections.given_up_rpc", Plain, "of these, those with answered calls, because \
        nothing else was left";

    StreamBytes = "stream.bytes", Plain, "TCP payload bytes, lost ones included: the left side of \
        the identity";
    StreamDelivered = "stream.delivered", StreamByte, "bytes given to a protocol in order";
    StreamDuplicate = "stream.duplicate", StreamByte, "bytes that had been seen before";
    StreamHeld = "stream.held", StreamByte, "bytes that wait for earlier ones (0 at the end)";
    StreamLost = "stream.lost", StreamByte, "bytes that never came: not seen, or cut by the snap \
        length";
    StreamDiscarded = "stream.discarded", StreamByte, "bytes outside any window, or that came \
        after they had been given up";
    SegmentsOutOfOrder = "stream.segments_out_of_order", Plain, "segments that came after later \
        ones (RFC 4737): late, or sent again because they were lost before the tap";
    SegmentsRetransmitted = "stream.segments_retransmitted", Plain, "segments with bytes that had \
        been seen before";
    SegmentsAfterAcknowledgement = "stream.segments_after_acknowledgement", Plain, "segments with \
        bytes that had been acknowledged when they came: stamps of the two directions do not \
        agree, or the tap missed the first copy";
    AcknowledgementsBack = "stream.acknowledgements_back", Plain, "directions that were acknowledged \
        again and again behind what had been acknowledged, after a silence and without timestamps: \
        the tap may have missed nearly 2^32 bytes";
    SegmentsStray = "stream.segments_stray", Plain, "segments ahead of their stream of which the \
        other end knew nothing while it went on: of another connection, or injected";
    SegmentsPast = "stream.segments_past", Plain, "segments with bytes or FIN whose timestamp is \
        older than what their end has shown, which a receiver drops (PAWS, RFC 7323 5.3)";
    AcknowledgedAtLast = "stream.acknowledged_at_last", Plain, "streams whose last acknowledgement, \
        alone, names bytes that never came";
    OverlapConflicts = "stream.overlap_conflicts", Plain, "bytes that came again with another \
        value while the first were still held";
    HolesNotSeen = "stream.holes.not_seen", Plain, "holes whose bytes the receiver acknowledged \
        and the tap never saw";
    HolesLost = "stream.holes.lost", Plain, "holes whose bytes the receiver asked for again, and \
        had not when the capture ended: they were lost on their way";
    HolesSnapLength = "stream.holes.snap_length", Plain, "holes cut by the snap length";
    HolesDamaged = "stream.holes.damaged", Plain, "holes whose bytes came in damaged segments only, \
        which were not read";
    HolesGivenUp = "stream.holes.given_up", Plain, "holes given up because a stream held too many \
        bytes";
    HolesMerged = "stream.holes_merged", Plain, "holes without a row of their own in `losses`, since \
        there were too many: a second of them is one row for each cause and input";
    HeldLimit = "limits.held_bytes", Limit, "times that all streams together held too many bytes \
        and the oldest gap was given up";
    FlowHeldLimit = "limits.flow_held_bytes", Limit, "times that one direction of a connection \
        held too many bytes and its oldest gap was given up";
    RangesSpilled = "stream.ranges_spilled", Plain, "held ranges copied out of their block so that \
        it could be used again";

    RpcBytes = "rpc.bytes", Plain, "TCP payload bytes of records and datagrams that were \
        understood as RPC";
    RpcUnread = "rpc.unread_bytes", Plain, "payload bytes of connections with RPC, TCP and UDP, that \
        are no message that was understood: stray bytes, or a message whose head did not come";
    SealedBytes = "rpc.sealed_bytes", Plain, "bytes of calls and replies whose arguments and results \
        are encrypted (krb5p): their headers were read";
    RpcCalls = "rpc.calls", Plain, "calls taken up as operations: the left side of the identity";
    CallsDecodedAs = "rpc.calls_decoded_as", Plain, "calls of programs that --decode-as takes for \
        others";
    CallsAnswered = "rpc.calls_answered", CallEnd, "calls whose reply was seen";
    CallsExpired = "rpc.calls_expired", CallEnd, "calls given up after the reply timeout, by a \
        limit, or at the end of their connection";
    CallsOutstanding = "rpc.calls_outstanding", CallEnd, "calls still without reply at the end of \
        the input";
    CallsRetransmitted = "rpc.calls_retransmitted", Plain, "calls that came again while the first \
        was outstanding";
    CallsRepeated = "rpc.calls_repeated", Plain, "calls that came again after their reply";
    Replies = "rpc.replies", Plain, "replies seen";
    RepliesDuplicate = "rpc.replies_duplicate", Plain, "replies to a call that had been answered";
    RepliesAmbiguous = "rpc.replies_ambiguous", Plain, "replies for which two calls with their xid \
        waited: which of them they answer cannot be known";
    RepliesWithoutCall = "rpc.replies_without_call", Plain, "replies whose call was never seen";
    RepliesWithoutCallBegun = "rpc.replies_without_call_begun", Plain, "of these, those of TCP \
        connections whose beginning was captured, so that their calls should have been";
    RepliesWithoutCallCut = "rpc.replies_without_call_cut", Plain, "of these, those of TCP \
        connections of which the snap length had cut the calls' direction";
    RepliesWithoutCallUdp = "rpc.replies_without_call_udp", Plain, "of these, those over UDP";
    DatagramsDoubted = "rpc.datagrams_doubted", Plain, "UDP datagrams that look like RPC and were \
        not believed, since nothing else on their ports does: replies without calls, and calls \
        of unknown programs without replies";
    CallsUdp = "rpc.calls_udp", Plain, "calls over UDP";
    CallsUdpUnanswered = "rpc.calls_udp_unanswered", Plain, "of these, those without reply";
    CallsTcpUnanswered = "rpc.calls_tcp_unanswered", Plain, "calls over TCP without reply that had \
        waited for 1 s or longer when their connection or the input ended";
    OperationsUdpIncomplete = "rpc.operations_udp_incomplete", Plain, "operations over UDP of \
        which a part was not read: a snap length cut it, fragments were lost, or it is malformed";
    RepliesContradicting = "rpc.replies_contradicting", Plain, "replies that contradict their calls: \
        more bytes than were sent or asked for, another slot or sequence, results that do not fit \
        the status";
    RepliesShort = "rpc.replies_short", Plain, "replies that were seen whole and end before their \
        last field: their server ended them early";
    Resynchronised = "rpc.resynchronised", Plain, "times that the place of the next record was \
        lost and found again";
    CandidatesRejected = "rpc.candidates_rejected", Plain, "places that looked like an RPC header \
        and were none";
    RecordsMalformed = "rpc.records_malformed", Plain, "records whose header or body contradicts \
        the protocol";
    OperationsUnknown = "nfs.operations_unknown", Plain, "operations of NFSv4 compounds that no \
        RFC names: what follows them was not read";
    CompoundLimit = "limits.compound_operations", Limit, "compounds of which only the beginning \
        was recorded because they have too many operations";
    OutstandingLimit = "limits.outstanding_calls", Limit, "calls given up because memory for \
        operations was full: the oldest of the client that had most; and replies over UDP that \
        could not wait for their calls";
    ReplyLimit = "limits.reply_timeout", Limit, "replies whose call had been given up when they \
        came (reply_timeout)";
    PastLimit = "limits.past_calls", Limit, "calls forgotten within 65 s, because memory for them \
        was full: if one of them came again it was not flagged";
    MessageLimit = "limits.message_bytes", Limit, "messages of which only the beginning was parsed \
        because they were too long to hold";
    RecordLimit = "limits.record_bytes", Limit, "records passed over because they state more than \
        record_max";
    PlacesLimit = "limits.rows_in_frame", Limit, "rows not recorded because their frame holds more \
        than can be numbered";

    Blocks = "data.blocks", Plain, "512-byte blocks of file data that were checksummed";
    BlocksIncomplete = "data.blocks_incomplete", Plain, "512-byte blocks of which some bytes were \
        missing";
    BlocksLimit = "limits.checksums", Limit, "512-byte blocks left without a checksum because the \
        run was behind (--overload no-checksums)";
    FactsLimit = "limits.file_facts", Limit, "times that the memory of known file facts was full \
        and was emptied";
    RowsLimit = "limits.rows_kept", Limit, "rows of all tables that went because --keep asks for \
    no more";
    RenamesUnfollowed = "files.renames_unfollowed", Plain, "files that were renamed, and whose old \
        name their connection had not shown: where another one had, paths have that name still";
    TimesUnfit = "rows.times_unfit", Plain, "times in operations that do not fit in 64 bits of \
        nanoseconds";
}

/// All counters of a run, or of a part of it.
#[derive(Debug, Clone)]
pub struct Counters {
    values: [u64; Counter::ALL.len()],
}

impl Counters {
    /// All 0.
    pub fn new() -> Self {
        Self {
            values: [0; Counter::ALL.len()],
        }
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        self.values[counter as usize] += n;
    }

    /// Adds 1.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Takes `n` away: only for what is held or outstanding.
    pub fn subtract(&mut self, counter: Counter, n: u64) {
        debug_assert!(
            self.values[counter as usize] >= n,
            "{} below 0",
            counter.name()
        );
        self.values[counter as usize] = self.values[counter as usize].wrapping_sub(n);
    }

    /// The value.
    #[inline]
    pub fn value(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.values.iter_mut().zip(other.values) {
            *mine += theirs;
        }
    }

    /// All counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL
            .iter()
            .map(|&counter| (counter, self.value(counter)))
    }

    /// The sum of all counters of a kind.
    pub fn sum(&self, kind: Kind) -> u64 {
        self.iter()
            .filter(|(counter, _)| counter.kind() == kind)
            .map(|(_, value)| value)
            .sum()
    }

    /// The first identity of rule 5 that does not hold, in words; `None` if all do.
    pub fn broken_identity(&self) -> Option<String> {
        let identities = [
            (Counter::FramesReceived, Kind::Outcome),
            (Counter::StreamBytes, Kind::StreamByte),
            (Counter::RpcCalls, Kind::CallEnd),
        ];
        identities.into_iter().find_map(|(whole, parts)| {
            let (left, right) = (self.value(whole), self.sum(parts));
            (left != right).then(|| {
                format!(
                    "{} is {left}, but its parts ({parts:?}) sum to {right}",
                    whole.name()
                )
            })
        })
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_identities_are_checked() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());

        let mut counters = Counters::new();
        counters.count(Counter::FramesReceived);
        assert!(
            counters
                .broken_identity()
                .expect("a frame without outcome")
                .contains("frames.received")
        );
        counters.count(Counter::FramesTcp);
        assert_eq!(counters.broken_identity(), None);
    }
}
