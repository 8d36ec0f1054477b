//! The example that everybody who shows a node tests with.

use airamp_observer::view::{FindingKind, Node};

#[test]
fn the_example_is_complete_and_survives_json() {
    let node = Node::example();
    assert_eq!(node.jobs.len(), 2, "the fixture does not parse");
    assert_eq!(node.jobs[0].ranks.len(), 4);
    assert!(node.jobs[0].ranks[3].late);
    assert_eq!(node.findings[0].kind, FindingKind::LateRank);
    let json = serde_json::to_string(&node).expect("a node is JSON");
    let again: Node = serde_json::from_str(&json).expect("its own JSON");
    assert_eq!(again, node);
}
