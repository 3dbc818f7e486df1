//! What a stack counts: TCP-MIB (RFC 4022) and Linux's names where there are any.

macro_rules! counters {
    ($($name:ident: $meaning:literal,)*) => {
        /// What a stack has counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct Counters { $(#[doc = $meaning] pub $name: u64,)* }

        impl Counters {
            /// Each counter's name and value.
            pub fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    frames: "Frames given to the stack, and packets put together from fragments; the sum of the outcomes below.",
    segments: "Outcome: a segment of a connection, of a listener or of nobody.",
    datagrams: "Outcome: a datagram for an owner: udpInDatagrams.",
    datagrams_without_port: "Outcome: a datagram for a port that nobody has: udpNoPorts.",
    fragments: "Outcome: a part of a packet: ipReasmReqds.",
    control: "Outcome: ARP, ICMP or neighbour discovery that was understood.",
    not_ours: "Outcome: for another address, tag or host.",
    not_read: "Outcome: a protocol that is not read.",
    malformed: "Outcome: headers that contradict themselves or are cut.",
    checksum_wrong: "Outcome: a checksum that does not match.",

    taken: "Segments, of which: taken by a connection.",
    unacceptable: "Outside the window, or old: answered and dropped. RFC 9293, 3.10.7.4.",
    paws: "Older than the latest timestamp: RFC 7323, 5.3; Linux's PAWSEstab.",
    without_timestamp: "Without the timestamp that was agreed: RFC 7323, 3.2.",
    challenged: "SYN or RST that needs proof, ACK of what was never sent: RFC 5961.",
    without_ack: "Without the ACK bit.",
    syn_fins: "Both SYN and FIN, if those are dropped.",
    resets: "RST that ended a connection: estabResets.",
    half_open_ended: "SYN within the window of a listener's half-open connection, which ended by \
        it: RFC 9293, 3.10.7.4.",
    resets_ignored: "RST that nobody is to hear.",
    opened: "SYN that opened a connection: passiveOpens.",
    without_connection: "For no connection and no listener, or for a listener but no SYN: answered by RST.",
    without_room: "SYN for which there was no room: Linux's ListenDrops.",
    in_time_wait: "For a connection in TIME_WAIT.",
    cookies_sent: "SYN that a cookie answers: Linux's SyncookiesSent.",
    cookies_failed: "ACK with a wrong or old cookie: Linux's SyncookiesFailed.",

    cookies_taken: "ACK with a right cookie, which opens a connection: Linux's SyncookiesRecv.",
    reassembled: "Packets that all fragments of came: ipReasmOKs.",
    reassembly_failed: "Packets of which fragments were missing or overlapped: ipReasmFails.",
    datagrams_sent: "Datagrams that left: udpOutDatagrams.",
    active_opens: "Connections that were asked for: activeOpens.",
    malformed_options: "Segments with options that contradict themselves.",
    offloaded: "Segments whose checksum was left to an adapter.",
    sent: "Segments that left: outSegs.",
    sent_resets: "RST among them: outRsts.",
    challenges: "Challenge ACKs among them: Linux's TCPChallengeACK.",
    challenges_held_back: "Challenge ACKs beyond the limit of a second: Linux's TCPACKSkippedChallenge.",
    retransmitted: "Sent again: retransSegs, and the sum of the four below.",
    retransmitted_timeout: "Sent again after a timeout: Linux's TCPSlowStartRetrans.",
    retransmitted_fast: "Sent again in fast recovery: Linux's TCPFastRetrans.",
    retransmitted_tlp: "Sent again as a probe of the tail.",
    retransmitted_handshake: "SYN sent again.",
    spurious: "Of those, as the peer says, for nothing: RFC 3708.",
    timeouts: "Retransmission timeouts: Linux's TCPTimeouts.",
    spurious_timeouts: "Those after which what was in flight arrived: Linux's TCPSpuriousRTOs.",
    reduced_again: "Windows made smaller once more, as what was sent again was lost: RFC 5681, 4.3.",
    ce_received: "Segments with data that a router marked: Linux's InCEPkts.",
    ecn_reductions: "Windows that an echo of a mark made smaller.",
    recoveries: "Fast recoveries begun: Linux's TCPSackRecovery and TCPRenoRecovery.",
    lost: "Segments that RACK found lost: RFC 8985.",
    reordering_timeouts: "Times that RACK waited in vain for what may have been overtaken.",
    tlp_probes: "Probes of the tail, new data or old: Linux's TCPLossProbes.",
    tlp_recoveries: "Losses that one of them mended: Linux's TCPLossProbeRecovery.",
    undone_dsack: "Windows that became what they were, as all was sent again for nothing: Linux's TCPDSACKUndo.",
    dsack_received: "Reports of what the peer received twice: Linux's TCPDSACKRecv.",
    dsack_sent: "The same of ours: Linux's TCPDSACKOldSent and TCPDSACKOfoSent.",
    probes: "Probes of a closed window: Linux's TCPWinProbe.",
    keep_alives: "Questions whether a peer is there: Linux's TCPKeepAlive.",
    errors_taken: "ICMP errors about a segment in flight.",
    errors_ignored: "ICMP errors about none: RFC 5927, 4.1.",
    path_mtu_reduced: "Of those taken: the packet was too big, smaller ones follow.",
    given_up: "Connections without an answer: Linux's TCPAbortOnTimeout.",

    bytes_received: "Payload of acceptable segments, and the sum of the four below.",
    bytes_delivered: "Given to the owner, in order.",
    bytes_held: "Waiting for bytes before them, now.",
    bytes_duplicate: "Had come before.",
    bytes_refused: "Beyond the window or a bound, or of a connection that ended before they came in order.",

    frames_unsent: "Frames for which no block was free.",
    frames_unresolved: "Frames for a neighbour that did not answer.",
    time_wait_overflow: "Connections that left TIME_WAIT early for want of room: Linux's TCPTimeWaitOverflow.",
    time_wait_recycled: "Connections in TIME_WAIT that a SYN replaced: RFC 6191.",
}

impl Counters {
    /// The first sum that does not hold, in words.
    pub fn broken_identity(&self) -> Option<String> {
        let frames = self.segments
            + self.datagrams
            + self.datagrams_without_port
            + self.fragments
            + self.control
            + self.not_ours
            + self.not_read
            + self.malformed
            + self.checksum_wrong;
        let segments = self.taken
            + self.unacceptable
            + self.paws
            + self.without_timestamp
            + self.challenged
            + self.without_ack
            + self.syn_fins
            + self.resets
            + self.half_open_ended
            + self.resets_ignored
            + self.opened
            + self.without_connection
            + self.without_room
            + self.in_time_wait
            + self.cookies_sent
            + self.cookies_failed;
        let bytes =
            self.bytes_delivered + self.bytes_held + self.bytes_duplicate + self.bytes_refused;
        let retransmitted = self.retransmitted_timeout
            + self.retransmitted_fast
            + self.retransmitted_tlp
            + self.retransmitted_handshake;
        let sums = [
            ("retransmitted", self.retransmitted, retransmitted),
            ("frames", self.frames, frames),
            ("segments", self.segments, segments),
            ("bytes_received", self.bytes_received, bytes),
        ];
        let broken = sums.into_iter().find(|(_, whole, sum)| whole != sum)?;
        let (name, whole, sum) = broken;
        Some(format!("{name} is {whole}, but its parts sum to {sum}"))
    }
}
