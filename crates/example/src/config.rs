//! What one process of the application runs.

use std::{net::SocketAddr, path::PathBuf};

use crate::Carry;

/// One service of one instance of the application.
#[derive(Debug, Clone)]
pub struct Config {
    pub service: Service,
    /// The first id that the service gives; instances with far-apart bases never give the same.
    pub id_base: u64,
    /// Where the service keeps its files; made when missing.
    pub data_dir: PathBuf,
    /// The tokens that callers need, one per line: `Authorization: Bearer ...`, with the names of their holders.
    /// It is read at each request. Without it everybody may ask.
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub enum Service {
    /// Takes orders, says hello.
    A {
        /// Where this instance's B answers.
        b_addr: SocketAddr,
        carry: Carry,
    },
    /// Keeps items, labels and files, has a string.
    B {
        /// What `GET /string` answers.
        string: String,
    },
}
