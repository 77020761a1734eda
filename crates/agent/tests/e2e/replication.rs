//! Replication between real agents: what callers see, what operators see, and what the applications
//! have in the end.

mod bad_input;
mod broken;
mod callers;
mod catch_up;
mod comeback;
mod crash;
mod credentials;
mod disk_full;
mod doubt;
mod lists;
mod lost_store;
mod mapping;
mod names;
mod operators;
mod partition;
mod parts;
mod payload;
mod preconditions;
mod prefer;
mod promise;
mod references;
mod refusal;
mod strong;
mod support;
mod upkeep;
