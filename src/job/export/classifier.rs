//! The classifier beside the shards, with its card: who loads the data can apply the same model to new texts.

use super::ExportError;
use crate::job::model::{DESCRIPTION, FoundModel, LINEAR, ModelName, TENSORS, TOKENIZER};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Its card, beside the folder of its tier.
const CARD: &str = "README.md";

/// The model compiled into the program, file by file.
const COMPILED_IN: [(&str, &[u8]); 3] = [
    (CARD, include_bytes!("../../../exports/classifier/README.md")),
    (DESCRIPTION, include_bytes!("../../../exports/classifier/linear/model.json")),
    (TENSORS, include_bytes!("../../../exports/classifier/linear/model.safetensors")),
];

/// Write model and card into the set. Returns whether the model has a card.
pub(super) fn write(set: &Path, model: &FoundModel) -> Result<bool, ExportError> {
    let folder = set.join("classifier");
    let tier = folder.join(ModelName::of(model.model.as_ref()).tier);
    fs::create_dir_all(&tier).map_err(|source| ExportError::Write { path: tier.clone(), source })?;
    let mut has_card = false;
    for (name, compiled_in) in COMPILED_IN {
        let bytes = match &model.dir {
            None => Cow::Borrowed(compiled_in),
            Some(dir) => match fs::read(dir.join(name)) {
                Ok(bytes) => Cow::Owned(bytes),
                Err(error) if name == CARD && error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(ExportError::Model { path: dir.join(name), source }),
            },
        };
        has_card |= name == CARD;
        let path = if name == CARD { folder.join(name) } else { tier.join(name) };
        fs::write(&path, bytes).map_err(|source| ExportError::Write { path: path.clone(), source })?;
    }
    if let Some(dir) = &model.dir {
        // What only some tiers have.
        for name in [TOKENIZER.into(), Path::new(LINEAR).join(DESCRIPTION), Path::new(LINEAR).join(TENSORS)] {
            let (from, to) = (dir.join(&name), tier.join(&name));
            let bytes = match fs::read(&from) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(ExportError::Model { path: from, source }),
            };
            let put = || fs::create_dir_all(to.parent().unwrap_or(&tier)).and_then(|()| fs::write(&to, bytes));
            put().map_err(|source| ExportError::Write { path: to.clone(), source })?;
        }
    }
    Ok(has_card)
}
