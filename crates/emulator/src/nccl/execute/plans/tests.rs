//! Whole rings of plans, run over channels of a few bytes: they must not get stuck and must
//! compute what the collective promises.

use std::collections::VecDeque;

use super::*;

struct Rank {
    plan: Plan,
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
    sending: Cursor,
    receiving: Cursor,
}

/// Runs all ranks until nothing moves; elements are bytes and the reduction is their sum.
fn run(plans: Vec<Plan>, inputs: Vec<Vec<u8>>, output: usize, channel: usize) -> Vec<Vec<u8>> {
    let size = plans.len();
    let mut channels = vec![VecDeque::new(); size];
    let mut ranks: Vec<Rank> = plans
        .into_iter()
        .zip(inputs)
        .map(|(plan, input)| {
            let scratch = vec![0; plan.scratch];
            let (sending, receiving) = (Cursor::default(), Cursor::default());
            Rank { plan, input, output: vec![0; output], scratch, sending, receiving }
        })
        .collect();
    let mut moved = true;
    while moved {
        moved = false;
        for (index, rank) in ranks.iter_mut().enumerate() {
            moved |= rank.send(&mut channels[index], channel);
            moved |= rank.receive(&mut channels[(index + size - 1) % size]);
        }
    }
    for rank in &mut ranks {
        assert!(rank.plan.sendable(&mut rank.sending, usize::MAX).is_none(), "a send is stuck");
        assert!(rank.plan.receivable(&mut rank.receiving, usize::MAX).is_none(), "a receive is stuck");
    }
    ranks.into_iter().map(|rank| rank.output).collect()
}

impl Rank {
    fn send(&mut self, channel: &mut VecDeque<u8>, capacity: usize) -> bool {
        let Some((piece, ready)) = self.plan.sendable(&mut self.sending, self.receiving.total) else {
            return false;
        };
        let count = ready.min(capacity - channel.len());
        let source = match piece.place {
            Place::Input => &self.input,
            Place::Output => &self.output,
            Place::Scratch => &self.scratch,
        };
        let start = piece.offset + self.sending.within;
        channel.extend(&source[start..start + count]);
        self.sending.advance(count);
        count > 0
    }

    fn receive(&mut self, channel: &mut VecDeque<u8>) -> bool {
        let Some((piece, room)) = self.plan.receivable(&mut self.receiving, self.sending.total) else {
            return false;
        };
        let count = room.min(channel.len());
        for index in 0..count {
            let within = self.receiving.within + index;
            let own = piece.own.map_or(0, |own| self.input[own + within]);
            let value = channel.pop_front().expect("counted").wrapping_add(own);
            let target = match piece.place {
                Place::Output => &mut self.output,
                _ => &mut self.scratch,
            };
            target[piece.offset + within] = value;
        }
        self.receiving.advance(count);
        count > 0
    }
}

fn shape(rank: usize, size: usize, count: usize) -> Shape {
    Shape { rank, size, count, element: 1, slot: 4 }
}

fn inputs(size: usize, len: usize) -> Vec<Vec<u8>> {
    (0..size).map(|rank| (0..len).map(|index| (rank * 37 + index * 11 + 1) as u8).collect()).collect()
}

fn sum(inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut total = vec![0u8; inputs[0].len()];
    for input in inputs {
        total.iter_mut().zip(input).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
    }
    total
}

fn every_ring(test: impl Fn(usize, usize, usize)) {
    for size in 2..=8 {
        for count in [1, 2, 5, 8, 33, 64] {
            for channel in [1, 3, 1000] {
                test(size, count, channel);
            }
        }
    }
}

#[test]
fn all_reduce_leaves_the_sum_everywhere() {
    every_ring(|size, count, channel| {
        let data = inputs(size, count);
        let plans = (0..size).map(|rank| all_reduce(shape(rank, size, count))).collect();
        let expected = sum(&data);
        for output in run(plans, data, count, channel) {
            assert_eq!(output, expected, "{size} ranks, {count} elements");
        }
    });
}

#[test]
fn reduce_scatter_leaves_each_rank_its_part_of_the_sum() {
    every_ring(|size, count, channel| {
        let data = inputs(size, count * size);
        let plans = (0..size).map(|rank| reduce_scatter(shape(rank, size, count))).collect();
        let expected = sum(&data);
        for (rank, output) in run(plans, data, count, channel).iter().enumerate() {
            assert_eq!(output, &expected[rank * count..(rank + 1) * count], "{size} ranks, {count} elements");
        }
    });
}

#[test]
fn all_gather_fills_in_everybody_else() {
    every_ring(|size, count, channel| {
        let data = inputs(size, count);
        let plans = (0..size).map(|rank| all_gather(shape(rank, size, count))).collect();
        for (rank, output) in run(plans, data.clone(), count * size, channel).iter().enumerate() {
            for other in (0..size).filter(|other| *other != rank) {
                assert_eq!(output[other * count..(other + 1) * count], data[other]);
            }
        }
    });
}

#[test]
fn broadcast_and_reduce_work_from_every_root() {
    every_ring(|size, count, channel| {
        for root in 0..size {
            let data = inputs(size, count);
            let plans = (0..size).map(|rank| broadcast(shape(rank, size, count), root)).collect();
            for (rank, output) in run(plans, data.clone(), count, channel).iter().enumerate() {
                assert!(rank == root || *output == data[root]);
            }
            let plans = (0..size).map(|rank| reduce(shape(rank, size, count), root)).collect();
            let expected = sum(&data);
            assert_eq!(run(plans, data, count, channel)[root], expected);
        }
    });
}
