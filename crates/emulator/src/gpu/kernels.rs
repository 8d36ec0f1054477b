//! Kernels by name: what a code object's symbols do when they are launched here.
//!
//! Parses nothing and knows no code object. A kernel says how its arguments are laid
//! out, what it touches and what it does; a few for tests are built in, and others are
//! added with [`register`].

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Fault;
use super::completion::lock;
use super::memory;
use super::work::Touch;

/// One launch, with the arguments as they were when it was submitted.
#[derive(Clone)]
pub struct Launch {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub arguments: Vec<Box<[u8]>>,
}

impl Launch {
    /// An argument of up to eight bytes, as an unsigned number.
    pub fn unsigned(&self, index: usize) -> u64 {
        let mut bytes = [0; 8];
        let given = &self.arguments[index];
        let len = given.len().min(8);
        bytes[..len].copy_from_slice(&given[..len]);
        u64::from_le_bytes(bytes)
    }

    /// The elements of device memory that argument `index` points to.
    ///
    /// # Safety
    /// `T` is valid for all bit patterns, and nothing else uses the elements while the
    /// launch runs, after which they may not be used any more.
    pub unsafe fn elements<'a, T>(&self, index: usize, count: usize) -> Result<&'a mut [T], Fault> {
        let at = self.unsigned(index);
        if !at.is_multiple_of(align_of::<T>() as u64) {
            return Err(Fault::address(format!("misaligned address {at:#x}")));
        }
        let bytes = memory::resolve(at, count.saturating_mul(size_of::<T>()))?;
        // SAFETY: `resolve` vouches for the bytes, the alignment was checked, and the
        // caller vouches for the rest.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast(), count) })
    }
}

pub struct Kernel {
    pub name: &'static str,
    /// The size of each parameter in bytes.
    pub parameters: &'static [usize],
    pub touches: fn(&Launch) -> Vec<Touch>,
    pub run: fn(&Launch) -> Result<(), Fault>,
}

static REGISTERED: Mutex<Vec<Arc<Kernel>>> = Mutex::new(Vec::new());

const BUILT_IN: [Kernel; 3] = [
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
    Kernel { name: "airamp_emu_spin_us", parameters: &[8], touches: |_| Vec::new(), run: spin_us },
];

/// Adds a kernel, or replaces the one of the same name.
pub fn register(kernel: Kernel) {
    let mut registered = lock(&REGISTERED);
    registered.retain(|known| known.name != kernel.name);
    registered.push(Arc::new(kernel));
}

pub fn find(name: &str) -> Option<Arc<Kernel>> {
    let registered = lock(&REGISTERED);
    if let Some(kernel) = registered.iter().find(|kernel| kernel.name == name) {
        return Some(Arc::clone(kernel));
    }
    BUILT_IN.into_iter().find(|kernel| kernel.name == name).map(Arc::new)
}

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
