//! The numbers of a BERT, read from and written to `model.safetensors`.

use super::EncoderError;
use super::config::BertConfig;
use super::quantised::{GROUP, dequantise, quantise};
use safetensors::tensor::{Dtype, SafeTensors, View};
use std::borrow::Cow;

/// A product with a matrix of `rows × columns` (outputs × inputs) and a shift.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Linear {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl Linear {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, weight: vec![0.0; rows * columns], bias: vec![0.0; rows] }
    }
}

/// Scale and shift after normalising.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

/// One layer: attention, then two products, each with a residual and a norm.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    /// Queries, keys and values in one product.
    pub(crate) qkv: Linear,
    pub(crate) attention: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) norm: Norm,
}

impl Layer {
    /// A layer of zeros: where gradients and moments are gathered.
    pub(crate) fn zeros(config: &BertConfig) -> Self {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let norm = || Norm { gain: vec![0.0; width], shift: vec![0.0; width] };
        Self {
            qkv: Linear::zeros(3 * width, width),
            attention: Linear::zeros(width, width),
            attention_norm: norm(),
            up: Linear::zeros(inner, width),
            down: Linear::zeros(width, inner),
            norm: norm(),
        }
    }

    /// Every parameter, in a fixed order; matrices first of each pair.
    pub(crate) fn parameters(&self) -> [&[f32]; 12] {
        [
            &self.qkv.weight,
            &self.qkv.bias,
            &self.attention.weight,
            &self.attention.bias,
            &self.attention_norm.gain,
            &self.attention_norm.shift,
            &self.up.weight,
            &self.up.bias,
            &self.down.weight,
            &self.down.bias,
            &self.norm.gain,
            &self.norm.shift,
        ]
    }

    /// The same to change.
    pub(crate) fn parameters_mut(&mut self) -> [&mut [f32]; 12] {
        [
            &mut self.qkv.weight,
            &mut self.qkv.bias,
            &mut self.attention.weight,
            &mut self.attention.bias,
            &mut self.attention_norm.gain,
            &mut self.attention_norm.shift,
            &mut self.up.weight,
            &mut self.up.bias,
            &mut self.down.weight,
            &mut self.down.bias,
            &mut self.norm.gain,
            &mut self.norm.shift,
        ]
    }
}

/// All weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights {
    pub(crate) words: Vec<f32>,
    pub(crate) positions: Vec<f32>,
    pub(crate) types: Vec<f32>,
    pub(crate) norm: Norm,
    pub(crate) layers: Vec<Layer>,
}

/// Reads tensors by name, full or quantised, and checks shape and finiteness.
pub(crate) struct Reader<'a> {
    file: SafeTensors<'a>,
    prefix: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, EncoderError> {
        let file = SafeTensors::deserialize(bytes).map_err(EncoderError::Tensors)?;
        // Files of whole models name the encoder, files of the encoder alone do not.
        let prefix = if file.names().iter().any(|name| name.starts_with("bert.")) { "bert." } else { "" };
        Ok(Self { file, prefix })
    }

    /// The values of a tensor of this shape.
    pub(crate) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EncoderError> {
        let name = format!("{}{name}", self.prefix);
        let wrong = |found: String| EncoderError::Tensor { name: name.clone(), expected: format!("{shape:?}"), found };
        let values = if let Ok(tensor) = self.file.tensor(&name) {
            if tensor.shape() != shape {
                return Err(wrong(format!("{:?}", tensor.shape())));
            }
            floats(tensor.dtype(), tensor.data()).ok_or_else(|| wrong(format!("{:?}", tensor.dtype())))?
        } else {
            let missing = |_| wrong("nothing".to_owned());
            let bytes = self.file.tensor(&format!("{name}.q8")).map_err(missing)?;
            let scales = self.file.tensor(&format!("{name}.scales")).map_err(missing)?;
            let columns = shape.last().copied().unwrap_or(0);
            let mut grouped = shape.to_vec();
            if let Some(last) = grouped.last_mut() {
                *last /= GROUP;
            }
            let fits = bytes.dtype() == Dtype::I8 && bytes.shape() == shape && columns.is_multiple_of(GROUP);
            if !fits || scales.shape() != grouped {
                return Err(wrong(format!("{:?} with scales {:?}", bytes.shape(), scales.shape())));
            }
            let scales = floats(scales.dtype(), scales.data()).ok_or_else(|| wrong(format!("{:?}", scales.dtype())))?;
            let bytes: Vec<i8> = bytes.data().iter().map(|b| *b as i8).collect();
            dequantise(&bytes, &scales)
        };
        if values.iter().all(|v| v.is_finite()) { Ok(values) } else { Err(wrong("a number that is not finite".into())) }
    }

    /// A product of this name within the encoder.
    pub(crate) fn linear(&self, name: &str, rows: usize, columns: usize) -> Result<Linear, EncoderError> {
        let weight = self.values(&format!("{name}.weight"), &[rows, columns])?;
        Ok(Linear { rows, columns, weight, bias: self.values(&format!("{name}.bias"), &[rows])? })
    }

    /// A product that stands beside the encoder in the file of a whole model.
    pub(crate) fn head(self, name: &str, rows: usize, columns: usize) -> Result<Linear, EncoderError> {
        Self { prefix: "", ..self }.linear(name, rows, columns)
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm, EncoderError> {
        let part = |part: &str| self.values(&format!("{name}.LayerNorm.{part}"), &[width]);
        Ok(Norm { gain: part("weight")?, shift: part("bias")? })
    }

    fn layer(&self, index: usize, config: &BertConfig) -> Result<Layer, EncoderError> {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        let mut qkv = Linear { rows: 3 * width, columns: width, weight: Vec::new(), bias: Vec::new() };
        for part in PROJECTIONS {
            let one = self.linear(&name(&format!("attention.self.{part}")), width, width)?;
            qkv.weight.extend(one.weight);
            qkv.bias.extend(one.bias);
        }
        Ok(Layer {
            qkv,
            attention: self.linear(&name("attention.output.dense"), width, width)?,
            attention_norm: self.norm(&name("attention.output"), width)?,
            up: self.linear(&name("intermediate.dense"), inner, width)?,
            down: self.linear(&name("output.dense"), width, inner)?,
            norm: self.norm(&name("output"), width)?,
        })
    }

    pub(crate) fn weights(&self, config: &BertConfig) -> Result<Weights, EncoderError> {
        let width = config.hidden_size;
        let table =
            |part: &str, rows: usize| self.values(&format!("embeddings.{part}_embeddings.weight"), &[rows, width]);
        Ok(Weights {
            words: table("word", config.vocab_size)?,
            positions: table("position", config.max_position_embeddings)?,
            types: table("token_type", config.type_vocab_size)?,
            norm: self.norm("embeddings", width)?,
            layers: (0..config.num_hidden_layers).map(|i| self.layer(i, config)).collect::<Result<_, _>>()?,
        })
    }
}

const PROJECTIONS: [&str; 3] = ["query", "key", "value"];

fn floats(dtype: Dtype, data: &[u8]) -> Option<Vec<f32>> {
    match dtype {
        Dtype::F32 => Some(data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()),
        Dtype::BF16 => {
            let wide = |b: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            Some(data.as_chunks::<2>().0.iter().map(wide).collect())
        }
        Dtype::F16 => Some(data.as_chunks::<2>().0.iter().map(|b| half(u16::from_le_bytes(*b))).collect()),
        _ => None,
    }
}

/// An IEEE half as a single.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = ((bits >> 10) & 0x1f, f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * (-24f32).exp2(),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1.0 + fraction / 1024.0) * (f32::from(e) - 15.0).exp2(),
    };
    if bits & 0x8000 != 0 { -magnitude } else { magnitude }
}

/// Collects tensors for a file.
#[derive(Debug, Default)]
pub(crate) struct Collected(Vec<(String, Part)>);

#[derive(Debug)]
struct Part {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

impl View for &Part {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }
    fn data_len(&self) -> usize {
        self.data.len()
    }
}

impl Collected {
    /// Add a tensor in full.
    pub(crate) fn push(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let data = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.0.push((name.to_owned(), Part { dtype: Dtype::F32, shape: shape.to_vec(), data }));
    }

    /// Add a matrix as bytes with scales, where its rows come in whole groups.
    fn push_small(&mut self, name: &str, rows: usize, columns: usize, values: &[f32]) {
        if !columns.is_multiple_of(GROUP) {
            return self.push(name, &[rows, columns], values);
        }
        let (bytes, scales) = quantise(values);
        let data = bytes.iter().map(|b| *b as u8).collect();
        self.0.push((format!("{name}.q8"), Part { dtype: Dtype::I8, shape: vec![rows, columns], data }));
        self.push(&format!("{name}.scales"), &[rows, columns / GROUP], &scales);
    }

    /// The file. The same tensors give the same bytes.
    pub(crate) fn file(&self) -> Result<Vec<u8>, EncoderError> {
        safetensors::serialize(self.0.iter().map(|(name, part)| (name, part)), None).map_err(EncoderError::Tensors)
    }

    /// Add all weights, under the names that other programs know; matrices as bytes when `small`.
    pub(crate) fn push_weights(&mut self, weights: &Weights, config: &BertConfig, small: bool) {
        let width = config.hidden_size;
        let mut matrix = |name: &str, rows: usize, columns: usize, values: &[f32]| {
            if small { self.push_small(name, rows, columns, values) } else { self.push(name, &[rows, columns], values) }
        };
        let tables = [("word", &weights.words), ("position", &weights.positions), ("token_type", &weights.types)];
        for (part, values) in tables {
            matrix(&format!("embeddings.{part}_embeddings.weight"), values.len() / width, width, values);
        }
        for (i, layer) in weights.layers.iter().enumerate() {
            for (at, part) in PROJECTIONS.iter().enumerate() {
                let rows = &layer.qkv.weight[at * width * width..(at + 1) * width * width];
                matrix(&format!("encoder.layer.{i}.attention.self.{part}.weight"), width, width, rows);
            }
            let linears =
                [("attention.output", &layer.attention), ("intermediate", &layer.up), ("output", &layer.down)];
            for (part, linear) in linears {
                let name = format!("encoder.layer.{i}.{part}.dense.weight");
                matrix(&name, linear.rows, linear.columns, &linear.weight);
            }
        }
        let mut norm = |name: &str, norm: &Norm| {
            self.push(&format!("{name}.LayerNorm.weight"), &[width], &norm.gain);
            self.push(&format!("{name}.LayerNorm.bias"), &[width], &norm.shift);
        };
        norm("embeddings", &weights.norm);
        for (i, layer) in weights.layers.iter().enumerate() {
            norm(&format!("encoder.layer.{i}.attention.output"), &layer.attention_norm);
            norm(&format!("encoder.layer.{i}.output"), &layer.norm);
        }
        for (i, layer) in weights.layers.iter().enumerate() {
            for (at, part) in PROJECTIONS.iter().enumerate() {
                let shift = &layer.qkv.bias[at * width..(at + 1) * width];
                self.push(&format!("encoder.layer.{i}.attention.self.{part}.bias"), &[width], shift);
            }
            let linears =
                [("attention.output", &layer.attention), ("intermediate", &layer.up), ("output", &layer.down)];
            for (part, linear) in linears {
                self.push(&format!("encoder.layer.{i}.{part}.dense.bias"), &[linear.rows], &linear.bias);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_read_as_what_they_are() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8), (0x7bff, 65_504.0)]
        {
            assert_eq!(half(bits), value);
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f32::NEG_INFINITY);
        assert_eq!(floats(Dtype::BF16, &[0x80, 0x3f]), Some(vec![1.0]));
        assert_eq!(floats(Dtype::I64, &[0; 8]), None);
    }
}
