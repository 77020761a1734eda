//! The engine by hand: two or three sites, every message and every answer written out.

mod believed;
mod conditions;
mod hostile;
mod lab;
mod names;
mod operator;
mod payloads;
mod promises;
mod sites;
mod storage;
mod waits;
mod writes;
