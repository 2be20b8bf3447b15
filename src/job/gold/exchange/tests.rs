use super::*;
use proptest::prelude::*;

const READING: Reading<'static> =
    Reading { file: "x", annotator: "somebody", origin: LabelOrigin::Person, now: 1_700_000_000_000 };

fn label() -> impl Strategy<Value = LabelRecord> {
    let class = || prop::option::of(prop::sample::select(KnowledgeType::ALL));
    let state =
        (prop::sample::select(LabelStatus::ALL), prop::sample::select(KnowledgeType::ALL), class(), any::<bool>());
    let about = (
        prop::option::of(0..90_000u32),
        prop::sample::select(LabelOrigin::ALL),
        class(),
        prop::sample::select(LabelOrder::ALL),
        prop::option::of(1..2_000i64),
        0..2_000_000_000_000i64,
    );
    let note = "[ -~\u{e9}\u{4e2d}<>\"&]{0,20}";
    (state, note, 1..4i64, about).prop_map(|((status, class, second, flagged), note, rubric, about)| {
        let (millis, origin, preannotated, order, position, at) = about;
        LabelRecord {
            annotator: String::new(),
            pass: 1,
            status,
            class: (status == LabelStatus::Labelled).then_some(class),
            second,
            flagged,
            note,
            rubric,
            seconds: millis.map(|m| f64::from(m) / 1_000.0),
            origin,
            preannotated,
            order,
            position,
            at,
        }
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let text = "[ -~\u{e9}\u{1f980}\n<]{1,60}";
    let class = || prop::option::of(prop::sample::select(KnowledgeType::ALL));
    let labels = prop::collection::vec((0..3usize, 1..3i64, label()), 0..4);
    let decision = prop::option::of((prop::sample::select(KnowledgeType::ALL), "[a-z ]{0,9}"));
    (text, prop::collection::vec("[A-Za-z >]{1,9}", 0..3), labels, decision, class()).prop_map(
        |(text, heading, labels, decision, settled)| {
            let mut seen = std::collections::BTreeMap::new();
            for (who, pass, label) in labels {
                let annotator = ["ann", "b\u{f6}b", "cy@example.org"][who].to_owned();
                let label = LabelRecord { annotator, pass, ..label };
                if !label.mark().is_blank() {
                    seen.entry((label.annotator.clone(), pass)).or_insert(label);
                }
            }
            let decision = decision.map(|(class, why)| DecisionRecord {
                class,
                why,
                by: "cy".to_owned(),
                origin: LabelOrigin::Person,
            });
            let item = ItemRecord {
                repo: Some("o/r".to_owned()),
                path: Some("AGENTS.md".to_owned()),
                line: Some(3),
                heading,
                text: Some(text),
                stratum: Some("unknown Rust".to_owned()),
                ..ItemRecord::default()
            };
            Entry { item, labels: seen.into_values().collect(), decision, settled }
        },
    )
}

/// What comes back when every file of an export is read.
fn again(format: Format, entries: &[Entry]) -> Vec<Entry> {
    let mut placed = Vec::new();
    for file in write(format, entries).unwrap() {
        placed.extend(read(format, &file.text, &READING).unwrap().into_iter().map(|entry| (String::new(), entry)));
    }
    merge(placed, &READING).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_goes_out_comes_back(mut entries in prop::collection::vec(entry(), 0..6)) {
        for (number, entry) in entries.iter_mut().enumerate() {
            entry.item.id = format!("i{number}");
        }
        for (name, format) in Format::ALL {
            prop_assert_eq!(&again(format, &entries), &entries, "{}", name);
        }
    }
}

fn one() -> Entry {
    let item = ItemRecord { id: "i1".to_owned(), text: Some("Never push".to_owned()), ..ItemRecord::default() };
    let label = LabelRecord {
        status: LabelStatus::Labelled,
        class: Some(KnowledgeType::Belief),
        ..LabelRecord::bare("ann", LabelOrigin::Person, 5)
    };
    Entry { item, labels: vec![label], ..Entry::default() }
}

#[test]
fn what_somebody_changed_in_the_other_tool_wins() {
    for (format, from, to) in [
        (Format::LabelStudio, "\"choices\": [\n            \"belief\"", "\"choices\": [\n            \"Constraint\""),
        (Format::Doccano, "\"label\":[\"belief\"]", "\"label\":[\"Constraint\"]"),
        (Format::Prodigy, "\"accept\":[\"belief\"]", "\"accept\":[\"constraint\"]"),
        (Format::Argilla, "\"value\": \"belief\"", "\"value\": \"constraint\""),
    ] {
        let text = write(format, &[one()]).unwrap().remove(0).text;
        let flat: String = text.lines().map(str::trim).collect();
        let from: String = from.lines().map(str::trim).collect();
        assert!(flat.contains(&from), "{flat}");
        let changed = flat.replacen(&from, &to.lines().map(str::trim).collect::<String>(), 1);
        let entries = read(format, &changed, &READING).unwrap();
        assert_eq!(entries[0].labels[0].class, Some(KnowledgeType::Constraint), "{format:?}");
        assert_eq!(entries[0].labels[0].annotator, "ann");
    }
}

#[test]
fn what_the_tools_themselves_export_is_read() {
    let studio = r#"[{"id":7,"data":{"text":"Never push","item_id":"i1"},"annotations":[
        {"id":1,"completed_by":3,"was_cancelled":false,"lead_time":4.2,"created_at":"2026-01-02T03:04:05.000000Z",
         "result":[{"id":"r","from_name":"type","to_name":"text","type":"choices","value":{"choices":["constraint"]}}]},
        {"id":2,"completed_by":{"id":4,"email":"bo@example.org"},"was_cancelled":true,"result":[]}]}]"#;
    let entries = read(Format::LabelStudio, studio, &READING).unwrap();
    let who: Vec<(&str, LabelStatus)> =
        entries[0].labels.iter().map(|label| (label.annotator.as_str(), label.status)).collect();
    assert_eq!(who, [("bo@example.org", LabelStatus::Skipped), ("label-studio-3", LabelStatus::Labelled)]);
    let label = &entries[0].labels[1];
    assert_eq!((label.seconds, label.at), (Some(4.2), 1_767_323_045_000));
    let doccano = "{\"id\":1,\"text\":\"x\",\"label\":[\"belief\"],\"Comments\":[],\"item_id\":\"i1\"}\n";
    assert_eq!(read(Format::Doccano, doccano, &READING).unwrap()[0].labels[0].annotator, "somebody");
    let prodigy = "{\"text\":\"x\",\"accept\":[],\"answer\":\"ignore\",\"_session_id\":\"d-ann\",\"item_id\":\"i1\"}\n";
    let skipped = &read(Format::Prodigy, prodigy, &READING).unwrap()[0].labels[0];
    assert_eq!((skipped.annotator.as_str(), skipped.status), ("d-ann", LabelStatus::Skipped));
}

#[test]
fn a_wrong_file_names_the_place() {
    for (format, text, part) in [
        (Format::Jsonl, "\n{\"id\":\"a\",\"label\":\"fact\"}", "line 2: \"fact\" is no type"),
        (Format::Doccano, "{\"text\":\"x\",\"label\":[\"belief\",\"meta\"],\"item_id\":\"a\"}", "2 labels"),
        (Format::Doccano, "{\"text\":\"x\",\"label\":[\"belief\"]}", "names no item"),
        (Format::Prodigy, "{\"text\":\"x\",\"answer\":\"reject\",\"item_id\":\"a\"}", "reject"),
        (Format::LabelStudio, "{}", "line 1"),
        (
            Format::Argilla,
            r#"[{"id":"a","responses":{"type":[{"value":"meta","user_id":"u"},{"value":"belief","user_id":"u"}]}}]"#,
            "record 1: u answers \"type\" twice",
        ),
        (
            Format::Prodigy,
            "{\"accept\":[\"meta\"],\"answer\":\"accept\",\"item_id\":\"a\"}\n{\"accept\":[\"meta\"],\"answer\":\"accept\",\"item_id\":\"a\"}",
            "line 2: somebody has two labels for a",
        ),
    ] {
        let error = read(format, text, &READING).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn counts_by_status_are_there_when_nothing_was_labelled() {
    let bare = Entry { labels: Vec::new(), ..one() };
    let counts = status_counts(&[bare.clone(), bare]);
    assert_eq!(counts[""], StatusCounts { open: 2, ..StatusCounts::default() });
    let counts = status_counts(&[one()]);
    assert_eq!(counts["ann"].labelled, 1);
}
