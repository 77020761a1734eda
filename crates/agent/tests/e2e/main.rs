//! Sites as users run them: agent processes, real sockets, links that fail.

mod bad_input;
mod bodies;
mod budgets;
mod certificates;
mod cross;
mod demo;
mod framing;
mod gather;
mod harness;
mod heads;
mod http2;
mod links;
mod lists;
mod lost_answer;
mod order;
mod peer_port;
mod replication;
mod request_ids;
mod running;
mod slow_readers;
mod strict;
mod tls;
mod upgrade;
mod watches;
mod wire;
mod workflow;
