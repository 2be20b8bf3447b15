//! Addresses and names of people: what a pattern alone cannot tell.

use super::{RedactionKind, RedactionSpan};
use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// E-mail addresses, but for examples, machines and remotes (`git@github.com:owner/name`).
pub(super) fn emails(text: &str, found: &mut Vec<RedactionSpan>) {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('@') {
        let local =
            bytes[..at].iter().rev().take(65).take_while(|b| b.is_ascii_alphanumeric() || b"._%+-".contains(b)).count();
        let domain =
            bytes[at + 1..].iter().take(254).take_while(|b| b.is_ascii_alphanumeric() || b".-".contains(b)).count();
        let (start, mut end) = (at - local, at + 1 + domain);
        while end > at + 1 && matches!(bytes[end - 1], b'.' | b'-') {
            end -= 1;
        }
        let (user, host) = (&text[start..at], &text[at + 1..end]);
        let trimmed = user.trim_start_matches(['.', '-', '%', '+', '_']);
        let before = start.checked_sub(1).map(|i| bytes[i]);
        let after = bytes.get(end).copied();
        let remote = matches!(after, Some(b':' | b'/' | b'@' | b'(')) || matches!(before, Some(b'/' | b':' | b'@'));
        let mailto = text[..start].ends_with("mailto:");
        if !trimmed.is_empty() && local <= 64 && (mailto || !remote) && is_real_mail(trimmed, host) {
            found.push(RedactionSpan { start: at - trimmed.len(), end, rule: "email", kind: RedactionKind::Email });
        }
    }
}

fn is_real_mail(user: &str, host: &str) -> bool {
    const MACHINES: [&str; 18] = [
        "noreply",
        "no-reply",
        "donotreply",
        "git",
        "user",
        "username",
        "you",
        "your",
        "name",
        "email",
        "me",
        "someone",
        "john",
        "jane",
        "john.doe",
        "jane.doe",
        "foo",
        "test",
    ];
    const FILES: [&str; 20] = [
        "md",
        "mdc",
        "txt",
        "json",
        "js",
        "ts",
        "tsx",
        "py",
        "rs",
        "go",
        "sh",
        "yml",
        "yaml",
        "toml",
        "png",
        "svg",
        "local",
        "test",
        "invalid",
        "localhost",
    ];
    let (user, host) = (user.to_ascii_lowercase(), host.to_ascii_lowercase());
    let Some((name, top)) = host.rsplit_once('.') else { return false };
    let label = name.rsplit('.').next().unwrap_or_default();
    let sample = [
        "example",
        "domain",
        "yourdomain",
        "your-domain",
        "company",
        "yourcompany",
        "mycompany",
        "test",
        "acme",
        "email",
        "foo",
        "bar",
        "x",
        "y",
    ];
    top.len() >= 2
        && top.bytes().all(|b| b.is_ascii_alphabetic())
        && name.split('.').all(|part| !part.is_empty())
        && !FILES.contains(&top)
        && top != "example"
        && !sample.contains(&label)
        && !label.contains("example")
        && !host.ends_with("noreply.github.com")
        && !MACHINES.contains(&user.as_str())
        && !["noreply", "no-reply", "example", "your", "[bot]"].iter().any(|sign| user.contains(sign))
}

#[expect(clippy::expect_used, reason = "a literal that the tests compile")]
static V4: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{1,3}(?:\.\d{1,3}){3}").expect("a regular expression"));
#[expect(clippy::expect_used, reason = "a literal that the tests compile")]
static V6: LazyLock<Regex> = LazyLock::new(|| {
    // What is routed begins with a 2 or a 3 of four digits; whether the rest is an address, the parser decides.
    Regex::new(r"[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{1,40}").expect("a regular expression")
});

/// Public IP addresses: neither private nor kept for documentation, nor versions and other dotted numbers.
pub(super) fn addresses(text: &str, found: &mut Vec<RedactionSpan>) {
    let bytes = text.as_bytes();
    let free = |start: usize, end: usize| {
        let joins = |b: u8| b.is_ascii_alphanumeric() || b"_.:-+".contains(&b);
        let before = start.checked_sub(1).is_some_and(|i| joins(bytes[i]));
        let follows = bytes.get(end).copied();
        let dotted = follows == Some(b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        !before && !dotted && !follows.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-+".contains(&b))
    };
    for hit in V4.find_iter(text).filter(|hit| free(hit.start(), hit.end())) {
        let line_start = text[..hit.start()].rfind('\n').map_or(0, |at| at + 1).max(hit.start().saturating_sub(40));
        let before = String::from_utf8_lossy(&bytes[line_start..hit.start()]).to_ascii_lowercase();
        let version = ["version", "release", "v=", "==", ">=", "~=", "assembly", "package", "chrome", "sdk"];
        if !version.iter().any(|word| before.contains(word)) && hit.as_str().parse().is_ok_and(is_public_v4) {
            found.push(RedactionSpan { start: hit.start(), end: hit.end(), rule: "ipv4", kind: RedactionKind::Ip });
        }
    }
    for hit in V6.find_iter(text) {
        // A colon after the address is the sentence's, unless it is the second of two.
        let end = hit.end() - usize::from(hit.as_str().ends_with(':') && !hit.as_str().ends_with("::"));
        if free(hit.start(), end) && text[hit.start()..end].parse().is_ok_and(is_public_v6) {
            found.push(RedactionSpan { start: hit.start(), end, rule: "ipv6", kind: RedactionKind::Ip });
        }
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, _, d] = ip.octets();
    let well_known =
        [[8, 8, 8, 8], [8, 8, 4, 4], [1, 1, 1, 1], [1, 0, 0, 1], [9, 9, 9, 9], [1, 2, 3, 4]].contains(&ip.octets());
    // An address with a small first number, or ending in zero, is nearly always a version or a network.
    a > 10
        && d != 0
        && !well_known
        && !(ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_broadcast() || ip.is_documentation())
        && !ip.is_multicast()
        && a < 240
        && !(a == 100 && (64..128).contains(&b))
        && !(a == 198 && (b == 18 || b == 19))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let resolvers = ["2001:4860:4860::8888", "2001:4860:4860::8844", "2606:4700:4700::1111", "2606:4700:4700::1001"];
    // 2000::/3 is what is routed; 2001:db8::/32 and 3fff::/20 are for documentation; one segment is a network.
    !resolvers.iter().any(|known| known.parse() == Ok(ip))
        && ip.segments()[1..].iter().any(|segment| *segment != 0)
        && (0x2000..0x4000).contains(&a)
        && !(a == 0x2001 && b == 0xdb8)
        && !(a == 0x3fff && b < 0x1000)
}

#[expect(clippy::expect_used, reason = "a literal that the tests compile")]
static MENTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:ping|cc|thanks? to|thank you|credits? to|maintained by|written by|created by|reported by|reviewed by|assigned? to|contact|ask|author|authors|maintainer|maintainers|owner|owners|reviewer|reviewers|assignee|mention|by)[ \t]?:?[ \t]*(?:\*\*[ \t]*)?@([A-Za-z0-9](?:-?[A-Za-z0-9]){1,38})",
    )
    .expect("a regular expression")
});

/// Names of accounts, where the words before them speak of a person.
pub(super) fn handles(text: &str, found: &mut Vec<RedactionSpan>) {
    const NOBODY: [&str; 37] = [
        "claude",
        "copilot",
        "cursor",
        "codex",
        "gemini",
        "coderabbitai",
        "dependabot",
        "renovate",
        "greptile",
        "here",
        "channel",
        "everyone",
        "team",
        "all",
        "param",
        "returns",
        "return",
        "throws",
        "see",
        "deprecated",
        "override",
        "author",
        "since",
        "user",
        "username",
        "users",
        "owner",
        "me",
        "you",
        "mention",
        "name",
        "handle",
        "github",
        "devin",
        "message",
        "timestamp",
        "suggested-reviewers",
    ];
    for captures in MENTION.captures_iter(text) {
        let Some(name) = captures.get(1) else { continue };
        let after = text.as_bytes().get(name.end()).copied();
        let follows = text.as_bytes().get(name.end() + 1).copied();
        let joined = matches!(after, Some(b'/' | b'_' | b'(' | b'@' | b'-' | b'=' | b':' | b'['))
            || (after == Some(b'.') && follows.is_some_and(|b| b.is_ascii_alphanumeric()));
        let line = text[..name.start()].rfind('\n').map_or(0, |at| at + 1);
        let in_code = text[line..name.start()].matches('`').count() % 2 == 1;
        let lower = name.as_str().to_ascii_lowercase();
        // `@ControllerAdvice`, `@logStream`: annotations and fields. Few accounts are spelled so.
        let camel =
            name.as_str().as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
        if !joined
            && !camel
            && !in_code
            && !NOBODY.contains(&lower.as_str())
            && !["-bot", "-robot"].iter().any(|end| lower.ends_with(end))
            && !lower.starts_with("your")
            && !lower.starts_with("user")
        {
            found.push(RedactionSpan {
                start: name.start() - 1,
                end: name.end(),
                rule: "handle",
                kind: RedactionKind::Handle,
            });
        }
    }
}
