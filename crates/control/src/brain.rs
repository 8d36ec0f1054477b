//! What decides on plans. It lives on the control thread: it must not block and makes no GPU or NCCL call.
//! Every rank brings one; only that of rank 0 is asked for plans.

use airamp_agreement::{Capable, Order, Plan, Rank};

pub trait Brain: Send {
    /// The plan of creation, from what all ranks hold.
    fn first(&mut self, capable: &[Capable]) -> Plan;
    /// All ranks are connected and begin with the first plan.
    fn started(&mut self);
    fn report(&mut self, rank: Rank, report: &[u8]);
    fn order(&mut self, order: Order);
    /// A rank lies or is confused, or says so of this one: from here on `next` is to give the vendor's plan and no other.
    fn distrusted(&mut self, reason: &str);
    /// What became of a plan that `next` gave.
    fn decided(&mut self, at: u64, plan: &Plan, committed: bool);
    /// A plan to change to. Asked after each of the above, and every second while it `waits`.
    fn next(&mut self) -> Option<Plan>;
    /// Whether `next` may change its mind with nothing but time passing.
    fn waits(&self) -> bool {
        false
    }
    /// A switch is agreed. Called on every rank, the leader's too.
    fn committed(&mut self, at: u64, plan: &Plan);
    /// No plan will change any more.
    fn closed(&mut self, reason: &str);
}
