//! Values that stand for a secret and are none.

/// True for `YOUR_API_KEY`, `sk-xxxx`, `<token>`, `${VAR}` and their kin.
pub(super) fn is_placeholder(value: &str) -> bool {
    const SIGNS: [&str; 34] = [
        "your",
        "password",
        "example",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "xxxx",
        "redacted",
        "dummy",
        "fake",
        "sample",
        "insert",
        "replace",
        "my-",
        "my_",
        "todo",
        "foobar",
        "test-",
        "test_",
        "...",
        "${",
        "{{",
        "<",
        "****",
        "secret-key",
        "secret_key",
        "abcdef",
        "abc123",
        "123abc",
        "123456",
        "process.env",
        "os.environ",
        "getenv",
    ];
    let lower = value.to_ascii_lowercase();
    // A test key of a payment service is still a key; its prefix is not a sign, nor is that of an age key.
    let body = ["sk_test_", "rk_test_", "age-secret-key-1"]
        .iter()
        .find_map(|prefix| lower.strip_prefix(prefix))
        .unwrap_or(&lower);
    SIGNS.iter().any(|sign| body.contains(sign)) || repeats(body)
}

/// One character makes up half of the value, or more.
fn repeats(value: &str) -> bool {
    let mut counts = [0usize; 256];
    value.bytes().for_each(|b| counts[usize::from(b)] += 1);
    counts.iter().any(|&count| count * 2 >= value.len().max(1))
}

/// Shannon entropy in bits a byte.
pub(super) fn entropy(value: &str) -> f64 {
    let mut counts = [0usize; 256];
    value.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let total = value.len().max(1) as f64;
    counts.iter().filter(|&&n| n > 0).map(|&n| n as f64 / total).map(|p| -p * p.log2()).sum()
}

/// A value made by a machine: digits among letters, and neither an identifier, a path, a digest nor a UUID.
pub(super) fn is_random(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let upper = value.bytes().any(|b| b.is_ascii_uppercase());
    let lower = value.bytes().any(|b| b.is_ascii_lowercase());
    let hex = value.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let digest = hex && value.len() != 32;
    let code = value.starts_with(['/', '.', '@', '$', '#', '-', '_', '='])
        || ["()", "=>", "==", "//", "./", "::", "&&"].iter().any(|sign| value.contains(sign))
        || value
            .split(['.', '/', '_', '-'])
            .filter(|part| part.len() > 2 && part.bytes().all(|b| b.is_ascii_alphabetic()))
            .count()
            > 2;
    let uniform =
        |part: &str| part.bytes().all(|b| b.is_ascii_alphabetic()) || part.bytes().all(|b| b.is_ascii_digit());
    let identifier = value.split(['.', '/', '_', '-']).all(uniform);
    !identifier && digits >= 2 && digits * 20 >= value.len() && (upper || lower) && !digest && !code
}
