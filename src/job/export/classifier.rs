//! The classifier beside the shards, with its card: who loads the data can apply the same model to new texts.

use super::ExportError;
use crate::classify::linear;
use crate::corpus::Sha256;
use std::path::Path;

/// Tier of the model that travels with every set.
pub(super) const TIER: &str = "linear";

/// The model compiled into the program, file by file.
const FILES: [(&str, &[u8]); 3] = [
    ("classifier/README.md", include_bytes!("../../../exports/classifier/README.md")),
    ("classifier/linear/model.json", include_bytes!("../../../exports/classifier/linear/model.json")),
    ("classifier/linear/model.safetensors", include_bytes!("../../../exports/classifier/linear/model.safetensors")),
];

/// Hash of the tensors.
pub(super) fn hash() -> Sha256 {
    linear::shipped().description().tensors_sha256
}

/// What the model's own card says of its quality.
pub(super) fn figures() -> &'static serde_json::Value {
    &linear::shipped().description().notes
}

/// Write model and card into the set.
pub(super) fn write(set: &Path) -> Result<(), ExportError> {
    for (name, bytes) in FILES {
        let path = set.join(name);
        let folder = path.parent().unwrap_or(set);
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, bytes))
            .map_err(|source| ExportError::Write { path: path.clone(), source })?;
    }
    Ok(())
}
