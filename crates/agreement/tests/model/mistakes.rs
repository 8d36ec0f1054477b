//! What the design forbids, each done on purpose: a checker that cannot refute these proves nothing.

use crate::calls::{captures, crossed_program, grouped_program};
use crate::is_refuted;
use crate::properties::{NO_PASSING, SAME_GRAPHS, SAME_OPERATIONS, VERDICT};
use crate::scene::Op::{AllReduce, Create};
use crate::scene::{Mistake, Scene};

#[test]
fn a_warm_up_that_blocks_the_host_hangs() {
    let scene = Scene { mistake: Mistake::BlockingWarmUp, ..crossed_program() };
    is_refuted("host-blocking warm-up", VERDICT, scene);
}

#[test]
fn a_first_use_outside_creation_hangs() {
    let scene = Scene { mistake: Mistake::LateConnection, created: false, ..crossed_program() };
    let programs =
        scene.programs.iter().map(|program| [&[Create(0), Create(1)], program.as_slice()].concat()).collect();
    is_refuted("first use outside creation", VERDICT, Scene { programs, changes: 0, ..scene });
}

#[test]
fn a_rank_that_falls_back_alone_diverges() {
    let scene =
        Scene { created: true, mistake: Mistake::LocalFallback(1), ..Scene::alike(2, &[AllReduce(0)]) };
    is_refuted("rank-local fallback", SAME_OPERATIONS, scene);
}

#[test]
fn eligibility_that_looks_at_the_group_diverges() {
    let scene = Scene { mistake: Mistake::EligibilityByGroup, ..grouped_program() };
    is_refuted("eligibility that looks at the group", SAME_OPERATIONS, scene);
}

#[test]
fn an_acquisition_inside_the_vote_hangs() {
    let scene = Scene { mistake: Mistake::AcquisitionInVote, ..crossed_program() };
    is_refuted("acquisition inside the vote", VERDICT, scene);
}

#[test]
fn a_pledge_inside_an_open_group_diverges() {
    let scene = Scene { mistake: Mistake::PledgeInsideGroup, ..grouped_program() };
    is_refuted("pledge inside an open group", SAME_OPERATIONS, scene.clone());
    is_refuted("pledge inside an open group", NO_PASSING, scene);
}

#[test]
fn a_commit_without_pledge_diverges() {
    let scene = Scene { created: true, changes: 1, ..Scene::alike(2, &[AllReduce(0); 3]) };
    is_refuted(
        "commit without pledge",
        SAME_OPERATIONS,
        Scene { mistake: Mistake::CommitWithoutPledge, ..scene },
    );
}

#[test]
fn a_pledge_of_an_index_that_a_capture_went_by_diverges() {
    let scene = Scene { mistake: Mistake::PledgeAtCapture, ..captures() };
    is_refuted("pledge at a capture", SAME_GRAPHS, scene.clone());
    is_refuted("pledge at a capture", NO_PASSING, scene);
}

#[test]
fn a_pledge_stored_after_the_look_at_the_counter_diverges() {
    let scene = Scene { created: true, changes: 1, fine: true, ..Scene::alike(2, &[AllReduce(0); 3]) };
    is_refuted(
        "pledge stored after the look",
        SAME_OPERATIONS,
        Scene { mistake: Mistake::PledgeAfterLoad, ..scene },
    );
}
