//! The engine by hand: two or three sites, every message and every answer written out.

mod conditions;
mod hostile;
mod lab;
mod operator;
mod sites;
mod storage;
mod waits;
mod writes;
