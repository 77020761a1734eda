//! The engine by hand: two or three sites, every message and every answer written out.

mod believed;
mod carried;
mod clock;
mod compare;
mod conditions;
mod delete;
mod hostile;
mod lab;
mod membership;
mod missed;
mod names;
mod operator;
mod order;
mod payloads;
mod prime;
mod promises;
mod remade;
mod repair;
mod set_back;
mod silence;
mod sites;
mod snapshot;
mod storage;
mod waits;
mod writes;
