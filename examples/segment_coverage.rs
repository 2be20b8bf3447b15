//! Which labelled items the segmenter finds as one item.
//!
//! `cargo run --release --example segment_coverage -- CORPUS GOLD.jsonl…`: CORPUS holds bare repositories named
//! `owner+name.git`; each line of GOLD names `repo`, `path`, `blob`, `line` and `text`. An item counts as found when
//! exactly one item begins on the same line and has the same text, white space runs taken as one blank.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a report for people")]

use aac::segment::{flatten, pack, segment};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

#[derive(serde::Deserialize)]
struct Labelled {
    repo: String,
    path: String,
    blob: String,
    line: u32,
    kind: String,
    #[serde(default)]
    heading: Vec<String>,
    text: String,
}

/// The texts of `ids` in the repository at `git_dir`.
fn blobs(git_dir: &Path, ids: &BTreeSet<&str>) -> Result<HashMap<String, Vec<u8>>, Box<dyn Error>> {
    let mut child = Command::new("git")
        .arg("--git-dir")
        .arg(git_dir)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("git has no standard input")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("git has no standard output")?);
    let mut found = HashMap::new();
    for id in ids {
        writeln!(input, "{id}")?;
        input.flush()?;
        let mut head = String::new();
        output.read_line(&mut head)?;
        let [_, "blob", size] = head.split_whitespace().collect::<Vec<_>>()[..] else { continue };
        let mut bytes = vec![0; size.parse::<usize>()? + 1];
        output.read_exact(&mut bytes)?;
        bytes.pop();
        found.insert((*id).to_owned(), bytes);
    }
    drop(input);
    child.wait()?;
    Ok(found)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let Some(corpus) = args.next() else {
        eprintln!("usage: segment_coverage CORPUS GOLD.jsonl…");
        return Ok(ExitCode::from(2));
    };
    for file in args {
        let lines = BufReader::new(std::fs::File::open(&file)?).lines();
        let labelled: Vec<Labelled> =
            lines.map(|l| Ok(serde_json::from_str(&l?)?)).collect::<Result<_, Box<dyn Error>>>()?;
        let mut ids: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for item in &labelled {
            ids.entry(&item.repo).or_default().insert(&item.blob);
        }
        let mut texts = HashMap::new();
        for (repo, ids) in ids {
            texts.extend(blobs(&Path::new(&corpus).join(format!("{}.git", repo.replace('/', "+"))), &ids)?);
        }
        let mut seen = HashSet::new();
        let (mut found, mut kinds, mut headings) = (0, 0, 0);
        for item in &labelled {
            let text = texts.get(&item.blob).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
            let segmentation = segment(&item.path, &text);
            let wanted = flatten(&item.text);
            let same: Vec<_> = segmentation
                .items
                .iter()
                .filter(|span| span.line == item.line && flatten(&text[span.range()]) == wanted)
                .collect();
            if let [span] = same[..] {
                found += 1;
                kinds += usize::from(span.kind.as_str() == item.kind);
                headings += usize::from(segmentation.heading_path(span, &text) == item.heading);
            } else {
                let on_line: Vec<_> = segmentation
                    .items
                    .iter()
                    .filter(|span| span.line == item.line)
                    .map(|span| (span.kind.as_str(), flatten(&text[span.range()])))
                    .collect();
                println!(
                    "missed {} {} {}:{}: {:?}, found {on_line:?}",
                    item.kind, item.blob, item.path, item.line, item.text
                );
            }
        }
        let (mut items, mut bytes) = (0, 0);
        for item in labelled.iter().filter(|item| seen.insert(&item.blob)) {
            let text = texts.get(&item.blob).map(|bytes| String::from_utf8_lossy(bytes)).unwrap_or_default();
            let segmentation = segment(&item.path, &text);
            items += segmentation.items.len();
            bytes += pack(&segmentation).len();
        }
        println!("{items} items of {} blobs packed: {:.2} bytes an item", seen.len(), bytes as f64 / items as f64);
        let share = |n: usize, of: usize| 100.0 * n as f64 / of as f64;
        println!(
            "{}: {found} of {} found as one item ({:.2} %); of these same kind {:.2} %, same heading path {:.2} %",
            file.display(),
            labelled.len(),
            share(found, labelled.len()),
            share(kinds, found),
            share(headings, found)
        );
    }
    Ok(ExitCode::SUCCESS)
}
