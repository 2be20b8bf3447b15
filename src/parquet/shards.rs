//! Writing the shards of one table under temporary names, then giving all of them their final ones. The folder is the
//! caller's own until then: putting a finished set in the place of an older one is the work of `job::export`.

use super::groups::Group;
use super::{Columns, Role};
use arrow_schema::{DataType, FieldRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{CdcOptions, EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use rayon::prelude::*;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Row groups that are packed at once, at most: each is in memory as rows and as bytes.
const AT_ONCE: usize = 4;

/// A table: its name and its columns.
pub trait Table {
    /// One row.
    type Record: Send + Sync;
    /// Name of the configuration, and the stem of its files.
    const NAME: &'static str;
    /// The columns of `rows`; over no rows, the schema.
    fn columns(rows: &[Self::Record]) -> Columns<'_, Self::Record>;
    /// Repository and path: row groups end between two repositories, else between two files. Names and not contents,
    /// since a name stays when a text changes.
    fn place(record: &Self::Record) -> (&str, &str);
}

/// A column as readers see it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Type, in Arrow's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a row may lack it.
    pub nullable: bool,
}

/// The columns of a table, in order.
pub fn columns_of<T: Table>() -> Vec<ColumnInfo> {
    let schema = T::columns(&[]).schema();
    let info = |field: &FieldRef| ColumnInfo {
        name: field.name().clone(),
        kind: kind(field.data_type()),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(info).collect()
}

fn kind(data: &DataType) -> String {
    match data {
        DataType::Utf8 => "string".to_owned(),
        DataType::Int64 => "int64".to_owned(),
        DataType::Float32 => "float32".to_owned(),
        DataType::Float64 => "float64".to_owned(),
        DataType::Boolean => "bool".to_owned(),
        DataType::Timestamp(..) => "timestamp[us, UTC]".to_owned(),
        DataType::List(element) => format!("list<{}>", kind(element.data_type())),
        DataType::Struct(fields) => {
            let parts: Vec<_> = fields.iter().map(|f| format!("{}: {}", f.name(), kind(f.data_type()))).collect();
            format!("struct<{}>", parts.join(", "))
        }
        other => other.to_string(),
    }
}

/// Why shards could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The file system refused.
    #[error("Failed to {doing} {path}: {source}", path = .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Rows do not fit the schema, or the writer failed.
    #[error("Failed to write {path}: {source}", path = .path.display())]
    Write {
        /// The shard.
        path: PathBuf,
        /// What the writer said.
        source: ParquetError,
    },
}

/// How shards are cut and packed.
#[derive(Debug, Clone)]
pub struct ShardOptions {
    /// Rows in a row group, on average. Between a quarter less and a quarter more, a group ends where the names of its rows
    /// say so: rows that come or go then change their own group and not every later one.
    pub group_rows: usize,
    /// A shard is closed once it has this many bytes.
    pub shard_bytes: usize,
    /// zstd level.
    pub level: i32,
    /// Cut pages where the content says, at least and at most these bytes of values apart, so that a changed row moves few
    /// bytes of the next export; nothing for pages of one size.
    pub chunk_bytes: Option<(usize, usize)>,
    /// Key-value pairs for every file's footer.
    pub footer: Vec<(String, String)>,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self {
            group_rows: 5_000,
            shard_bytes: 450 << 20,
            level: 3,
            chunk_bytes: Some((64 << 10, 256 << 10)),
            footer: Vec::new(),
        }
    }
}

impl ShardOptions {
    /// Rows in a row group, at least; the last one may have fewer.
    fn least_rows(&self) -> usize {
        (self.group_rows - self.group_rows / 4).max(1)
    }

    /// Rows in a row group, at most.
    fn most_rows(&self) -> usize {
        (self.group_rows + self.group_rows / 4).max(1)
    }
}

/// The shards of one table in the making. Dropped without [`ShardSet::finish`], it leaves nothing behind.
pub struct ShardSet<T: Table> {
    folder: PathBuf,
    options: ShardOptions,
    properties: WriterProperties,
    rows: u64,
    pending: Vec<T::Record>,
    /// Whole groups that wait to be packed together.
    groups: Vec<Vec<T::Record>>,
    open: Option<(SerializedFileWriter<File>, PathBuf)>,
    done: Vec<PathBuf>,
    table: PhantomData<T>,
}

/// A finished set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Files, in order.
    pub shards: Vec<PathBuf>,
    /// Rows over all files.
    pub rows: u64,
    /// Bytes over all files.
    pub bytes: u64,
}

impl<T: Table> ShardSet<T> {
    /// Begin a set in `folder`, which is made where it is not there.
    pub fn create(folder: &Path, options: ShardOptions) -> Result<Self, ShardError> {
        fs::create_dir_all(folder).map_err(|source| ShardError::Io {
            doing: "make",
            path: folder.to_owned(),
            source,
        })?;
        let properties = properties::<T>(&options);
        Ok(Self {
            folder: folder.to_owned(),
            options,
            properties,
            rows: 0,
            pending: Vec::new(),
            groups: Vec::new(),
            open: None,
            done: Vec::new(),
            table: PhantomData,
        })
    }

    /// Add a row. The order of calls is the order of rows.
    pub fn push(&mut self, record: T::Record) -> Result<(), ShardError> {
        self.pending.push(record);
        if self.pending.len() > self.options.most_rows() {
            let rest = self.pending.split_off(end_of_group::<T>(&self.pending, &self.options));
            self.groups.push(std::mem::replace(&mut self.pending, rest));
            if self.groups.len() >= rayon::current_num_threads().min(AT_ONCE) {
                self.write_groups()?;
            }
        }
        Ok(())
    }

    fn write_groups(&mut self) -> Result<(), ShardError> {
        let waiting = std::mem::take(&mut self.groups);
        let properties = &self.properties;
        let packed: Vec<Result<Group, ParquetError>> =
            waiting.into_par_iter().map(|rows| Group::encode::<T>(&rows, properties)).collect();
        for group in packed {
            let (mut writer, path) = match self.open.take() {
                Some(open) => open,
                None => self.open_shard()?,
            };
            let put = group.and_then(|group| group.append(&mut writer).map(|()| group.rows));
            self.rows += put.map_err(|source| ShardError::Write { path: path.clone(), source })?;
            if writer.bytes_written() >= self.options.shard_bytes {
                self.close_shard(writer, path)?;
            } else {
                self.open = Some((writer, path));
            }
        }
        Ok(())
    }

    fn open_shard(&self) -> Result<(SerializedFileWriter<File>, PathBuf), ShardError> {
        let path = self.folder.join(format!(".{}-{:05}.parquet.part", T::NAME, self.done.len()));
        let file =
            File::create(&path).map_err(|source| ShardError::Io { doing: "make", path: path.clone(), source })?;
        // By way of the Arrow writer, which keeps the schema in the footer.
        let (writer, _) = ArrowWriter::try_new(file, T::columns(&[]).schema(), Some(self.properties.clone()))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(|source| ShardError::Write { path: path.clone(), source })?;
        Ok((writer, path))
    }

    fn close_shard(&mut self, writer: SerializedFileWriter<File>, path: PathBuf) -> Result<(), ShardError> {
        let file = writer.into_inner().map_err(|source| ShardError::Write { path: path.clone(), source })?;
        file.sync_all().map_err(|source| ShardError::Io { doing: "write out", path: path.clone(), source })?;
        self.done.push(path);
        Ok(())
    }

    /// Write what is pending and give every shard its final name, which holds their number. An empty table is one shard
    /// without rows, so that its schema is there.
    pub fn finish(mut self) -> Result<Written, ShardError> {
        if !self.pending.is_empty() {
            self.groups.push(std::mem::take(&mut self.pending));
        }
        self.write_groups()?;
        if self.open.is_none() && self.done.is_empty() {
            self.open = Some(self.open_shard()?);
        }
        if let Some((writer, path)) = self.open.take() {
            self.close_shard(writer, path)?;
        }
        let total = self.done.len();
        let mut shards = Vec::with_capacity(total);
        let mut bytes = 0;
        for (index, part) in std::mem::take(&mut self.done).into_iter().enumerate() {
            let path = self.folder.join(format!("{}-{index:05}-of-{total:05}.parquet", T::NAME));
            let io = |doing| move |path: &Path, source| ShardError::Io { doing, path: path.to_owned(), source };
            fs::rename(&part, &path).map_err(|e| io("name")(&path, e))?;
            bytes += fs::metadata(&path).map_err(|e| io("read")(&path, e))?.len();
            shards.push(path);
        }
        Ok(Written { shards, rows: self.rows, bytes })
    }
}

impl<T: Table> Drop for ShardSet<T> {
    fn drop(&mut self) {
        for path in self.done.iter().chain(self.open.as_ref().map(|(_, path)| path)) {
            // Best effort: a leftover `.part` file is overwritten by the next export.
            let _ = fs::remove_file(path);
        }
    }
}

/// How many of `rows` make the first group: of the allowed places where a repository begins, else a file, the one whose
/// name has the least hash. Where names decide, the same rows are cut at the same places again; and the wider the choice,
/// the sooner two sets meet again at such a place after a repository that only one of them has.
fn end_of_group<T: Table>(rows: &[T::Record], options: &ShardOptions) -> usize {
    let (least, most) = (options.least_rows(), options.most_rows());
    let begins = |at: usize| {
        let ((old_repo, old_path), (repo, path)) = (T::place(rows.get(at - 1)?), T::place(rows.get(at)?));
        let hash = |name: &str, seed| xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed);
        let is_inside = old_repo == repo;
        (!is_inside || old_path != path).then(|| (is_inside, hash(path, hash(repo, 0)), at))
    };
    (least..=most).filter_map(begins).min().map_or(most, |(.., at)| at)
}

fn properties<T: Table>(options: &ShardOptions) -> WriterProperties {
    let footer = options.footer.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("aac {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(options.level).unwrap_or_default()))
        .set_max_row_group_row_count(Some(options.most_rows()))
        .set_dictionary_enabled(false)
        .set_content_defined_chunking(options.chunk_bytes.map(|(least, most)| CdcOptions {
            min_chunk_size: least,
            max_chunk_size: most,
            norm_level: 0,
        }))
        .set_key_value_metadata(Some(footer));
    for (path, role) in T::columns(&[]).roles() {
        let path = ColumnPath::new(path.split('.').map(str::to_owned).collect());
        builder = match role {
            Role::Plain => builder,
            Role::Number => builder.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Role::Enum => builder.set_column_dictionary_enabled(path, true),
            Role::Text => builder.set_column_statistics_enabled(path, EnabledStatistics::None),
            Role::Id => {
                builder.set_column_bloom_filter_enabled(path.clone(), true).set_column_bloom_filter_fpp(path, 0.01)
            }
        };
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::super::{OccurrenceRecord, OccurrenceTable};
    use super::*;

    fn rows(repos: std::ops::Range<usize>) -> Vec<OccurrenceRecord> {
        let row = |n: usize| OccurrenceRecord { repo: format!("o/r{:05}", n / 7), ..OccurrenceRecord::default() };
        repos.flat_map(|repo| (0..7).map(move |n| repo * 7 + n)).map(row).collect()
    }

    fn of_400() -> ShardOptions {
        ShardOptions { group_rows: 400, ..ShardOptions::default() }
    }

    /// First repository of each group.
    fn groups(mut rows: Vec<OccurrenceRecord>) -> Vec<String> {
        let mut begins = Vec::new();
        while rows.len() > 500 {
            let rest = rows.split_off(end_of_group::<OccurrenceTable>(&rows[..501], &of_400()));
            assert!((300..=500).contains(&rows.len()) && rows.last().map(|r| &r.repo) != rest.first().map(|r| &r.repo));
            begins.push(rows[0].repo.clone());
            rows = rest;
        }
        begins
    }

    #[test]
    fn rows_that_come_or_go_change_their_own_group_only() {
        let before = groups(rows(0..5_000));
        let mut less = rows(0..5_000);
        less.drain(1_000..1_010);
        let after = groups(less);
        let same = before.iter().filter(|group| after.contains(group)).count();
        assert!(same + 8 > before.len(), "{same} of {} groups begin as before", before.len());
        // In one repository larger than a group files decide, and one file leaves no choice.
        let mut one: Vec<_> = (0..501).map(|_| OccurrenceRecord::default()).collect();
        assert_eq!(end_of_group::<OccurrenceTable>(&one, &of_400()), 500);
        one[321..].iter_mut().for_each(|row| row.path = "other".to_owned());
        assert_eq!(end_of_group::<OccurrenceTable>(&one, &of_400()), 321);
    }

    /// The same bytes, however many groups are packed at once, with everything that belongs to a group.
    #[test]
    fn groups_keep_their_page_index_and_bloom_filters() {
        let dir = tempfile::tempdir().unwrap();
        let options = of_400();
        let written = [1, 4].map(|threads| {
            let folder = dir.path().join(threads.to_string());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut set = ShardSet::<OccurrenceTable>::create(&folder, options.clone()).unwrap();
                rows(0..500).into_iter().for_each(|row| set.push(row).unwrap());
                set.finish().unwrap()
            })
        });
        let read = |set: &Written| fs::read(&set.shards[0]).unwrap();
        assert!(read(&written[0]) == read(&written[1]));
        assert_eq!(written[0].rows, 3_500);
        let file = File::open(&written[0].shards[0]).unwrap();
        let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
            .with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Required)
            .parse_and_finish(&file)
            .unwrap();
        assert_eq!(metadata.offset_index().unwrap().len(), metadata.num_row_groups());
        let kept = metadata.row_groups().iter().all(|group| {
            let ids =
                group.columns().iter().filter(|c| ["sha256", "blob"].contains(&c.column_path().string().as_str()));
            group.num_rows() <= 500 && ids.filter(|c| c.bloom_filter_offset().is_some()).count() == 2
        });
        assert!(kept && metadata.num_row_groups() > 6);
    }
}
