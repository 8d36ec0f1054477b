//! What the arguments of a benchmark mean together: lists without repeats, defaults that depend on
//! others, and refusals of what single arguments cannot show to be wrong. Starts nothing.

use airamp_fast_path::least_arena_bytes;
use clap::builder::PossibleValue;

use super::link::Link;
use super::size::shown;
use super::{Args, COMPRESSIBLE, DATATYPES, EMULATED_LINK, IN_PARTS};
use crate::cli::CommandError;

/// The help shows the types that are compressed; the others are for `--preload`.
pub(super) fn datatype(name: &'static str) -> PossibleValue {
    PossibleValue::new(name).hide(!COMPRESSIBLE.contains(&name))
}

impl Args {
    pub(super) fn without_repeats(&self) -> Self {
        Self {
            ranks: distinct(&self.ranks),
            datatypes: distinct(&self.datatypes),
            formats: distinct(&self.formats),
            link_rate: distinct(&self.link_rate),
            collectives: distinct(&self.collectives),
            ..self.clone()
        }
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        let all: Vec<usize> = self.sizes.iter().flat_map(|sizes| sizes.0.iter().copied()).collect();
        distinct(&all)
    }

    pub(super) fn links(&self) -> Vec<Link> {
        match (self.link_rate.as_slice(), self.gpu) {
            ([], true) => vec![Link::Vendors],
            ([], false) => vec![EMULATED_LINK],
            (links, _) => links.to_vec(),
        }
    }

    /// What the rank program is told for either kind of benchmark.
    pub(super) fn rank_arguments(&self) -> Vec<String> {
        let sizes: Vec<String> = self.sizes().iter().map(usize::to_string).collect();
        vec![
            format!("--sizes={}", sizes.join(",")),
            format!("--datatypes={}", self.datatypes.join(",")),
            format!("--iterations={}", self.iterations),
            format!("--warmup={}", self.warmup),
        ]
    }

    pub(super) fn check(&self) -> Result<(), CommandError> {
        self.check_ranks()?;
        if self.preload {
            self.check_preload()?
        } else {
            self.check_compression()?
        }
        self.check_sizes()
    }

    fn check_ranks(&self) -> Result<(), CommandError> {
        if !self.preload && self.ranks.contains(&1) {
            return Err(wrong("--ranks: a single rank has nobody to exchange with; give 2 or more".into()));
        }
        Ok(())
    }

    fn check_preload(&self) -> Result<(), CommandError> {
        if self.ranks.len() > 1 || self.link_rate.len() > 1 {
            return Err(wrong("--preload takes one number of ranks and one link".into()));
        }
        Ok(())
    }

    fn check_compression(&self) -> Result<(), CommandError> {
        if let Some(name) = self.datatypes.iter().find(|name| !COMPRESSIBLE.contains(&name.as_str())) {
            return Err(wrong(format!(
                "--datatypes: {name} is not compressed; there are {}, and --preload measures all types",
                COMPRESSIBLE.join(", ")
            )));
        }
        let needs = self.ranks.iter().map(|ranks| (least_arena_bytes(*ranks as usize), ranks)).max();
        match needs.filter(|(least, _)| self.arena_bytes < *least) {
            Some((least, ranks)) => Err(wrong(format!(
                "--arena-bytes: {} is too small: {ranks} ranks take at least {least} bytes",
                shown(self.arena_bytes)
            ))),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), CommandError> {
        let is_in_parts =
            self.preload && self.collectives.iter().any(|name| IN_PARTS.contains(&name.as_str()));
        let parts = if is_in_parts { self.ranks[0] as usize } else { 1 };
        for (datatype, bytes) in
            DATATYPES.iter().filter(|(name, _)| self.datatypes.iter().any(|held| held == name))
        {
            let least = parts * bytes;
            if let Some(size) = self.sizes().into_iter().find(|size| *size < least) {
                return Err(wrong(format!(
                    "--sizes: {} is too small: {datatype} takes at least {least} bytes here",
                    shown(size)
                )));
            }
        }
        Ok(())
    }
}

/// Each item at its first place.
fn distinct<T: PartialEq + Clone>(items: &[T]) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.contains(item) {
            kept.push(item.clone());
        }
    }
    kept
}

fn wrong(text: String) -> CommandError {
    CommandError::Arguments(text)
}
