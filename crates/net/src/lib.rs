//! The wires: one current-thread runtime per core with its own listeners and pools, TLS, the peer
//! link, bodies and deadlines.
//!
//! Guarantees: nothing is buffered without a bound; a failed send says whether the other side can
//! have seen the request. It never looks at a scope, a plan or a glue.

mod answer_body;
mod bind;
mod body;
mod box_error;
mod budget;
mod client;
mod client_stream;
mod clock;
mod core;
mod drain;
mod exchange;
mod executor;
mod files;
pub mod fuzzing;
mod gate;
mod heard;
mod http1;
mod lane;
mod line;
mod offload;
mod outbox;
mod pace;
mod peer;
mod place;
mod pool;
mod progress;
mod received;
mod replay;
mod request_body;
mod send_error;
mod serve;
mod share;
mod slice;
mod sparing;
mod stream;
mod switched;
mod timer;
mod tls;
mod trailers;
mod upstream;
mod wire;

pub use bind::{BindError, bind, rebind};
pub use body::Body;
pub use box_error::BoxError;
pub use budget::BudgetOptions;
pub use client::{Client, InvalidNetwork, Network};
pub use clock::{Clock, Deadline, Expired, Within};
pub use core::{Command, CoreHandle, CoreOptions, ListenerId, spawn_core};
pub use drain::Ending;
pub use executor::LocalExecutor;
pub use files::set_files;
pub use offload::{NotDone, Offload};
pub use pace::PaceOptions;
pub use peer::{Bulk, PeerLink, PeerOptions};
pub use progress::Progress;
pub use received::Received;
pub use replay::Replay;
pub use send_error::{SendError, SendErrorKind};
pub use serve::{Connection, Handler, Hold, ServeOptions};
pub use switched::{OnSwitch, Switched};
pub use tls::{
    InvalidSerial, MeshTls, Pair, Revoked, SITE_URI_PREFIX, Serial, Signatures, Subject, TlsError,
    client_tls, server_tls,
};
pub use trailers::Trailers;
pub use upstream::{Upstream, UpstreamHttp, UpstreamOptions, UpstreamTarget};
