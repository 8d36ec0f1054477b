//! CUDA and HIP kernels, prebuilt code objects, manifest, loader.
