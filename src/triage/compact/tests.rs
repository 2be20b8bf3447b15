use super::*;
use crate::triage::base::tests::{base, by_first_word};
use crate::triage::tokens::Tokenizer;
use proptest::prelude::*;

const DOC: &str = "\
# App

Intro to the app, which is a thing that we all like and use every day.

## Rules

- Never push to main.
  - Never at night
  - The nights are long, and the people who work in them are tired.
- Prefer small commits over the large ones that nobody wants to read.

1. Run `make` in the root
2. Run `make test`

   ```sh
   make test
   ```
3. Never run `make clean`

| command | what |
|---|---|
| make | builds it |
| Never | touch |

## History

- On Monday we moved the build from one server to another one, and it took all day.
- On Tuesday nothing
";

fn safe(outcome: &Outcome) -> &Compaction {
    outcome.safe().unwrap_or_else(|| panic!("{outcome:?}"))
}

#[test]
fn a_text_that_fits_is_left_alone() {
    let base = base(DOC);
    let outcome = compact(&base, Budget::Percent(100.0));
    assert_eq!(safe(&outcome).output, DOC);
    assert!(safe(&outcome).dropped.is_empty());
}

#[test]
fn the_least_safe_output_is_constraints_under_their_headings() {
    let base = base(DOC);
    let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
    let outcome = compact(&base, Budget::Tokens(min));
    let expected = "\
# App

## Rules

- Never push to main.
  - Never at night

3. Never run `make clean`

| command | what |
|---|---|
| Never | touch |
";
    assert_eq!(safe(&outcome).output, expected);
    assert_eq!(safe(&outcome).tokens_out, min);
    assert_eq!(safe(&outcome).pinned, 4);
}

#[test]
fn below_that_the_answer_is_unsafe_and_names_what_does_not_fit() {
    let base = base(DOC);
    let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
    let outcome = compact(&base, Budget::Tokens(min - 1));
    let Verdict::Unsafe(refusal) = &outcome.verdict else { panic!("{outcome:?}") };
    assert!(refusal.best_effort.tokens_out < min);
    // Without headings all of it may fit; with less it cannot.
    let Verdict::Unsafe(refusal) = compact(&base, Budget::Tokens(12)).verdict else { panic!() };
    assert!(!refusal.lost.is_empty());
    assert!(refusal.best_effort.tokens_out <= 12 && refusal.best_effort.pinned > 0, "{refusal:?}");
}

#[test]
fn between_the_two_budgets_procedures_are_listed_as_shortened_or_dropped() {
    let base = base(DOC);
    let outcome = compact(&base, Budget::Tokens(0));
    assert!(outcome.min_safe_budget < outcome.min_full_budget);
    let between = compact(&base, Budget::Tokens(outcome.min_full_budget - 1));
    let touched = safe(&between).dropped.iter().chain(&safe(&between).compressed);
    assert!(touched.clone().any(|change| change.item_type == KnowledgeType::Procedural), "{between:?}");
    let full = compact(&base, Budget::Tokens(outcome.min_full_budget));
    let touched = safe(&full).dropped.iter().chain(&safe(&full).compressed);
    assert!(!touched.clone().any(|change| change.item_type == KnowledgeType::Procedural), "{full:?}");
}

#[test]
fn soft_items_get_shorter_before_they_go() {
    let base = base(DOC);
    let outcome = compact(&base, Budget::Percent(90.0));
    let output = &safe(&outcome).output;
    assert!(output.contains("thing") && !output.contains("which is a thing"), "{output}");
    assert!(output.contains('…'), "{output}");
}

#[test]
fn duplicates_are_kept_once_and_lead_ins_every_time() {
    let text = "# A\n\n- Never x.\n- Never:\n  - Never y\n\n# B\n\n- Never x.\n- Never:\n  - Never z\n\nA long text that makes room for the compaction to do anything at all.\n";
    let base = base(text);
    let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
    let outcome = compact(&base, Budget::Tokens(min));
    let output = &safe(&outcome).output;
    assert_eq!((output.matches("Never x.").count(), output.matches("Never:").count()), (1, 2), "{output}");
}

#[test]
fn nesting_closes_up_when_what_held_it_is_gone() {
    let text = "- The first entry, with a good many words in it that can go\n    - The second entry, with as many words as the first one had\n        - Never do it\n          at all\n\nThe last paragraph is long too, so that something has to go in the end.\n";
    let base = base(text);
    let outcome = compact(&base, Budget::Tokens(9));
    assert_eq!(safe(&outcome).output, "- Never do it\n          at all\n");
    let again = safe(&outcome).rebase(&base);
    assert_eq!(again.items().len(), 1);
    assert_eq!(again.items()[0].id, base.items()[2].id);
}

#[test]
fn an_empty_line_between_neighbours_stays() {
    let text = "   2. Never aa the aa\n    - Never aa the aa\nNever aa the aa\n\n    - Never aa the aa\n# Run `aa aa` in the a\n\n";
    let base = Base::read("a.md", text, Tokenizer::Cl100k, by_first_word);
    let outcome = compact(&base, Budget::Percent(80.0));
    let output = &outcome.safe().unwrap().output;
    let again = Base::read("a.md", output, Tokenizer::Cl100k, by_first_word);
    let pinned = |base: &Base| base.items().iter().filter(|item| item.pinned()).count();
    assert_eq!(pinned(&again), pinned(&base), "{output}");
}

#[test]
fn what_does_not_read_back_is_set_apart() {
    // Without the entry between them the second rule would be text of the first one, or code.
    let text =
        "- Never aa\n      1. The bb of the cc is a long one that can go\n            * Never dd\n\n     Never ee\n";
    let base = Base::read("a.md", text, Tokenizer::Cl100k, by_first_word);
    let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
    let outcome = compact(&base, Budget::Tokens(min));
    assert_eq!(pinned(&base.reread(&safe(&outcome).output)), pinned(&base), "{}", safe(&outcome).output);
}

/// The words of the pinned items, each once: of several that are the same the first is kept.
fn pinned(base: &Base) -> Vec<String> {
    let mut seen = HashSet::new();
    let texts = base.items().iter().filter(|item| item.pinned()).map(|item| base.text_of(item).to_owned());
    texts.filter(|text| seen.insert(text.clone())).collect()
}

/// Lines with marks of every kind in any column, with and without empty lines between them.
fn tangle() -> impl Strategy<Value = String> {
    let mark =
        prop::sample::select(&["", "- ", "* ", "+ ", "1. ", "2) ", "10. ", "> ", "-  ", "- - ", "\t- ", "# "][..]);
    let text = prop::sample::select(
        &["Never a", "Must b c", "The d e f", "Run `g`", "Never h\n  i", "On j we k", "```\nNever l\n```"][..],
    );
    let line = (0usize..14, mark, text, 1usize..3)
        .prop_map(|(blanks, mark, text, feeds)| format!("{}{mark}{text}{}", " ".repeat(blanks), "\n".repeat(feeds)));
    prop::collection::vec(line, 1..14).prop_map(|lines| lines.concat())
}

/// Documents of every kind of block, flat and nested, with constraints among them.
fn document() -> impl Strategy<Value = String> {
    let sentence = prop_oneof![
        "Never [a-z]{2,8} the [a-z]{2,8}( without [a-z]{3,6})?",
        "Run `[a-z]{2,6} [a-z]{2,6}` in the [a-z]{3,6}",
        "Prefer [a-z]{2,8} over the [a-z]{2,8}( [(]see the wiki[)])?[.] It is what we have[.]",
        "On [A-Z][a-z]{3,6} we (moved|wrote|broke) the [a-z]{2,8} that was there( and the [a-z]{3,8} too){0,2}",
        "The [a-z]{2,8} is (an? [a-z]{2,8}|very # [a-z]{2,5}|[*]{2}[a-z]{2,5}[*]{2})( that is [a-z]{3,8}){0,3}",
    ];
    let block = (sentence, 0usize..9, 0usize..4).prop_map(|(text, shape, depth)| match shape {
        0 => format!("{} {}\n\n", "#".repeat(depth + 1), text.chars().take(20).collect::<String>().trim()),
        1 => format!("{text}\n\n"),
        2 | 3 => format!("{}- {text}\n", "  ".repeat(depth)),
        4 => format!("{}{}. {text}\n", "   ".repeat(depth), depth + 1),
        5 => format!("\n```sh\n{text}\n```\n\n"),
        6 => format!("\n| a | b |\n|---|---|\n| {text} | x |\n| Never | {text} |\n\n"),
        7 => format!("\n> {text}\n> and on\n\n"),
        _ => format!(
            "{}- {text}\n{}  more of it\n\n{0}  Never say {text}\n\n{0}  ```\n{0}  {text}\n{0}  ```\n",
            "  ".repeat(depth),
            "  ".repeat(depth)
        ),
    });
    prop::collection::vec(block, 1..25).prop_map(|blocks| blocks.concat())
}

fn tokenizer() -> impl Strategy<Value = Tokenizer> {
    prop::sample::select(&Tokenizer::ALL[..])
}

/// Every constraint byte for byte, as a passage of its own.
fn holds_all(base: &Base, output: &str) -> Result<(), TestCaseError> {
    for item in base.items().iter().filter(|item| item.pinned()) {
        prop_assert!(output.contains(base.text_of(item)), "{:?} is not in {output:?}", base.text_of(item));
    }
    prop_assert!(missing(&guards(base), output).is_empty() || output == base.text());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The guarantee.
    #[test]
    fn safe_exactly_from_the_safe_budget_up_and_never_too_long(
        text in document(), tokenizer in tokenizer(), share in 0.0f64..1.1,
    ) {
        let base = Base::read("a.md", &text, tokenizer, by_first_word);
        let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
        for budget in [Budget::Percent(100.0 * share), Budget::Tokens(min), Budget::Tokens(min.saturating_sub(1))] {
            let outcome = compact(&base, budget);
            prop_assert_eq!(outcome.min_safe_budget, min);
            prop_assert_eq!(outcome.safe().is_some(), outcome.budget >= min);
            match &outcome.verdict {
                Verdict::Safe(compaction) => {
                    prop_assert!(tokenizer.count(&compaction.output) <= outcome.budget);
                    prop_assert_eq!(tokenizer.count(&compaction.output), compaction.tokens_out);
                    holds_all(&base, &compaction.output)?;
                    if outcome.budget >= outcome.min_full_budget {
                        for item in base.items().iter().filter(|i| i.lane() == KnowledgeType::Procedural) {
                            prop_assert!(compaction.output.contains(base.text_of(item)));
                        }
                    }
                }
                Verdict::Unsafe(refusal) => {
                    prop_assert!(tokenizer.count(&refusal.best_effort.output) <= outcome.budget);
                    for guard in &refusal.lost {
                        prop_assert!(!missing(std::slice::from_ref(guard), &refusal.best_effort.output).is_empty());
                    }
                }
            }
        }
    }

    /// A safe output reads as the same rules, word for word, whatever stood around them: asked of the output alone, by a
    /// reader who does not know how it was made.
    #[test]
    fn safe_outputs_read_back_as_the_same_rules(text in prop_oneof![tangle(), document()], share in 0.0f64..1.0) {
        let base = Base::read("a.md", &text, Tokenizer::Cl100k, by_first_word);
        let min = compact(&base, Budget::Tokens(0)).min_safe_budget;
        for budget in [Budget::Tokens(min), Budget::Percent(100.0 * share)] {
            let outcome = compact(&base, budget);
            if let Some(compaction) = outcome.safe() {
                let again = Base::read("a.md", &compaction.output, Tokenizer::Cl100k, by_first_word);
                // A quote that was taken apart can be read as a whole: its marks come along.
                let bare = |texts: Vec<String>| -> Vec<String> {
                    texts.iter().map(|t| t.trim_start_matches(['>', ' ', '-', '*', '+']).to_owned()).collect()
                };
                // A shortened fact may begin with the word that makes a rule here; no rule may be missing.
                let found: HashSet<String> = bare(pinned(&again)).into_iter().collect();
                for rule in bare(pinned(&base)) {
                    prop_assert!(found.contains(&rule), "{:?} is not in {:?}", rule, &compaction.output);
                }
            }
        }
    }

    /// The same again gives the same, within the same budget.
    #[test]
    fn compaction_is_deterministic_and_idempotent(text in document(), share in 0.2f64..1.0) {
        let base = Base::read("a.md", &text, Tokenizer::Cl100k, by_first_word);
        let outcome = compact(&base, Budget::Percent(100.0 * share));
        prop_assert_eq!(&outcome, &compact(&base, Budget::Percent(100.0 * share)));
        if let Some(once) = outcome.safe() {
            let again = compact(&once.rebase(&base), Budget::Tokens(outcome.budget));
            prop_assert_eq!(&safe(&again).output, &once.output);
        }
    }

    /// Round after round the constraints stay, with their ids, in their order, under their headings.
    #[test]
    fn rounds_lose_no_constraint(text in document()) {
        let first = Base::read("a.md", &text, Tokenizer::Cl100k, by_first_word);
        let mut base = first.clone();
        for share in [80.0, 70.0, 60.0, 50.0, 40.0] {
            let outcome = compact(&base, Budget::Percent(share));
            let Some(compaction) = outcome.safe() else { break };
            holds_all(&first, &compaction.output)?;
            let next = compaction.rebase(&base);
            let known: std::collections::HashSet<_> = base.items().iter().map(|i| i.id).collect();
            for item in next.items() {
                prop_assert!(known.contains(&item.id), "{:?} in {:?}", next.text_of(item), next.text());
            }
            let pinned = |b: &Base| {
                let mut seen = HashSet::new();
                let texts = b.items().iter().filter(|i| i.pinned());
                texts.filter(|i| seen.insert(b.text_of(i))).map(|i| (b.topics().path(i.topic).join("/"), b.text_of(i).to_owned())).collect::<Vec<_>>()
            };
            let flat = |names: Vec<(String, String)>| names.into_iter().map(|(path, text)| (crate::segment::flatten(&path), text)).collect::<Vec<_>>();
            prop_assert_eq!(flat(pinned(&next)), flat(pinned(&base)));
            base = next;
        }
    }
}
