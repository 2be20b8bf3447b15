//! Columns of a table, each declared once: its field, how the file stores it, and where its values come from.

use arrow_array::builder::{
    BooleanBuilder, Float32Builder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// How a column is stored. Readers see no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing special.
    Plain,
    /// A whole number: as differences, which are small where neighbours are alike.
    Number,
    /// Few distinct values: dictionary-encoded inside the file.
    Enum,
    /// Looked up by value: Bloom filter.
    Id,
    /// Long text: neither statistics nor dictionary.
    Text,
}

/// The columns of `rows`. Built over no rows it still knows the schema, which therefore cannot differ between shards.
pub struct Columns<'a, R> {
    rows: &'a [R],
    fields: Vec<FieldRef>,
    arrays: Vec<ArrayRef>,
    roles: Vec<(String, Role)>,
}

impl<'a, R> Columns<'a, R> {
    /// No columns yet.
    pub fn new(rows: &'a [R]) -> Self {
        Self { rows, fields: Vec::new(), arrays: Vec::new(), roles: Vec::new() }
    }

    fn add(&mut self, name: &str, kind: DataType, nullable: bool, role: Role, array: ArrayRef) {
        self.fields.push(Arc::new(Field::new(name, kind, nullable)));
        self.arrays.push(array);
        self.roles.push((name.to_owned(), role));
    }

    /// A string that every row has.
    pub fn string(&mut self, name: &str, role: Role, get: impl Fn(&R) -> &str) {
        let mut column = StringBuilder::new();
        self.rows.iter().for_each(|row| column.append_value(get(row)));
        self.add(name, DataType::Utf8, false, role, Arc::new(column.finish()));
    }

    /// A string that a row may lack.
    pub fn maybe_string(&mut self, name: &str, role: Role, get: impl Fn(&R) -> Option<&str>) {
        let mut column = StringBuilder::new();
        self.rows.iter().for_each(|row| column.append_option(get(row)));
        self.add(name, DataType::Utf8, true, role, Arc::new(column.finish()));
    }

    /// An integer that every row has.
    pub fn integer(&mut self, name: &str, get: impl Fn(&R) -> i64) {
        let mut column = Int64Builder::new();
        self.rows.iter().for_each(|row| column.append_value(get(row)));
        self.add(name, DataType::Int64, false, Role::Number, Arc::new(column.finish()));
    }

    /// An integer that a row may lack.
    pub fn maybe_integer(&mut self, name: &str, get: impl Fn(&R) -> Option<i64>) {
        let mut column = Int64Builder::new();
        self.rows.iter().for_each(|row| column.append_option(get(row)));
        self.add(name, DataType::Int64, true, Role::Number, Arc::new(column.finish()));
    }

    /// A truth that every row has.
    pub fn boolean(&mut self, name: &str, get: impl Fn(&R) -> bool) {
        let mut column = BooleanBuilder::new();
        self.rows.iter().for_each(|row| column.append_value(get(row)));
        self.add(name, DataType::Boolean, false, Role::Plain, Arc::new(column.finish()));
    }

    /// A truth that a row may lack.
    pub fn maybe_boolean(&mut self, name: &str, get: impl Fn(&R) -> Option<bool>) {
        let mut column = BooleanBuilder::new();
        self.rows.iter().for_each(|row| column.append_option(get(row)));
        self.add(name, DataType::Boolean, true, Role::Plain, Arc::new(column.finish()));
    }

    /// A single-precision number that every row has.
    pub fn real(&mut self, name: &str, role: Role, get: impl Fn(&R) -> f32) {
        let mut column = Float32Builder::new();
        self.rows.iter().for_each(|row| column.append_value(get(row)));
        self.add(name, DataType::Float32, false, role, Arc::new(column.finish()));
    }

    /// A single-precision number that a row may lack.
    pub fn maybe_real(&mut self, name: &str, get: impl Fn(&R) -> Option<f32>) {
        let mut column = Float32Builder::new();
        self.rows.iter().for_each(|row| column.append_option(get(row)));
        self.add(name, DataType::Float32, true, Role::Plain, Arc::new(column.finish()));
    }

    /// A double-precision number that a row may lack.
    pub fn maybe_double(&mut self, name: &str, get: impl Fn(&R) -> Option<f64>) {
        let mut column = Float64Builder::new();
        self.rows.iter().for_each(|row| column.append_option(get(row)));
        self.add(name, DataType::Float64, true, Role::Plain, Arc::new(column.finish()));
    }

    /// A point in time, UTC. `get` gives Unix milliseconds.
    pub fn time(&mut self, name: &str, get: impl Fn(&R) -> i64) {
        let mut column = TimestampMicrosecondBuilder::new().with_timezone("UTC");
        self.rows.iter().for_each(|row| column.append_value(get(row).saturating_mul(1_000)));
        let kind = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        self.add(name, kind, false, Role::Number, Arc::new(column.finish()));
    }

    /// A list of strings, never missing.
    pub fn strings(&mut self, name: &str, role: Role, get: impl Fn(&R) -> &[String]) {
        let mut column = StringBuilder::new();
        let mut lengths = Vec::with_capacity(self.rows.len());
        for row in self.rows {
            let list = get(row);
            lengths.push(list.len());
            list.iter().for_each(|text| column.append_value(text));
        }
        let element = Arc::new(Field::new("element", DataType::Utf8, false));
        let array =
            ListArray::new(Arc::clone(&element), OffsetBuffer::from_lengths(lengths), Arc::new(column.finish()), None);
        self.add(name, DataType::List(element), false, Role::Plain, Arc::new(array));
        self.roles.push((format!("{name}.list.element"), role));
    }

    /// A list of structs that a row may lack: what other formats would make a map.
    pub fn maybe_list<'r, C: 'r>(
        &mut self,
        name: &str,
        get: impl Fn(&'r R) -> Option<&'r [C]>,
        declare: impl Fn(&mut Columns<'_, &'r C>),
    ) where
        'a: 'r,
    {
        let mut children = Vec::new();
        let (mut lengths, mut present) = (Vec::with_capacity(self.rows.len()), Vec::with_capacity(self.rows.len()));
        for row in self.rows {
            let list = get(row);
            present.push(list.is_some());
            lengths.push(list.map_or(0, <[C]>::len));
            children.extend(list.unwrap_or_default());
        }
        let mut inner = Columns::new(&children);
        declare(&mut inner);
        let fields = Fields::from(inner.fields);
        let element = Arc::new(Field::new("element", DataType::Struct(fields.clone()), false));
        let structs = StructArray::new(fields, inner.arrays, None);
        let array = ListArray::new(
            Arc::clone(&element),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(structs),
            Some(NullBuffer::from(present)),
        );
        for (child, role) in inner.roles {
            self.roles.push((format!("{name}.list.element.{child}"), role));
        }
        self.add(name, DataType::List(element), true, Role::Plain, Arc::new(array));
    }

    /// The schema.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.fields.clone()))
    }

    /// Path of each stored column and its role.
    pub fn roles(&self) -> &[(String, Role)] {
        &self.roles
    }

    /// The rows as a batch.
    pub fn batch(self) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}
