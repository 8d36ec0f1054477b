//! StreamArena and compressed collectives.
