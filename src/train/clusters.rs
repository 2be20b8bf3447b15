//! Clusters of sentence vectors as features of the linear tier. The paper's recipe has them; this says what they add.
//!
//! The vectors are reduced to their main directions, since density means little in hundreds of dimensions, and clustered
//! by density (HDBSCAN; Campello, Moulavi & Sander, 2013). The cluster of an item, or that it has none, is one feature
//! more. Clusters are found without labels and on all items, held-out ones among them, so that what they add on new
//! items is at most what they add here.

use super::fit::{HeldOut, Prepared, TrainOptions, linear_rows, nested_on};
use super::labels::Example;
use super::tuned::TunedError;
use crate::classify::metrics::SplitMix;
use crate::encoder::Encoder;
use crate::encoder::math::{Matrix, multiply};
use hdbscan::{Hdbscan, HdbscanError, HdbscanHyperParams, NnAlgorithm};
use serde::Serialize;

/// How clusters are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterOptions {
    /// Directions that are kept of a vector.
    pub directions: usize,
    /// Fewest and most items of a cluster; without a bound above, a few of them hold nearly everything.
    pub sizes: [usize; 2],
    /// Neighbours that must be near for an item not to be noise, itself among them.
    pub neighbours: usize,
    /// Items that are clustered, drawn evenly: the time grows with their square. The others join the nearest cluster that
    /// reaches as far as them.
    pub drawn: usize,
    /// Value of the feature.
    pub scale: f32,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { directions: 10, sizes: [10, 400], neighbours: 5, drawn: 8_000, scale: 1.0 }
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClusterReport {
    /// Items, phrasings and chosen ones among them.
    pub items: usize,
    /// Of these, those that were clustered; the others joined.
    pub drawn: usize,
    /// Dimensions of a sentence vector, and directions kept of it.
    pub directions: [usize; 2],
    /// Clusters.
    pub clusters: usize,
    /// Share of the items that belong to none.
    pub noise: f64,
}

/// Held-out answers of the linear tier with clusters among its features: nested cross-validation, whole repositories
/// apart.
///
/// # Errors
/// Labels too few or one-sided, or a text that the tokenizer of the encoder cannot read.
pub fn nested_with_clusters(
    encoder: &Encoder,
    examples: &[Example],
    options: &TrainOptions,
    clusters: &ClusterOptions,
) -> Result<(Vec<HeldOut>, ClusterReport), TunedError> {
    super::fit::check(examples, options)?;
    let texts: Vec<&str> = examples.iter().map(|e| e.text.as_str()).collect();
    let vectors = encoder.encode(&texts)?;
    let (cluster_of, report) = assign(&vectors, clusters)?;
    let mut rows = linear_rows(examples, &options.features);
    // Buckets of their own, above the hashed ones; the last is that of items in no cluster.
    let above = 1u32 << options.features.bits;
    for (row, cluster) in rows.iter_mut().zip(&cluster_of) {
        row.indices.push(above + cluster.unwrap_or(report.clusters) as u32);
        row.values.push(clusters.scale);
    }
    let bits = (above as usize + report.clusters).ilog2() + 1;
    let prepared = Prepared::of_rows(examples, options, rows, bits)?;
    Ok((nested_on(&prepared, |_| true), report))
}

/// The cluster of every vector.
fn assign(vectors: &[Vec<f32>], options: &ClusterOptions) -> Result<(Vec<Option<usize>>, ClusterReport), HdbscanError> {
    let points = reduce(vectors, options.directions);
    let mut order: Vec<usize> = (0..points.len()).collect();
    SplitMix(1).shuffle(&mut order);
    order.truncate(options.drawn);
    let drawn: Vec<Vec<f32>> = order.iter().map(|i| points[*i].clone()).collect();
    let parameters = HdbscanHyperParams::builder()
        .min_cluster_size(options.sizes[0])
        .max_cluster_size(options.sizes[1])
        .min_samples(options.neighbours)
        .nn_algorithm(NnAlgorithm::BruteForce)
        .build();
    let labels = Hdbscan::new(&drawn, parameters).cluster()?;
    let count = labels.iter().copied().max().map_or(0, |last| usize::try_from(last + 1).unwrap_or(0));
    let reaches = reaches(&drawn, &labels, count);
    let mut cluster_of: Vec<Option<usize>> = points.iter().map(|point| nearest(&reaches, point)).collect();
    for (i, label) in order.iter().zip(&labels) {
        cluster_of[*i] = usize::try_from(*label).ok();
    }
    let noise = cluster_of.iter().filter(|c| c.is_none()).count();
    let report = ClusterReport {
        items: points.len(),
        drawn: order.len(),
        directions: [vectors.first().map_or(0, Vec::len), points.first().map_or(0, Vec::len)],
        clusters: count,
        noise: noise as f64 / points.len().max(1) as f64,
    };
    Ok((cluster_of, report))
}

/// The middle of a cluster, and the squared distance of its farthest member.
struct Reach {
    middle: Vec<f32>,
    squared: f32,
}

fn reaches(points: &[Vec<f32>], labels: &[i32], count: usize) -> Vec<Reach> {
    (0..count)
        .map(|cluster| {
            let members: Vec<&Vec<f32>> = points
                .iter()
                .zip(labels)
                .filter(|(_, label)| usize::try_from(**label) == Ok(cluster))
                .map(|(point, _)| point)
                .collect();
            let middle = mean(&members);
            let squared = members.iter().map(|member| squared_distance(member, &middle)).fold(0.0, f32::max);
            Reach { middle, squared }
        })
        .collect()
}

/// The nearest of the clusters that reach as far as `point`.
fn nearest(reaches: &[Reach], point: &[f32]) -> Option<usize> {
    reaches
        .iter()
        .enumerate()
        .map(|(cluster, reach)| (squared_distance(point, &reach.middle), reach.squared, cluster))
        .filter(|(distance, reach, _)| distance <= reach)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, _, cluster)| cluster)
}

fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn mean(rows: &[&Vec<f32>]) -> Vec<f32> {
    let mut mean = vec![0.0f32; rows.first().map_or(0, |row| row.len())];
    for row in rows {
        crate::encoder::math::add(&mut mean, row);
    }
    mean.iter_mut().for_each(|v| *v /= rows.len().max(1) as f32);
    mean
}

/// Rounds of the search for directions; the first of them settle long before.
const ROUNDS: usize = 60;

/// The coordinates of `vectors` along their `count` main directions: principal components, by orthogonal iteration.
fn reduce(vectors: &[Vec<f32>], count: usize) -> Vec<Vec<f32>> {
    let mean = mean(&vectors.iter().collect::<Vec<_>>());
    let width = mean.len();
    let count = count.min(width);
    let centred: Vec<f32> = vectors.iter().flat_map(|row| row.iter().zip(&mean).map(|(v, m)| v - m)).collect();
    let rows = Matrix::new(&centred, vectors.len(), width);
    let mut covariance = vec![0.0f32; width * width];
    multiply(&mut covariance, width, rows.transposed(), rows, 1.0 / vectors.len().max(1) as f32, false);
    let mut random = SplitMix(1);
    let mut directions: Vec<f32> =
        (0..count * width).map(|_| (random.next_u64() >> 40) as f32 / (1u64 << 23) as f32 - 1.0).collect();
    orthonormalise(&mut directions, width);
    let mut next = vec![0.0f32; count * width];
    for _ in 0..ROUNDS {
        let (directions_now, covariance) =
            (Matrix::new(&directions, count, width), Matrix::new(&covariance, width, width));
        multiply(&mut next, width, directions_now, covariance, 1.0, false);
        std::mem::swap(&mut directions, &mut next);
        orthonormalise(&mut directions, width);
    }
    let mut along = vec![0.0f32; vectors.len() * count];
    multiply(&mut along, count, rows, Matrix::new(&directions, count, width).transposed(), 1.0, false);
    if count == 0 { vec![Vec::new(); vectors.len()] } else { along.chunks_exact(count).map(<[f32]>::to_vec).collect() }
}

/// Make the rows orthogonal and of length one (Gram & Schmidt); one that is a sum of earlier ones becomes zero.
fn orthonormalise(rows: &mut [f32], width: usize) {
    for at in 0..rows.len() / width.max(1) {
        let (done, rest) = rows.split_at_mut(at * width);
        let row = &mut rest[..width];
        let before: f32 = row.iter().map(|v| v * v).sum();
        // Twice, since the first pass leaves what rounding cost it (Giraud, Langou & Rozložník, 2005).
        for other in done.chunks_exact(width).chain(done.chunks_exact(width)) {
            let shared: f32 = row.iter().zip(other).map(|(a, b)| a * b).sum();
            row.iter_mut().zip(other).for_each(|(a, b)| *a -= shared * b);
        }
        let squared: f32 = row.iter().map(|v| v * v).sum();
        let factor = if squared > before * 1e-10 { 1.0 / squared.sqrt() } else { 0.0 };
        row.iter_mut().for_each(|v| *v *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tuned::tests::{examples, options};
    use super::*;
    use crate::classify::features::FeatureOptions;
    use crate::encoder::tests::tiny;

    /// Thirty points about each of three corners that lie along the first two of 24 axes, and two far from all.
    fn vectors() -> Vec<Vec<f32>> {
        let mut random = SplitMix(7);
        let mut noise = |size: f32| ((random.next_u64() >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * size;
        let corners = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]];
        let around = (0..90).map(|i| {
            let corner = corners[i / 30];
            (0..24).map(|axis| corner.get(axis).copied().unwrap_or(0.0) + noise(0.05)).collect()
        });
        let mut vectors: Vec<Vec<f32>> = around.collect();
        vectors.extend([[5.0, 5.0], [-6.0, 4.0]].map(|far| {
            let mut vector = vec![0.0; 24];
            vector[..2].copy_from_slice(&far);
            vector
        }));
        vectors
    }

    #[test]
    fn directions_of_the_largest_variance_come_first_and_keep_distances() {
        let vectors = vectors();
        let points = reduce(&vectors, 2);
        let variance = |axis: usize| points.iter().map(|p| p[axis] * p[axis]).sum::<f32>();
        assert!(variance(0) > variance(1));
        for (i, j) in [(0, 45), (10, 80), (90, 91)] {
            let (whole, kept) = (squared_distance(&vectors[i], &vectors[j]), squared_distance(&points[i], &points[j]));
            assert!((whole - kept).abs() < 0.1, "{whole} {kept}");
        }
        assert_eq!(reduce(&vectors, 100)[0].len(), 24);
    }

    #[test]
    fn dense_places_are_clusters_and_what_is_far_from_all_is_in_none() {
        let options = ClusterOptions { directions: 2, ..ClusterOptions::default() };
        for drawn in [92, 70] {
            let (cluster_of, report) = assign(&vectors(), &ClusterOptions { drawn, ..options }).unwrap();
            assert_eq!((report.clusters, report.drawn, report.items), (3, drawn, 92));
            for corner in cluster_of[..90].chunks(30) {
                let own = corner.iter().flatten().next();
                // Whoever was not drawn may lie just beyond the farthest who was.
                let elsewhere = corner.iter().filter(|cluster| cluster.as_ref() != own).count();
                assert!(own.is_some() && elsewhere <= if drawn == 92 { 0 } else { 3 }, "{corner:?}");
            }
            assert_eq!(cluster_of[90..], [None, None]);
        }
    }

    #[test]
    fn the_cluster_alone_tells_the_types_of_texts_that_lie_apart() {
        let examples = examples();
        let labels = options().labels;
        let features = FeatureOptions { scales: [0.0; 9], ..labels.features.clone() };
        let blind = TrainOptions { features, ..labels };
        let right = |smallest: usize| {
            let sizes = [smallest, 400];
            let clusters = ClusterOptions { directions: 6, sizes, ..ClusterOptions::default() };
            let (held, report) = nested_with_clusters(&tiny(), &examples, &blind, &clusters).unwrap();
            assert_eq!((held.len(), report.items), (150, 150));
            (held.iter().filter(|h| h.item_type() == examples[h.index].label).count(), report)
        };
        let (found, report) = right(15);
        assert!(report.clusters >= 4 && found > 90, "{found} of 150, {report:?}");
        // Where no cluster is large enough, nothing is left to tell by.
        let (guessed, report) = right(100);
        assert!(report.clusters == 0 && guessed < 60, "{guessed} of 150, {report:?}");
    }
}
