//! The shapes of honest jobs: which calls a step has, in which order, and what of its time passes before each.

use airamp_telemetry::Kind;

use super::recipe::Recipe;
use super::{BFLOAT16, Dice, FLOAT32, Planned, Steps};
use crate::Communicator;

/// Share of a step before the first gradients are there: forward pass and half a backward pass.
const FORWARD: f64 = 0.45;

pub(super) fn ddp(recipe: &Recipe, _: &mut Dice) -> Steps {
    let buckets = buckets(recipe);
    let warm_up = recipe.whole("warm_up");
    Box::new(move |_, number| {
        let mut step = spread(FORWARD, &buckets);
        // The first buckets follow the order of the model's parameters; then they are cut anew.
        if number == 0 && warm_up > 0 {
            step.reverse();
            step.iter_mut().for_each(|call| call.count += call.count / 7);
            step.insert(0, Planned::new(0.1, Kind::Broadcast, FLOAT32, buckets.iter().sum()));
        }
        step
    })
}

pub(super) fn accumulation(recipe: &Recipe, _: &mut Dice) -> Steps {
    let (buckets, every) = (buckets(recipe), recipe.whole("every"));
    Box::new(move |_, number| {
        let loss = Planned::new(0.3, Kind::AllReduce, FLOAT32, 1);
        let rest = Planned::new(0.7, Kind::AllReduce, FLOAT32, 2);
        if !(number + 1).is_multiple_of(every) {
            return vec![loss, rest];
        }
        let mut step = vec![loss];
        step.extend(spread(FORWARD - 0.3, &buckets));
        step
    })
}

pub(super) fn fsdp(recipe: &Recipe, _: &mut Dice) -> Steps {
    let layers = recipe.whole("layers");
    let shard = (recipe.value("layer_mib") * 1048576.0 / 2.0) as u64 / recipe.whole("ranks").max(1);
    Box::new(move |_, _| {
        let share = 0.9 / (3 * layers) as f64;
        let gather = |after, count| Planned::new(after, Kind::AllGather, BFLOAT16, count);
        // Embedding and output are one more, larger than a layer.
        let mut step = vec![gather(0.02, shard + shard / 2)];
        step.extend((0..layers).map(|_| gather(share, shard)));
        for _ in 0..layers {
            step.push(gather(share, shard));
            step.push(Planned::new(share, Kind::ReduceScatter, BFLOAT16, shard));
        }
        step.push(Planned::new(0.02, Kind::ReduceScatter, BFLOAT16, shard + shard / 2));
        step.push(Planned::new(0.06, Kind::AllReduce, FLOAT32, 1));
        step
    })
}

pub(super) fn decode(recipe: &Recipe, _: &mut Dice) -> Steps {
    let (layers, width) = (recipe.whole("layers"), recipe.whole("width"));
    let (mut batch, most) = (recipe.whole("batch"), recipe.whole("batch_most"));
    let (changes, cpu) = (recipe.value("batch_changes"), recipe.value("cpu_share"));
    Box::new(move |dice, _| {
        if dice.is(changes) {
            let step = dice.between(1, (most / 8).max(1));
            batch =
                if dice.is(0.5) { batch.saturating_add(step).min(most) } else { batch.saturating_sub(step) };
            batch = batch.max(1);
        }
        let share = (1.0 - cpu) / (2 * layers + 1) as f64;
        let reduce = |after| Planned::new(after, Kind::AllReduce, BFLOAT16, batch * width);
        let mut step = vec![reduce(cpu)];
        step.extend((1..2 * layers).map(|_| reduce(share)));
        step.push(Planned::new(share, Kind::AllGather, BFLOAT16, batch * 2000));
        step
    })
}

/// Tensor-parallel layers on communicator 0, gradients on 1, a pipeline's messages on 2.
pub(super) fn interleaved(recipe: &Recipe, _: &mut Dice) -> Steps {
    let (layers, buckets) = (recipe.whole("layers"), recipe.whole("buckets"));
    let passes = recipe.whole("microbatches");
    Box::new(move |_, _| {
        let share = 0.8 / (4 * layers * passes) as f64;
        let layer = Planned::new(share, Kind::AllReduce, BFLOAT16, 8 << 20);
        let mut step = Vec::new();
        for _ in 0..passes {
            step.push(Planned::new(0.02, Kind::Recv, BFLOAT16, 4 << 20).on(2).grouped());
            step.extend((0..2 * layers).map(|_| layer));
            step.push(Planned::new(share, Kind::Send, BFLOAT16, 4 << 20).on(2).grouped());
            step.push(Planned::new(0.0, Kind::Recv, BFLOAT16, 4 << 20).on(2).grouped());
            step.extend((0..2 * layers).map(|_| layer));
        }
        let first = step.len() - (2 * layers as usize).min(step.len());
        // Gradients go while the last layers are still computed.
        for bucket in 0..buckets {
            let place = first + (bucket * 2 * layers / buckets.max(1)) as usize + bucket as usize;
            let gradient = Planned::new(share / 2.0, Kind::AllReduce, FLOAT32, 6_553_600).on(1);
            step.insert(place.min(step.len()), gradient);
        }
        step.push(Planned::new(0.1, Kind::AllReduce, FLOAT32, 1).on(1));
        step
    })
}

pub(super) fn three_communicators(recipe: &Recipe) -> Vec<Communicator> {
    let ranks = recipe.whole("ranks") as u32;
    let of = |ranks, name| Communicator { ranks, rank: 0, name };
    vec![of(ranks, 1), of((ranks / 2).max(2), 2), of(2, 3)]
}

/// Elements of each bucket: all alike but the last, which holds what is left.
fn buckets(recipe: &Recipe) -> Vec<u64> {
    let (count, each) = (recipe.whole("buckets"), (recipe.value("bucket_mib") * 1048576.0 / 4.0) as u64);
    (1..=count).map(|bucket| if bucket == count { (each * 2 / 5).max(1) } else { each.max(1) }).collect()
}

/// The first after `before`, the others evenly over the rest of the step.
fn spread(before: f64, buckets: &[u64]) -> Vec<Planned> {
    let share = (1.0 - before) / buckets.len().max(1) as f64;
    let shares = std::iter::once(before + share).chain(std::iter::repeat(share));
    let of = |(after, count): (f64, &u64)| Planned::new(after, Kind::AllReduce, FLOAT32, *count);
    shares.zip(buckets).map(of).collect()
}
