//! Attacks on a stack: by outsiders who see nothing, by peers that lie, and by floods. Each has a
//! bound in packets, memory or probability.

mod attack;
mod peer;
