//! The gold set from drawing to agreement, without a browser.

use aac::annotate::{self, AnnotateOptions};
use aac::corpus::{GitOid, Platform};
use aac::job::gold::agree::agreement;
use aac::job::gold::dispute::disputes;
use aac::job::gold::exchange::{Format, entries, status_counts, write};
use aac::job::gold::import::{ImportOptions, SHIPPED, find_texts, import, import_shipped};
use aac::job::gold::sample::sample;
use aac::job::gold::view::view;
use aac::job::gold::{Draw, GoldError};
use aac::job::{dedup, segment};
use aac::monitor::Silent;
use aac::store::{ArtifactRow, Codec, Journal, Mark, NewDecision, NewMark, Put, RepoFacts, RepoRow, Store};
use aac::taxonomy::{FileMode, LabelOrder, LabelOrigin, LabelStatus, Outcome, RepoSource};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Words that make texts differ, so that none is a near-duplicate of another.
const WORDS: [&str; 12] = [
    "harbour", "violin", "granite", "meadow", "lantern", "copper", "thistle", "saddle", "orbit", "quartz", "willow",
    "ember",
];

fn sentence(seed: usize) -> String {
    let word = |n: usize| WORDS[(seed * 7 + n * n * 5 + seed / 3 * n) % WORDS.len()];
    format!("The {} of module {seed} keeps {} and {} beside {}", word(1), word(2), word(3), word(4))
}

/// An agent file whose items nobody else has.
fn guide(seed: usize, items: usize) -> String {
    let mut text = format!("# Guide {seed}\n\n## Rules <b>{seed}</b>\n\n");
    for n in 0..items {
        match n % 3 {
            0 => text += &format!("- Never touch ledger {seed}-{n}. {}\n", sentence(seed * 31 + n)),
            1 => text += &format!("- Run `make step-{seed}-{n}`. {}\n", sentence(seed * 37 + n)),
            _ => text += &format!("- {} <img src=x onerror=\"document.title='hit'\">\n", sentence(seed * 41 + n)),
        }
    }
    text
}

/// A corpus of `repos` repositories with one file each, read and clustered.
pub(crate) async fn corpus(path: &Path, repos: usize, items: usize, backwards: bool) -> Store {
    let store = Store::create(path).await.unwrap();
    let run = store.begin_run("ingest", &json!({}), 1).await.unwrap();
    let mut order: Vec<usize> = (0..repos).collect();
    if backwards {
        order.reverse();
    }
    for n in order {
        let facts = RepoFacts {
            stars: (n % 3 != 0).then_some((n * n) as i64 * 7),
            language: (n % 4 != 0).then(|| ["Rust", "Go", "Python"][n % 3].to_owned()),
            license_api: Some("MIT".to_owned()),
            ..RepoFacts::default()
        };
        let slug = format!("owner{n}/repo{n}").parse().unwrap();
        let repo = RepoRow { node_id: None, slug, source: RepoSource::Local, facts, facts_at: Some(1) };
        let repo = store.put_repos(run, &[repo]).await.unwrap()[0];
        let blob = Codec::plain().packer().encode(guide(n, items).as_bytes()).unwrap();
        let blob = store.put_blobs(run, &[blob]).await.unwrap()[0];
        let artifact = ArtifactRow {
            repo,
            path: "AGENTS.md".to_owned(),
            platform: Platform("universal".to_owned()),
            target: "universal/context".to_owned(),
            mode: FileMode::File,
            resolves_to: None,
            blob,
            commit: Some(GitOid::of_blob(b"commit")),
        };
        store.put_artifacts(run, &[artifact]).await.unwrap();
    }
    store.end_run(run, Outcome::Done, &json!({}), 1).await.unwrap();
    segment::segment(&store, &Silent::default()).await.unwrap();
    dedup::dedup(&store, &Silent::default()).await.unwrap();
    store
}

pub(crate) async fn drawn(path: &Path, items: usize) -> Store {
    let store = corpus(path, 6, 12, false).await;
    sample(&store, Draw { items, repos: 6, seed: 1 }, false, &Silent::default()).await.unwrap();
    store
}

pub(crate) fn client() -> reqwest::Client {
    // An error means that another test of this process was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn mark(item: &str, annotator: &str, class: Option<&str>, action: &str) -> NewMark {
    let status = if class.is_some() { LabelStatus::Labelled } else { LabelStatus::Skipped };
    NewMark {
        item: item.to_owned(),
        annotator: annotator.to_owned(),
        pass: 1,
        mark: Mark { status, class: class.map(str::to_owned), ..Mark::open() },
        rubric: 1,
        seconds: Some(2.5),
        origin: LabelOrigin::Person,
        preannotated: None,
        ordering: LabelOrder::Shuffled,
        position: Some(1),
        action: Some(action.to_owned()),
        at: 7,
    }
}

async fn put(store: &Store, item: &str, annotator: &str, class: Option<&str>, action: &str) -> i64 {
    match store.put_mark(Journal::Labels, &mark(item, annotator, class, action), None).await.unwrap() {
        Put::Written(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn ids(store: &Store) -> Vec<String> {
    store.gold_items().await.unwrap().into_iter().map(|item| item.id).collect()
}

#[tokio::test]
async fn the_same_seed_over_the_same_corpus_draws_the_same_items() {
    let dir = tempfile::tempdir().unwrap();
    let one = corpus(&dir.path().join("a.db"), 20, 9, false).await;
    let two = corpus(&dir.path().join("b.db"), 20, 9, true).await;
    let wanted = Draw { items: 40, repos: 8, seed: 3 };
    let first = sample(&one, wanted, false, &Silent::default()).await.unwrap();
    let second = sample(&two, wanted, false, &Silent::default()).await.unwrap();
    assert_eq!((first.items, first.repos, first.new), (40, 8, 40));
    assert_eq!((&first.strata, ids(&one).await), (&second.strata, ids(&two).await));
    assert!(sample(&one, wanted, false, &Silent::default()).await.unwrap().repeated);
    for item in one.gold_items().await.unwrap() {
        let seen = view(&one, &item).await.unwrap().unwrap();
        assert_eq!(seen.heading.len(), 2);
        assert!(!seen.text.is_empty());
        assert!(!seen.before.is_empty() || !seen.after.is_empty());
    }
    // Another seed replaces what nobody has labelled, and never what somebody has.
    let other = Draw { seed: 4, ..wanted };
    assert_eq!(sample(&one, other, false, &Silent::default()).await.unwrap().items, 40);
    let drawn = ids(&one).await;
    assert_eq!(drawn.len(), 40);
    put(&one, &drawn[0], "ann", Some("belief"), "action-01").await;
    let refused = sample(&one, wanted, false, &Silent::default()).await.unwrap_err();
    assert!(matches!(refused, GoldError::Labelled { labels: 1 }), "{refused}");
    sample(&one, wanted, true, &Silent::default()).await.unwrap();
    assert!(ids(&one).await.contains(&drawn[0]));
    assert_eq!(one.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn the_journal_takes_back_to_any_depth_over_restarts_and_loses_nothing_to_a_second_tab() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let store = drawn(&path, 6).await;
    let item = ids(&store).await.remove(0);
    let labels = Journal::Labels;
    let class = |row: Option<aac::store::MarkRow>| row.and_then(|row| row.mark.class);
    let first = put(&store, &item, "ann", Some("belief"), "action-01").await;
    let second = put(&store, &item, "ann", Some("meta"), "action-02").await;
    put(&store, &item, "ann", None, "action-03").await;
    // The same act again is the same act; a tab that saw an older state is told, and writes nothing.
    assert_eq!(put(&store, &item, "ann", Some("meta"), "action-02").await, second);
    let late = store.put_mark(labels, &mark(&item, "ann", Some("belief"), "action-04"), Some(first)).await.unwrap();
    let Put::Outdated(Some(standing)) = late else { panic!("{late:?}") };
    assert_eq!(standing.mark.status, LabelStatus::Skipped);
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    let back = |action: &'static str| store.undo_mark(labels, "ann", 1, action, 9);
    assert_eq!(class(back("undo-0001").await.unwrap()).as_deref(), Some("meta"));
    assert_eq!(class(back("undo-0001").await.unwrap()).as_deref(), Some("meta"), "sent twice, done once");
    assert_eq!(class(back("undo-0002").await.unwrap()).as_deref(), Some("belief"));
    let open = back("undo-0003").await.unwrap().unwrap();
    assert!(open.mark.is_blank());
    assert!(back("undo-0004").await.unwrap().is_none());
    // A new act after undoing can be taken back, too.
    put(&store, &item, "ann", Some("episodic"), "action-05").await;
    assert!(back("undo-0005").await.unwrap().unwrap().mark.is_blank());
    assert!(back("undo-0006").await.unwrap().is_none());
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn every_form_brings_everything_into_another_corpus() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 8).await;
    let items = ids(&store).await;
    for (n, item) in items.iter().enumerate() {
        let types = ["constraint", "belief", "meta"];
        let class = (n % 4 != 3).then_some(types[n % 3]);
        put(&store, item, "ann", class, &format!("ann-00{n:02}")).await;
    }
    let mut noted = mark(&items[0], "bob", Some("belief"), "bob-0001");
    noted.mark.note = "a \"note\"\nof two lines".to_owned();
    noted.mark.flagged = true;
    noted.mark.second = Some("constraint".to_owned());
    noted.preannotated = Some("meta".to_owned());
    store.put_mark(Journal::Labels, &noted, None).await.unwrap();
    let decision = NewDecision {
        item: items[0].clone(),
        class: Some("constraint".to_owned()),
        why: "question 1".to_owned(),
        by: "cy".to_owned(),
        origin: LabelOrigin::Person,
        rubric: 1,
        action: None,
        at: 1,
    };
    store.put_decision(&decision).await.unwrap();
    let before = entries(&store, None).await.unwrap();
    let status = status_counts(&before);
    assert_eq!((status["ann"].labelled, status["ann"].skipped, status["bob"].open), (6, 2, 7));
    for (name, format) in Format::ALL {
        let other = Store::create(&dir.path().join(format!("{name}.db"))).await.unwrap();
        let options = ImportOptions { format, annotator: None, pass: None, origin: LabelOrigin::Person };
        let files = write(format, &before).unwrap();
        for file in &files {
            import(&other, "labels.x", &file.text, &options, &Silent::default()).await.unwrap();
        }
        assert_eq!(entries(&other, None).await.unwrap(), before, "{name}");
        // The order is that of the ids, and a second import of the same annotators is refused as a whole.
        assert_eq!(write(format, &entries(&other, None).await.unwrap()).unwrap(), files, "{name}");
        let again = import(&other, "labels.x", &files[0].text, &options, &Silent::default()).await.unwrap_err();
        assert!(matches!(&again, GoldError::Twice { annotator, .. } if annotator == "ann"), "{name}: {again}");
        let pass = ImportOptions { pass: Some(2), ..options };
        import(&other, "labels.x", &files[0].text, &pass, &Silent::default()).await.unwrap();
    }
}

#[tokio::test]
async fn items_that_came_before_their_texts_find_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 8).await;
    let mut bare = entries(&store, None).await.unwrap();
    for entry in &mut bare {
        entry.item.text = None;
        entry.item.heading.clear();
    }
    let path = dir.path().join("b.db");
    let other = Store::create(&path).await.unwrap();
    let options = ImportOptions { format: Format::Jsonl, annotator: None, pass: None, origin: LabelOrigin::Person };
    let file = write(Format::Jsonl, &bare).unwrap().remove(0).text;
    let taken = import(&other, "l.jsonl", &file, &options, &Silent::default()).await.unwrap();
    assert_eq!((taken.new_items, taken.without_text), (8, 8));
    assert_eq!(find_texts(&other).await.unwrap(), 0);
    other.close().await;
    let other = corpus(&path, 6, 12, true).await;
    assert_eq!(find_texts(&other).await.unwrap(), 8);
    assert_eq!(entries(&other, None).await.unwrap(), entries(&store, None).await.unwrap());
}

#[tokio::test]
async fn disputes_are_settled_by_people_and_agreement_follows() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 6).await;
    let items = ids(&store).await;
    for (n, item) in items.iter().enumerate() {
        put(&store, item, "ann", Some(if n % 2 == 0 { "constraint" } else { "belief" }), &format!("ann-00{n:02}"))
            .await;
        put(&store, item, "bob", Some(if n % 3 == 0 { "constraint" } else { "belief" }), &format!("bob-00{n:02}"))
            .await;
    }
    let found = disputes(&store).await.unwrap();
    assert_eq!(found.len(), 3);
    let settled: Vec<bool> = store.gold_items().await.unwrap().iter().map(|item| item.final_type.is_some()).collect();
    assert_eq!(settled.iter().filter(|s| **s).count(), 3, "what both say is settled");
    let decision = NewDecision {
        item: found[0].item.clone(),
        class: Some("procedural".to_owned()),
        why: "question 2".to_owned(),
        by: "cy".to_owned(),
        origin: LabelOrigin::Person,
        rubric: 1,
        action: Some("decide-01".to_owned()),
        at: 1,
    };
    let id = store.put_decision(&decision).await.unwrap();
    assert_eq!(store.put_decision(&decision).await.unwrap(), id);
    let left = disputes(&store).await.unwrap();
    assert_eq!(left.iter().filter(|dispute| dispute.decided.is_none()).count(), 2);
    let item = store.gold_item(&found[0].item).await.unwrap().unwrap();
    assert_eq!((item.final_type.as_deref(), item.final_by.as_deref()), (Some("procedural"), Some("cy")));
    let figures = agreement(&store).await.unwrap();
    let pair = &figures.pairs[0];
    assert_eq!((pair.first.as_str(), pair.second.as_str(), pair.items), ("ann", "bob", 6));
    // ann: C B C B C B; bob: C B B C B B. Both agree on 3 of 6; chance is 1/2 · 1/3 + 1/2 · 2/3 = 1/2.
    assert_eq!(pair.views[0].observed.value, Some(0.5));
    assert!(pair.views[0].kappa.as_ref().unwrap().value.unwrap().abs() < 1e-12);
    let text = serde_json::to_string(&figures).unwrap();
    assert!(!text.contains("NaN") && !text.contains("null"), "{text}");
}

#[tokio::test]
async fn one_label_only_is_undefined_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 3).await;
    for (n, item) in ids(&store).await.iter().enumerate() {
        put(&store, item, "ann", Some("belief"), &format!("ann-00{n:02}")).await;
        put(&store, item, "bob", Some("belief"), &format!("bob-00{n:02}")).await;
    }
    let figures = agreement(&store).await.unwrap();
    let kappa = figures.pairs[0].views[0].kappa.as_ref().unwrap();
    assert_eq!(kappa.undefined.as_deref(), Some("undefined: one label only; 100 % agreement"));
}

#[tokio::test]
async fn shipped_labels_stand_beside_those_of_people() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(&dir.path().join("a.db")).await.unwrap();
    let taken = import_shipped(&store, &Silent::default()).await.unwrap();
    assert_eq!((taken.items, taken.labels, taken.decisions), (2_000, 4_000, 2_000));
    // No corpus, no texts: nothing of it is shown to annotators.
    assert_eq!(taken.without_text, 2_000);
    assert!(import_shipped(&store, &Silent::default()).await.is_err());
    let item = ids(&store).await.remove(0);
    let ann = format!("{{\"id\":\"{item}\",\"label\":\"P\"}}\n");
    let options = ImportOptions { format: Format::Jsonl, annotator: None, pass: None, origin: LabelOrigin::Person };
    import(&store, "team/ann.jsonl", &ann, &options, &Silent::default()).await.unwrap();
    let figures = agreement(&store).await.unwrap();
    let names: Vec<&str> = figures.annotators.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["ann", "shipped-a", "shipped-b", "shipped (settled)"]);
    let own = figures.pairs.iter().find(|pair| pair.second == format!("{SHIPPED} (settled)")).unwrap();
    assert_eq!((own.first.as_str(), own.items), ("ann", 1));
    let both = figures.pairs.iter().find(|p| p.first == "shipped-a" && p.second == "shipped-b").unwrap();
    let kappa = both.views[1].kappa.as_ref().unwrap().value.unwrap();
    assert!((0.9..1.0).contains(&kappa), "{kappa}");
}

#[tokio::test]
async fn pages_answer_only_themselves_and_only_about_oneself() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 5).await;
    let running = annotate::serve(store.clone(), AnnotateOptions::default()).await.unwrap();
    let base = running.url().to_owned();
    let client = client();
    let origin = base.rsplitn(3, '/').nth(2).unwrap().to_owned();
    let get = |path: String| {
        let client = client.clone();
        async move { client.get(path).send().await.unwrap() }
    };
    let page = get(format!("{base}label")).await;
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(get(format!("{origin}/")).await.status(), 404);
    let rebound = client.get(format!("{base}label")).header("host", "evil.example").send().await.unwrap();
    assert_eq!(rebound.status(), 421);

    let text = get(format!("{base}api/queue?task=label&as=ann")).await.text().await.unwrap();
    let queue: Value = serde_json::from_str(&text).unwrap();
    let id = queue["queue"][0]["id"].as_str().unwrap().to_owned();
    let body = json!({
        "task": "label", "as": "ann", "id": id, "expected": 0, "action": "action-0001",
        "mark": { "status": "labelled", "class": "belief", "flagged": false, "note": "mine" }, "seconds": 1.0,
    });
    let send = |origin: Option<&str>, body: Value| {
        let mut request = client.post(format!("{base}api/mark")).header("content-type", "application/json");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.body(body.to_string()).send()
    };
    assert_eq!(send(None, body.clone()).await.unwrap().status(), 403);
    assert_eq!(send(Some("http://evil.example"), body.clone()).await.unwrap().status(), 403);
    assert!(store.marks(Journal::Labels, None).await.unwrap().is_empty());
    // Two tabs send at once: one is written, the other is told what stands.
    let mut other = body.clone();
    other["action"] = json!("action-0002");
    other["mark"]["class"] = json!("meta");
    let (one, two) = tokio::join!(send(Some(&origin), body.clone()), send(Some(&origin), other));
    let mut codes = [one.unwrap().status().as_u16(), two.unwrap().status().as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
    assert_eq!(store.marks(Journal::Labels, None).await.unwrap().len(), 1);
    for wrong in [
        json!({ "mark": { "status": "labelled", "class": "nonsense" } }),
        json!({ "mark": { "status": "labelled", "class": null } }),
        json!({ "id": "nothing" }),
        json!({ "as": "" }),
        json!({ "as": "x".repeat(99) }),
        json!({ "action": "short" }),
    ] {
        let mut bad = body.clone();
        for (key, value) in wrong.as_object().unwrap() {
            bad[key] = value.clone();
        }
        let status = send(Some(&origin), bad).await.unwrap().status();
        assert!(status.is_client_error(), "{wrong}: {status}");
    }
    // Somebody else sees nothing of it, in another order, and no tag or prediction.
    let theirs = get(format!("{base}api/queue?task=label&as=bob")).await.text().await.unwrap();
    let seen = get(format!("{base}api/item?task=label&as=bob&id={id}")).await.text().await.unwrap();
    assert!(!theirs.contains("labelled") && !seen.contains("mine") && !seen.contains("ann"), "{seen}");
    let item: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!((&item["suggestion"], &item["standing"]["last"]), (&Value::Null, &json!(0)));
    let order = |text: &str| {
        let queue: Value = serde_json::from_str(text).unwrap();
        let ids: Vec<String> =
            queue["queue"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect();
        ids
    };
    assert_ne!(order(&text), order(&theirs));
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (order(&text).into_iter().collect(), order(&theirs).into_iter().collect());
    assert_eq!(a, b);
    // Who is not done does not see what others say.
    for what in ["agreement", "disputes"] {
        let locked = get(format!("{base}api/{what}?as=ann")).await.text().await.unwrap();
        assert!(locked.contains("4 items left"), "{locked}");
    }
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn suggestions_and_their_order_are_recorded_on_the_label() {
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 5).await;
    let options = AnnotateOptions {
        annotator: Some("ann".to_owned()),
        order: LabelOrder::Uncertainty,
        preannotate: true,
        ..AnnotateOptions::default()
    };
    let running = annotate::serve(store.clone(), options).await.unwrap();
    let base = running.url().to_owned();
    let client = client();
    let text = client.get(format!("{base}api/queue?task=label")).send().await.unwrap().text().await.unwrap();
    let queue: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&queue["as"], &queue["order"], &queue["suggests"]),
        (&json!("ann"), &json!("uncertainty"), &json!(true))
    );
    let id = queue["queue"][1]["id"].as_str().unwrap();
    let text = client.get(format!("{base}api/item?task=label&id={id}")).send().await.unwrap().text().await.unwrap();
    let item: Value = serde_json::from_str(&text).unwrap();
    let suggested = item["suggestion"].as_str().unwrap().to_owned();
    let body = json!({
        "task": "label", "as": "ann", "id": id, "expected": 0, "action": "action-0001",
        "mark": { "status": "labelled", "class": "belief" }, "seconds": 3.0,
    });
    let origin = base.rsplitn(3, '/').nth(2).unwrap();
    let sent = client
        .post(format!("{base}api/mark"))
        .header("origin", origin)
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(sent.status(), 200);
    let row = store.marks(Journal::Labels, None).await.unwrap().remove(0);
    assert_eq!((row.preannotated.as_deref(), row.ordering), (Some(suggested.as_str()), LabelOrder::Uncertainty));
    assert_eq!((row.position, row.rubric), (Some(2), aac::job::gold::rubric_version()));
    let other = client.get(format!("{base}api/queue?task=label&as=bob")).send().await.unwrap();
    assert_eq!(other.status(), 403);
    running.shutdown().await.unwrap();
}

/// The parsers of Label Studio and Argilla, and the documented forms of doccano and Prodigy, over one export of each.
#[tokio::test]
async fn other_tools_read_what_is_exported() {
    let Some(python) = std::env::var_os("AAC_PYTHON") else {
        eprintln!("SKIPPED: set AAC_PYTHON to a python with label-studio-sdk and argilla to read exports with them");
        return;
    };
    let there = Command::new(&python).args(["-c", "import argilla, label_studio_sdk"]).output().unwrap();
    if !there.status.success() {
        eprintln!("SKIPPED: {} has no label-studio-sdk and argilla", python.display());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("a.db"), 8).await;
    let mut expected: Vec<(String, String)> = Vec::new();
    for (n, item) in ids(&store).await.iter().enumerate().take(6) {
        let class = (n % 4 != 3).then_some(["constraint", "belief", "meta"][n % 3]);
        let mut label = mark(item, "ann", class, &format!("ann-00{n:02}"));
        label.mark.note = if n == 1 { "because".to_owned() } else { String::new() };
        label.preannotated = (n == 0).then(|| "meta".to_owned());
        store.put_mark(Journal::Labels, &label, None).await.unwrap();
        expected.extend(class.map(|class| (item.clone(), class.to_owned())));
    }
    expected.sort();
    let all = entries(&store, None).await.unwrap();
    for (name, format) in [
        ("label-studio.json", Format::LabelStudio),
        ("argilla.json", Format::Argilla),
        ("doccano.ann.jsonl", Format::Doccano),
        ("prodigy.jsonl", Format::Prodigy),
    ] {
        std::fs::write(dir.path().join(name), &write(format, &all).unwrap()[0].text).unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Command::new(&python)
        .arg(root.join("tests/clients/annotation.py"))
        .arg(dir.path())
        .arg(root.join("annotation/label-studio.xml"))
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let last = String::from_utf8(out.stdout).unwrap();
    let found: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    for tool in ["label-studio", "argilla", "doccano", "prodigy"] {
        assert_eq!(found[tool], json!(expected), "{tool}");
    }
}
