//! What the model that ships with the program says of gold items: for an order by uncertainty, and for suggestions.

use super::GoldError;
use super::view::view;
use crate::classify::linear::shipped;
use crate::classify::{Classifier as _, Policy};
use crate::corpus::ItemContext;
use crate::store::{GoldItemRow, Store};
use crate::taxonomy::{KnowledgeType, OperatingPoint};
use std::collections::HashMap;

/// The type of an item and how unsure the model is: one minus the probability of the likeliest type.
pub type Guess = (KnowledgeType, f32);

/// A guess on every item that has a text.
pub async fn guesses(store: &Store, items: &[GoldItemRow]) -> Result<HashMap<String, Guess>, GoldError> {
    let policy = Policy::at(OperatingPoint::Balanced);
    let mut found = HashMap::with_capacity(items.len());
    for item in items {
        let Some(seen) = view(store, item).await? else { continue };
        let heading: Vec<&str> = seen.heading.iter().map(String::as_str).collect();
        let decision = shipped().decide_unexplained(
            &ItemContext {
                text: &seen.text,
                kind: item.kind.parse().ok(),
                heading: &heading,
                path: &item.path,
                before: seen.before.last().map(|n| n.text.as_str()),
                after: seen.after.first().map(|n| n.text.as_str()),
            },
            &policy,
        );
        let surest = decision.probs.as_array().iter().copied().fold(0.0f32, f32::max);
        found.insert(item.id.clone(), (decision.item_type, 1.0 - surest));
    }
    Ok(found)
}
