//! Processes that have a file open.

use std::path::Path;

/// Returns the name and the id of another process that has `path` open for writing; `None` if there is none,
/// or the system does not show it.
#[cfg(target_os = "linux")]
pub fn process_writing(path: &Path) -> Option<String> {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    let wanted = fs::metadata(path).ok()?;
    let own = std::process::id().to_string();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let id = process.file_name().to_string_lossy().into_owned();
        let is_other = id.bytes().all(|byte| byte.is_ascii_digit()) && id != own;
        let Some(files) =
            Some(process.path().join("fd")).filter(|_| is_other).and_then(|fd| fs::read_dir(fd).ok())
        else {
            continue;
        };
        for file in files.flatten() {
            let is_same = |held: fs::Metadata| held.dev() == wanted.dev() && held.ino() == wanted.ino();
            if !fs::metadata(file.path()).is_ok_and(is_same) {
                continue;
            }
            let facts = fs::read_to_string(process.path().join("fdinfo").join(file.file_name()));
            if facts.is_ok_and(|facts| is_for_writing(&facts)) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("process {id} ({})", name.trim()));
            }
        }
    }
    None
}

/// Returns nothing: this system does not show the files of other processes.
#[cfg(not(target_os = "linux"))]
pub fn process_writing(_path: &Path) -> Option<String> {
    None
}

/// Checks the access mode in the facts that the kernel shows of an open file.
#[cfg(target_os = "linux")]
fn is_for_writing(facts: &str) -> bool {
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 3 != 0)
}
