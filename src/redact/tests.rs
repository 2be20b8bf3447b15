use super::*;
use proptest::prelude::*;

/// Random characters of an alphabet from a seed, so that no key stands in this file.
fn random(seed: u64, alphabet: &str, length: usize) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            letters[(state >> 20) as usize % letters.len()]
        })
        .collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";

/// One planted passage of every kind: (kind, passage).
fn planted(seed: u64) -> Vec<(RedactionKind, String)> {
    use RedactionKind::{Email, Handle, Ip, PrivateKey, Secret};
    let r = |salt: u64, alphabet: &str, length| random(seed * 64 + salt, alphabet, length);
    let p = |parts: &[&str]| parts.concat();
    let word = |salt| r(salt, "bdfgklmnprst", 1) + "o" + &r(salt + 20, "lmnrst", 1) + "i" + &r(salt + 21, "klnrst", 2);
    let number = |salt: u64, low: u64, span: u64| low + (seed * 31 + salt * 7) % span;
    vec![
        (Secret, p(&["AK", "IA", &r(1, UPPER, 16)])),
        (Secret, p(&["AI", "za", &r(2, ALNUM, 35)])),
        (Secret, p(&["gh", "p_", &r(3, ALNUM, 36)])),
        (Secret, p(&["github", "_pat_", &r(4, ALNUM, 22), "_", &r(5, ALNUM, 59)])),
        (Secret, p(&["glp", "at-", &r(6, ALNUM, 20)])),
        (Secret, p(&["xo", "xb-", &r(7, "0123456789", 12), "-", &r(8, ALNUM, 24)])),
        (Secret, p(&["sk", "_live_", &r(9, ALNUM, 24)])),
        (Secret, p(&["sk-", "proj-", &r(10, ALNUM, 48)])),
        (Secret, p(&["sk-", "ant-", "api03-", &r(11, ALNUM, 80)])),
        (Secret, p(&["np", "m_", &r(12, ALNUM, 36)])),
        (Secret, p(&["pypi", "-AgE", &r(13, ALNUM, 80)])),
        (Secret, p(&["h", "f_", &r(14, ALNUM, 34)])),
        (Secret, p(&["ey", "J", &r(15, ALNUM, 20), ".ey", "J", &r(16, ALNUM, 40), ".", &r(17, ALNUM, 43)])),
        (
            PrivateKey,
            p(&[
                "-----BEGIN RSA PRIV",
                "ATE KEY-----\n",
                &r(18, ALNUM, 64),
                "\n",
                &r(19, ALNUM, 64),
                "\n-----END RSA PRIV",
                "ATE KEY-----",
            ]),
        ),
        (Secret, p(&["postgres", "://app:", &r(40, ALNUM, 14), "@db.internal:5432/app"])),
        (Secret, p(&["API_KEY", " = \"", &r(41, ALNUM, 32), "\""])),
        (Secret, p(&["client_secret", ": ", &r(42, ALNUM, 40)])),
        (Secret, p(&["Authorization: Bea", "rer ", &r(43, ALNUM, 40)])),
        (Email, p(&[&word(44), ".", &word(45), "@", &word(46), ".io"])),
        (Ip, format!("{}.{}.{}.{}", number(1, 40, 50), number(2, 1, 250), number(3, 1, 250), number(4, 1, 250))),
        (Ip, format!("2a01:4f8:{}:{}::1", r(47, HEX, 3), r(48, "123456789", 4))),
        (Handle, p(&["maintained by @", &word(49), "-", &word(50)])),
    ]
}

#[test]
fn planted_secrets_of_every_kind_are_found() {
    let frames = [
        "- Deploy needs {}\n- Run the tests.",
        "```sh\nexport X\n{}\n```\n",
        "Use this: {} and nothing else.",
        "| value | {} |\n",
        "    {}\n",
    ];
    let (mut missed, mut total) = (Vec::new(), 0);
    for seed in 1..=200 {
        for (kind, passage) in planted(seed) {
            let text = frames[seed as usize % frames.len()].replace("{}", &passage);
            total += 1;
            if !spans(&text).iter().any(|span| span.kind == kind) {
                missed.push(passage);
            }
        }
    }
    assert!(missed.len() * 100 <= total, "{} of {total} missed: {:?}", missed.len(), &missed[..missed.len().min(8)]);
}

#[test]
fn code_examples_and_placeholders_stay() {
    let digest = random(3, HEX, 64);
    for text in [
        "@classmethod\ndef f(cls): ...",
        "import x from '@mui/material'",
        "@AGENTS.md",
        "ssh user@host",
        "git clone git@github.com:owner/name.git",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "api_key = \"YOUR_API_KEY_GOES_HERE_12\"",
        "token: <token>",
        "password: ${DB_PASSWORD}",
        "mail me@example.com",
        "Co-Authored-By: Claude <noreply@anthropic.com>",
        "AKIAIOSFODNN7EXAMPLE",
        "see 3f2b1c4d5e6f708192a3b4c5d6e7f8091a2b3c4d",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "bind 127.0.0.1, 10.0.0.8 and 192.168.1.10",
        "Version 120.0.6099.109",
        "docs use 192.0.2.44 and 2001:db8::1",
        "postgres://user:password@localhost:5432/db",
        "@param name by @returns",
        "Reviewed by @coderabbitai",
        "Use `cc @someone-else`",
        "npx pkg@1.2.3 and actions/checkout@v4",
        "![x](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUA)",
        "at 12:34:56:78 o'clock",
        "const token = await getAccessTokenFromStore2()",
    ] {
        assert_eq!(spans(text), [], "{text}");
    }
    assert_eq!(spans(&format!("sha256 key: {digest}")), []);
}

#[test]
fn placeholders_name_the_kind() {
    let [local, host] = ["marta.lind", "fjordworks.no"];
    let text = format!("Write to {local}@{host}.");
    assert_eq!(apply(&text, &spans(&text)), "Write to [redacted:email].");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn spans_are_valid_and_redacting_twice_changes_nothing(
        parts in prop::collection::vec(prop_oneof![
            (1u64..500, 0usize..22).prop_map(|(seed, which)| planted(seed)[which].1.clone()),
            "\\PC{0,12}", "[ \n\t@:.=/\"'`-]{0,4}", "key|token=|by @|@|::",
        ], 0..14),
    ) {
        let text = parts.concat();
        let found = spans(&text);
        let mut end = 0;
        for span in &found {
            prop_assert!(span.start >= end && span.start < span.end && text.get(span.start..span.end).is_some());
            end = span.end;
        }
        let once = apply(&text, &found);
        prop_assert_eq!(spans(&once), vec![]);
    }
}
