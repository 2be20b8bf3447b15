//! Files that a job writes whole.

use std::io::Write as _;
use std::path::Path;

/// Put `bytes` in the place of the file at `path` in one step: a kill leaves the old file or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}
