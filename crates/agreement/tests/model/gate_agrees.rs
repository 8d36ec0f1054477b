//! The model's gate is the crate's gate: the same operations, one after the other, get the same answers. What happens
//! when they overlap is what the model adds.

use crate::control::plan;
use crate::gate::{Gate, Pass};
use airamp_agreement::GateError;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Pledge { above: u64 },
    Commit,
    Abort,
    Lose,
    Call { calls: u64 },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        4 => (0..4_u64).prop_map(|above| Deed::Pledge { above }),
        3 => Just(Deed::Commit),
        2 => Just(Deed::Abort),
        1 => Just(Deed::Lose),
        6 => (1..5_u64).prop_map(|calls| Deed::Call { calls }),
    ];
    prop::collection::vec(deed, 1..40)
}

proptest! {
    #[test]
    fn the_gate_of_the_model_answers_as_the_gate(deeds in deeds()) {
        // A call that the model lets wait would wait here too, and end in this error.
        let real = airamp_agreement::Gate::with_longest_wait(Duration::ZERO);
        let mut model = Gate::new();
        real.start(plan(1));
        model.start(1);
        let (mut reserved, mut id) = (0, 1);
        for deed in deeds {
            match deed {
                // One above the counter at the least, and one below it.
                Deed::Pledge { above } if model.pledge.is_none() && model.lost.is_none() => {
                    let at = (reserved + above).saturating_sub(1);
                    model.store_pledge(at);
                    prop_assert_eq!(real.try_pledge(at, || reserved), model.compare(at, reserved));
                }
                Deed::Commit => if let Some(at) = model.pledge {
                    id += 1;
                    real.commit(at, plan(id));
                    model.commit(at, id);
                },
                Deed::Abort if model.pledge.is_some() => {
                    real.abort();
                    model.abort();
                }
                Deed::Lose if model.lost.is_none() => {
                    real.lose();
                    model.lose();
                }
                Deed::Call { calls } => for _ in 0..calls {
                    let index = reserved;
                    match model.pass(index) {
                        Pass::Go => prop_assert_eq!(real.entry(index, 0), Ok(model.plan(index))),
                        Pass::Fail => prop_assert_eq!(real.entry(index, 0), Err(GateError::Lost)),
                        Pass::Wait => {
                            prop_assert!(real.pledged().is_some_and(|at| at <= index));
                            break;
                        }
                    }
                    reserved = index + 1;
                },
                Deed::Pledge { .. } | Deed::Abort | Deed::Lose => {}
            }
        }
    }
}
