//! The recipes and their parameters, each defined once here: reading, bounds, what is meant where nothing is said, and
//! the list for people.

use std::fmt;
use std::str::FromStr;

use super::{Steps, adversaries, dice::Dice, jobs, one_communicator};
use crate::Communicator;

/// A kind of job.
pub struct Definition {
    pub name: &'static str,
    pub about: &'static str,
    own: &'static [Parameter],
    pub(super) steps: fn(&Recipe, &mut Dice) -> Steps,
    pub(super) communicators: fn(&Recipe) -> Vec<Communicator>,
}

#[derive(Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    pub about: &'static str,
    pub usual: f64,
    pub least: f64,
    pub most: f64,
    pub is_whole: bool,
}

const fn whole(name: &'static str, usual: u32, least: u32, most: u32, about: &'static str) -> Parameter {
    let (usual, least, most) = (usual as f64, least as f64, most as f64);
    Parameter { name, about, usual, least, most, is_whole: true }
}

const fn real(name: &'static str, usual: f64, least: f64, most: f64, about: &'static str) -> Parameter {
    Parameter { name, about, usual, least, most, is_whole: false }
}

/// What every recipe has.
const OF_ALL: &[Parameter] = &[
    whole("seed", 1, 0, u32::MAX, "chance begins here"),
    whole("steps", 100, 1, 1_000_000, "steps"),
    whole("ranks", 4, 2, 65_536, "ranks of the largest communicator"),
    real("step_ms", 80.0, 0.01, 1e6, "time of a step"),
    real("jitter", 0.03, 0.0, 1.0, "standard deviation of each gap, as a share of it"),
    real(
        "hiccups",
        0.0,
        0.0,
        1.0,
        "how likely a gap is longer by 2% of the step, or much more: by x% in one of x/2",
    ),
    whole("warm_up", 0, 0, 10_000, "first steps that are slower and, where the job has that, otherwise"),
    real("warm_up_slower", 4.0, 1.0, 1000.0, "how much slower they are"),
    whole("pause_every", 0, 0, 1_000_000, "steps between two evaluations; 0: none"),
    real("pause_ms", 2000.0, 0.0, 1e7, "time of an evaluation"),
    whole("pause_calls", 3, 0, 1000, "small calls at its end"),
];

/// All kinds of jobs that can be made up.
pub const RECIPES: &[Definition] = &[
    Definition {
        name: "ddp",
        about: "data-parallel training: gradients in buckets, one AllReduce each, behind the forward pass",
        own: &[
            whole("buckets", 8, 1, 1000, "AllReduces of a step"),
            real("bucket_mib", 25.0, 0.001, 4096.0, "their size; the last is smaller"),
        ],
        steps: jobs::ddp,
        communicators: one_communicator,
    },
    Definition {
        name: "accumulation",
        about: "the same with gradients that are exchanged in every k-th step only; the others sum a loss up",
        own: &[
            whole("every", 4, 2, 100, "k"),
            whole("buckets", 6, 1, 1000, "AllReduces of each k-th step"),
            real("bucket_mib", 25.0, 0.001, 4096.0, "their size; the last is smaller"),
        ],
        steps: jobs::accumulation,
        communicators: one_communicator,
    },
    Definition {
        name: "fsdp",
        about: "sharded training: AllGather per layer forward and backward, ReduceScatter per layer backward",
        own: &[
            whole("layers", 12, 1, 500, "layers"),
            real("layer_mib", 14.0, 0.001, 4096.0, "weights of a layer on all ranks together"),
        ],
        steps: jobs::fsdp,
        communicators: one_communicator,
    },
    Definition {
        name: "decode",
        about: "tensor-parallel serving: two AllReduces per layer and token, sizes that follow the batch",
        own: &[
            whole("layers", 16, 1, 500, "layers"),
            whole("width", 4096, 1, 1_000_000, "elements per request"),
            whole("batch", 24, 1, 100_000, "requests at first"),
            whole("batch_most", 64, 1, 100_000, "and at most"),
            real("batch_changes", 0.2, 0.0, 1.0, "how likely the batch grows or shrinks at a token"),
            real("cpu_share", 0.4, 0.0, 0.99, "share of a step without calls, while the host schedules"),
        ],
        steps: jobs::decode,
        communicators: one_communicator,
    },
    Definition {
        name: "interleaved",
        about: "training with tensor-parallel layers, a pipeline's messages and data-parallel gradients at once",
        own: &[
            whole("layers", 6, 1, 500, "tensor-parallel layers"),
            whole("buckets", 4, 1, 1000, "gradient buckets"),
            whole("microbatches", 2, 1, 100, "passes through the layers per step"),
        ],
        steps: jobs::interleaved,
        communicators: jobs::three_communicators,
    },
    Definition {
        name: "aperiodic",
        about: "adversary: calls of any kind, size and distance",
        own: &[whole("calls", 20, 1, 1000, "calls of a step")],
        steps: adversaries::aperiodic,
        communicators: one_communicator,
    },
    Definition {
        name: "switching",
        about: "adversary: a step that is repeated a few times, then another one, for ever",
        own: &[
            whole("repeats_least", 3, 1, 1000, "how often a step is repeated, at least"),
            whole("repeats_most", 12, 1, 1000, "and at most"),
            whole("calls_most", 30, 1, 1000, "calls of a step, at most"),
        ],
        steps: adversaries::switching,
        communicators: one_communicator,
    },
    Definition {
        name: "noise",
        about: "adversary: ddp with calls that are left out, put in or changed in size by chance",
        own: &[
            whole("buckets", 8, 1, 1000, "AllReduces of a step"),
            real("bucket_mib", 25.0, 0.001, 4096.0, "their size"),
            real("dropped", 0.1, 0.0, 1.0, "how likely a call is left out"),
            real("added", 0.1, 0.0, 1.0, "how likely one is put in behind it"),
            real("resized", 0.1, 0.0, 1.0, "how likely it has another size"),
        ],
        steps: adversaries::noise,
        communicators: one_communicator,
    },
    Definition {
        name: "growing",
        about: "adversary: each step has one call more than the step before, until it starts again",
        own: &[whole("calls_most", 40, 1, 1000, "calls of a step, at most")],
        steps: adversaries::growing,
        communicators: one_communicator,
    },
];

impl Definition {
    /// Those that no other recipe has to have.
    pub fn own(&self) -> &'static [Parameter] {
        self.own
    }

    pub fn shared(&self) -> &'static [Parameter] {
        OF_ALL
    }

    pub fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.own.iter().chain(OF_ALL)
    }
}

/// A kind of job with its parameters, checked.
pub struct Recipe {
    pub(super) definition: &'static Definition,
    /// In the order of `Definition::parameters`.
    values: Vec<(&'static Parameter, f64)>,
}

impl Recipe {
    /// 0 for a name that the recipe does not have.
    pub(super) fn value(&self, name: &str) -> f64 {
        self.values.iter().find(|(parameter, _)| parameter.name == name).map_or(0.0, |(_, value)| *value)
    }

    pub(super) fn whole(&self, name: &str) -> u64 {
        self.value(name) as u64
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let names = || RECIPES.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        let name = words.next().ok_or_else(|| format!("which recipe? One of {}", names()))?;
        let definition = RECIPES.iter().find(|one| one.name == name);
        let definition = definition.ok_or_else(|| format!("{name} is not one of {}", names()))?;
        let mut values: Vec<(&'static Parameter, Option<f64>)> =
            definition.parameters().map(|parameter| (parameter, None)).collect();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("{word} is not NAME=VALUE"))?;
            let place = values.iter_mut().find(|(parameter, _)| parameter.name == name);
            let (parameter, held) =
                place.ok_or_else(|| format!("{} has no parameter {name}", definition.name))?;
            if held.replace(parameter.read(value)?).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        let values =
            values.into_iter().map(|(parameter, value)| (parameter, value.unwrap_or(parameter.usual)));
        Ok(Self { definition, values: values.collect() })
    }
}

impl Parameter {
    fn read(&self, text: &str) -> Result<f64, String> {
        let Self { name, least, most, .. } = self;
        let value: f64 = text.parse().map_err(|_| format!("{name}={text} is not a number"))?;
        if !(*least..=*most).contains(&value) {
            return Err(format!("{name}={text} is not from {least} to {most}"));
        }
        if self.is_whole && value.fract() != 0.0 {
            return Err(format!("{name}={text} is not a whole number"));
        }
        Ok(value)
    }
}

/// All parameters, as they can be given.
impl fmt::Display for Recipe {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.definition.name)?;
        self.values.iter().try_for_each(|(parameter, value)| write!(to, " {}={value}", parameter.name))
    }
}
