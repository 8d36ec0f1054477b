//! The datatypes that the CPU computes with directly: integers, `f32`, `f64`.
//!
//! The loops run over byte arrays because a user's buffer may sit at any address; compilers
//! turn them into unaligned vector loads.

use super::Combine;

pub(super) trait Native<const N: usize>: Copy {
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($name:ty => $size:literal),*) => {$(
        impl Native<$size> for $name {
            fn load(bytes: [u8; $size]) -> Self { Self::from_ne_bytes(bytes) }
            fn store(self) -> [u8; $size] { self.to_ne_bytes() }
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn larger(self, other: Self) -> Self { self.max(other) }
            fn smaller(self, other: Self) -> Self { self.min(other) }
        }
    )*};
}

macro_rules! floats {
    ($($name:ty => $size:literal),*) => {$(
        impl Native<$size> for $name {
            fn load(bytes: [u8; $size]) -> Self { Self::from_ne_bytes(bytes) }
            fn store(self) -> [u8; $size] { self.to_ne_bytes() }
            fn sum(self, other: Self) -> Self { self + other }
            fn product(self, other: Self) -> Self { self * other }
            // Spelt out, because `max` may answer either zero of a pair of zeros and the
            // vectorised loop and its tail have to agree.
            fn larger(self, other: Self) -> Self { if self > other || other.is_nan() { self } else { other } }
            fn smaller(self, other: Self) -> Self { if self < other || other.is_nan() { self } else { other } }
        }
    )*};
}

integers!(i8 => 1, u8 => 1, i32 => 4, u32 => 4, i64 => 8, u64 => 8);
floats!(f32 => 4, f64 => 8);

pub(super) fn fold<T: Native<N>, const N: usize>(how: Combine, partial: &mut [u8], local: &[u8]) {
    match how {
        Combine::Sum => each::<T, N>(partial, local, T::sum),
        Combine::Prod => each::<T, N>(partial, local, T::product),
        Combine::Max => each::<T, N>(partial, local, T::larger),
        Combine::Min => each::<T, N>(partial, local, T::smaller),
    }
}

pub(super) fn scale<T: Native<N>, const N: usize>(data: &mut [u8], scalar: &[u8]) {
    let Some(factor) = scalar.first_chunk::<N>().map(|bytes| T::load(*bytes)) else {
        return;
    };
    map::<T, N>(data, |value| value.product(factor));
}

pub(super) fn map<T: Native<N>, const N: usize>(data: &mut [u8], apply: impl Fn(T) -> T) {
    for element in data.as_chunks_mut::<N>().0 {
        *element = apply(T::load(*element)).store();
    }
}

#[inline(always)]
fn each<T: Native<N>, const N: usize>(partial: &mut [u8], local: &[u8], apply: impl Fn(T, T) -> T) {
    for (target, own) in partial.as_chunks_mut::<N>().0.iter_mut().zip(local.as_chunks::<N>().0) {
        *target = apply(T::load(*target), T::load(*own)).store();
    }
}
