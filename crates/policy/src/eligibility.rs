//! Which AllReduce may be compressed at an index whose plan says so.

/// The datatypes that can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    F16,
    Bf16,
    F32,
}

impl Element {
    pub fn bytes(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }
}

/// The reductions that can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Average,
}

/// What the vendor requires to be equal on every rank; `None` is everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllReduce {
    pub count: u64,
    pub element: Option<Element>,
    pub reduction: Option<Reduction>,
    pub ranks: u32,
}

/// What the ranks have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Smaller messages are passed on.
    pub min_bytes: u64,
}

/// Why a call goes to the vendor though its index allows compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassedOn {
    #[error("a single rank has nobody to exchange with")]
    SingleRank,
    #[error("the call is empty")]
    Empty,
    #[error("only float16, bfloat16 and float32 are compressed")]
    Datatype,
    #[error("only sum and average are compressed")]
    Reduction,
    #[error("the message is smaller than AIRAMP_MIN_BYTES")]
    Small,
}

pub fn eligible(call: &AllReduce, rules: &Rules) -> Result<(Element, Reduction), PassedOn> {
    if call.ranks < 2 {
        return Err(PassedOn::SingleRank);
    }
    if call.count == 0 {
        return Err(PassedOn::Empty);
    }
    let element = call.element.ok_or(PassedOn::Datatype)?;
    let reduction = call.reduction.ok_or(PassedOn::Reduction)?;
    if call.count.saturating_mul(element.bytes()) < rules.min_bytes {
        return Err(PassedOn::Small);
    }
    Ok((element, reduction))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { min_bytes: 1 << 20 };
    const CALL: AllReduce =
        AllReduce { count: 1 << 19, element: Some(Element::F16), reduction: Some(Reduction::Sum), ranks: 4 };

    #[test]
    fn sums_and_averages_of_enough_floating_point_numbers_are_eligible() {
        assert_eq!(eligible(&CALL, &RULES), Ok((Element::F16, Reduction::Sum)));
        let average =
            AllReduce { element: Some(Element::F32), reduction: Some(Reduction::Average), ranks: 2, ..CALL };
        assert_eq!(eligible(&average, &RULES), Ok((Element::F32, Reduction::Average)));
    }

    #[test]
    fn everything_else_is_passed_on_with_the_reason() {
        let cases = [
            (AllReduce { ranks: 1, ..CALL }, PassedOn::SingleRank),
            (AllReduce { count: 0, ..CALL }, PassedOn::Empty),
            (AllReduce { element: None, ..CALL }, PassedOn::Datatype),
            (AllReduce { reduction: None, ..CALL }, PassedOn::Reduction),
            (AllReduce { count: (1 << 19) - 1, ..CALL }, PassedOn::Small),
        ];
        for (call, reason) in cases {
            assert_eq!(eligible(&call, &RULES), Err(reason));
        }
    }

    #[test]
    fn a_count_whose_bytes_overflow_is_large() {
        let huge = AllReduce { count: u64::MAX, element: Some(Element::F32), ..CALL };
        assert!(eligible(&huge, &RULES).is_ok());
    }
}
