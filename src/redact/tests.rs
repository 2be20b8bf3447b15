use super::planted::{HEX, KINDS, planted, random};
use super::*;
use proptest::prelude::*;

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
    for seed in 1..=100 {
        let kinds = planted(seed);
        assert_eq!(kinds.len(), KINDS);
        for (kind, passage) in kinds {
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
        "resolvers 2606:4700:4700::1111 and [2001:4860:4860::8888]:53",
        "a network 2a01::/16 and ::1 and fe80::1",
        "at 2024:12:03 use 2001::parse and 3fff:fff::new()",
        "the time is 20:15:2024: late",
        "curl -H 'Authorization: Basic <credentials>'",
        "dapi and shpat_ and gsk_... are prefixes",
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
            (1u64..500, 0usize..KINDS).prop_map(|(seed, which)| planted(seed)[which].1.clone()),
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

#[test]
fn neighbours_show_what_a_passage_alone_does_not() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9OiZ1BjP5CE\nqbrXcVlfwyhJHgZxRZqv0hA8iEd\n-----END RSA PRIVATE KEY-----";
    let lines: Vec<&str> = key.split('\n').collect();
    let between = spans_between(&lines[..2].join("\n"), lines[2], lines[3]);
    let redacted = apply(lines[2], &between);
    assert!(!redacted.contains("qbrXcVlf"), "{redacted}");
    let mail = "Write to jane.roe@corp-mail.io, not to me";
    assert_eq!(spans_between("Contacts:", mail, "End"), spans(mail));
    assert_eq!(spans_between("", mail, ""), spans(mail));
}
