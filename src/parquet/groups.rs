//! Row groups encoded on their own, so that several are packed at once, and put into a file one after another. The bytes
//! do not depend on how many are packed at once.

use super::Table;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;

/// A row group as a Parquet file in memory.
pub(super) struct Group {
    bytes: Bytes,
    metadata: ParquetMetaData,
    /// Rows in it.
    pub(super) rows: u64,
}

impl Group {
    /// Encode `rows`, all in one group.
    pub(super) fn encode<T: Table>(rows: &[T::Record], properties: &WriterProperties) -> Result<Self, ParquetError> {
        let batch = T::columns(rows).batch()?;
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.clone()))?;
        writer.write(&batch)?;
        drop(batch);
        let bytes = Bytes::from(writer.into_inner()?);
        let metadata =
            ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional).parse_and_finish(&bytes)?;
        Ok(Self { bytes, metadata, rows: rows.len() as u64 })
    }

    /// Put the group at the end of a file with the same schema.
    pub(super) fn append<W: Write + Send>(&self, writer: &mut SerializedFileWriter<W>) -> Result<(), ParquetError> {
        let (columns, offsets) = (self.metadata.column_index(), self.metadata.offset_index());
        for (index, group) in self.metadata.row_groups().iter().enumerate() {
            let mut out = writer.next_row_group()?;
            for (at, column) in group.columns().iter().enumerate() {
                let column_index = columns.and_then(|all| all.get(index)?.get(at)).cloned();
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size().unsigned_abs(),
                    rows_written: group.num_rows().unsigned_abs(),
                    metadata: column.clone(),
                    bloom_filter: Sbbf::read_from_column_chunk(column, &self.bytes)?,
                    column_index: column_index.filter(|found| !matches!(found, ColumnIndexMetaData::NONE)),
                    offset_index: offsets.and_then(|all| all.get(index)?.get(at)).cloned(),
                };
                out.append_column(&self.bytes, close)?;
            }
            out.close()?;
        }
        Ok(())
    }
}
