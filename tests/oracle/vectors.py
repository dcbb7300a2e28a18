"""Vectors and their canonical distances, in Python floats, which are IEEE doubles. Those of SPARSE
columns are dictionaries, whose products are summed by ascending index.

The definition: sixteen accumulators, element i goes to accumulator i mod 16 in increasing i,
then a[j] += a[j + s] for s = 8, 4, 2, 1; nothing is fused.
"""
import json
import math
import struct

DISTANCES = {'FLOAT': ('l2', 'cosine', 'ip', 'l1'), 'FLOAT16': ('l2', 'cosine', 'ip', 'l1'),
             'BFLOAT16': ('l2', 'cosine', 'ip', 'l1'),
             'INT8': ('l2', 'cosine', 'ip', 'l1'), 'BIT': ('hamming', 'jaccard'), 'SPARSE': ('ip',)}


def canonical_sum(terms):
    lanes = [0.0] * 16
    for i, term in enumerate(terms):
        lanes[i & 15] += term
    for s in (8, 4, 2, 1):
        for j in range(s):
            lanes[j] += lanes[j + s]
    return lanes[0]


def negated(x):
    return 0.0 if x == 0 else -x


def distance(name, x, y):
    """x and y as decode() gives them."""
    if isinstance(x, dict):
        total = 0.0
        for index in sorted(x.keys() & y.keys()):
            total += x[index] * y[index]
        return negated(total)
    if name == 'hamming':
        return float(sum(bin(a ^ b).count('1') for a, b in zip(x, y)))
    if name == 'jaccard':
        either = sum(bin(a | b).count('1') for a, b in zip(x, y))
        return sum(bin(a ^ b).count('1') for a, b in zip(x, y)) / either if either else 0.0
    if name == 'l2':
        return math.sqrt(canonical_sum([(a - b) * (a - b) for a, b in zip(x, y)]))
    if name == 'l1':
        return float(canonical_sum([abs(a - b) for a, b in zip(x, y)]))
    dot = canonical_sum([a * b for a, b in zip(x, y)])
    if name == 'ip':
        return negated(dot)
    xx = canonical_sum([a * a for a in x])
    yy = canonical_sum([b * b for b in y])
    return 1.0 if xx == 0 or yy == 0 else max(0.0, 1.0 - dot / math.sqrt(xx * yy))


def encode(kind, values):
    """The stored bytes. BIT: values are zeros and ones, least significant bit first. SPARSE: an
    object, or pairs, as JSON has them."""
    if kind == 'SPARSE':
        pairs = values.items() if isinstance(values, dict) else values
        return b''.join(struct.pack('<If', int(index), value) for index, value in pairs)
    if kind == 'FLOAT':
        return struct.pack('<%df' % len(values), *values)
    if kind == 'FLOAT16':
        return struct.pack('<%de' % len(values), *values)
    if kind == 'BFLOAT16':
        words = struct.unpack('<%dI' % len(values), struct.pack('<%df' % len(values), *values))
        return struct.pack('<%dH' % len(words),
                           *((word + 0x7fff + (word >> 16 & 1)) >> 16 for word in words))
    if kind == 'INT8':
        return struct.pack('<%db' % len(values), *values)
    return bytes(sum(bit << i for i, bit in enumerate(values[at:at + 8]))
                 for at in range(0, len(values), 8))


def decode(kind, blob):
    if kind == 'SPARSE':
        return dict(struct.iter_unpack('<If', blob))
    if kind == 'FLOAT':
        return struct.unpack('<%df' % (len(blob) // 4), blob)
    if kind == 'FLOAT16':
        return struct.unpack('<%de' % (len(blob) // 2), blob)
    if kind == 'BFLOAT16':
        words = struct.unpack('<%dH' % (len(blob) // 2), blob)
        return struct.unpack('<%df' % len(words),
                             struct.pack('<%dI' % len(words), *(word << 16 for word in words)))
    if kind == 'INT8':
        return tuple(float(v) for v in struct.unpack('<%db' % len(blob), blob))
    return tuple(blob)


def random_values(rng, kind, dim):
    """Small whole numbers more often than not: they make ties."""
    if kind == 'BIT':
        density = rng.choice((0.0, 0.1, 0.5, 1.0))
        return [int(rng.random() < density) for _ in range(dim)]
    if kind == 'INT8':
        limit = rng.choice((1, 3, 128))
        return [rng.randint(-limit, limit - (limit == 128)) for _ in range(dim)]
    style = rng.random()
    if style < 0.5:
        return [float(rng.randint(-2, 2)) for _ in range(dim)]
    if style < 0.55:
        return [0.0] * dim
    scale = 1.0
    if style > 0.9:
        scale = rng.choice((1e-30, 1e18, 1e30) if kind in ('FLOAT', 'BFLOAT16') else (1e-4, 1e3))
    return [rng.gauss(0, 1) * scale for _ in range(dim)]


def random_sparse(rng, dim):
    """Few indexes are common, so that sums have several terms and there are ties."""
    indexes = set(rng.sample(range(min(dim, 12)), rng.randint(0, min(dim, 12))))
    if rng.random() < 0.3:
        indexes.add(rng.randrange(dim))
    return dict(zip(sorted(indexes), random_values(rng, 'FLOAT', len(indexes))))


def matrix(kind, blobs):
    """Several vectors as warp_knn_arrays() takes them."""
    if kind != 'SPARSE':
        return b''.join(blobs)
    ends = [0]
    for blob in blobs:
        ends.append(ends[-1] + len(blob) // 8)
    pairs = list(struct.iter_unpack('<If', b''.join(blobs)))
    return struct.pack(f'<{len(ends) + 1}q{len(pairs)}I{len(pairs)}f', len(blobs), *ends,
                       *(index for index, _ in pairs), *(value for _, value in pairs))


def random_blob(rng, kind, dim):
    if kind == 'SPARSE':
        return encode(kind, random_sparse(rng, dim))
    return encode(kind, random_values(rng, kind, dim))


def as_input(rng, kind, blob):
    """The same vector as something a user might write: a blob or JSON text."""
    if kind in ('FLOAT16', 'BFLOAT16') and rng.random() < 0.3:
        return encode('FLOAT', decode(kind, blob))
    if rng.random() < 0.6:
        return blob
    if kind == 'SPARSE':
        entries = decode(kind, blob)
        return json.dumps(entries if rng.random() < 0.5 else list(entries.items()))
    if kind == 'BIT':
        return json.dumps([byte >> i & 1 for byte in blob for i in range(8)])
    values = decode(kind, blob)
    return json.dumps([int(v) for v in values] if kind == 'INT8' else list(values))
