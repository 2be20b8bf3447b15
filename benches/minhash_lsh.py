"""The same work with datasketch: word 5-grams, 120 permutations, LSH at 0.8. Arguments: texts file, offsets file."""
import struct, sys, time
from datasketch import MinHash, MinHashLSH

data = open(sys.argv[1], "rb")
raw = open(sys.argv[2], "rb").read()
offsets = struct.unpack(f"<{len(raw) // 8}Q", raw)
started = time.perf_counter()
lsh = MinHashLSH(num_perm=120, params=(20, 6))
clustered = 0
for index, (start, end) in enumerate(zip(offsets, offsets[1:])):
    data.seek(start)
    words = data.read(end - start).decode().split()
    shingles = {" ".join(words[i : i + 5]).encode() for i in range(max(1, len(words) - 4))}
    minhash = MinHash(num_perm=120)
    minhash.update_batch(list(shingles))
    if lsh.query(minhash):
        clustered += 1
    lsh.insert(index, minhash)
print(time.perf_counter() - started, clustered)
