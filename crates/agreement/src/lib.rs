//! How the ranks of a communicator agree on a change of what they put on the wire.

#![forbid(unsafe_code)]
