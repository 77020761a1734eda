//! Any error of a body.

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
