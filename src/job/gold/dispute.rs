//! Items on which annotators differ.

use super::GoldError;
use crate::store::{Journal, MarkRow, Store};
use crate::taxonomy::{KnowledgeType, LabelOrigin, LabelStatus};
use serde::Serialize;
use std::collections::HashMap;

/// One side of a dispute. Who it is stays out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Side {
    /// The type.
    pub class: KnowledgeType,
    /// Second choice.
    pub second: Option<String>,
    /// What the annotator wrote beside it.
    pub note: String,
}

/// An item on which labels differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dispute {
    /// The item.
    pub item: String,
    /// The labels, in an order that says nothing of who gave them.
    pub sides: Vec<Side>,
    /// The decision, when there is one.
    pub decided: Option<Settled>,
}

/// How a dispute was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// The type.
    pub class: KnowledgeType,
    /// The reason.
    pub why: String,
}

/// Every item on which people differ, by id; those on which only models differ where no person labelled. A decision of
/// a person settles it, one of a model only while no person has labelled the item.
pub async fn disputes(store: &Store) -> Result<Vec<Dispute>, GoldError> {
    let mut decided = HashMap::new();
    for row in store.decisions().await? {
        if let Some(class) = row.class.as_deref().and_then(|word| word.parse().ok()) {
            let by_person = row.origin == LabelOrigin::Person.as_str();
            decided.insert(row.item_id, (by_person, Settled { class, why: row.why }));
        }
    }
    let marks = store.marks(Journal::Labels, None).await?;
    let labels: Vec<&MarkRow> = marks.iter().filter(|mark| mark.mark.status == LabelStatus::Labelled).collect();
    let mut found = Vec::new();
    for of_item in labels.chunk_by(|a, b| a.item == b.item) {
        let people: Vec<&&MarkRow> = of_item.iter().filter(|mark| mark.origin == LabelOrigin::Person).collect();
        let counted = if people.is_empty() { of_item.iter().collect() } else { people.clone() };
        let mut sides: Vec<Side> = counted
            .iter()
            .filter_map(|mark| {
                let class = mark.knowledge_type()?;
                Some(Side { class, second: mark.mark.second.clone(), note: mark.mark.note.clone() })
            })
            .collect();
        if sides.windows(2).all(|pair| pair[0].class == pair[1].class) {
            continue;
        }
        sides.sort_by(|a, b| (a.class, &a.note).cmp(&(b.class, &b.note)));
        let item = of_item[0].item.clone();
        let settled = decided.remove(&item).filter(|(by_person, _)| *by_person || people.is_empty());
        found.push(Dispute { item, sides, decided: settled.map(|(_, settled)| settled) });
    }
    Ok(found)
}
