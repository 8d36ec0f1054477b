//! The kernels of each context, loaded and tested once for all communicators that use it. A context can be gone when the next
//! one comes (`cudaDeviceReset`), and the new one be at its place: what was loaded is of no use then, and is not touched.

use airamp_kernels::loader::LoadError;
use airamp_kernels::{KernelSet, Loader};
use airamp_vendor::gpu::{Context, Gpu};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

static LOADED: Mutex<Shared<(i32, Context), KernelSet>> = Mutex::new(Shared(Vec::new()));

/// What several have in common who are at the same place.
struct Shared<P, T>(Vec<Loaded<P, T>>);

struct Loaded<P, T> {
    place: P,
    /// By which this is told from others at its place, before and after.
    id: Option<u64>,
    shared: Weak<T>,
    /// Kept for those who come later, where they can be told from others.
    kept: Option<Arc<T>>,
}

impl<P: PartialEq, T> Shared<P, T> {
    fn get<E>(
        &mut self,
        place: P,
        id: Option<u64>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        self.0.retain(|it| it.shared.strong_count() > 0);
        let (here, elsewhere) = std::mem::take(&mut self.0).into_iter().partition(|it| it.place == place);
        self.0 = elsewhere;
        let (found, gone): (Vec<_>, Vec<_>) = here.into_iter().partition(|it| it.id == id);
        // To give it back would need what is gone.
        gone.into_iter().for_each(|it| std::mem::forget(it.kept));
        self.0.extend(found);
        if let Some(shared) = self.0.iter().find(|it| it.place == place).and_then(|it| it.shared.upgrade()) {
            return Ok(shared);
        }
        let loaded = Arc::new(load()?);
        let (shared, kept) = (Arc::downgrade(&loaded), id.map(|_| Arc::clone(&loaded)));
        self.0.push(Loaded { place, id, shared, kept });
        Ok(loaded)
    }
}

/// The kernels for `context`, which is current, and `device`'s. Inside a communicator's creation only: it may
/// wait for the device.
pub(super) fn of_context(
    gpu: &Gpu,
    device: i32,
    context: Context,
    folder: Option<&Path>,
) -> Result<Arc<KernelSet>, LoadError> {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let load = || Loader::new(folder.map(Path::to_path_buf)).load(gpu);
    loaded.get((device, context), gpu.context_id(context), load)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(shared: &mut Shared<char, i32>, place: char, id: Option<u64>, value: i32) -> Arc<i32> {
        shared.get(place, id, || Ok::<i32, ()>(value)).expect("it loads")
    }

    #[test]
    fn what_can_be_told_from_others_is_loaded_once_and_never_used_for_another_at_its_place() {
        let mut shared = Shared(Vec::new());
        assert_eq!(*get(&mut shared, 'a', Some(1), 1), 1);
        assert_eq!(*get(&mut shared, 'b', Some(2), 2), 2);
        assert_eq!((*get(&mut shared, 'a', Some(1), 3), *get(&mut shared, 'b', Some(2), 4)), (1, 2));
        assert_eq!(*get(&mut shared, 'a', Some(5), 5), 5, "the next one there");
        assert_eq!((*get(&mut shared, 'a', Some(5), 6), *get(&mut shared, 'b', Some(2), 7)), (5, 2));
    }

    #[test]
    fn what_cannot_be_told_from_others_is_loaded_anew_when_nobody_has_it_any_more() {
        let mut shared = Shared(Vec::new());
        let (first, other) = (get(&mut shared, 'a', None, 1), get(&mut shared, 'b', None, 2));
        assert!(Arc::ptr_eq(&get(&mut shared, 'a', None, 3), &first));
        drop(first);
        assert_eq!(*get(&mut shared, 'a', None, 4), 4);
        assert!(Arc::ptr_eq(&get(&mut shared, 'b', None, 5), &other));
    }

    #[test]
    fn what_could_not_be_loaded_is_tried_again() {
        let mut shared = Shared(Vec::new());
        assert_eq!(shared.get('a', None, || Err::<i32, &str>("no")).err(), Some("no"));
        assert_eq!(*get(&mut shared, 'a', None, 1), 1);
    }
}
