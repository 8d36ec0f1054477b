//! Input that is meant to mislead whoever looks for a rhythm: none at all, one that never lasts, one with holes.

use airamp_telemetry::Kind;

use super::recipe::Recipe;
use super::{BFLOAT16, Dice, FLOAT32, Planned, Steps, jobs};

const KINDS: [Kind; 6] =
    [Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast, Kind::Reduce, Kind::AllToAll];

pub(super) fn aperiodic(recipe: &Recipe, _: &mut Dice) -> Steps {
    let calls = recipe.whole("calls");
    Box::new(move |dice, _| (0..calls).map(|_| any(dice, calls)).collect())
}

pub(super) fn switching(recipe: &Recipe, _: &mut Dice) -> Steps {
    let (least, most) = (recipe.whole("repeats_least"), recipe.whole("repeats_most"));
    let calls_most = recipe.whole("calls_most");
    let (mut step, mut left) = (Vec::new(), 0);
    Box::new(move |dice, _| {
        if left == 0 {
            left = dice.between(least, most.max(least));
            let calls = dice.between(1, calls_most);
            step = (0..calls).map(|_| any(dice, calls)).collect();
        }
        left -= 1;
        step.clone()
    })
}

pub(super) fn noise(recipe: &Recipe, dice: &mut Dice) -> Steps {
    let mut clean = jobs::ddp(recipe, dice);
    let [dropped, added, resized] = ["dropped", "added", "resized"].map(|name| recipe.value(name));
    Box::new(move |dice, number| {
        let mut step = Vec::new();
        for mut call in clean(dice, number) {
            if dice.is(resized) {
                call.count = dice.between(1, 4 * call.count);
            }
            if !dice.is(dropped) {
                step.push(call);
            }
            if dice.is(added) {
                step.push(any(dice, 20));
            }
        }
        step
    })
}

pub(super) fn growing(recipe: &Recipe, dice: &mut Dice) -> Steps {
    let most = recipe.whole("calls_most");
    let all: Vec<Planned> = (0..most).map(|_| any(dice, most)).collect();
    Box::new(move |_, number| all.iter().take((number % most) as usize + 1).copied().collect())
}

/// One of about `calls` in a step.
fn any(dice: &mut Dice, calls: u64) -> Planned {
    let datatype = if dice.is(0.5) { BFLOAT16 } else { FLOAT32 };
    // Small sizes are as likely as large ones.
    let most = 1 << dice.between(0, 24);
    let after = 2.0 * dice.share() / calls.max(1) as f64;
    Planned::new(after, dice.one_of(&KINDS, Kind::AllReduce), datatype, dice.between(1, most))
}
