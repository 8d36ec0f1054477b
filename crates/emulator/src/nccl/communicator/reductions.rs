//! The PreMulSum operators of a communicator: handles from 5 on, the last destroyed reused first.

use std::sync::Mutex;

use airamp_vendor_abi::nccl::{DataType, RedOp};

use crate::nccl::error::{NcclError, Outcome};
use crate::nccl::lock;

/// The factor of a PreMulSum.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    /// One element, copied when the operator was made.
    Immediate([u8; 8]),
    /// The address of one element, read when the collective runs.
    Device(u64),
}

#[derive(Default)]
pub(crate) struct Reductions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    slots: Vec<Option<(DataType, Scalar)>>,
    free: Vec<usize>,
}

impl Reductions {
    pub(crate) fn create(&self, datatype: DataType, scalar: Scalar) -> RedOp {
        let mut table = lock(&self.table);
        let index = table.free.pop().unwrap_or(table.slots.len());
        if index == table.slots.len() {
            table.slots.push(None);
        }
        table.slots[index] = Some((datatype, scalar));
        RedOp(RedOp::FIRST_HANDLE + index as i32)
    }

    pub(crate) fn destroy(&self, op: RedOp) -> Outcome {
        let mut table = lock(&self.table);
        let index = index_of(op)?;
        let known = table.slots.get_mut(index).and_then(Option::take);
        known.ok_or_else(|| unknown(op))?;
        table.free.push(index);
        Ok(())
    }

    pub(crate) fn lookup(&self, op: RedOp, datatype: DataType) -> Outcome<Scalar> {
        let table = lock(&self.table);
        let known = table.slots.get(index_of(op)?).copied().flatten();
        let (made_for, scalar) = known.ok_or_else(|| unknown(op))?;
        if made_for != datatype {
            let text = "the reduction operator was made for another datatype";
            return Err(NcclError::InvalidArgument(text.into()));
        }
        Ok(scalar)
    }
}

fn index_of(op: RedOp) -> Outcome<usize> {
    usize::try_from(op.0.wrapping_sub(RedOp::FIRST_HANDLE)).map_err(|_| unknown(op))
}

fn unknown(op: RedOp) -> NcclError {
    NcclError::InvalidArgument(format!("reduction {} is not known to this communicator", op.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_handle_is_reused_at_once() {
        let reductions = Reductions::default();
        let scalar = Scalar::Immediate([0; 8]);
        let first = reductions.create(DataType::FLOAT32, scalar);
        let second = reductions.create(DataType::FLOAT32, scalar);
        assert_eq!((first.0, second.0), (5, 6));
        reductions.destroy(first).expect("it exists");
        assert!(reductions.lookup(first, DataType::FLOAT32).is_err());
        assert!(reductions.destroy(first).is_err());
        assert_eq!(reductions.create(DataType::FLOAT16, scalar), first);
        assert!(reductions.lookup(first, DataType::FLOAT32).is_err(), "now of another datatype");
    }

    #[test]
    fn built_in_and_negative_values_are_no_handles() {
        let reductions = Reductions::default();
        for value in [-1, 0, 4, 5, i32::MIN] {
            assert!(reductions.lookup(RedOp(value), DataType::FLOAT32).is_err(), "{value}");
        }
    }
}
