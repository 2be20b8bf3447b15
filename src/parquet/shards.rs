//! Writing the shards of one table under temporary names, then giving all of them their final ones. The folder is the
//! caller's own until then: putting a finished set in the place of an older one is the work of `job::export`.

use super::{Columns, Role};
use arrow_schema::{DataType, FieldRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{CdcOptions, EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// A table: its name and its columns.
pub trait Table {
    /// One row.
    type Record;
    /// Name of the configuration, and the stem of its files.
    const NAME: &'static str;
    /// The columns of `rows`; over no rows, the schema.
    fn columns(rows: &[Self::Record]) -> Columns<'_, Self::Record>;
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
    /// Rows in a row group.
    pub group_rows: usize,
    /// A shard is closed once it has this many bytes.
    pub shard_bytes: usize,
    /// zstd level.
    pub level: i32,
    /// Cut pages where the content says, so that a changed row moves few bytes of the next export.
    pub content_defined_chunks: bool,
    /// Key-value pairs for every file's footer.
    pub footer: Vec<(String, String)>,
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self { group_rows: 5_000, shard_bytes: 450 << 20, level: 3, content_defined_chunks: true, footer: Vec::new() }
    }
}

/// The shards of one table in the making. Dropped without [`ShardSet::finish`], it leaves nothing behind.
pub struct ShardSet<T: Table> {
    folder: PathBuf,
    options: ShardOptions,
    properties: WriterProperties,
    rows: u64,
    pending: Vec<T::Record>,
    open: Option<(ArrowWriter<File>, PathBuf)>,
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
            open: None,
            done: Vec::new(),
            table: PhantomData,
        })
    }

    /// Add a row. The order of calls is the order of rows.
    pub fn push(&mut self, record: T::Record) -> Result<(), ShardError> {
        self.pending.push(record);
        if self.pending.len() >= self.options.group_rows { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ShardError> {
        let (mut writer, path) = match self.open.take() {
            Some(open) => open,
            None => self.open_shard()?,
        };
        let failed = |source| ShardError::Write { path: path.clone(), source };
        let batch = T::columns(&self.pending).batch().map_err(|e| failed(e.into()))?;
        writer.write(&batch).map_err(failed)?;
        writer.flush().map_err(failed)?;
        self.rows += self.pending.len() as u64;
        self.pending.clear();
        if writer.bytes_written() >= self.options.shard_bytes {
            self.close_shard(writer, path)
        } else {
            self.open = Some((writer, path));
            Ok(())
        }
    }

    fn open_shard(&self) -> Result<(ArrowWriter<File>, PathBuf), ShardError> {
        let path = self.folder.join(format!(".{}-{:05}.parquet.part", T::NAME, self.done.len()));
        let file =
            File::create(&path).map_err(|source| ShardError::Io { doing: "make", path: path.clone(), source })?;
        let writer = ArrowWriter::try_new(file, T::columns(&[]).schema(), Some(self.properties.clone()))
            .map_err(|source| ShardError::Write { path: path.clone(), source })?;
        Ok((writer, path))
    }

    fn close_shard(&mut self, writer: ArrowWriter<File>, path: PathBuf) -> Result<(), ShardError> {
        let file = writer.into_inner().map_err(|source| ShardError::Write { path: path.clone(), source })?;
        file.sync_all().map_err(|source| ShardError::Io { doing: "write out", path: path.clone(), source })?;
        self.done.push(path);
        Ok(())
    }

    /// Write what is pending and give every shard its final name, which holds their number. An empty table is one shard
    /// without rows, so that its schema is there.
    pub fn finish(mut self) -> Result<Written, ShardError> {
        if !self.pending.is_empty() || (self.open.is_none() && self.done.is_empty()) {
            self.write_group()?;
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

fn properties<T: Table>(options: &ShardOptions) -> WriterProperties {
    let footer = options.footer.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).collect();
    let mut builder = WriterProperties::builder()
        .set_created_by(format!("aac {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(options.level).unwrap_or_default()))
        .set_max_row_group_row_count(Some(options.group_rows))
        .set_dictionary_enabled(false)
        .set_content_defined_chunking(options.content_defined_chunks.then(CdcOptions::default))
        .set_key_value_metadata(Some(footer));
    for (path, role) in T::columns(&[]).roles() {
        let path = ColumnPath::new(path.split('.').map(str::to_owned).collect());
        builder = match role {
            Role::Plain => builder,
            Role::Enum => builder.set_column_dictionary_enabled(path, true),
            Role::Text => builder.set_column_statistics_enabled(path, EnabledStatistics::None),
            Role::Id => {
                builder.set_column_bloom_filter_enabled(path.clone(), true).set_column_bloom_filter_fpp(path, 0.01)
            }
        };
    }
    builder.build()
}
