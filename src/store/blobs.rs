//! Blobs: distinct bytes, once, compressed with a dictionary trained on the corpus itself.

use super::{BATCH, RunId, Store, StoreError};
use crate::corpus::{GitOid, Sha256};
use crate::encoding;
use crate::taxonomy::TextEncoding;
use rayon::prelude::*;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// zstd level of stored bodies: past it the dictionary gains more than the effort does.
const LEVEL: i32 = 6;
/// Largest body that is believed when unpacking: git hosts serve at most 100 MB a blob.
const MAX_BODY: usize = 128 << 20;

/// Key of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(pub i64);

/// A blob ready to be written. Made by [`Packer::encode`], which costs the time; writing it is cheap.
#[derive(Debug, Clone)]
pub struct NewBlob {
    /// Digest of the bytes.
    pub sha256: Sha256,
    /// Git's id of the bytes.
    pub git_oid: GitOid,
    size: i64,
    encoding: TextEncoding,
    codec: i64,
    dictionary: Option<i64>,
    body: Vec<u8>,
}

/// Packs and unpacks bodies.
#[derive(Debug, Clone, Default)]
pub struct Codec {
    dictionaries: HashMap<i64, Arc<Dictionary>>,
    newest: Option<i64>,
}

/// A dictionary digested once: to digest it for each body costs more than to pack most bodies.
struct Dictionary {
    packing: EncoderDictionary<'static>,
    unpacking: DecoderDictionary<'static>,
}

impl Dictionary {
    fn new(bytes: &[u8]) -> Self {
        Self { packing: EncoderDictionary::copy(bytes, LEVEL), unpacking: DecoderDictionary::copy(bytes) }
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary").finish_non_exhaustive()
    }
}

impl Codec {
    /// zstd without a dictionary.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Packs one body after another with these dictionaries; each thread has its own.
    pub fn packer(&self) -> Packer<'_> {
        Packer { codec: self, context: None }
    }

    /// [`Packer::encode`] over many bodies on all cores.
    pub fn encode_all(&self, bodies: &[Vec<u8>]) -> Result<Vec<NewBlob>, std::io::Error> {
        bodies.par_iter().map_init(|| self.packer(), |packer, bytes| packer.encode(bytes)).collect()
    }
}

/// Packs one body after another. A context is a megabyte that is made ready once instead of for each body.
pub struct Packer<'c> {
    codec: &'c Codec,
    context: Option<Compressor<'c>>,
}

impl Packer<'_> {
    /// Digest and pack one body; the smallest of the three codecs is taken.
    pub fn encode(&mut self, bytes: &[u8]) -> Result<NewBlob, std::io::Error> {
        let (codec, dictionary, body) = self.pack(bytes)?;
        let (encoding, _) = encoding::decode(bytes);
        Ok(NewBlob {
            sha256: Sha256::of(bytes),
            git_oid: GitOid::of_blob(bytes),
            size: bytes.len() as i64,
            encoding,
            codec,
            dictionary,
            body,
        })
    }

    /// Codec, dictionary and packed body.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> Result<(i64, Option<i64>, Vec<u8>), std::io::Error> {
        let newest = self.codec.newest.and_then(|id| Some((id, self.codec.dictionaries.get(&id)?)));
        let context = match self.context.take() {
            Some(context) => context,
            None => match newest {
                Some((_, dictionary)) => Compressor::with_prepared_dictionary(&dictionary.packing)?,
                None => Compressor::new(LEVEL)?,
            },
        };
        let body = self.context.insert(context).compress(bytes)?;
        Ok(match newest {
            _ if body.len() >= bytes.len() => (0, None, bytes.to_vec()),
            Some((id, _)) => (2, Some(id), body),
            None => (1, None, body),
        })
    }
}

/// Unpacks one body after another. A context is a hundred kilobytes that are cleared when it is made.
struct Unpacker<'c> {
    codec: &'c Codec,
    plain: Option<Decompressor<'static>>,
    with: HashMap<i64, Decompressor<'c>>,
}

impl<'c> Unpacker<'c> {
    fn new(codec: &'c Codec) -> Self {
        Self { codec, plain: None, with: HashMap::new() }
    }

    fn unpack(&mut self, packed: &Packed) -> Result<Vec<u8>, String> {
        let size = usize::try_from(packed.size).ok().filter(|s| *s <= MAX_BODY).ok_or("impossible size")?;
        let said = |e: std::io::Error| e.to_string();
        let bytes = match (packed.codec, packed.dictionary) {
            (0, _) => packed.body.clone(),
            (1, _) => {
                let context = match self.plain.take() {
                    Some(context) => context,
                    None => Decompressor::new().map_err(said)?,
                };
                self.plain.insert(context).decompress(&packed.body, size).map_err(said)?
            }
            (_, Some(id)) => {
                let context = match self.with.entry(id) {
                    Entry::Occupied(there) => there.into_mut(),
                    Entry::Vacant(free) => {
                        let dictionary = self.codec.dictionaries.get(&id).ok_or("its dictionary is not there")?;
                        free.insert(Decompressor::with_prepared_dictionary(&dictionary.unpacking).map_err(said)?)
                    }
                };
                context.decompress(&packed.body, size).map_err(said)?
            }
            _ => return Err("it names no dictionary".to_owned()),
        };
        if bytes.len() == size { Ok(bytes) } else { Err(format!("{} bytes instead of {size}", bytes.len())) }
    }
}

impl Store {
    /// The codec with the corpus's dictionaries, to pack bodies outside the write lock.
    pub fn codec(&self) -> Codec {
        // A poisoned lock still holds a whole codec: it is only ever replaced.
        self.codec.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(super) async fn load_codec(&self) -> Result<Codec, StoreError> {
        let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as("SELECT id, body FROM dictionary ORDER BY id")
            .fetch_all(&self.writer)
            .await
            .map_err(|e| self.failed("read dictionaries", e))?;
        let newest = rows.last().map(|(id, _)| *id);
        Ok(Codec {
            dictionaries: rows.into_iter().map(|(id, body)| (id, Arc::new(Dictionary::new(&body)))).collect(),
            newest,
        })
    }

    /// Take up the dictionaries that are stored now.
    pub(super) async fn reload_codec(&self) -> Result<(), StoreError> {
        let codec = self.load_codec().await?;
        *self.codec.write().unwrap_or_else(std::sync::PoisonError::into_inner) = codec;
        Ok(())
    }

    /// Write blobs that may be there already; returns their keys in order.
    pub async fn put_blobs(&self, run: RunId, blobs: &[NewBlob]) -> Result<Vec<BlobId>, StoreError> {
        let mut tx = self.begin().await?;
        let ids = self.put_blobs_in(&mut tx, run, blobs).await?;
        self.commit(tx).await?;
        Ok(ids)
    }

    /// [`Self::put_blobs`] inside a transaction of the caller.
    pub(crate) async fn put_blobs_in(
        &self,
        tx: &mut Transaction<'static, Sqlite>,
        run: RunId,
        blobs: &[NewBlob],
    ) -> Result<Vec<BlobId>, StoreError> {
        let failed = |e| self.failed("write blobs", e);
        let mut ids = Vec::with_capacity(blobs.len());
        for chunk in blobs.chunks(BATCH) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT INTO blob (sha256, git_oid, size, encoding, codec, dictionary_id, body, run_id) ",
            );
            insert.push_values(chunk, |mut values, blob| {
                values
                    .push_bind(blob.sha256.0.to_vec())
                    .push_bind(blob.git_oid.0.to_vec())
                    .push_bind(blob.size)
                    .push_bind(blob.encoding.as_str())
                    .push_bind(blob.codec)
                    .push_bind(blob.dictionary)
                    .push_bind(&blob.body)
                    .push_bind(run.0);
            });
            insert.push(" ON CONFLICT (sha256) DO NOTHING");
            insert.build().execute(&mut **tx).await.map_err(failed)?;
            let mut select = QueryBuilder::<Sqlite>::new("SELECT sha256, id FROM blob WHERE sha256 IN (");
            let mut list = select.separated(", ");
            for blob in chunk {
                list.push_bind(blob.sha256.0.to_vec());
            }
            select.push(")");
            let rows: Vec<(Vec<u8>, i64)> = select.build_query_as().fetch_all(&mut **tx).await.map_err(failed)?;
            let found: HashMap<Vec<u8>, i64> = rows.into_iter().collect();
            for blob in chunk {
                let id = found.get(blob.sha256.0.as_slice());
                ids.push(BlobId(
                    *id.ok_or_else(|| self.damaged(format!("blob {}", blob.sha256), "not found after its write"))?,
                ));
            }
        }
        Ok(ids)
    }

    /// Which of these git ids are stored, with their keys.
    pub async fn known_oids(&self, oids: &[GitOid]) -> Result<HashMap<GitOid, BlobId>, StoreError> {
        let mut known = HashMap::new();
        for chunk in oids.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new("SELECT git_oid, min(id) FROM blob WHERE git_oid IN (");
            let mut list = query.separated(", ");
            for oid in chunk {
                list.push_bind(oid.0.to_vec());
            }
            query.push(") GROUP BY git_oid");
            let rows: Vec<(Vec<u8>, i64)> =
                query.build_query_as().fetch_all(self.read()).await.map_err(|e| self.failed("look up blobs", e))?;
            known.extend(rows.iter().filter_map(|(oid, id)| Some((GitOid::from_slice(oid)?, BlobId(*id)))));
        }
        Ok(known)
    }

    /// The bytes of a blob, checked against its size; none for a body that a copy for others lacks.
    pub async fn body(&self, blob: BlobId) -> Result<Vec<u8>, StoreError> {
        let bodies = self.bodies(&[blob]).await?;
        bodies.into_iter().next().ok_or_else(|| self.damaged(format!("blob {}", blob.0), "it is not there"))
    }

    /// The bytes of several blobs, in the order asked for. Unpacking runs on all cores.
    pub async fn bodies(&self, blobs: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
        let (rows, codec) = (self.packed(blobs).await?, self.codec());
        let unpack = |unpacker: &mut Unpacker, blob: &BlobId| self.unpack(unpacker, &rows, *blob);
        blobs.par_iter().map_init(|| Unpacker::new(&codec), unpack).collect()
    }

    /// [`Self::bodies`] on the calling thread, for callers that keep all cores busy themselves.
    pub async fn bodies_in_turn(&self, blobs: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
        let (rows, codec) = (self.packed(blobs).await?, self.codec());
        let mut unpacker = Unpacker::new(&codec);
        blobs.iter().map(|blob| self.unpack(&mut unpacker, &rows, *blob)).collect()
    }

    fn unpack(
        &self,
        unpacker: &mut Unpacker<'_>,
        rows: &HashMap<i64, Packed>,
        blob: BlobId,
    ) -> Result<Vec<u8>, StoreError> {
        let what = || format!("blob {}", blob.0);
        let packed = rows.get(&blob.0).ok_or_else(|| self.damaged(what(), "it is not there"))?;
        unpacker.unpack(packed).map_err(|why| self.damaged(what(), why))
    }

    async fn packed(&self, blobs: &[BlobId]) -> Result<HashMap<i64, Packed>, StoreError> {
        let mut rows = HashMap::with_capacity(blobs.len());
        for chunk in blobs.chunks(BATCH) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "SELECT id, codec, dictionary_id, coalesce(kept, size), body FROM blob WHERE id IN (",
            );
            let mut list = query.separated(", ");
            for blob in chunk {
                list.push_bind(blob.0);
            }
            query.push(")");
            for row in query.build().fetch_all(self.read()).await.map_err(|e| self.failed("read bodies", e))? {
                let packed = Packed::of(&row).map_err(|e| self.failed("read bodies", e))?;
                rows.insert(packed.id, packed);
            }
        }
        Ok(rows)
    }
}

struct Packed {
    id: i64,
    codec: i64,
    dictionary: Option<i64>,
    size: i64,
    body: Vec<u8>,
}

impl Packed {
    fn of(row: &sqlx::sqlite::SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get(0)?,
            codec: row.try_get(1)?,
            dictionary: row.try_get(2)?,
            size: row.try_get(3)?,
            body: row.try_get(4)?,
        })
    }
}
