//! Score the tagger against labels over unpacked bare repositories, through the `git` command.
//!
//! `cargo run --release --no-default-features --example tags_eval -- LABELS.jsonl CORPUS_DIR [--misses] [--measures]`
//!
//! Duplicates are texts that are equal after white space is folded, under two or more owners.
#![allow(clippy::print_stdout, missing_docs)]

use aac::corpus::{CommitFact, CommitRecord, Slug};
use aac::tag::score::{Scores, TagLabel, score};
use aac::tag::{Evidence, TagInput, Tagger, Tags};
use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

struct Artifact {
    repo: Slug,
    path: String,
    symlink: bool,
    text: String,
    history: Vec<CommitFact>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [labels, corpus, flags @ ..] = args.as_slice() else {
        return Err("usage: tags_eval LABELS.jsonl CORPUS_DIR [--misses] [--measures] [--all]".into());
    };
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let tagger = Tagger::shipped();
    let labels: Vec<TagLabel> =
        std::fs::read_to_string(labels)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let artifacts = load(Path::new(corpus), tagger)?;

    let mut texts: HashMap<String, HashSet<String>> = HashMap::new();
    let mut lines: HashMap<&str, HashSet<&str>> = HashMap::new();
    for a in &artifacts {
        texts.entry(folded(&a.text)).or_default().insert(a.repo.owner().to_lowercase());
        if !a.symlink {
            a.text.lines().map(str::trim).filter(|l| l.len() >= 24).for_each(|l| {
                lines.entry(l).or_default().insert(a.repo.owner());
            });
        }
    }
    let counts: HashMap<&str, u32> = lines.into_iter().map(|(l, o)| (l, o.len() as u32)).collect();
    let line_owners = |line: &str| counts.get(line).copied().unwrap_or(0);
    let inputs: Vec<TagInput> = artifacts
        .iter()
        .map(|a| TagInput {
            repo: &a.repo,
            path: &a.path,
            symlink: a.symlink,
            text: &a.text,
            platform: None,
            history: Some(&a.history),
            owners: texts.get(&folded(&a.text)).map_or(0, |o| o.len() as u32),
            language: None,
            line_owners: &line_owners,
        })
        .collect();

    let started = busy();
    let tags: Vec<Tags> = inputs.iter().map(|input| tagger.tag(input)).collect();
    let seconds = busy() - started;
    let bytes: usize = artifacts.iter().map(|a| a.text.len()).sum();
    println!(
        "{} artifacts, {:.1} MB tagged in {seconds:.3} s on one core: {:.0} artifacts/s, {:.0} MB/s",
        tags.len(),
        bytes as f64 / 1e6,
        tags.len() as f64 / seconds,
        bytes as f64 / 1e6 / seconds
    );

    let place: HashMap<(String, &str), usize> =
        artifacts.iter().enumerate().map(|(i, a)| ((a.repo.key(), a.path.as_str()), i)).collect();
    let found: Vec<(&TagLabel, usize)> =
        labels.iter().filter_map(|l| Some((l, *place.get(&(l.repo.key(), l.path.as_str()))?))).collect();
    println!("{} of {} labelled artifacts found\n", found.len(), labels.len());
    for dimension in ["function", "authorship", "specificity"] {
        let pairs: Vec<(usize, &str, &str, &str, &Evidence)> = found
            .iter()
            .filter_map(|(label, i)| {
                let t = &tags[*i];
                Some(match dimension {
                    "function" => (
                        *i,
                        label.function?.as_str(),
                        t.function.value.as_str(),
                        t.function.rule.as_str(),
                        &t.function.evidence,
                    ),
                    "authorship" => (
                        *i,
                        label.authorship?.as_str(),
                        t.authorship.value.as_str(),
                        t.authorship.rule.as_str(),
                        &t.authorship.evidence,
                    ),
                    _ => (
                        *i,
                        label.specificity?.as_str(),
                        t.specificity.value.as_str(),
                        t.specificity.rule.as_str(),
                        &t.specificity.evidence,
                    ),
                })
            })
            .collect();
        print(dimension, &score(pairs.iter().map(|p| (p.1, p.2)), 5));
        if has("--misses") {
            for (i, label, tag, rule, evidence) in pairs.iter().filter(|p| p.1 != p.2) {
                let a = &artifacts[*i];
                println!("   {label} ≠ {tag} by {rule} {evidence:?}: {} {}", a.repo, a.path);
            }
        }
    }
    if has("--measures") {
        for (label, i) in &found {
            let measures = tagger.measures(&inputs[*i], &tags[*i]);
            let named: HashMap<&str, f32> = measures.named().iter().copied().collect();
            println!(
                "M {}",
                serde_json::json!({"repo": label.repo, "path": label.path, "label": label.specificity, "pointer": tags[*i].resolves_to, "m": named})
            );
        }
    }
    if has("--all") {
        for (a, t) in artifacts.iter().zip(&tags) {
            let rows: Vec<String> = t.rows().map(|r| format!("{}|{}", r.value, r.rule)).collect();
            println!("A {} {} {} {:?}", a.repo, a.path, rows.join(" "), t.resolves_to);
        }
    }
    Ok(())
}

/// Seconds this thread has spent on a processor: neighbours on the machine do not count.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn print(dimension: &str, scores: &Scores) {
    println!(
        "{dimension}: n {}, accuracy {:.3}, macro-F1 {:.3} over values with ≥ {} labels",
        scores.n, scores.accuracy, scores.macro_f1, scores.min_support
    );
    for v in &scores.values {
        println!("  {:<14} n {:>3}  P {:.3}  R {:.3}  F1 {:.3}", v.value, v.support, v.precision, v.recall, v.f1);
    }
    let wrong = scores.confusion.iter().filter(|((label, tag), _)| label != tag);
    for ((label, tag), count) in wrong {
        println!("    {label} taken for {tag}: {count}");
    }
    println!();
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn load(corpus: &Path, tagger: &Tagger) -> Result<Vec<Artifact>, Box<dyn Error>> {
    let mut repositories: Vec<_> = std::fs::read_dir(corpus)?.filter_map(|e| Some(e.ok()?.path())).collect();
    repositories.retain(|p| p.extension().is_some_and(|e| e == "git"));
    repositories.sort();
    let mut artifacts = Vec::new();
    for path in repositories {
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let (owner, name) = stem.split_once('+').ok_or("a repository's folder is OWNER+NAME.git")?;
        let repo = Slug::new(owner, name)?;
        let mut history = history(&path, tagger)?;
        let tree = git(&path, &["ls-tree", "-rz", "HEAD"])?;
        let mut entries = Vec::new();
        for entry in tree.split(|b| *b == 0).filter(|e| !e.is_empty()) {
            let entry = String::from_utf8_lossy(entry);
            let Some((meta, path)) = entry.split_once('\t') else { continue };
            let mut words = meta.split(' ');
            if let (Some(mode), Some("blob"), Some(id)) = (words.next(), words.next(), words.next()) {
                entries.push((mode == "120000", id.to_owned(), path.to_owned()));
            }
        }
        for ((symlink, _, file), bytes) in entries.iter().zip(blobs(&path, &entries)?) {
            artifacts.push(Artifact {
                repo: repo.clone(),
                symlink: *symlink,
                text: String::from_utf8_lossy(&bytes).into_owned(),
                history: history.remove(file).unwrap_or_default(),
                path: file.clone(),
            });
        }
    }
    Ok(artifacts)
}

fn git(repository: &Path, args: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let output = Command::new("git").arg("-C").arg(repository).args(args).output()?;
    Ok(output.stdout)
}

fn blobs(repository: &Path, entries: &[(bool, String, String)]) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["cat-file", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let ids: String = entries.iter().map(|(_, id, _)| format!("{id}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(ids.as_bytes()));
    let output = child.wait_with_output()?.stdout;
    writer.join().map_err(|_| "the writer panicked")??;
    let mut rest = output.as_slice();
    let mut blobs = Vec::new();
    for _ in entries {
        let end = rest.iter().position(|b| *b == b'\n').ok_or("short answer of git cat-file")?;
        let header = std::str::from_utf8(&rest[..end])?;
        let size: usize = header.rsplit(' ').next().unwrap_or_default().parse()?;
        blobs.push(rest[end + 1..end + 1 + size].to_vec());
        rest = &rest[end + 2 + size..];
    }
    Ok(blobs)
}

fn history(repository: &Path, tagger: &Tagger) -> Result<HashMap<String, Vec<CommitFact>>, Box<dyn Error>> {
    let format = "--format=%x01%an%x1f%ae%x1f%at%x1f%B%x02";
    let log = git(repository, &["log", "-z", "--no-renames", "--name-status", format, "HEAD"])?;
    let log = String::from_utf8_lossy(&log);
    let mut history: HashMap<String, Vec<CommitFact>> = HashMap::new();
    for commit in log.split('\u{1}').skip(1) {
        let Some((head, files)) = commit.split_once('\u{2}') else { continue };
        let mut fields = head.splitn(4, '\u{1f}').map(str::to_owned);
        let mut next = || fields.next().unwrap_or_default();
        let mut record = CommitRecord {
            name: next(),
            email: next(),
            login: None,
            when: next().parse().unwrap_or(0),
            message: next(),
            creates: false,
        };
        let mut words = files.split('\0').map(|w| w.trim_start_matches('\n')).filter(|w| !w.is_empty());
        while let (Some(status), Some(path)) = (words.next(), words.next()) {
            record.creates = status == "A";
            history.entry(path.to_owned()).or_default().push(tagger.authors.fact(&record));
        }
    }
    Ok(history)
}
