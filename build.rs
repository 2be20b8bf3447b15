//! Lists the platform files of `queries/search/`, so that adding a platform is adding a file, and tells a release build
//! the commit that it is made of, which exports name.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    tell_commit();
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

/// `AAC_COMMIT` of the environment, else what git says of this folder. Debug builds stay without: they would be made anew
/// after every commit.
fn tell_commit() {
    println!("cargo:rerun-if-env-changed=AAC_COMMIT");
    if env::var_os("AAC_COMMIT").is_some() || env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    // A package from a registry may lie in a repository of somebody else.
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() {
        return;
    }
    if let (Some(commit), Some(log)) = (git(&["rev-parse", "HEAD"]), git(&["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo:rustc-env=AAC_COMMIT={commit}");
        println!("cargo:rerun-if-changed={log}");
    }
}
