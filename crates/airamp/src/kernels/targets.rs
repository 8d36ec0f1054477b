//! For which architectures kernels are built, with which compiler, which version of it, and how it is
//! called. What is here decides every bit of a code object, and the manifest repeats it.

use airamp_kernels::Kind;

use super::KernelsError;

pub(super) struct Target {
    pub(super) architecture: &'static str,
    pub(super) kind: Kind,
}

impl Target {
    pub(super) fn file(&self) -> String {
        format!("{}.{}", self.architecture, self.kind.extension())
    }
}

pub(super) const TARGETS: [Target; 7] = [
    Target { architecture: "sm_80", kind: Kind::Cubin },
    Target { architecture: "sm_90", kind: Kind::Cubin },
    Target { architecture: "sm_100", kind: Kind::Cubin },
    Target { architecture: "compute_80", kind: Kind::Ptx },
    Target { architecture: "gfx90a", kind: Kind::Hsaco },
    Target { architecture: "gfx942", kind: Kind::Hsaco },
    Target { architecture: "gfx950", kind: Kind::Hsaco },
];

/// A compiler as PyPI has it.
pub(super) struct Compiler {
    pub(super) package: &'static str,
    pub(super) version: &'static str,
    /// Of the files for x86_64 and aarch64.
    pub(super) sha256: [&'static str; 2],
    pub(super) options: &'static [&'static str],
}

/// CUBIN files of CUDA 12.9 load under every driver for CUDA 12 and 13.
pub(super) const NVRTC: Compiler = Compiler {
    package: "nvidia-cuda-nvrtc-cu12",
    version: "12.9.86",
    sha256: [
        "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
        "096d4de6bda726415dfaf3198d4f5c522b8e70139c97feef5cd2ca6d4cd9cead",
    ],
    options: &["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true"],
};

/// Its clang is version 22, the first of PyPI's that knows gfx950. Code object version 5 keeps older ROCm
/// loading it, and without a compilation unit id the bytes do not depend on where it was compiled.
pub(super) const CLANG: Compiler = Compiler {
    package: "ziglang",
    version: "0.17.0",
    sha256: [
        "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
        "d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3",
    ],
    options: &[
        "-x",
        "hip",
        "--cuda-device-only",
        "-nogpuinc",
        "-nogpulib",
        "-O3",
        "-std=c++17",
        "-ffp-contract=off",
        "--no-gpu-bundle-output",
        "-mcode-object-version=5",
        "-fuse-cuid=none",
    ],
};

impl Compiler {
    pub(super) fn of(kind: Kind) -> &'static Compiler {
        match kind {
            Kind::Cubin | Kind::Ptx => &NVRTC,
            Kind::Hsaco => &CLANG,
        }
    }
}

/// The targets that were asked for, or all.
pub(super) fn chosen(only: &[String]) -> Result<Vec<&'static Target>, KernelsError> {
    for given in only {
        if !TARGETS.iter().any(|target| target.architecture == given) {
            let known = TARGETS.map(|target| target.architecture).join(", ");
            return Err(KernelsError::UnknownArchitecture { given: given.clone(), known });
        }
    }
    let wanted = |target: &&Target| only.is_empty() || only.iter().any(|given| given == target.architecture);
    Ok(TARGETS.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_code_object_is_a_target_and_the_other_way_round() {
        let embedded: Vec<_> =
            airamp_kernels::blobs().iter().map(|blob| (blob.architecture, blob.kind)).collect();
        let targets: Vec<_> = TARGETS.iter().map(|target| (target.architecture, target.kind)).collect();
        assert_eq!(embedded, targets);
    }

    #[test]
    fn an_architecture_that_is_not_there_is_named_with_those_that_are() {
        let error = chosen(&["sm_70".into()]).err().unwrap().to_string();
        assert!(error.contains("sm_70") && error.contains("gfx942"), "{error}");
        assert_eq!(chosen(&["sm_90".into()]).unwrap().len(), 1);
    }
}
