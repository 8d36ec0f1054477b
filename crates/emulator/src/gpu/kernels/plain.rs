//! Small kernels: for tests of the emulator itself fill, add, and keep a queue busy; and the product's that does nothing.

use std::time::Duration;

use super::{Fault, Kernel, Launch, Touch};

pub(super) const KERNELS: &[Kernel] = &[
    Kernel {
        name: "airamp_emu_fill_u32",
        parameters: &[8, 4, 8],
        touches: |launch| vec![Touch::write(launch.unsigned(0), words(launch, 2))],
        run: fill_u32,
    },
    Kernel {
        name: "airamp_emu_add_f32",
        parameters: &[8, 8, 8],
        touches: |launch| {
            let len = words(launch, 2);
            vec![Touch::write(launch.unsigned(0), len), Touch::read(launch.unsigned(1), len)]
        },
        run: add_f32,
    },
    Kernel { name: "airamp_ghost", parameters: &[4], touches: |_| Vec::new(), run: |_| Ok(()) },
    Kernel { name: "airamp_emu_spin_us", parameters: &[8], touches: |_| Vec::new(), run: spin_us },
];

fn words(launch: &Launch, count: usize) -> usize {
    (launch.unsigned(count) as usize).saturating_mul(4)
}

fn fill_u32(launch: &Launch) -> Result<(), Fault> {
    let count = launch.unsigned(2) as usize;
    // SAFETY: any bits are a u32; the stream's order keeps other operations away.
    let target = unsafe { launch.elements::<u32>(0, count)? };
    target.fill(launch.unsigned(1) as u32);
    Ok(())
}

fn add_f32(launch: &Launch) -> Result<(), Fault> {
    let count = launch.unsigned(2) as usize;
    if launch.unsigned(0) == launch.unsigned(1) {
        // SAFETY: any bits are an f32; the stream's order keeps other operations away.
        let both = unsafe { launch.elements::<f32>(0, count)? };
        both.iter_mut().for_each(|value| *value += *value);
        return Ok(());
    }
    // SAFETY: as above; the two ranges start at different elements and a kernel that is
    // given overlapping ones has no defined result on a GPU either.
    let (target, source) = unsafe { (launch.elements::<f32>(0, count)?, launch.elements::<f32>(1, count)?) };
    for (sum, value) in target.iter_mut().zip(source.iter()) {
        *sum += *value;
    }
    Ok(())
}

/// Keeps its queue busy. It sleeps: many devices share few cores here.
fn spin_us(launch: &Launch) -> Result<(), Fault> {
    std::thread::sleep(Duration::from_micros(launch.unsigned(0)));
    Ok(())
}
