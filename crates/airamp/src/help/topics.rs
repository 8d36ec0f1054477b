//! The topics of `airamp help`: one line for each page that is embedded. A page that belongs to the guide and is missing
//! here, or a name that is also a command's, fails a test.

pub(super) struct Topic {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// In the repository; links on the page are relative to it.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// A page of `docs/`.
macro_rules! topic {
    ($name:literal, $path:literal, $about:literal) => {
        Topic {
            name: $name,
            about: $about,
            path: concat!("docs/", $path),
            text: include_str!(concat!("../../../../docs/", $path)),
        }
    };
}

pub(super) const ALL: &[Topic] = &[
    topic!("guide", "guide/README.md", "what the pages of the guide are, and in which order to read them"),
    topic!("quick-start", "guide/quick-start.md", "three commands: build, measure, use"),
    topic!("how-it-works", "guide/how-it-works.md", "what the library does with a call, and why it is safe"),
    topic!("accuracy", "guide/accuracy.md", "what is lossy, how large the error is, how to judge it"),
    topic!("tuning", "guide/tuning.md", "what can be set, and when to leave it alone"),
    topic!(
        "frameworks",
        "guide/frameworks.md",
        "PyTorch, DeepSpeed, vLLM, SGLang, JAX: what is seen and what is not"
    ),
    topic!("install", "install.md", "packages: deb, rpm, wheel, tar.gz; upgrade, removal"),
    topic!("slurm", "slurm.md", "jobs under Slurm"),
    topic!("kubernetes", "kubernetes.md", "pods: init container, sidecar, monitoring"),
    topic!("runbook", "guide/runbook.md", "for operators: roll out, read the numbers, roll back"),
    topic!(
        "migration",
        "guide/migration.md",
        "coming from plain NCCL, from another interposer, from an older version"
    ),
    topic!("troubleshooting", "guide/troubleshooting.md", "what to do, by symptom"),
    topic!("security", "guide/security.md", "who can see and change what"),
    topic!("footprint", "guide/footprint.md", "device memory, processor, network, disk: what it takes"),
    topic!("limits", "guide/limits.md", "what it does not do, and what was never tried"),
    topic!("faq", "guide/faq.md", "short answers"),
    topic!("settings", "settings.md", "every setting"),
    topic!("commands", "airamp.md", "every command and option of airamp"),
    topic!("airampd", "airampd.md", "the daemon: metrics, live page, evidence"),
    topic!("metrics", "metrics.md", "every metric"),
    topic!("diagnosis", "diagnosis.md", "findings: what they mean, how they are computed"),
    topic!("live-page", "live-page.md", "what is where on the daemon's page"),
    topic!("pattern-of-life", "pattern-of-life.md", "how the rhythm of a job is learnt"),
    topic!("ghost-kernels", "ghost-kernels.md", "keeping a GPU awake in the gaps of a job"),
    topic!("traces", "traces.md", "calls of a job as files"),
    topic!("emulation", "emulator.md", "a GPU and NCCL on the CPU"),
];

pub(super) fn find(name: &str) -> Option<&'static Topic> {
    let name = name.to_lowercase().replace('_', "-");
    ALL.iter().find(|topic| topic.name == name)
}

/// Whether a name holds what was asked for, or begins as it does.
pub(super) fn is_like(name: &str, asked: &str) -> bool {
    let asked = asked.to_lowercase();
    let start: String = asked.chars().take(3).collect();
    start.len() >= 3 && (name.contains(&asked) || name.starts_with(&start))
}
