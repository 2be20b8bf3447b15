//! `aac lint`.

use super::knowledge::ReadArgs;
use super::output::counted;
use super::{Context, Exit, Failure};
use crate::plan::Targets;
use crate::repos::Folder;
use crate::triage::{Finding, Lint, lint, sarif};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct LintArgs {
    /// Agent files, or folders in which to look for them
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Form of the findings
    #[arg(long, value_name = "FORM", default_value = "text")]
    format: Format,
    /// Print one JSON object a finding, file by file as they are read
    #[arg(long, conflicts_with_all = ["json", "format"])]
    jsonl: bool,
    #[command(flatten)]
    read: ReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Sarif,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    file: &'a str,
    #[serde(flatten)]
    finding: &'a Finding,
}

#[derive(Debug, Serialize)]
struct FileLint {
    file: String,
    #[serde(flatten)]
    lint: Lint,
}

pub(super) async fn run(context: &Context, args: &LintArgs) -> Result<Exit, Failure> {
    let mut paths = Vec::with_capacity(args.files.len());
    for path in &args.files {
        if path.is_dir() { paths.extend(agent_files(path)?) } else { paths.push(path.clone()) }
    }
    let mut files = Vec::with_capacity(paths.len());
    let reader = args.read.reader(context)?;
    for path in &paths {
        let base = reader.base(path)?;
        let places = places(path);
        let exists = |target: &str| places.iter().any(|place| place.join(target).exists());
        let found = FileLint { file: path.to_string_lossy().into_owned(), lint: lint(&base, exists) };
        if args.jsonl {
            for finding in &found.lint.findings {
                context.output.line(&Line { file: &found.file, finding })?;
            }
        }
        files.push(found);
    }
    match args.format {
        _ if args.jsonl => {}
        Format::Sarif => {
            let log = sarif(files.iter().map(|file| (file.file.as_str(), &file.lint)));
            context.output.raw(format!("{}\n", serde_json::to_string_pretty(&log)?).as_bytes())?;
        }
        Format::Json => super::Output { json: true }.print(&files, |_| String::new())?,
        Format::Text => context.output.print(&files, |files| text(files))?,
    }
    let clean = files.iter().all(|file| file.lint.findings.is_empty());
    Ok(if clean { Exit::Done } else { Exit::Findings })
}

/// The agent files in a folder, as `aac ingest` would take them in, sorted; a file that several names lead to once.
fn agent_files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let targets = Targets::embedded().map_err(Failure::failed)?;
    let root = Folder::open(folder).map_err(Failure::failed)?;
    let all = root.paths(&|directory| !targets.is_vendored(directory));
    let mut seen = HashSet::new();
    let found = targets.artifacts(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let files = found.into_iter().map(|(path, _)| folder.join(path)).filter(|path| path.is_file());
    let files: Vec<PathBuf> =
        files.filter(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone()))).collect();
    if files.is_empty() {
        return Err(Failure::usage(format!(
            "Failed to find an agent file in {}: give the folder of a project, or files by name",
            folder.display()
        )));
    }
    Ok(files)
}

/// Where a pointer may lead from: the folder of the file, and those above it up to the root of the repository.
fn places(path: &Path) -> Vec<PathBuf> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut places = Vec::new();
    for folder in whole.ancestors().skip(1) {
        places.push(folder.to_owned());
        if folder.join(".git").exists() {
            return places;
        }
    }
    // In no repository: only beside the file.
    places.truncate(1);
    places
}

fn text(files: &[FileLint]) -> String {
    let mut lines = Vec::new();
    for FileLint { file, lint } in files {
        for finding in &lint.findings {
            lines.push(format!("{file}:{}: {}: {}", finding.line, finding.rule.as_str(), finding.message));
            if let Some(proposal) = &finding.proposal {
                lines.push(format!("    proposal: {proposal}"));
            }
        }
        let mix: Vec<String> = lint.mix.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let items = counted(lint.mix.values().sum(), "item");
        lines.push(format!(
            "{file}: {} in {items} ({}), {} to be kept word for word",
            findings_in(lint.findings.len()),
            mix.join(", "),
            lint.pinned
        ));
    }
    let findings: usize = files.iter().map(|file| file.lint.findings.len()).sum();
    if files.len() > 1 {
        lines.push(format!("{} in {}", findings_in(findings), counted(files.len(), "file")));
    }
    lines.join("\n")
}

fn findings_in(n: usize) -> String {
    if n == 0 { "no findings".to_owned() } else { counted(n, "finding") }
}
