//! What a set holds, by which rules it was made, and the SHA-256 of every file. Holds no clock: the same corpus has the
//! same manifest.

use super::selection::Selection;
use super::{ExportError, ExportOptions, Tally, Tier};
use crate::dedup;
use crate::job::model::ModelName;
use crate::parquet::{
    ArtifactTable, ColumnInfo, GoldTable, ItemTable, OccurrenceTable, SCHEMA_VERSION, Table as _, Written, columns_of,
};
use crate::store::{Funnel, RunRow, Store};
use crate::{license, redact, segment, tag};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

/// The manifest of a set.
#[derive(Debug, Clone, Serialize)]
pub struct Manifest {
    /// Version of this form.
    pub format: u32,
    /// Name of the data set.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Commit of the program, where its build was told.
    pub commit: Option<&'static str>,
    /// The last run whose changes are in it.
    pub run: Option<RunInfo>,
    /// The time that was asked for and how this differs from an export made then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Only what changed after this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// Whose bodies are in it.
    pub license_tier: Tier,
    /// Version of each set of rules.
    pub rules: BTreeMap<&'static str, u32>,
    /// The classifier beside the shards.
    pub model: ModelInfo,
    /// How rows are split.
    pub splits: SplitInfo,
    /// How many survive each stage.
    pub funnel: FunnelInfo,
    /// Artifacts without text, by reason.
    pub withheld: BTreeMap<&'static str, u64>,
    /// Passages replaced, by kind.
    pub redactions: BTreeMap<&'static str, u64>,
    /// Repositories left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// The tables.
    pub configs: BTreeMap<&'static str, ConfigInfo>,
    /// What is not in it, and why.
    pub missing: Vec<String>,
    /// Every file but this one.
    pub files: Vec<FileInfo>,
}

/// A run as named in a manifest.
#[derive(Debug, Clone, Serialize)]
pub struct RunInfo {
    /// Key.
    pub id: i64,
    /// The command.
    pub command: String,
    /// When it began, RFC 3339.
    pub started_at: String,
}

/// An export of an earlier state.
#[derive(Debug, Clone, Serialize)]
pub struct AsOf {
    /// The time that was asked for, RFC 3339.
    pub time: String,
    /// How this differs from an export made then.
    pub differs: Vec<String>,
}

/// The classifier beside the shards.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// Its tier and the SHA-256 of its tensors.
    #[serde(flatten)]
    pub name: ModelName,
    /// Whether the rows of `items` hold predictions.
    pub predictions: bool,
    /// What it scored when it was fitted, as stored with it.
    #[serde(skip)]
    pub notes: serde_json::Value,
}

/// How rows are split.
#[derive(Debug, Clone, Serialize)]
pub struct SplitInfo {
    /// The seed.
    pub seed: String,
    /// The rule, for people.
    pub rule: &'static str,
    /// Artifacts by split.
    pub artifacts: BTreeMap<&'static str, u64>,
}

/// How many survive each stage.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FunnelInfo {
    /// The stages before the export.
    #[serde(flatten)]
    pub corpus: Funnel,
    /// Artifacts in the export.
    pub exported: u64,
    /// Of these, those with text.
    pub with_text: u64,
}

/// One table.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigInfo {
    /// Rows over all files.
    pub rows: u64,
    /// Bytes over all files.
    pub bytes: u64,
    /// File names under `data/`.
    pub shards: Vec<String>,
    /// Columns, in order.
    pub columns: Vec<ColumnInfo>,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct FileInfo {
    /// Path in the set.
    pub path: String,
    /// Bytes.
    pub bytes: u64,
    /// Hexadecimal SHA-256.
    pub sha256: String,
}

/// The rule by which rows are split.
const RULE: &str = "Repositories that share a text or near-duplicate texts (64 bytes or more, no pointers) form a group, \
    named by its first repository in lower case. The first eight bytes of SHA-256(seed + \"/\" + group), big-endian, \
    divided by 2^64: below 0.8 train, below 0.9 validation, else test. A group of more than 1,000 artifacts that holds \
    more than 5 % of them is train.";

/// Said of a corpus that was crawled from a sandbox.
const SANDBOX: &str = "No corpus of GitHub: these repositories were served by a sandbox on one machine, and what it \
    generates is made up";

/// What is known before the first row is written.
pub(super) async fn head(
    store: &Store,
    options: &ExportOptions,
    runs: &[RunRow],
    as_of: i64,
    selection: &Selection,
) -> Result<Manifest, ExportError> {
    let last = runs.iter().rev().find(|run| run.id.0 <= as_of);
    let rules = BTreeMap::from([
        ("schema", SCHEMA_VERSION),
        ("segment", segment::VERSION),
        ("redact", u32::from(redact::VERSION)),
        ("tag", tag::TAGGER_VERSION),
        ("dedup", u32::from(dedup::VERSION)),
        ("license", license::VERSION),
    ]);
    let mut left_out = selection.left_out.clone();
    // Removed by an opt-out: nothing of them is stored, so only their number can be told.
    let optouts = store.optouts().await?.len() as u64;
    if optouts > 0 {
        left_out.insert("optouts_in_force", optouts);
    }
    Ok(Manifest {
        format: 1,
        name: options.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("AAC_COMMIT"),
        run: last.map(|run| RunInfo { id: run.id.0, command: run.command.clone(), started_at: time(run.started_at) }),
        as_of: options.as_of.map(|at| AsOf { time: time(at), differs: differences(runs, as_of, optouts) }),
        since: options.since.map(|run| run.0),
        license_tier: options.tier,
        rules,
        model: ModelInfo {
            name: ModelName::of(options.model.model.as_ref()),
            predictions: false,
            notes: options.model.notes.clone(),
        },
        splits: SplitInfo { seed: options.seed.clone(), rule: RULE, artifacts: BTreeMap::new() },
        funnel: FunnelInfo { corpus: store.funnel().await?, ..FunnelInfo::default() },
        withheld: BTreeMap::new(),
        redactions: BTreeMap::new(),
        left_out,
        configs: BTreeMap::new(),
        missing: selection.web.is_none().then(|| SANDBOX.to_owned()).into_iter().collect(),
        files: Vec::new(),
    })
}

/// How an export of an earlier state differs from one made then.
fn differences(runs: &[RunRow], as_of: i64, optouts: u64) -> Vec<String> {
    let mut differs = Vec::new();
    if optouts > 0 {
        differs.push(format!("{optouts} opt-outs that are in force today are honoured, whenever they were made"));
    }
    let later = runs.iter().filter(|run| run.id.0 > as_of).count();
    if later > 0 {
        differs.push(format!(
            "Items, redaction, licences, stars, languages, tags, clusters, predictions and gold labels are those of today, \
                 {later} runs later"
        ));
        differs.push(
            "Artifacts that were gone at that time and came back later are present; when they were away is not kept"
                .to_owned(),
        );
        differs.push("The stages of the funnel before `exported` are counted today".to_owned());
    }
    differs
}

/// Add what was counted on the way.
pub(super) fn complete(
    mut head: Manifest,
    options: &ExportOptions,
    tally: &Tally,
    written: &[(&'static str, Written)],
) -> Manifest {
    for (name, set) in written {
        let file = |path: &std::path::PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let columns = match *name {
            ArtifactTable::NAME => columns_of::<ArtifactTable>(),
            OccurrenceTable::NAME => columns_of::<OccurrenceTable>(),
            ItemTable::NAME => columns_of::<ItemTable>(),
            _ => columns_of::<GoldTable>(),
        };
        let shards = set.shards.iter().filter_map(file).collect();
        head.configs.insert(name, ConfigInfo { rows: set.rows, bytes: set.bytes, shards, columns });
    }
    let rows = |head: &Manifest, name| head.configs.get(name).map_or(0, |c: &ConfigInfo| c.rows);
    head.funnel.exported = rows(&head, ArtifactTable::NAME);
    head.funnel.with_text = tally.with_text;
    head.splits.artifacts.clone_from(&tally.splits);
    head.withheld.clone_from(&tally.withheld);
    head.redactions.clone_from(&tally.redactions);
    head.model.predictions = !tally.predicted.is_empty();
    let mut missing = std::mem::take(&mut head.missing);
    if rows(&head, ItemTable::NAME) == 0 {
        missing.push("No items: `aac segment` finds them".to_owned());
    } else if !head.model.predictions {
        missing.push(
            "No predictions: `type`, `probabilities` and `risk` are null until `aac classify` has run".to_owned(),
        );
    }
    let own = options.model.model.id();
    let others: u64 = tally.predicted.iter().filter(|(model, _)| **model != own).map(|(_, count)| count).sum();
    if others > 0 {
        missing.push(format!(
            "{others} predictions are by another model than the one in `classifier/` (the column `model` names it): \
             `aac classify` makes them anew"
        ));
    }
    if !tally.has_model_card {
        missing.push("No card of the classifier: its folder holds no README.md".to_owned());
    }
    if head.funnel.corpus.canonical.is_none() {
        missing.push("No clusters: `cluster` and `is_canonical` are null until `aac dedup` has run".to_owned());
    }
    if rows(&head, GoldTable::NAME) == 0 {
        missing.push("No gold set: `aac gold sample` and `aac gold serve` make one".to_owned());
    }
    head.missing = missing;
    head
}

impl Manifest {
    /// The file's text.
    pub(super) fn render(&self) -> String {
        // A struct of strings and numbers always renders; an empty manifest would be noticed by every reader.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Add files that were written after the others, which are not read again.
pub(super) fn add(set: &Path, names: &[&str], files: &mut Vec<FileInfo>) -> Result<(), ExportError> {
    for name in names {
        files.push(file(&set.join(name), (*name).to_owned())?);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

/// Every file of a set with its digest, by path.
pub(super) fn files(set: &Path) -> Result<Vec<FileInfo>, ExportError> {
    let mut found = Vec::new();
    walk(set, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<FileInfo>) -> Result<(), ExportError> {
    let failed = |source| ExportError::Write { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with('.') {
            continue;
        }
        let inside = format!("{prefix}{name}");
        if path.is_dir() {
            walk(&path, &format!("{inside}/"), found)?;
        } else {
            found.push(file(&path, inside)?);
        }
    }
    Ok(())
}

fn file(path: &Path, inside: String) -> Result<FileInfo, ExportError> {
    let mut digest = Sha256::new();
    let bytes = File::open(path)
        .and_then(|mut file| std::io::copy(&mut file, &mut HashWriter(&mut digest)))
        .map_err(|source| ExportError::Write { path: path.to_owned(), source })?;
    Ok(FileInfo { path: inside, bytes, sha256: super::hex(&digest.finalize()) })
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn time(milliseconds: i64) -> String {
    jiff::Timestamp::from_millisecond(milliseconds).map_or_else(|_| milliseconds.to_string(), |t| t.to_string())
}
