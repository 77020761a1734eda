//! What a listener lets its clients do.

use cheops_types::Limits;

use crate::{BudgetOptions, PaceOptions};

/// The bounds of a listener's connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    pub head_max_bytes: usize,
    pub head_fields_max: usize,
    pub head_timeout_ms: u64,
    pub drain_timeout_ms: u64,
    pub connections_max: usize,
    pub streams_max: u32,
    /// What one HTTP/2 body may have under way.
    pub stream_window_bytes: u32,
    /// What all HTTP/2 bodies of one connection may have under way.
    pub window_bytes: u32,
    pub pace: PaceOptions,
    pub budget: BudgetOptions,
    /// Whether connections are accepted also from what clients must leave.
    pub uses_reserve: bool,
    /// What a peer may take of a core's time while clients use it; none on a listener for clients.
    pub core_share_percent: Option<u32>,
}

impl ServeOptions {
    /// For users and services.
    pub fn for_clients(limits: &Limits) -> Self {
        Self {
            head_max_bytes: limits.head_max_bytes,
            head_fields_max: limits.head_fields_max,
            head_timeout_ms: limits.head_timeout_ms,
            drain_timeout_ms: limits.drain_timeout_ms,
            connections_max: limits.connections_max,
            streams_max: limits.client_streams_max,
            stream_window_bytes: limits.client_stream_window_bytes,
            window_bytes: limits.client_stream_window_bytes.saturating_mul(2),
            pace: PaceOptions::from(limits),
            budget: BudgetOptions::from(limits),
            uses_reserve: false,
            core_share_percent: None,
        }
    }

    /// For other agents, who have many users behind one connection.
    pub fn for_peers(limits: &Limits) -> Self {
        Self {
            streams_max: u32::try_from(limits.peer_inflight_max).unwrap_or(u32::MAX),
            stream_window_bytes: limits.peer_stream_window_bytes,
            window_bytes: limits.peer_window_bytes,
            uses_reserve: true,
            core_share_percent: Some(limits.peer_core_share_percent),
            ..Self::for_clients(limits)
        }
    }
}
