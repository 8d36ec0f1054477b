//! One thread with two devices: a communicator on each, their calls in one group.

use airamp_codec::Format;
use airamp_fast_path::{Call, Lane, Post};

use super::scenarios::Report;
use super::stage::{Stage, Tensor, enqueue};
use crate::digest::Digest;
use crate::error::RankError;
use crate::lane::{acquire, kernels, refused};
use crate::nccl::Making;

/// The same tensor on both devices, so that both results are those of the first device's call alone.
pub(super) fn run(stage: &mut Stage) -> Result<Report, RankError> {
    let tensor = Tensor::new(0, 900_001);
    let one_by_one = stage.one_by_one(&[tensor])?;
    stage.prepare(&[tensor])?;
    let (gpu, home) = (stage.session.gpu.clone(), stage.session.gpu.current_device()?);
    gpu.set_device((home + 1) % gpu.device_count()?)?;
    let comm = stage.session.another_communicator(Making::Plain)?;
    let other = acquire(&stage.session, &comm, &kernels(&gpu)?, stage.arena_bytes, Format::Auto)?;
    let (input, output, stream) = (gpu.alloc(tensor.bytes())?, gpu.alloc(tensor.bytes())?, gpu.stream(true)?);
    input.write(0, &stage.input(&tensor))?;
    gpu.synchronize()?;
    gpu.set_device(home)?;
    Lane::connect(&[&stage.lane, &other]).map_err(refused)?;

    let call =
        Call { input: input.address(), output: output.address(), element: tensor.element, average: false };
    let plan = other.plan(tensor.count, other.shapes()[0]).map_err(refused)?;
    let there = Post { lane: &other, plan, call, stream: stream.raw(), index: 0, dry: None };
    enqueue(&[there, stage.post(&stage.lane, &tensor, &stage.session.stream)?])?;
    stage.session.stream.synchronize()?;
    stream.synchronize()?;
    let mut bytes = vec![0; tensor.bytes()];
    output.read(0, &mut bytes)?;
    let mut digest = Digest::new();
    digest.add(&bytes);
    let here = stage.digest(&[tensor])?;
    let moved = (gpu.current_device()? != home).then(|| "the current device has changed".to_owned());
    let differs = (here != digest.hex()).then(|| format!("{here} here and {} there", digest.hex()));
    Ok(Report { one_by_one, together: here, refused: moved.or(differs), ..Report::default() })
}
