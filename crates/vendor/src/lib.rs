//! vendor
