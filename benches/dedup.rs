//! Speed and quality of duplicate search on real texts with seeded edits.
//!
//! `cargo bench --no-default-features --bench dedup -- REPOSITORIES [--copies N] [--python PYTHON]`, where REPOSITORIES
//! is a folder of bare git repositories and PYTHON an interpreter that can import datasketch. Without a folder nothing
//! is measured.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod corpus;

use aac::corpus::Sha256;
use aac::dedup::{Document, FrequencyBuilder, Options, Profile, Relation, Signature, cluster};
use corpus::varied;
use rayon::prelude::*;
use std::borrow::Cow;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

fn main() {
    let mut folder = None;
    let (mut copies, mut python) = (100_000, None);
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--copies" => copies = args.next().unwrap().parse().unwrap(),
            "--python" => python = args.next(),
            _ => folder = Some(arg),
        }
    }
    let Some(folder) = folder else { return println!("dedup: no folder of repositories given, nothing measured") };
    let texts = corpus::texts(Path::new(&folder), 200..=60_000);
    println!("{} distinct real texts", texts.len());
    quality(&texts, 5_000);
    speed(&texts, copies, python.as_deref());
}

/// Spread over the list, so that every repository is represented.
fn spread(texts: &[String], count: usize) -> Vec<&str> {
    (0..count.min(texts.len())).map(|n| texts[n * texts.len() / count.min(texts.len())].as_str()).collect()
}

fn document(text: &str) -> Document {
    Document { id: Sha256::of(text.as_bytes()), priority: 0, signature: Signature::of(text) }
}

/// Compare with the same clustering done by brute force over every pair.
fn quality(texts: &[String], count: usize) {
    let real = spread(texts, count / 2);
    let mut sample: Vec<String> = real.iter().map(|&text| text.to_owned()).collect();
    sample.extend(real.iter().enumerate().map(|(n, text)| varied(text, n as u64)));
    sample.sort();
    sample.dedup();
    sample.sort_by_key(|text| Sha256::of(text.as_bytes()));
    let documents: Vec<Document> = sample.par_iter().map(|text| document(text)).collect();
    let started = Instant::now();
    let found = cluster(
        &documents,
        |all| all.iter().map(|&i| Cow::Borrowed(sample[i].as_str())).collect(),
        &Options::default(),
    );
    let seconds = started.elapsed().as_secs_f64();

    let profiles: Vec<Profile> = sample.par_iter().map(|text| Profile::of(text)).collect();
    let duplicates = |a: usize, b: usize| {
        let (x, y) = (&documents[a].signature, &documents[b].signature);
        x.same_text(y)
            || (!x.is_exact_only() && !y.is_exact_only() && {
                let verdict = profiles[a].compare(&profiles[b]);
                verdict.similarity >= 0.8 && !verdict.contradicting
            })
    };
    let pairs: Vec<(usize, usize)> = (0..sample.len())
        .into_par_iter()
        .flat_map_iter(|b| (0..b).filter(move |&a| duplicates(a, b)).map(move |a| (a, b)))
        .collect();
    let mut leaders = vec![true; sample.len()];
    let mut joined = 0;
    let mut agree = 0;
    let mut by_member = vec![Vec::new(); sample.len()];
    for &(a, b) in &pairs {
        by_member[b].push(a);
    }
    for b in 0..sample.len() {
        leaders[b] = !by_member[b].iter().any(|&a| leaders[a]);
        joined += usize::from(!leaders[b]);
        agree += usize::from(!leaders[b] && found.members[b].relation != Relation::Canonical);
    }
    let links: Vec<(usize, usize)> =
        (0..sample.len()).map(|b| (found.members[b].canonical, b)).filter(|(a, b)| a != b).collect();
    let right = links.iter().filter(|&&(a, b)| duplicates(a, b)).count();
    println!(
        "quality: {} texts, {} duplicate pairs by brute force; {} of {} links right (precision {:.4}); {agree} of {joined} \
         duplicates found (recall {:.4}); clustering took {seconds:.2} s",
        sample.len(),
        pairs.len(),
        right,
        links.len(),
        right as f64 / links.len().max(1) as f64,
        agree as f64 / joined.max(1) as f64,
    );
}

fn speed(texts: &[String], copies: usize, python: Option<&str>) {
    let directory = tempfile::tempdir().unwrap();
    let (data, index) = (directory.path().join("texts"), directory.path().join("offsets"));
    let base = spread(texts, 5_000);
    let mut offsets = vec![0u64];
    let mut out = std::io::BufWriter::new(std::fs::File::create(&data).unwrap());
    for n in 0..copies {
        let text = varied(base[n % base.len()], n as u64);
        out.write_all(text.as_bytes()).unwrap();
        offsets.push(offsets.last().unwrap() + text.len() as u64);
    }
    out.flush().unwrap();
    std::fs::write(&index, offsets.iter().flat_map(|o| o.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let bytes = *offsets.last().unwrap() as f64;
    println!("speed: {copies} edited copies, {:.0} MB", bytes / 1e6);

    let file = std::fs::File::open(&data).unwrap();
    let read = |n: usize| {
        let mut buffer = vec![0; (offsets[n + 1] - offsets[n]) as usize];
        file.read_exact_at(&mut buffer, offsets[n]).unwrap();
        Cow::<str>::Owned(String::from_utf8(buffer).unwrap())
    };
    let mut ours = f64::MAX;
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let started = Instant::now();
        pool.install(|| {
            (0..copies).into_par_iter().for_each(|n| _ = std::hint::black_box(Sha256::of(read(n).as_bytes())))
        });
        let hashing = started.elapsed().as_secs_f64();
        let started = Instant::now();
        let (signing, found) = pool.install(|| {
            let documents: Vec<Document> = (0..copies).into_par_iter().map(|n| document(&read(n))).collect();
            (
                started.elapsed().as_secs_f64(),
                cluster(&documents, |all| all.iter().map(|&n| read(n)).collect(), &Options::default()),
            )
        });
        let total = started.elapsed().as_secs_f64();
        if threads == 1 {
            ours = total;
        }
        println!(
            "  {threads} thread(s): {total:.1} s ({:.0} documents/s; signatures {signing:.1} s), {} clusters, {} pairs compared; \
             {:.1} times plain reading and SHA-256 ({hashing:.1} s)",
            copies as f64 / total,
            found.clusters(),
            found.compared,
            total / hashing,
        );
    }
    let started = Instant::now();
    let mut builder = FrequencyBuilder::default();
    (0..copies).for_each(|n| builder.owner([read(n)]));
    let table = builder.finish();
    println!(
        "  line frequencies, 1 thread: {:.1} s, {} shared lines",
        started.elapsed().as_secs_f64(),
        table.shared_lines()
    );
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("  {line}"));
    }
    if let Some(python) = python {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/minhash_lsh.py");
        let output = std::process::Command::new(python).arg(script).args([&data, &index]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer = String::from_utf8(output.stdout).unwrap();
        let theirs: f64 = answer.split(' ').next().unwrap().parse().unwrap();
        println!("  datasketch, 1 thread: {theirs:.1} s; ratio to ours on 1 thread {:.1}", theirs / ours);
    }
}
