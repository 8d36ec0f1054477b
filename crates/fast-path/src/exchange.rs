//! What one exchange puts on the wire, posted inside a group of the vendor's that is open.

use crate::plan::Phase;
use crate::shape::Algorithm;
use crate::steps::Steps;
use crate::wire::WireError;

impl Steps<'_> {
    pub(crate) fn exchange(&self, place: usize) -> Result<(), WireError> {
        let (phase, step) = self.plan.exchange(place);
        if phase != Phase::Gather {
            self.lane.wire.accompany(self.order.home())?;
        }
        match (self.plan.shape.algorithm, phase) {
            (_, Phase::WithinNode) => self.scatter_within_node(step),
            (Algorithm::ThreeShot, Phase::Scatter) => self.scatter_across_nodes(step),
            (_, Phase::Scatter) => self.scatter(step),
            (_, Phase::Gather) => self.gather(step),
        }
    }

    /// Each rank's shard to its owner.
    fn scatter(&self, step: usize) -> Result<(), WireError> {
        let (wire, home, chunk) = (&self.lane.wire, self.order.home(), self.plan.chunk(step));
        for peer in wire.peers() {
            wire.send(self.packet(step, peer), chunk.shard_bytes(peer), peer, home)?;
            wire.recv(self.received(step, peer), chunk.shard_bytes(wire.rank), peer, home)?;
        }
        Ok(())
    }

    /// Everybody's packet to everybody, all of full size: what is behind a short one, or in place of an
    /// empty one, is not read.
    fn gather(&self, step: usize) -> Result<(), WireError> {
        let bytes = self.plan.chunk(step).stride();
        self.lane.wire.all_gather(self.packet(step, 0), bytes, self.order.home())
    }
}
