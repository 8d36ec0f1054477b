//! No run comes back to a state that it has left: so waits cannot go round in circles, and to look at where runs end
//! is enough for liveness.

use crate::calls::crossed_program;
use crate::choices::Choice;
use crate::scene::Op::{AllReduce, Create};
use crate::scene::Scene;
use crate::world::World;
use stateright::Model;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

#[test]
fn creation_and_switches_never_come_back_to_a_state() {
    let creation = Scene { cuts: 1, time: true, early: 1, ..Scene::alike(2, &[Create(0), AllReduce(0)]) };
    assert_no_run_repeats_a_state(&creation);
    let calls = Scene { created: true, changes: 1, ..Scene::alike(2, &[AllReduce(0); 2]) };
    assert_no_run_repeats_a_state(&Scene { cuts: 1, time: true, early: 1, ..calls });
    assert_no_run_repeats_a_state(&Scene { time: true, ..crossed_program() });
}

/// Depth first: a state that is reached again while it is still on the way to itself closes a circle.
fn assert_no_run_repeats_a_state(scene: &Scene) {
    let mut left = HashMap::new();
    let mut way =
        scene.init_states().into_iter().map(|world| visit(scene, world, &mut left)).collect::<Vec<_>>();
    while let Some(visited) = way.last_mut() {
        let Some(choice) = visited.choices.pop() else {
            left.insert(visited.name, true);
            way.pop();
            continue;
        };
        let Some(next) = scene.next_state(&visited.world, choice) else { continue };
        match left.get(&name(&next)) {
            Some(true) => {}
            Some(false) => panic!("a run repeats {next:#?}"),
            None => way.push(visit(scene, next, &mut left)),
        }
    }
    assert!(left.len() > 1_000, "the scene is worth a walk: {} states", left.len());
}

struct Visited {
    name: u64,
    world: World,
    choices: Vec<Choice>,
}

fn visit(scene: &Scene, world: World, left: &mut HashMap<u64, bool>) -> Visited {
    let mut choices = Vec::new();
    scene.actions(&world, &mut choices);
    let name = name(&world);
    left.insert(name, false);
    Visited { name, world, choices }
}

fn name(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
