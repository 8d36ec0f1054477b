//! The agreement, checked exhaustively within the bounds that each scene states: every interleaving of messages,
//! losses, crashes, time-outs and calls of the applications around the crate's own machines. docs/agreement.md says what
//! is covered and how many states there are.

mod application;
mod calls;
mod choices;
mod control;
mod creation;
mod gate;
mod gate_agrees;
mod link;
mod mistakes;
mod nothing_repeats;
mod properties;
mod scene;
mod world;

use crate::scene::Scene;
use crate::world::World;
use stateright::{Checker, HasDiscoveries, Model};
use std::time::Instant;

/// Walks through all states. Every property must hold, and everything that the scene is to reach must be reached.
fn holds(name: &str, scene: Scene) {
    let began = Instant::now();
    let checker = scene.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!(
        "| {name} | {} | {} | {} | {:.1} |",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    for (property, path) in checker.discoveries() {
        if checker.discovery_classification(property).to_string() == "counterexample" {
            let steps = path.into_vec();
            for (world, choice) in &steps {
                println!("{choice:?}   threads {:?}", places(world));
            }
            println!("{:#?}", steps.last());
            panic!("{name}: {property}: refuted in {} steps", steps.len() - 1);
        }
    }
    checker.assert_properties();
}

/// The checker must find a counterexample to exactly this property.
fn is_refuted(name: &str, property: &'static str, scene: Scene) {
    let mut found = [property].into();
    let when = HasDiscoveries::AllOf(std::mem::take(&mut found));
    let checker = scene.checker().finish_when(when).spawn_bfs().join();
    let Some(path) = checker.discovery(property) else { panic!("{name}: {property}: not refuted") };
    let choices = path.into_actions();
    println!("| {name} | {property} | {} | {} |", choices.len(), checker.unique_state_count());
    println!("    {choices:?}");
}

fn places(world: &World) -> Vec<(usize, crate::world::Step)> {
    world.processes.iter().map(|process| (process.at, process.step)).collect()
}
