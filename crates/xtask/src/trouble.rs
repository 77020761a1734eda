//! Sites of real processes and a plan of what goes wrong with them: links that are cut, agents that are killed or
//! paused, clocks that are set. For suites that watch what callers are told meanwhile.

pub(crate) mod clock;
mod course;
mod dice;
mod faults;
mod names;
mod sites;

pub(crate) use course::Course;
pub(crate) use dice::{Dice, some_seed};
pub(crate) use faults::{FAR_AHEAD_S, Fault, Log, Planned, plan};
pub(crate) use names::{Site, name, number, origin};
pub(crate) use sites::{Mesh, Sites};
