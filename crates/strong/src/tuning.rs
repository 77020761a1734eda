//! How fast a group is, and how much it keeps.

/// Fits links with round trips from nothing to about 200 ms.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How often a leader says that it is there, while the group is awake.
    pub heartbeat_ms: u64,
    /// A member that heard no leader for `election_max_ms`, which is how long a leader may count on
    /// its members, and then for a random time of at least this, stands for election.
    pub election_min_ms: u64,
    /// See `election_min_ms`. A dead leader is replaced within about twice this and three round trips.
    pub election_max_ms: u64,
    /// One request to another member.
    pub request_timeout_ms: u64,
    /// After this a write is answered as unknown and goes on in the background.
    pub write_timeout_ms: u64,
    /// After this a read is given up.
    pub read_timeout_ms: u64,
    /// How long a write or a read waits for somebody to become the leader.
    pub leader_wait_ms: u64,
    /// A group without writes and reads for this long goes to sleep.
    pub idle_ms: u64,
    /// When the leader's site is down, members stand for election one after another, so far apart.
    pub stagger_ms: u64,
    /// How many entries of the log are kept behind a snapshot, and when one is made.
    pub log_entries_max: u64,
    /// A snapshot is also made when the log holds more than this.
    pub log_bytes_max: usize,
    /// How much of the log one message carries; at least one entry.
    pub message_bytes: usize,
    /// How often an intent that certainly did not execute is tried again before the leadership is passed on.
    pub decide_tries_max: u32,
    /// The pause before the first repetition; each is twice as long.
    pub decide_retry_ms: u64,
    pub decide_retry_max_ms: u64,
    /// How many writes of a group may wait at the leader.
    pub writes_max: usize,
    /// Leadership follows the writes at most this often.
    pub follow_ms: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            heartbeat_ms: 250,
            election_min_ms: 600,
            election_max_ms: 1_000,
            request_timeout_ms: 1_000,
            write_timeout_ms: 10_000,
            read_timeout_ms: 5_000,
            leader_wait_ms: 4_000,
            idle_ms: 60_000,
            stagger_ms: 400,
            log_entries_max: 1_000,
            log_bytes_max: 8 << 20,
            message_bytes: 4 << 20,
            decide_tries_max: 4,
            decide_retry_ms: 100,
            decide_retry_max_ms: 2_000,
            writes_max: 256,
            follow_ms: 10_000,
        }
    }
}

/// How many of the last writes tell where the leader should be.
pub(crate) const FOLLOW_WRITES: usize = 16;
