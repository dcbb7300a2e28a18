#!/usr/bin/env python3
"""Normalisation compared with that of Python: every code point, between others where it
does something, and random texts.

usage: normalize_test.py path/to/warplite_normalize_filter [texts]

Where Python has another version of Unicode than 14, only characters that Unicode has had for long
(3.2) are compared: what normalisation makes of them never changes.
"""
import random
import subprocess
import sys
import unicodedata

HANGUL = [*range(0x1100, 0x1200), *range(0xac00, 0xd7a4, 97), *range(0xac00, 0xac40)]


def known_points():
    data = unicodedata if unicodedata.unidata_version == '14.0.0' else unicodedata.ucd_3_2_0
    if data is not unicodedata:
        print(f'Unicode {unicodedata.unidata_version}: comparing characters of Unicode 3.2 alone')
    points = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
    return points if data is unicodedata else [c for c in points if data.category(chr(c)) != 'Cn']


def texts_of(points, count, rng):
    """Every character, those that do something with others that they may join; random texts."""
    known = set(points)
    marks = [c for c in points if unicodedata.combining(chr(c))]
    changing = [c for c in points if unicodedata.decomposition(chr(c))]
    parts = {ord(p) for c in changing for p in unicodedata.normalize('NFKD', chr(c))}
    parts = sorted(parts & known)
    hangul = [c for c in HANGUL if c in known]
    for c in sorted({*marks, *changing, *parts, *hangul}):
        yield chr(c)
        yield 'a' + chr(c) + '\u0301'
        yield '\u0323' + chr(c) + '\u0308\u0345\u0327' + chr(c)
    for at in range(0, len(points), 50):
        yield ''.join(map(chr, points[at:at + 50]))
    kinds = (marks, changing, parts, hangul, points, range(0x20, 0x7f))
    for _ in range(count):
        yield ''.join(chr(rng.choice(rng.choice(kinds))) for _ in range(rng.randrange(1, 12)))
    for _ in range(count // 100):  # long runs of marks
        run = [chr(rng.choice(marks)) for _ in range(rng.randrange(500))]
        yield chr(rng.choice(parts)) + ''.join(run) + chr(rng.choice(parts))


def check(program, form, texts):
    lines = '\n'.join(' '.join(f'{ord(c):x}' for c in text) for text in texts) + '\n'
    out = subprocess.run([program, form.lower()], input=lines, capture_output=True, text=True,
                         check=True).stdout.split('\n')[:-1]
    assert len(out) == len(texts), (len(out), len(texts))
    wrong = changed = 0
    for text, line in zip(texts, out):
        got = ''.join(chr(int(point, 16)) for point in line.split())
        want = unicodedata.normalize(form, text)
        changed += want != text
        if got != want:
            wrong += 1
            if wrong <= 10:
                print(f'{form} of {ascii(text)}: {ascii(got)} is not {ascii(want)}')
    print(f'{form}: {len(texts)} texts, {changed} of them changed, {wrong} wrong')
    return wrong == 0 and changed > len(texts) // 100


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    texts = list(texts_of(known_points(), count, random.Random(1)))
    right = [check(sys.argv[1], form, texts) for form in ('NFC', 'NFKC')]
    sys.exit(0 if all(right) else 1)


if __name__ == '__main__':
    main()
