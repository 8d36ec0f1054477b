//! Wire formats and their CPU reference.
