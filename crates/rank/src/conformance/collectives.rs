//! Every collective with every datatype, every reduction, in place and not, and counts
//! from nothing to more than one chunk, at several alignments.

use airamp_vendor::gpu::Buffer;
use airamp_vendor_abi::nccl::{DataType, RedOp, ScalarResidence};

use super::Case;
use crate::collective::{Collective, Form};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::numbers::encode;
use crate::pattern::{Reduction, premultiplier};
use crate::session::{Observed, Session, Trial};

pub(super) const LARGEST_COUNT: usize = 65_537;

/// Counts and the elements by which the buffers are shifted off their alignment.
const SHAPES: [(usize, usize); 6] = [(0, 0), (1, 0), (7, 1), (1023, 0), (4096, 3), (LARGEST_COUNT, 0)];
const QUICK_SHAPES: [(usize, usize); 3] = [(0, 0), (7, 1), (1023, 0)];
const QUICK_TYPES: [DataType; 4] =
    [DataType::INT8, DataType::FLOAT32, DataType::BFLOAT16, DataType::FLOAT8_E4M3];

/// A reduction as a program asks for it.
#[derive(Clone, Copy)]
enum Operator {
    BuiltIn(RedOp, Reduction),
    PreMulSum(ScalarResidence),
}

const OPERATORS: [(&str, Operator); 7] = [
    ("sum", Operator::BuiltIn(RedOp::SUM, Reduction::Sum)),
    ("prod", Operator::BuiltIn(RedOp::PROD, Reduction::Prod)),
    ("max", Operator::BuiltIn(RedOp::MAX, Reduction::Max)),
    ("min", Operator::BuiltIn(RedOp::MIN, Reduction::Min)),
    ("avg", Operator::BuiltIn(RedOp::AVG, Reduction::Avg)),
    ("premulsum_host", Operator::PreMulSum(ScalarResidence::HOST_IMMEDIATE)),
    ("premulsum_device", Operator::PreMulSum(ScalarResidence::DEVICE)),
];

pub(super) fn cases(session: &Session, quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (collective, name) in Collective::ALL {
        if !collective.is_in(&session.nccl, Form::Plain) {
            continue;
        }
        for (datatype, type_name) in DataType::ALL {
            if session.supports(datatype) && (!quick || QUICK_TYPES.contains(&datatype)) {
                add_reductions(&mut cases, (collective, name), (datatype, type_name), quick);
            }
        }
    }
    cases.extend(config_forms(session));
    cases
}

fn add_reductions(
    cases: &mut Vec<Case>,
    (collective, name): (Collective, &'static str),
    (datatype, type_name): (DataType, &'static str),
    quick: bool,
) {
    let operators = if collective.reduces() { &OPERATORS[..] } else { &OPERATORS[..1] };
    for (operator_name, operator) in operators.iter().copied() {
        for in_place in collective.placements().iter().copied() {
            let place = if in_place { "in_place" } else { "out_of_place" };
            let operation = if collective.reduces() { format!("{operator_name}/") } else { String::new() };
            let spread = Spread { form: Form::Plain, collective, datatype, operator, in_place, quick };
            cases.push(Case::new(format!("{name}/{type_name}/{operation}{place}"), move |session| {
                run_shapes(session, spread)
            }));
        }
    }
}

/// The `*Config` functions take the same path as the plain ones: one type shows it.
fn config_forms(session: &Session) -> Vec<Case> {
    let known = Collective::ALL.into_iter().filter(|(each, _)| each.is_in(&session.nccl, Form::Config));
    known
        .map(|(collective, name)| {
            let (datatype, operator) = (DataType::FLOAT32, OPERATORS[0].1);
            let spread =
                Spread { form: Form::Config, collective, datatype, operator, in_place: false, quick: true };
            Case::new(format!("{name}_config/float32"), move |session| run_shapes(session, spread))
        })
        .collect()
}

/// One case: a call in every shape, and with the first and the last rank as root.
#[derive(Clone, Copy)]
struct Spread {
    form: Form,
    collective: Collective,
    datatype: DataType,
    operator: Operator,
    in_place: bool,
    quick: bool,
}

fn run_shapes(session: &Session, spread: Spread) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let operation = Operation::create(session, spread.operator, spread.datatype)?;
    let shapes = if spread.quick { &QUICK_SHAPES[..] } else { &SHAPES[..] };
    let roots = if spread.collective.has_root() { vec![0, session.comm.size - 1] } else { vec![0] };
    for root in roots {
        for (count, shift) in shapes.iter().copied() {
            let trial = Trial {
                form: spread.form,
                collective: spread.collective,
                datatype: spread.datatype,
                reduction: operation.reduction,
                op: operation.op,
                in_place: spread.in_place,
                count,
                shift,
                root,
            };
            session.compare(&session.comm, &session.stream, &trial, &mut observed)?;
        }
    }
    operation.destroy(session)?;
    Ok(observed)
}

/// An operator that exists, with the memory it reads.
struct Operation {
    op: RedOp,
    reduction: Reduction,
    is_handle: bool,
    _scalar: Option<Buffer>,
}

impl Operation {
    fn create(session: &Session, operator: Operator, datatype: DataType) -> Result<Self, RankError> {
        match operator {
            Operator::BuiltIn(op, reduction) => Ok(Self { op, reduction, is_handle: false, _scalar: None }),
            Operator::PreMulSum(residence) => Self::premultiplied(session, residence, datatype),
        }
    }

    fn premultiplied(
        session: &Session,
        residence: ScalarResidence,
        datatype: DataType,
    ) -> Result<Self, RankError> {
        // Eight bytes even for a small type: NCCL reads a host scalar by the type's size.
        let mut bytes = Vec::with_capacity(8);
        encode(datatype, premultiplier(session.comm.rank), &mut bytes);
        bytes.resize(8, 0);
        let on_device = residence == ScalarResidence::DEVICE;
        let buffer = on_device.then(|| session.gpu.alloc(bytes.len())).transpose()?;
        let address = match &buffer {
            Some(buffer) => {
                buffer.write(0, &bytes)?;
                buffer.at(0)
            }
            None => bytes.as_mut_ptr().cast(),
        };
        let (mut op, comm) = (RedOp::SUM, session.comm.raw());
        invoke!(session.nccl, ncclRedOpCreatePreMulSum(&raw mut op, address, datatype, residence, comm))?;
        Ok(Self { op, reduction: Reduction::PreMulSum, is_handle: true, _scalar: buffer })
    }

    fn destroy(self, session: &Session) -> Result<(), RankError> {
        if !self.is_handle {
            return Ok(());
        }
        invoke!(session.nccl, ncclRedOpDestroy(self.op, session.comm.raw()))
    }
}
