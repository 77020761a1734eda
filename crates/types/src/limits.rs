//! Every bound has a name with its unit, a default, a counter of the times it was hit and a
//! documented answer (`docs/limits.md`).

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[$doc:meta])* $field:ident / $variant:ident : $type:ty = $default:expr, $answer:literal;)*) => {
        /// The bounds of one agent, as configured under `[limits]`.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Limits { $($(#[$doc])* pub $field: $type,)* }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// A bound by its name, to count the times it was hit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Limit { $($variant,)* }

        impl Limit {
            pub const ALL: &[Limit] = &[$(Limit::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Limit::$variant => stringify!($field),)* }
            }

            /// What a caller gets when the bound is hit.
            pub fn answer(self) -> &'static str {
                match self { $(Limit::$variant => $answer,)* }
            }

            #[allow(clippy::cast_lossless)] // the fields have several types
            pub fn value(self, limits: &Limits) -> u64 {
                match self { $(Limit::$variant => limits.$field as u64,)* }
            }
        }

        static HITS: [AtomicU64; Limit::ALL.len()] = [const { AtomicU64::new(0) }; Limit::ALL.len()];
    };
}

limits! {
    /// Longest request or response head that is read.
    head_max_bytes / HeadBytes: usize = 128 * 1024, "431";
    /// Most header fields in one head.
    head_fields_max / HeadFields: usize = 100, "431";
    /// Longest time to read a request head.
    head_timeout_ms / HeadTimeout: u64 = 30_000, "the connection is closed";
    /// Longest scope.
    scope_max_bytes / ScopeBytes: usize = 4096, "431 scope_too_long";
    /// Deepest nesting of a scope.
    scope_max_depth / ScopeDepth: usize = 32, "400 scope_too_deep";
    /// Open client connections per core.
    connections_max / Connections: usize = 16_384, "new connections wait in the kernel's queue";
    /// Open client connections of one address (of IPv6: one /64), per core.
    address_connections_max / AddressConnections: usize = 1024, "the connection is closed";
    /// What heads that have not come to their ends may take in memory, per core; one address's, a quarter of it.
    heads_max_bytes / Heads: usize = 32 * 1024 * 1024, "the connection is closed";
    /// Open files that are kept for the admin socket, the peer port and the store.
    files_reserved / FilesReserved: u64 = 64, "new connections wait in the kernel's queue; 502 upstream_unreachable";
    /// Longest time in which nothing moves of a request whose answer has ended before it.
    request_stall_ms / RequestStall: u64 = 60_000, "the connection to the service is closed, and what is left of the request is not sent";
    /// Longest time in which a client takes nothing of an answer that lies ready for it.
    answer_stall_ms / AnswerStall: u64 = 60_000, "the connection is closed; over HTTP/2 the answer ends";
    /// Slowest rate at which a client takes an answer, over `answer_stall_ms`.
    answer_rate_min_bytes_per_s / AnswerRate: u64 = 1024, "the connection is closed; over HTTP/2 the answer ends";
    /// Requests under way on one HTTP/2 connection of a client.
    client_streams_max / ClientStreams: u32 = 256, "further ones wait at the client";
    /// What one HTTP/2 body of a client may have under way; a connection may have twice that.
    client_stream_window_bytes / ClientStreamWindow: u32 = 1024 * 1024, "the client waits";
    /// Idle connections kept to one service, per core.
    upstream_idle_max / UpstreamIdle: usize = 256, "further idle connections are closed";
    /// Requests under way on one HTTP/2 connection to a service, or fewer where the service takes fewer.
    upstream_streams_max / UpstreamStreams: usize = 100, "none: further ones take another connection";
    /// What one HTTP/2 body of a service may have under way; a connection has room for all of its bodies.
    upstream_stream_window_bytes / UpstreamStreamWindow: u32 = 256 * 1024, "the service waits";
    /// Longest time to connect to a service.
    upstream_connect_timeout_ms / UpstreamConnect: u64 = 2_000, "502 upstream_unreachable";
    /// Longest time until a service's answer begins.
    upstream_timeout_ms / UpstreamTimeout: u64 = 60_000, "504 upstream_timeout";
    /// Longest time to connect to a peer, TLS included.
    peer_connect_timeout_ms / PeerConnect: u64 = 2_000, "502 peer_unreachable or 504 peer_timeout";
    /// Longest time until a forwarded request's answer begins.
    peer_timeout_ms / PeerTimeout: u64 = 30_000, "504 peer_timeout";
    /// Time between two pings on an open connection to a peer, and longest time until one is answered.
    peer_ping_ms / PeerPing: u64 = 5_000, "the connection is closed; its requests end as peer_failed or unknown_outcome";
    /// Requests under way to one peer, per core.
    peer_inflight_max / PeerInflight: usize = 1024, "503 peer_busy";
    /// Requests of one client address under way to one peer, per core.
    address_peer_inflight_max / AddressPeerInflight: usize = 256, "503 peer_busy";
    /// Requests to one site that one request may become.
    site_asks_max / SiteAsks: usize = 16, "none: the scope's further mentions of the site count as failed";
    /// What one body may have under way on a connection to a peer, read by nobody yet.
    peer_stream_window_bytes / PeerStreamWindow: u32 = 4 * 1024 * 1024, "the sender waits";
    /// What all bodies on a connection to a peer may have under way.
    peer_window_bytes / PeerWindow: u32 = 256 * 1024 * 1024, "the senders wait";
    /// Longest message of a peer to replication.
    peer_message_max_bytes / PeerMessage: usize = 64 * 1024 * 1024, "413 body_too_large at the peer, which cannot send it";
    /// What one peer's messages to replication may always have in memory.
    peer_message_share_bytes / PeerMessageShare: usize = 2 * 1024 * 1024, "none: what is longer shares `peer_messages_max_bytes`";
    /// What the messages of all peers may have in memory beyond their shares; one peer's, half of it.
    peer_messages_max_bytes / PeerMessages: usize = 160 * 1024 * 1024, "503 store_busy at the peer, which sends again";
    /// What one peer may take of a core's time for reading what it sends, while clients use that core.
    peer_core_share_percent / PeerCoreShare: u32 = 50, "the peer waits";
    /// Bodies of at least this length, or of unknown length, use a connection of their own kind.
    bulk_min_bytes / BulkBytes: u64 = 256 * 1024, "none: the body takes the peer's bulk connection";
    /// How long an unused connection to a peer is kept.
    peer_idle_s / PeerIdle: u64 = 300, "the connection is closed";
    /// Time between two heartbeats to a peer.
    heartbeat_interval_ms / HeartbeatInterval: u64 = 1_000, "none";
    /// Heartbeats without an answer after which a peer counts as down.
    heartbeat_misses_max / HeartbeatMisses: u64 = 3, "none: the site is tried last under `;` and `|`";
    /// Additional time a read under `|` waits for its first site before a second one is asked.
    hedge_after_ms / HedgeAfter: u64 = 100, "none: a second site is asked";
    /// Longest answer of one site that a merge reads, and most that ids rewritten in a body may take.
    gather_body_max_bytes / GatherBody: usize = 16 * 1024 * 1024, "the site is marked body_too_large in the receipt";
    /// Most items in one site's answer that a merge reads, or in which ids are rewritten.
    gather_items_max / GatherItems: usize = 262_144, "413 body_too_large, or the site is marked body_too_large in the receipt";
    /// What all merges of the agent, and all answers in which ids are rewritten, may hold in memory: as received, as read and as written.
    gather_memory_max_bytes / GatherMemory: usize = 256 * 1024 * 1024, "503 gather_busy, or the site is marked gather_busy in the receipt";
    /// Sites that one merge asks at the same time.
    gather_parallel_max / GatherParallel: usize = 32, "further sites wait for a place";
    /// Sites whose first page a merge of a paged list asks for ahead of their turn.
    gather_prefetch_max / GatherPrefetch: usize = 8, "none: further sites follow on later pages";
    /// Longest event of a site that is watched together with others.
    watch_event_max_bytes / WatchEvent: usize = 4 * 1024 * 1024, "the stream ends; its caller lists and watches again";
    /// Longest version of one site's list that merged lists and events carry.
    watch_version_max_bytes / WatchVersion: usize = 1024, "none: from that version on nobody can watch, and the site is watched from now on";
    /// Longest body that is read, merged or rewritten on the core that has its request.
    work_inline_max_bytes / WorkInline: usize = 64 * 1024, "none: a thread beside the cores does it";
    /// Threads beside the cores that work on longer bodies.
    work_threads_max / WorkThreads: usize = 2, "further bodies wait";
    /// Bodies that wait for such a thread.
    work_queue_max / WorkQueue: usize = 256, "503 gather_busy, or the site is marked gather_busy in the receipt";
    /// Longest page token of a merged list.
    page_token_max_bytes / PageToken: usize = 4096, "400 page_token; 502 body_unreadable when a site's own token does not fit";
    /// Longest request body that is kept so that it can be sent again to another site.
    replay_body_max_bytes / ReplayBody: usize = 1024 * 1024, "none: a longer body is sent once; no other site is tried after it began";
    /// What the scopes of workflows may take in memory; one address's, a quarter of it, and one credential's there an eighth.
    correlation_scopes_max_bytes / CorrelationScopes: usize = 8 * 1024 * 1024, "none: the caller's least recently used scope is forgotten; 503 correlation_full when all of them are in use";
    /// How long the scope of a workflow that goes on after a 202 is kept after its last use; only its caller's share of such scopes can shorten it.
    correlation_async_idle_s / CorrelationAsyncIdle: u64 = 3600, "503 correlation_lost for a later call, once other scopes took its place";
    /// What the places of services by their callers' credentials may take in memory; one address's, a quarter of it.
    correlation_credentials_max_bytes / CorrelationCredentials: usize = 2 * 1024 * 1024, "none: the caller's least recently used credential is forgotten, and calls about it are local; 503 correlation_full when all of them are in use";
    /// How long a call about a credential follows the last write that began with it, counted from that one's end.
    correlation_credential_s / CorrelationCredential: u64 = 300, "none: the call is local";
    /// The same after a read.
    correlation_credential_read_s / CorrelationCredentialRead: u64 = 30, "none: the call is local";
    /// Answers to discovery requests that are kept for the time when a service is down.
    discovery_max / Discovery: usize = 256, "none: the oldest is forgotten";
    /// Longest answer to a discovery request that is kept, with its headers and those it depends on.
    discovery_max_bytes / DiscoveryBytes: usize = 64 * 1024, "none: the answer is not kept";
    /// Pages of the store that are kept in memory.
    store_cache_bytes / StoreCache: usize = 64 * 1024 * 1024, "none: further pages are read from the disk";
    /// Changes that wait for the store's writer.
    store_queue_max / StoreQueue: usize = 4096, "503 store_busy, nothing executed";
    /// Changes that share one commit of the store.
    store_group_max / StoreGroup: usize = 1024, "further ones wait for the next commit";
    /// Length from which one of the store's two logs is full and goes to the tables; twice that much where the other one is still on its way.
    store_log_max_bytes / StoreLog: u64 = 16 * 1024 * 1024, "none: commits wait for the tables";
    /// What all payloads in the spool may take on the disk.
    spool_max_bytes / SpoolBytes: u64 = 64 * 1024 * 1024 * 1024, "507 store_full, nothing executed";
    /// Longest request body that is kept inside its operation; longer ones go to the spool.
    inline_body_max_bytes / InlineBody: usize = 64 * 1024, "none: the body is spooled";
    /// Longest answer of an application to a replicated write.
    replicated_answer_max_bytes / ReplicatedAnswer: usize = 16 * 1024 * 1024, "the caller gets the status without the body";
    /// Events that wait for the replication engine.
    engine_queue_max / EngineQueue: usize = 4096, "503 store_busy, nothing executed";
    /// Integers that are drawn for one new meta-id until one is found that no set here has.
    meta_id_tries_max / MetaIdTries: usize = 64, "501 glue_incomplete, nothing executed";
    /// Executions under way at this site's services on behalf of replication.
    replay_inflight_max / ReplayInflight: usize = 64, "further ones wait";
    /// Longest time that `Prefer: wait` waits.
    prefer_wait_max_s / PreferWait: u64 = 60, "none: the answer comes then, with what is known";
    /// Pause before an operation is tried again at a site; it doubles with each try.
    replay_retry_min_ms / ReplayRetryMin: u64 = 200, "none";
    /// Longest pause between two tries of an operation at a site.
    replay_retry_max_ms / ReplayRetryMax: u64 = 60_000, "none";
    /// Pause before an operation that the application does not let through is tried again.
    replay_blocked_ms / ReplayBlocked: u64 = 60_000, "none";
    /// How often the leader of a group of sites says that it is there.
    group_heartbeat_ms / GroupHeartbeat: u64 = 250, "none: it is said again";
    /// How long sites wait, beyond what a leader may count on, before they look for another leader; two thirds more at most.
    group_election_ms / GroupElection: u64 = 600, "another leader is looked for";
    /// How long a group of sites has nothing to decide before it sleeps.
    group_idle_s / GroupIdle: u64 = 60, "the group sleeps until something is to be decided, or its leader's site is down";
    /// Writes to strong sets that wait for one group of sites at its leader.
    group_writes_max / GroupWrites: usize = 256, "503 store_busy";
    /// Attempts at one execution that were sent and got no answer, before it is not sent again by itself.
    execution_tries_max / ExecutionTries: usize = 5, "the operation is blocked until an operator retries or abandons it";
    /// How long an application may still be working on a request that got no answer.
    doubt_settle_ms / DoubtSettle: u64 = 60_000, "none: the execution stays in doubt that long";
    /// How long it may still be working on one whose connection has ended, where the request can be repeated.
    doubt_broken_ms / DoubtBroken: u64 = 2_000, "none: the execution stays in doubt that long";
    /// Pause before what a peer has not confirmed is sent again; it doubles with each try.
    ship_retry_min_ms / ShipRetryMin: u64 = 1_000, "none";
    /// Longest pause between two tries to send to a peer.
    ship_retry_max_ms / ShipRetryMax: u64 = 60_000, "none";
    /// Operations in one message to a peer.
    ship_batch_max_ops / ShipBatchOps: usize = 256, "further ones follow in the next message";
    /// Bytes of operations in one message to a peer.
    ship_batch_max_bytes / ShipBatchBytes: u64 = 1024 * 1024, "further ones follow in the next message";
    /// Bytes of messages that wait for one peer.
    ship_outbox_max_bytes / ShipOutbox: usize = 32 * 1024 * 1024, "none: what does not fit is sent again later";
    /// Conflicts that one set keeps; the oldest go first, and are counted.
    set_conflicts_max / SetConflicts: usize = 256, "none: the oldest conflict is dropped, and `cheops replicas show` says how many were";
    /// What one set's log may hold for sites that are away.
    log_max_bytes / LogBytes: u64 = 64 * 1024 * 1024, "none: an absent site gets the resource's state instead";
    /// How long it is remembered that a resource was deleted, once all its sites know. A store that is set back further
    /// than this brings the resource back.
    tombstone_keep_s / TombstoneKeep: u64 = 30 * 24 * 3_600, "none: what was deleted is forgotten, and counted";
    /// Replica sets per second that a site begins to compare without anyone asking; 0 turns it off.
    compare_sets_per_s / CompareRate: usize = 10, "none: the others follow in the next second";
    /// Time from the beginning of one walk over all sets, which are compared on the way, to the next.
    compare_every_s / CompareEvery: u64 = 3_600, "none";
    /// Time between two exchanges with a peer of what the two hold.
    ranges_every_s / RangesEvery: u64 = 600, "none";
    /// How far an operation's time may be ahead of this site's clock.
    clock_ahead_max_ms / ClockAhead: u64 = 60_000, "the operation is quarantined until its time comes";
    /// How long what a site has signed counts after its certificate has ended; not at all once that is revoked.
    certificate_grace_s / CertificateGrace: u64 = 30 * 24 * 3_600, "the operation is refused until its origin sends it, signed anew";
    /// Lines of one kind in the log within ten seconds.
    log_kind_max_lines / LogKind: u64 = 50, "none: the next line of the kind says how many were left out";
    /// How long open requests may take to end when the agent stops or a listener goes away.
    drain_timeout_ms / Drain: u64 = 10_000, "the connection is closed";
}

impl Limit {
    /// Counts one hit.
    pub fn hit(self) {
        HITS[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often the bound was hit since the process started.
    pub fn hits(self) -> u64 {
        HITS[self as usize].load(Ordering::Relaxed)
    }
}
