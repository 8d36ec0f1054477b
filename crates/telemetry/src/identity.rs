//! Who writes: made once at start-up, from the environment that launchers set and from nothing else.

use crate::JobSource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub job: String,
    pub job_source: JobSource,
    pub pod: String,
    pub node: String,
    /// Slurm's step of the job.
    pub step_id: String,
    /// The rank in the job, -1 where the environment does not say.
    pub world_rank: i32,
    pub local_rank: i32,
    pub version: String,
    /// The vendor's library and version, empty until it is known.
    pub vendor: String,
    pub mode: u8,
    /// The program's name without folder and arguments.
    pub command: String,
}

impl Identity {
    pub fn of_this_process(version: &str, mode: u8) -> Self {
        let command = std::env::args_os().next().unwrap_or_default();
        let command = std::path::Path::new(&command).file_name().unwrap_or_default();
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let mut identity = Self::from_environment(&|name| std::env::var(name).ok(), &name);
        identity.version = version.to_owned();
        identity.mode = mode;
        identity.command = command.to_string_lossy().into_owned();
        identity
    }

    fn from_environment(variable: &dyn Fn(&str) -> Option<String>, host: &str) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let first = |names: &[&str]| names.iter().find_map(|name| given(name));
        let number = |names: &[&str]| {
            let numbers = names.iter().filter_map(|name| given(name)?.trim().parse::<i32>().ok());
            numbers.into_iter().find(|number| *number >= 0).unwrap_or(-1)
        };
        let in_a_pod = given("KUBERNETES_SERVICE_HOST").is_some();
        let pod = first(&["POD_NAME"]).or_else(|| in_a_pod.then(|| host.to_owned())).unwrap_or_default();
        let elastic = given("TORCHELASTIC_RUN_ID").filter(|run| run != "none");
        let names = [
            (given("AIRAMP_JOB"), JobSource::Given),
            (first(&["SLURM_JOB_ID", "SLURM_JOBID"]), JobSource::Slurm),
            (elastic, JobSource::Elastic),
            (Some(pod.clone()).filter(|pod| !pod.is_empty()), JobSource::Pod),
        ];
        let named = names.into_iter().find_map(|(name, source)| name.map(|name| (name, source)));
        let (job, job_source) = named.unwrap_or((String::new(), JobSource::None));
        Self {
            job,
            job_source,
            pod,
            node: first(&["SLURMD_NODENAME", "NODE_NAME"]).unwrap_or_else(|| host.to_owned()),
            step_id: given("SLURM_STEP_ID").unwrap_or_default(),
            world_rank: number(&["RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"]),
            local_rank: number(&["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"]),
            version: String::new(),
            vendor: String::new(),
            mode: 0,
            command: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_from(variables: &[(&str, &str)]) -> Identity {
        let find = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Identity::from_environment(&find, "host-1")
    }

    #[test]
    fn a_given_name_wins_over_the_schedulers() {
        let identity = made_from(&[("AIRAMP_JOB", "mine"), ("SLURM_JOB_ID", "77")]);
        assert_eq!((identity.job.as_str(), identity.job_source), ("mine", JobSource::Given));
        let identity = made_from(&[("AIRAMP_JOB", ""), ("SLURM_JOB_ID", "77"), ("TORCHELASTIC_RUN_ID", "x")]);
        assert_eq!((identity.job.as_str(), identity.job_source), ("77", JobSource::Slurm));
        let identity = made_from(&[("TORCHELASTIC_RUN_ID", "none")]);
        assert_eq!((identity.job.as_str(), identity.job_source), ("", JobSource::None));
    }

    #[test]
    fn a_pod_is_named_by_its_own_variable_or_by_its_host_name() {
        let identity = made_from(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("NODE_NAME", "node-9")]);
        assert_eq!(
            (identity.job.as_str(), identity.pod.as_str(), identity.node.as_str()),
            ("host-1", "host-1", "node-9")
        );
        assert_eq!(identity.job_source, JobSource::Pod);
        let identity = made_from(&[("POD_NAME", "trainer-0"), ("SLURM_JOB_ID", "5")]);
        assert_eq!((identity.job.as_str(), identity.pod.as_str()), ("5", "trainer-0"));
        assert_eq!(made_from(&[]).pod, "");
    }

    #[test]
    fn the_rank_is_the_launchers_and_minus_one_without_one() {
        let identity = made_from(&[("RANK", "3"), ("SLURM_PROCID", "0"), ("LOCAL_RANK", "1")]);
        assert_eq!((identity.world_rank, identity.local_rank), (3, 1));
        let identity = made_from(&[("RANK", "x"), ("SLURM_PROCID", "2")]);
        assert_eq!((identity.world_rank, identity.local_rank), (2, -1));
        assert_eq!(made_from(&[("RANK", "-5")]).world_rank, -1);
    }
}
