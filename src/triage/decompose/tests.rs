use super::*;
use crate::triage::base::Judgement;
use crate::triage::tokens::Tokenizer;
use proptest::prelude::*;

fn base(text: &str) -> Base {
    crate::triage::base::tests::base(text)
}

#[test]
fn a_local_rule_stays_at_home_and_a_global_one_goes_everywhere() {
    let text = "# Rules\n\n- Never push.\n\n# Web\n\n- Never inline styles.\n- React renders all of the pages.\n\n# Data\n\n- Postgres holds them all, in tables.\n";
    let parts = decompose(&base(text), Budget::Tokens(24)).unwrap();
    assert_eq!(parts.partitions.iter().filter(|p| p.text.contains("Never push")).count(), parts.partitions.len());
    assert_eq!(parts.partitions.iter().filter(|p| p.text.contains("inline styles")).count(), 1);
    assert!(parts.overhead > 0.0);
}

#[test]
fn what_does_not_fit_with_its_constraints_is_named() {
    let text =
        "# Rules\n\n- Never push to a branch that is not your own, whatever the reason may be.\n\n# Web\n\n- React\n";
    let error = decompose(&base(text), Budget::Tokens(15)).unwrap_err();
    assert!(error.needed > 15 && error.constraints.len() == 1, "{error:?}");
    assert!(decompose(&base(text), Budget::Tokens(error.needed)).is_ok());
}

#[test]
fn large_topics_are_split_by_what_they_are_about() {
    let items: String =
        (0..450)
            .map(|n| {
                if n % 2 == 0 {
                    format!("- database table index {n}\n")
                } else {
                    format!("- button colour style {n}\n")
                }
            })
            .collect();
    let parts = decompose(&base(&format!("# Facts\n\n{items}")), Budget::Tokens(100_000)).unwrap();
    assert_eq!(parts.partitions.len(), 1);
    let parts = decompose(&base(&format!("# Facts\n\n{items}")), Budget::Tokens(900)).unwrap();
    let alike: usize = parts
        .partitions
        .iter()
        .map(|p| {
            let even = p.items.iter().filter(|i| **i % 2 == 0).count();
            even.max(p.items.len() - even)
        })
        .sum();
    assert!(parts.partitions.len() > 2 && alike >= 400, "{alike} of 450 stand among their like");
}

#[test]
fn the_search_never_adds_copies_and_finds_what_greedy_orders_miss() {
    // Rules that bind in pairs of topics, so that which topics stand together decides what is copied.
    let names = ["Alpha", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot", "Golf", "Hotel"];
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        let other = names[(at * 5 + 3) % names.len()];
        text +=
            &format!("# {name}\n\n- Never mix it with {other}, for a reason that takes {} words to tell.\n", at + 3);
        (0..3 + at % 3).for_each(|n| text += &format!("- A fact about the matter that is number {n} of several.\n"));
        text += "\n";
    }
    let base = base(&text);
    let needs = Needs::of(&base);
    let budget = base.tokens() * 3 / 8;
    let weight = |open: &[Placed]| open.iter().map(Placed::weight).sum::<f64>();
    let mut won = false;
    for grain in GRAINS {
        let groups = groups(&base, &needs, budget, grain).unwrap();
        for order in orders(&needs, &groups, false) {
            let open = pack(&base, &needs, &groups, &order, budget);
            let found = improve(&base, &needs, &groups, open.clone(), budget);
            let mut placed: Vec<usize> = found.iter().flat_map(|p| p.groups.clone()).collect();
            placed.sort_unstable();
            assert_eq!(placed, (0..groups.len()).collect::<Vec<_>>());
            assert!(weight(&found) <= weight(&open) + 1e-6);
            assert!(found.iter().all(|p| base.tokenizer().tokens(p.units()) <= budget));
            won |= weight(&found) + 1.0 < weight(&open);
        }
    }
    assert!(won, "greedy placements were as good everywhere: the example tests nothing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Zero violations, every item in one place, nothing over the budget, for random bases and scopes.
    #[test]
    fn constraints_stand_wherever_they_bind(
        sections in prop::collection::vec(
            ("(Rules|Web|Data|Deploy|Build|Safety)", 1usize..4, prop::collection::vec((prop::bool::ANY, "[a-z]{2,6}( (web|data|deploy|build))?( [(]scope: (web|data|nowhere)[)])?( [a-z]{2,6}){0,6}"), 0..5)),
            1..8,
        ),
        share in 10.0f64..110.0,
        tokenizer in prop::sample::select(&Tokenizer::ALL[..]),
    ) {
        let mut text = String::from("Intro\n\n");
        for (name, level, items) in &sections {
            text += &format!("{} {name}\n\n", "#".repeat(*level));
            for (rule, words) in items {
                text += &format!("- {}{words}\n", if *rule { "Never " } else { "" });
            }
            text += "\n";
        }
        let base = Base::read("a.md", &text, tokenizer, |item| Judgement::certain(
            if item.text.starts_with("Never") { crate::taxonomy::KnowledgeType::Constraint } else { crate::taxonomy::KnowledgeType::Belief }
        ));
        match decompose(&base, Budget::Percent(share)) {
            Ok(parts) => {
                prop_assert_eq!(parts.locality(&base).missing, 0);
                let mut placed: Vec<usize> = parts.partitions.iter().flat_map(|p| p.items.clone()).collect();
                placed.sort_unstable();
                prop_assert_eq!(placed, (0..base.items().len()).collect::<Vec<_>>());
                let budget = Budget::Percent(share).of(base.tokens());
                for p in &parts.partitions {
                    prop_assert!(tokenizer.count(&p.text) <= budget, "{} > {budget}: {:?}", p.tokens, p.text);
                    for index in p.items.iter().chain(&p.copies) {
                        prop_assert!(p.text.contains(base.text_of(&base.items()[*index])));
                    }
                }
            }
            Err(refused) => prop_assert!(refused.needed > refused.budget),
        }
    }
}
