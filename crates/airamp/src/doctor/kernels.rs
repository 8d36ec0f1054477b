//! The code objects that compression would use, embedded or in the folder that the settings name: which
//! there are, and whether they are what their manifest says. Whether a device runs them is the loader's to say.

use std::path::Path;

use super::report::Check;
use crate::kernels::verified;

const NAME: &str = "kernels";

pub(super) fn check(folder: Option<&Path>) -> Check {
    let place =
        folder.map_or("embedded".into(), |folder| format!("AIRAMP_KERNEL_DIR ({})", folder.display()));
    match verified(folder) {
        Ok(architectures) => {
            Check::ok(NAME, format!("{place}: {}, as their manifest says", architectures.join(", ")))
        }
        Err(why) => {
            let advice = "build the folder again (`airamp kernels build`) or unset AIRAMP_KERNEL_DIR (kernel_dir in \
                          the settings file); until then calls pass through unchanged";
            Check::warning(NAME, format!("{place}: {why}"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Status;
    use super::*;

    #[test]
    fn what_is_embedded_is_well_and_a_folder_without_a_manifest_is_a_warning() {
        assert_eq!(check(None).status, Status::Ok);
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(check(Some(folder.path())).status, Status::Warning);
    }
}
