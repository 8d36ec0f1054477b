//! How many ranks of a communicator lie on each node, which decides how its calls are cut. The leader alone says it, from
//! what all ranks told of their hosts, and its first plan carries the number: so that no two ranks can differ. Pure.

use airamp_agreement::Capable;
use airamp_fast_path::Ranks;

/// What the leader tells all ranks; 1 where the nodes are not even.
pub(super) fn ranks_per_node(setting: Option<u32>, capable: &[Capable]) -> usize {
    let per_node = setting.map_or_else(|| alike(capable), |number| number as usize);
    Ranks::new(capable.len(), per_node).per_node()
}

/// Whether the setting asks for nodes that these ranks do not make. So many or fewer lie on one node, where nothing is asked for.
pub(super) fn is_uneven(setting: Option<u32>, ranks: usize) -> bool {
    let uneven = |number: usize| ranks > number && Ranks::new(ranks, number).per_node() != number;
    setting.is_some_and(|number| uneven(number as usize))
}

/// Ranks of each host, if all hosts have as many and each has its own one after the other.
fn alike(capable: &[Capable]) -> usize {
    let same_host = |one: &Capable, other: &Capable| one.host == other.host;
    let mut nodes = capable.chunk_by(same_host);
    let per_node = nodes.next().map_or(1, <[Capable]>::len);
    let firsts: Vec<u64> = capable.chunk_by(same_host).map(|node| node[0].host).collect();
    let comes_again = |(place, host): (usize, &u64)| firsts[..place].contains(host);
    let is_even = nodes.all(|node| node.len() == per_node) && !firsts.iter().enumerate().any(comes_again);
    if is_even { per_node } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(hosts: &[u64]) -> Vec<Capable> {
        let rank = |host: &u64| Capable { terms: Vec::new(), host: *host, tunings: Vec::new() };
        hosts.iter().map(rank).collect()
    }

    #[test]
    fn hosts_with_as_many_ranks_one_after_the_other_are_nodes() {
        assert_eq!(ranks_per_node(None, &on(&[7, 7, 3, 3])), 2);
        assert_eq!(ranks_per_node(None, &on(&[7, 7, 7, 3, 3, 3])), 3);
        assert_eq!(ranks_per_node(None, &on(&[1, 1, 2, 2, 3, 3])), 2);
    }

    #[test]
    fn uneven_interleaved_and_single_hosts_are_none() {
        let others: [&[u64]; 10] = [
            &[],
            &[1],
            &[1, 1],
            &[1, 2],
            &[1, 1, 1, 2],
            &[1, 1, 2, 3],
            &[1, 2, 2, 2],
            &[1, 2, 1, 2],
            &[1, 1, 2, 2, 1, 1],
            &[1, 1, 1, 1],
        ];
        for hosts in others {
            assert_eq!(ranks_per_node(None, &on(hosts)), 1, "{hosts:?}");
        }
    }

    #[test]
    fn a_number_in_the_settings_goes_before_the_hosts_where_it_fits() {
        assert_eq!(ranks_per_node(Some(1), &on(&[7, 7, 3, 3])), 1);
        assert_eq!(ranks_per_node(Some(2), &on(&[1, 2, 3, 4])), 2);
        assert_eq!(ranks_per_node(Some(3), &on(&[7, 7, 3, 3])), 1);
        assert!(is_uneven(Some(3), 4) && is_uneven(Some(2), 258) && is_uneven(Some(8), 12));
        let fit = [(Some(2), 4), (Some(1), 4), (None, 4), (Some(4), 4), (Some(8), 2), (Some(2), 256)];
        fit.iter().for_each(|(setting, ranks)| assert!(!is_uneven(*setting, *ranks), "{setting:?} {ranks}"));
    }
}
