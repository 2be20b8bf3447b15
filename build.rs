//! Lists the platform files of `queries/search/`, so that adding a platform is adding a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("queries/search");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect::<io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let path = fs::canonicalize(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(list, "    ({name:?}, include_str!({path:?})),");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("platform_files.rs"), list)
}
