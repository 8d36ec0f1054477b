//! The ways of doing one AllReduce that are compared: the vendor's own; the vendor's on a tensor
//! that was cast to fewer bytes beforehand; and ours. Casting is done on the host before anything
//! is timed, which favours the casts.

use airamp_codec::Element;
use airamp_codec::reference::float8::to_e4m3;
use airamp_fast_path::{Plan, Shape};
use airamp_vendor::gpu::Buffer;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::data::Inputs;
use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::lane::Lane;
use crate::numbers::encode;
use crate::session::Session;

/// The largest finite E4M3 number.
const LARGEST_E4M3: f64 = 448.0;

/// The tensor of one measurement.
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    pub(crate) datatype: DataType,
    pub(crate) element: Element,
    pub(crate) count: usize,
    pub(crate) average: bool,
}

/// One way. The tensor is in the session's `send`, results go to its `recv`.
pub(crate) struct Contender<'a> {
    way: Way<'a>,
    /// The tensor in another type, for a way that does not read it as it is.
    cast: Option<Buffer>,
    tensor: Tensor,
    /// The type of the elements that it reads and writes.
    pub(crate) datatype: DataType,
    /// What the numbers were multiplied by before the cast.
    pub(crate) scale: f64,
    pub(crate) wire_bytes_per_element: f64,
    /// Ours only: exchanges of the call that follow each other, and device memory that its lane took.
    pub(crate) steps: Option<usize>,
    pub(crate) added_bytes: Option<usize>,
}

#[derive(Clone, Copy)]
enum Way<'a> {
    Vendor,
    Compressed(&'a Lane, Plan),
}

/// A contender that takes part, or why it does not.
pub(crate) struct Entry<'a> {
    pub(crate) name: String,
    pub(crate) contender: Result<Contender<'a>, String>,
}

/// All who take part in the measurement of a tensor, the vendor's own first.
pub(crate) fn line_up<'a>(
    session: &Session,
    lanes: &'a [Lane],
    all_shapes: bool,
    inputs: &Inputs,
    tensor: Tensor,
) -> Result<Vec<Entry<'a>>, RankError> {
    let start = Start { session, inputs, tensor };
    session.send.write(0, &start.bytes(tensor.datatype, 1.0))?;
    // Copies of the default stream are not ordered with a non-blocking one.
    session.gpu.synchronize()?;
    let mut entries = vec![Entry { name: "vendor".into(), contender: Ok(start.vendor()) }];
    if tensor.datatype == DataType::FLOAT32 {
        entries
            .push(Entry { name: "vendor_fp16".into(), contender: Ok(start.cast(DataType::FLOAT16, 1.0)?) });
    }
    entries.push(Entry { name: "vendor_fp8".into(), contender: start.float8()? });
    for lane in lanes {
        let name = lane.format().name();
        let [usual, ..] = lane.shapes() else { continue };
        match all_shapes {
            false => entries.push(Entry { name: name.into(), contender: start.compressed(lane, *usual) }),
            true => entries.extend(lane.shapes().iter().map(|shape| Entry {
                name: format!("{name}, {shape}"),
                contender: start.compressed(lane, *shape),
            })),
        }
    }
    Ok(entries)
}

struct Start<'a> {
    session: &'a Session,
    inputs: &'a Inputs,
    tensor: Tensor,
}

impl Start<'_> {
    fn vendor<'l>(&self) -> Contender<'l> {
        let (tensor, datatype) = (self.tensor, self.tensor.datatype);
        let wire_bytes_per_element = datatype.size().unwrap_or(1) as f64;
        Contender {
            way: Way::Vendor,
            cast: None,
            tensor,
            datatype,
            scale: 1.0,
            wire_bytes_per_element,
            steps: None,
            added_bytes: None,
        }
    }

    fn compressed<'l>(&self, lane: &'l Lane, shape: Shape) -> Result<Contender<'l>, String> {
        let plan = lane.plan(self.tensor.count, shape)?;
        let (steps, added_bytes) = (Some(plan.steps), Some(lane.added_bytes()));
        Ok(Contender {
            way: Way::Compressed(lane, plan),
            wire_bytes_per_element: plan.wire_bytes() as f64 / plan.count as f64,
            steps,
            added_bytes,
            ..self.vendor()
        })
    }

    fn cast<'l>(&self, datatype: DataType, scale: f64) -> Result<Contender<'l>, RankError> {
        let bytes = self.bytes(datatype, scale);
        let buffer = self.session.gpu.alloc(bytes.len())?;
        buffer.write(0, &bytes)?;
        self.session.gpu.synchronize()?;
        let wire_bytes_per_element = datatype.size().unwrap_or(1) as f64;
        Ok(Contender { cast: Some(buffer), datatype, scale, wire_bytes_per_element, ..self.vendor() })
    }

    /// The vendor's E4M3, with the one scale at which no partial sum can leave its range.
    fn float8<'l>(&self) -> Result<Result<Contender<'l>, String>, RankError> {
        if !self.session.supports(DataType::FLOAT8_E4M3) {
            return Ok(Err("this vendor's version or this device has no fp8 reduction".into()));
        }
        let terms = if self.tensor.average { 1 } else { self.session.comm.size };
        let most = self.inputs.largest() * terms as f64;
        let scale = if most > 0.0 { LARGEST_E4M3 / most } else { 1.0 };
        let contender = self.cast(DataType::FLOAT8_E4M3, scale)?;
        // A vendor that does not take the type says so at the call, on every rank.
        Ok(match contender.enqueue(self.session) {
            Err(error @ RankError::Nccl { .. }) => Err(error.to_string()),
            enqueued => {
                enqueued?;
                self.session.stream.synchronize()?;
                Ok(contender)
            }
        })
    }

    /// This rank's tensor in that type.
    fn bytes(&self, datatype: DataType, scale: f64) -> Vec<u8> {
        let write = |value: f64, out: &mut Vec<u8>| match datatype {
            // The general encoder tries every code.
            DataType::FLOAT8_E4M3 => out.push(to_e4m3((value * scale) as f32)),
            _ => encode(datatype, value * scale, out),
        };
        self.inputs.tensor(self.session.comm.rank, self.tensor.count, write)
    }
}

impl Contender<'_> {
    pub(crate) fn enqueue(&self, session: &Session) -> Result<(), RankError> {
        let Tensor { element, average, .. } = self.tensor;
        match self.way {
            Way::Vendor => {
                self.vendor_call(session).enqueue(&session.nccl, session.comm.raw(), session.stream.raw())
            }
            Way::Compressed(lane, plan) => {
                let (input, output) = (session.send.address(), session.recv.address());
                // SAFETY: the session's buffers have room for the largest tensor of the run, and the
                // stream is waited for before they go.
                unsafe { lane.all_reduce(session, input, output, element, plan, average) }
            }
        }
    }

    /// Bytes that it leaves in `recv`.
    pub(crate) fn output_bytes(&self) -> usize {
        self.tensor.count * self.datatype.size().unwrap_or(1)
    }

    fn vendor_call(&self, session: &Session) -> Call {
        Call {
            form: Form::Plain,
            collective: Collective::AllReduce,
            send: self.cast.as_ref().unwrap_or(&session.send).at(0),
            recv: session.recv.at(0),
            count: self.tensor.count,
            datatype: self.datatype,
            op: if self.tensor.average { RedOp::AVG } else { RedOp::SUM },
            root: 0,
        }
    }
}
