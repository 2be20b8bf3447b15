//! Word lists behind the structural features: each word carries the traits it lends to an item.

use std::collections::HashMap;
use std::sync::LazyLock;

/// A set of traits, one bit each.
pub(super) type Traits = u32;

/// Names of the traits by bit; the constants below are their bits.
pub(super) const TRAIT_NAMES: [&str; 20] = [
    "negation",
    "obligation",
    "modal",
    "prohibition",
    "universal",
    "emphasis",
    "taste",
    "advice",
    "past",
    "present-state",
    "hazard-data",
    "hazard-secret",
    "hazard-outward",
    "hazard-production",
    "duty",
    "person",
    "consent",
    "pointer",
    "condition",
    "reason",
];
const NEGATION: Traits = 1;
const OBLIGATION: Traits = 1 << 1;
const MODAL: Traits = 1 << 2;
const PROHIBITION: Traits = 1 << 3;
const UNIVERSAL: Traits = 1 << 4;
const EMPHASIS: Traits = 1 << 5;
const TASTE: Traits = 1 << 6;
const ADVICE: Traits = 1 << 7;
const PAST: Traits = 1 << 8;
const STATE: Traits = 1 << 9;
const DATA: Traits = 1 << 10;
const SECRET: Traits = 1 << 11;
const OUTWARD: Traits = 1 << 12;
const PRODUCTION: Traits = 1 << 13;
const DUTY: Traits = 1 << 14;
const PERSON: Traits = 1 << 15;
const CONSENT: Traits = 1 << 16;
const POINTER: Traits = 1 << 17;
const CONDITION: Traits = 1 << 18;
const REASON: Traits = 1 << 19;

const WORDS: &[(Traits, &str)] = &[
    (
        NEGATION,
        "not no never none neither nor without cannot can't don't doesn't won't isn't aren't shouldn't mustn't nothing nobody nie nicht kein keine ne pas jamais nunca não no sin не нет без никогда не nigdy bez değil asla 不 没 无 非 ない",
    ),
    (
        OBLIGATION,
        "must shall required requires require mandatory ensure have obliged needs need mandate compulsory muss müssen doit doivent debe deben deve devem должен должны обязательно musi muszą olmalı olmalıdır gerekir zorunlu 必须 務必 務必 必須 必ず 해야",
    ),
    (
        MODAL,
        "must should shall may can could might will would cannot sollte sollten kann darf devrait peut puede можно следует powinien może",
    ),
    (
        PROHIBITION,
        "never forbidden prohibited disallowed banned refuse reject rejected block blocked abort stop halt refrain disallow deny denied unacceptable verboten interdit prohibido запрещено нельзя zabronione yasak 禁止 严禁 不得 切勿 不要 禁ずる 금지",
    ),
    (
        UNIVERSAL,
        "always every all any each only exactly strictly everything nothing immer alle toujours tous siempre todos sempre всегда все только zawsze wszystkie her tüm daima sadece 所有 始终 总是 只能",
    ),
    (
        EMPHASIS,
        "critical important warning caution danger mandatory non-negotiable strict hard severe fatal urgent wichtig attention important importante важно внимание ważne önemli 重要 注意 警告",
    ),
    (
        TASTE,
        "style naming consistent consistency readable readability clean concise clear clarity simple simplicity short tone idiomatic format formatting indentation camelcase snake_case pascalcase kebab-case quotes semicolons comments descriptive meaningful elegant minimal convention conventions lowercase uppercase spacing casing pattern patterns",
    ),
    (
        ADVICE,
        "prefer preferred prefers avoid should recommended recommend consider favor favour ideally better rather instead good best generally usually keep try when-possible bevorzugt préférer preferir предпочитать tercih 优先 推荐 建议 尽量",
    ),
    (
        PAST,
        "yesterday was were had did been fixed added removed completed finished refactored moved changed implemented merged shipped released discovered found learned migrated resolved introduced started created replaced",
    ),
    (
        STATE,
        "currently now today recently latest status done todo pending progress wip since ago updated week month sprint session milestone phase blocked",
    ),
    (
        DATA,
        "delete deletes deleted drop drops truncate overwrite overwrites overwritten destroy destructive irreversible lose loss lost corrupt corrupts corruption wipe erase purge permanently rollback backup restore migration migrations schema unrecoverable undo rewrite regenerated generated",
    ),
    (
        SECRET,
        "secret secrets password passwords credential credentials token tokens key keys pii private sensitive confidential leak leaks expose exposes exposed encrypt encrypted auth authentication authorization permission permissions sanitize injection xss csrf vulnerability personal phi hardcode .env redact",
    ),
    (
        OUTWARD,
        "push pushes pushed publish publishes publishing deploy deploys deployment release releases merge send sends sending email post pay payment charge refund transfer submit notify tag rebase force --force amend commit commits",
    ),
    (
        PRODUCTION,
        "production prod live customer customers main master trunk staging breaking break breaks broken compatibility backward backwards public api abi downtime outage crash crashes deadlock race panic unsafe thread-safe memory invariant",
    ),
    (
        DUTY,
        "law legal licence license licensed licensing gdpr hipaa compliance comply regulation regulatory regulated copyright audit contract liability court filing tax sanctions consent retention jurisdiction statute policy fda pci",
    ),
    (
        PERSON,
        "patient patients dose dosage allergic allergy contraindicated pregnant injury hazard hazardous toxic fire voltage pressure operator lockout interlock child children minor minors harm fatal emergency bleeding renal account accounts balance client clients",
    ),
    (
        CONSENT,
        "ask approval approve approved confirm confirmation permission explicit explicitly authorized authorised review reviewed sign-off consent unless user's asks requested request requests until",
    ),
    (POINTER, "see refer read check documentation docs guide reference details more link follow consult"),
    (
        CONDITION,
        "if when unless before after until while once whenever where otherwise except wenn falls si cuando quando если когда jeśli 如果 当 時",
    ),
    (REASON, "because since otherwise so thus therefore will would causes cause leads results breaks fails due"),
];

/// First words that give a command; with an agent file's telegraphic style, mood is mostly readable from them.
const IMPERATIVES: &str = "add adapt adjust align allow analyze analyse apply ask assert assign assume attach avoid be begin break bring build bump bundle cache call capture catch change check choose cite clean clear clone close code collect combine commit compare compile complete compose compute configure confirm connect consider consult continue convert copy cover create debug decide declare default define delete deploy derive describe design detect determine disable discuss display do document don't download draft drop edit emit enable encode end enforce ensure escape establish evaluate examine exclude execute expand expect explain export expose extend extract fail fetch fill filter find fix flag focus follow force format gather generate get give go group guard handle hide highlight hold identify ignore implement import improve include incorporate increase indicate inform initialize inject insert inspect install integrate invoke isolate iterate join jump keep label launch leave let leverage limit link list load locate log look maintain make manage map mark match maintain measure mention merge minimize mock modify monitor move name navigate never note notify obtain offer omit open optimize order organize output override parse pass perform pick pin place plan populate post prefer prefix prepare present preserve prevent print prioritize process produce propose protect provide publish pull push put query quote raise re-run read rebase rebuild recommend record reduce refactor refer reference refresh refuse register regenerate reject release reload remove rename render repeat replace reply report request require reset resolve respect respond restart restore restrict retrieve return reuse revert review rewrite roll run sanitize save scan search see select send separate serve set ship show skip sort specify split stage start state stay stick stop store stream structure submit suggest summarize support switch sync tag take target tell test think throw track translate treat trigger trim try turn understand uninstall update upgrade upload use utilize validate verify view visit wait walk warn watch wrap write";

static TRAITS: LazyLock<HashMap<&'static str, Traits>> = LazyLock::new(|| {
    let mut map = HashMap::new();
    for (traits, words) in WORDS {
        for word in words.split_whitespace() {
            *map.entry(word).or_insert(0) |= traits;
        }
    }
    map
});

static IMPERATIVE: LazyLock<std::collections::HashSet<&'static str>> =
    LazyLock::new(|| IMPERATIVES.split_whitespace().collect());

/// The traits of a lower-case word.
pub(super) fn traits(word: &str) -> Traits {
    TRAITS.get(word).copied().unwrap_or(0)
}

/// How the first word of an item sets its mood.
pub(super) fn mood(first: &str) -> &'static str {
    match first {
        "" => "none",
        "never" | "don't" | "not" | "no" => "prohibitive",
        "always" | "only" | "every" | "all" | "any" => "universal",
        "if" | "when" | "unless" | "before" | "after" | "once" | "while" | "for" | "whenever" => "conditional",
        "the" | "a" | "an" | "this" | "these" | "that" | "it" | "there" | "its" => "declarative",
        "you" | "your" | "we" | "i" | "our" => "personal",
        "must" | "should" | "shall" | "may" | "can" | "do" => "modal",
        "what" | "why" | "how" | "who" | "which" | "where" | "is" | "are" | "does" => "question",
        word if IMPERATIVE.contains(word) => "imperative",
        word if word.ends_with("ing") => "gerund",
        word if word.ends_with("ed") => "participle",
        word if word.ends_with('s') && IMPERATIVE.contains(&word[..word.len() - 1]) => "third-person",
        word if word.ends_with("es") && IMPERATIVE.contains(&word[..word.len() - 2]) => "third-person",
        word if word.starts_with(|c: char| c.is_ascii_digit()) => "number",
        word if !word.is_ascii() => "foreign",
        _ => "nominal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_their_traits_and_moods() {
        assert_eq!(traits("never"), NEGATION | PROHIBITION);
        assert_eq!(traits("zebra"), 0);
        assert_eq!(mood("handles"), "third-person");
        assert_eq!(mood("runs"), "third-person");
        assert_eq!(mood("run"), "imperative");
        assert_eq!(mood("été"), "foreign");
    }
}
