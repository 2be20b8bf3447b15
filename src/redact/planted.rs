//! Made-up secrets of every kind. Keys are put together from parts and seeded noise, so that none stands in this file.

use super::RedactionKind;

/// How many passages [`planted`] makes.
pub(crate) const KINDS: usize = 58;

/// Random characters of an alphabet from a seed, so that no key stands in this file.
pub(crate) fn random(seed: u64, alphabet: &str, length: usize) -> String {
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
pub(crate) const HEX: &str = "0123456789abcdef";

/// One planted passage of every kind: (kind, passage).
pub(crate) fn planted(seed: u64) -> Vec<(RedactionKind, String)> {
    use RedactionKind::{Email, Handle, Ip, PrivateKey, Secret};
    let r = |salt: u64, alphabet: &str, length| random(seed * 128 + salt, alphabet, length);
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
        (Secret, p(&["GOC", "SPX-", &r(51, ALNUM, 28)])),
        (Secret, p(&["AccountName=store;Account", "Key=", &r(52, ALNUM, 86), "=="])),
        (
            Secret,
            p(&[
                "https://hooks.slack",
                ".com/services/T",
                &r(53, UPPER, 9),
                "/B",
                &r(54, UPPER, 9),
                "/",
                &r(55, ALNUM, 24),
            ]),
        ),
        (Secret, p(&["wh", "sec_", &r(56, ALNUM, 32)])),
        (Secret, p(&["SG", ".", &r(57, ALNUM, 22), ".", &r(58, ALNUM, 43)])),
        (Secret, p(&["dop", "_v1_", &r(59, HEX, 64)])),
        (Secret, p(&["shp", "at_", &r(60, HEX, 32)])),
        (Secret, p(&["da", "pi", &r(61, HEX, 32)])),
        (Secret, p(&["lin", "_api_", &r(62, ALNUM, 40)])),
        (Secret, p(&["nt", "n_", &r(63, ALNUM, 46)])),
        (Secret, p(&["fi", "gd_", &r(64, ALNUM, 40)])),
        (Secret, p(&["PM", "AK-", &r(65, HEX, 24), "-", &r(66, HEX, 34)])),
        (Secret, p(&["hv", "s.", &r(67, ALNUM, 24)])),
        (Secret, p(&["dp", ".pt.", &r(68, ALNUM, 43)])),
        (Secret, p(&["ATA", "TT3", &r(69, ALNUM, 180)])),
        (Secret, p(&["sb", "p_", &r(70, HEX, 40)])),
        (Secret, p(&["gs", "k_", &r(71, ALNUM, 52)])),
        (Secret, p(&["xa", "i-", &r(72, ALNUM, 80)])),
        (Secret, p(&["pp", "lx-", &r(73, ALNUM, 48)])),
        (Secret, p(&["r", "8_", &r(74, ALNUM, 37)])),
        (Secret, p(&["gl", "sa_", &r(75, ALNUM, 32), "_", &r(76, HEX, 8)])),
        (Secret, p(&["NR", "AK-", &r(77, UPPER, 27)])),
        (Secret, p(&["sntr", "ys_", &r(78, ALNUM, 90)])),
        (Secret, p(&["ruby", "gems_", &r(79, HEX, 48)])),
        (Secret, p(&["dckr", "_pat_", &r(80, ALNUM, 27)])),
        (Secret, p(&[&r(81, "123456789", 10), ":A", "A", &r(82, ALNUM, 33)])),
        (Secret, p(&["https://discord.com/api/web", "hooks/", &r(83, "123456789", 18), "/", &r(84, ALNUM, 68)])),
        (Secret, p(&["AGE-SEC", "RET-KEY-1", &r(85, "023456789ACDEFGHJKLMNPQRSTUVWXYZ", 58)])),
        (Secret, p(&["Authorization: Ba", "sic ", &r(86, ALNUM, 38), "=="])),
        (Secret, p(&["DB_PASS", "WORD=", &r(87, ALNUM, 20)])),
        (Secret, p(&["mongodb+srv", "://svc:", &r(88, ALNUM, 18), "@cluster0.mongodb.net/x"])),
        (
            PrivateKey,
            p(&[
                "-----BEGIN OPENSSH PRIV",
                "ATE KEY-----\n",
                &r(89, ALNUM, 70),
                "\n",
                &r(90, ALNUM, 70),
                "\n-----END OPENSSH PRIV",
                "ATE KEY-----",
            ]),
        ),
        (Ip, format!("2a02:{}:{}::{}", r(91, "123456789", 4), r(92, HEX, 4), r(93, "123456789", 1))),
        (Ip, format!("2607:f8b0:4005:80{}::200e", r(94, "123456789", 1))),
        (Ip, format!("2003:e{}::", r(95, "123456789", 2))),
        (Email, p(&["mailto:", &word(96), "@", &word(97), ".co.uk"])),
    ]
}
