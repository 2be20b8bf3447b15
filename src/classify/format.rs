//! Tensors in the safetensors layout: eight bytes of header length, a JSON header, the data. Enough of it for the
//! linear model, without a dependency in the light library.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that are no tensor file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Too short, or the header's length does not fit.
    #[error("Failed to read tensors: the file has {length} bytes, its header needs {needed}")]
    Truncated {
        /// Bytes there are.
        length: usize,
        /// Bytes that the header asks for.
        needed: u64,
    },
    /// The header is not the JSON it should be.
    #[error("Failed to read tensors: the header is not valid: {why}")]
    Header {
        /// What is wrong with it.
        why: String,
    },
    /// A tensor lies outside the data, or its size contradicts its shape.
    #[error(
        "Failed to read tensor {name}: bytes {start}..{end} do not hold shape {shape:?} of {dtype} in {data} bytes of data"
    )]
    Place {
        /// The tensor.
        name: String,
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Its shape.
        shape: Vec<usize>,
        /// Its element type.
        dtype: String,
        /// Bytes of data in the file.
        data: usize,
    },
    /// A tensor is missing or of another type or shape than the model needs.
    #[error("Failed to read tensor {name}: expected {expected}, found {found}")]
    Unexpected {
        /// The tensor.
        name: String,
        /// What the model needs.
        expected: String,
        /// What the file has.
        found: String,
    },
}

/// Element types used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// Signed bytes.
    I8,
    /// 32-bit floats.
    F32,
    /// Unsigned 32-bit integers.
    U32,
}

impl Dtype {
    const fn name(self) -> &'static str {
        match self {
            Self::I8 => "I8",
            Self::F32 => "F32",
            Self::U32 => "U32",
        }
    }

    fn size_of(name: &str) -> Option<usize> {
        match name {
            "I8" | "U8" | "BOOL" => Some(1),
            "F16" | "BF16" | "I16" | "U16" => Some(2),
            "F32" | "I32" | "U32" => Some(4),
            "F64" | "I64" | "U64" => Some(8),
            _ => None,
        }
    }
}

#[derive(Debug, serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// Collects tensors and writes them.
#[derive(Debug, Default)]
pub struct Writer {
    entries: Vec<(String, Dtype, Vec<usize>, Range<usize>)>,
    data: Vec<u8>,
}

impl Writer {
    /// Add a tensor of little-endian `bytes`. Add wide elements first so that they stay aligned.
    pub fn push(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: impl IntoIterator<Item = u8>) {
        let start = self.data.len();
        self.data.extend(bytes);
        self.entries.push((name.to_owned(), dtype, shape.to_vec(), start..self.data.len()));
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        let entries: BTreeMap<&str, serde_json::Value> = self
            .entries
            .iter()
            .map(|(name, dtype, shape, range)| {
                let value = serde_json::json!({
                    "dtype": dtype.name(), "shape": shape, "data_offsets": [range.start, range.end],
                });
                (name.as_str(), value)
            })
            .collect();
        let mut header = serde_json::json!(entries).to_string();
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&self.data);
        file
    }
}

/// A tensor file in memory.
#[derive(Debug)]
pub struct Tensors<'a> {
    entries: BTreeMap<String, Entry>,
    data: &'a [u8],
}

impl<'a> Tensors<'a> {
    /// Check the layout of `file`: every tensor lies inside it and has as many bytes as its shape asks for.
    pub fn parse(file: &'a [u8]) -> Result<Self, FormatError> {
        let truncated = |needed| FormatError::Truncated { length: file.len(), needed };
        let (prefix, rest) = file.split_first_chunk::<8>().ok_or_else(|| truncated(8))?;
        let length = u64::from_le_bytes(*prefix);
        let split = usize::try_from(length)
            .ok()
            .filter(|l| *l <= rest.len())
            .ok_or_else(|| truncated(length.saturating_add(8)))?;
        let (header, data) = rest.split_at(split);
        let wrong = |why: serde_json::Error| FormatError::Header { why: why.to_string() };
        let mut values: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).map_err(wrong)?;
        values.remove("__metadata__");
        let mut entries = BTreeMap::new();
        for (name, value) in values {
            let entry: Entry = serde_json::from_value(value).map_err(wrong)?;
            let [start, end] = entry.data_offsets;
            let count = entry.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
            let size = Dtype::size_of(&entry.dtype).zip(count).and_then(|(size, count)| size.checked_mul(count));
            if end > data.len() || size.is_none() || end.checked_sub(start) != size {
                let Entry { dtype, shape, .. } = entry;
                return Err(FormatError::Place { name, start, end, shape, dtype, data: data.len() });
            }
            entries.insert(name, entry);
        }
        Ok(Self { entries, data })
    }

    /// The bytes of a tensor that must have this type and shape.
    pub fn bytes(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&'a [u8], FormatError> {
        let unexpected = |found: String| FormatError::Unexpected {
            name: name.to_owned(),
            expected: format!("{} {shape:?}", dtype.name()),
            found,
        };
        let entry = self.entries.get(name).ok_or_else(|| unexpected("nothing".to_owned()))?;
        if entry.dtype != dtype.name() || entry.shape != shape {
            return Err(unexpected(format!("{} {:?}", entry.dtype, entry.shape)));
        }
        let [start, end] = entry.data_offsets;
        Ok(&self.data[start..end])
    }

    /// A tensor of floats, all of which must be finite.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, FormatError> {
        let bytes = self.bytes(name, Dtype::F32, shape)?;
        let floats: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        if floats.iter().all(|f| f.is_finite()) {
            Ok(floats)
        } else {
            let (expected, found) = ("finite numbers".to_owned(), "one that is not".to_owned());
            Err(FormatError::Unexpected { name: name.to_owned(), expected, found })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.push("a", Dtype::F32, &[2], [1.0f32, -2.0].iter().flat_map(|f| f.to_le_bytes()));
        writer.push("b", Dtype::I8, &[3, 1], [1, 2, 255]);
        writer.finish()
    }

    #[test]
    fn what_is_written_reads_back() {
        let file = file();
        let tensors = Tensors::parse(&file).unwrap();
        assert_eq!(tensors.floats("a", &[2]).unwrap(), [1.0, -2.0]);
        assert_eq!(tensors.bytes("b", Dtype::I8, &[3, 1]).unwrap(), [1, 2, 255]);
        let error = tensors.bytes("b", Dtype::I8, &[4]).unwrap_err().to_string();
        assert_eq!(error, "Failed to read tensor b: expected I8 [4], found I8 [3, 1]");
    }

    #[test]
    fn damaged_files_are_refused_wherever_they_are_cut_or_changed() {
        let file = file();
        for end in 0..file.len() {
            assert!(Tensors::parse(&file[..end]).is_err(), "cut at {end}");
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 0x15;
            // Damage in the data cannot be seen here (the model's hash sees it), but must never panic.
            if let Ok(tensors) = Tensors::parse(&damaged) {
                let _ = tensors.floats("a", &[2]);
            }
        }
    }
}
