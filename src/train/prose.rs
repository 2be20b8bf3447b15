//! The natural language that an item is written in, for slices of figures.

use super::labels::Example;
use whatlang::{Detector, Info, Lang, Script};

/// Fewest words of which another language in Latin letters than English is told: of fewer, the detector takes English for
/// French with certainty.
const MIN_WORDS: usize = 12;
/// What there is too little text to tell of.
pub const UNCLEAR: &str = "unclear";

/// The English name of the item's natural language; of a script that several share, its name where the text is too
/// short to say more; [`UNCLEAR`] where there are hardly any words. Headings and the items beside it are read with a short
/// one, code, paths and addresses are not. The detector counts trigrams (of the crate `whatlang`) and is believed where it
/// calls itself sure; a guess of English needs no certainty, since nearly all items are English.
pub fn natural_language(example: &Example) -> String {
    let own = words(&example.text);
    let mut all = own.clone();
    for beside in example.heading.iter().chain(&example.before).chain(&example.after) {
        all += &words(beside);
    }
    let detector = Detector::new();
    let sure = |text: &str| detector.detect(text).filter(Info::is_reliable);
    let long = own.split(' ').count() > MIN_WORDS;
    let tells = |guess: &Info| guess.script() != Script::Latin || guess.lang() == Lang::Eng;
    let found = sure(&own).filter(|guess| long || tells(guess)).or_else(|| sure(&all).filter(tells));
    if let Some(guess) = found {
        return guess.lang().eng_name().to_owned();
    }
    match detector.detect(&all) {
        Some(guess) if guess.script() != Script::Latin => guess.script().to_string(),
        Some(guess) if guess.lang() == Lang::Eng => Lang::Eng.eng_name().to_owned(),
        _ => UNCLEAR.to_owned(),
    }
}

/// The plain words of a text: what stands in backticks and what is a path, an address or a name of code is left out.
fn words(text: &str) -> String {
    let mut plain = String::new();
    for part in text.split('`').step_by(2) {
        for word in part.split_whitespace() {
            let word = word.trim_matches(|c: char| !c.is_alphabetic());
            if word.chars().any(|c| c.is_ascii() && !c.is_ascii_alphabetic() && !"'-,".contains(c)) {
                continue;
            }
            for letters in word.split(|c: char| !(c.is_alphabetic() || "'’-".contains(c))).filter(|l| !l.is_empty()) {
                plain += letters;
                plain.push(' ');
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::labels::parse_labels;

    fn language(json: serde_json::Value) -> String {
        natural_language(&parse_labels("x", &json.to_string()).unwrap()[0].as_given().unwrap())
    }

    #[test]
    fn languages_are_told_where_there_is_text_enough() {
        let item = |text: &str| serde_json::json!({ "text": text, "label": "C" });
        let german =
            "Vor jedem Einspielen müssen alle Prüfungen ohne Fehler durchlaufen, sonst wird nichts ausgeliefert.";
        for (text, expected) in [
            ("Always run the whole test suite before you open a pull request, and wait for the checks.", "English"),
            (german, "German"),
            ("Никогда не отправляйте изменения прямо в главную ветку репозитория.", "Cyrillic"),
            ("请不要直接推送到主分支，先创建一个合并请求。", "Mandarin"),
            ("`cargo test --workspace`", UNCLEAR),
            ("src/main.rs, src/lib.rs", UNCLEAR),
            ("", UNCLEAR),
        ] {
            assert_eq!(language(item(text)), expected, "{text}");
        }
        let english = "Always run the whole test suite before you open a pull request, and wait for the checks.";
        let beside = serde_json::json!({ "text": "`main`: no", "after": english, "label": "C" });
        assert_eq!(language(beside), "English");
        let short = item("Build output must not differ based on build machine OS.");
        assert_ne!(language(short), "French", "what the detector is wrong about with certainty");
    }
}
