#!/usr/bin/env python3
"""Writes index/text/unicode_tables.cc and index/text/normalize_tables.cc from the Unicode data that this
Python has.

Keywords in databases were made with these tables: another version of Unicode changes what stored
indexes hold, so it needs a rebuild of every one of them.
"""
import sys
import unicodedata
from pathlib import Path

CODE_POINTS = range(0x110000)


def belongs_to_words(c):
    category = unicodedata.category(chr(c))
    return category[0] in "LM" or category == "Nd"


def fold(c):
    """Simple case folding: always one code point."""
    for folded in (chr(c).casefold(), chr(c).lower()):
        if len(folded) == 1:
            return ord(folded)
    return c


def word_ranges():
    ranges = []
    for c in filter(belongs_to_words, CODE_POINTS):
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return [tuple(r) for r in ranges]


def fold_ranges():
    """(first, last, step, difference); ranges do not overlap."""
    folds = {c: fold(c) - c for c in CODE_POINTS if fold(c) != c}
    ranges = []
    points = sorted(folds)
    at = 0
    while at < len(points):
        first, best = points[at], (points[at], 1)
        for step in (1, 2):
            last = first
            while folds.get(last + step) == folds[first] and (step == 1 or last + 1 not in folds):
                last += step
            if last > best[0]:
                best = (last, step)
        ranges.append((first, best[0], best[1], folds[first]))
        while at < len(points) and points[at] <= best[0]:
            at += 1
    return ranges


def combining_ranges():
    """(first, last, class), without those of class 0."""
    ranges = []
    for c in CODE_POINTS:
        combining = unicodedata.combining(chr(c))
        if ranges and ranges[-1][1:] == [c - 1, combining]:
            ranges[-1][1] = c
        elif combining:
            ranges.append([c, c, combining])
    return [tuple(r) for r in ranges]


def mapping(c):
    """(canonical, characters) of the first step of a decomposition, or None."""
    text = unicodedata.decomposition(chr(c))
    if not text:
        return None
    canonical = not text.startswith("<")
    return canonical, [int(x, 16) for x in text.split()[0 if canonical else 1:]]


def decomposition_runs():
    """(first, last, offset, length, canonical), and the characters that offsets count."""
    runs, characters = [], []
    for c in CODE_POINTS:
        if not mapping(c):
            continue
        canonical, targets = mapping(c)
        if runs and runs[-1][1] == c - 1 and runs[-1][3:] == [len(targets), canonical]:
            runs[-1][1] = c
        else:
            runs.append([c, c, len(characters), len(targets), canonical])
        characters += targets
    assert len(characters) < 0x10000
    return [tuple(r) for r in runs], characters


def composition_exclusions():
    """Canonical pairs that are not composed again."""
    pairs = {c: mapping(c)[1] for c in CODE_POINTS
             if mapping(c) and mapping(c)[0] and len(mapping(c)[1]) == 2}
    excluded = [c for c in pairs if unicodedata.normalize("NFC", chr(c)) != chr(c)]
    composed = [pairs[c] for c in pairs if c not in excluded]
    # A text is normalised in pieces between characters that are quiet (normalize.cc): what those
    # consist of must not compose with anything before it.
    assert not {first for first, _ in composed} & {second for _, second in composed}
    return excluded


def lines(items, width=96):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > width:
            yield line
            line = "   "
        line += " " + item
    yield line


def table(kind, name, pattern, rows):
    return (f"constexpr {kind} {name}[] = {{\n" + "\n".join(lines(pattern % r for r in rows)) +
            "\n};\n\n")


def source(header, tables, accessors):
    return (f"// Written by make_unicode_tables.py from Unicode {unicodedata.unidata_version}.\n"
            f'#include "index/{header}"\n\nnamespace warplite::index {{\nnamespace {{\n\n' +
            tables + "}  // namespace\n\n" +
            "".join(f"std::span<const {kind}> {function}() {{ return {name}; }}\n"
                    for kind, function, name in accessors) +
            "\n}  // namespace warplite::index\n")


def unicode_tables():
    return source(
        "unicode.h",
        table("CodePointRange", "kWordRanges", "{0x%x, 0x%x},", word_ranges()) +
        table("FoldRange", "kFoldRanges", "{0x%x, 0x%x, %d, %d},", fold_ranges()),
        [("CodePointRange", "word_ranges", "kWordRanges"),
         ("FoldRange", "fold_ranges", "kFoldRanges")])


def normalize_tables():
    runs, characters = decomposition_runs()
    return source(
        "normalize_tables.h",
        table("CombiningRange", "kCombiningRanges", "{0x%x, 0x%x, %d},", combining_ranges()) +
        table("DecompositionRun", "kDecompositionRuns", "{0x%x, 0x%x, %d, %d, %d},", runs) +
        table("std::uint32_t", "kDecompositionCharacters", "0x%x,", characters) +
        table("std::uint32_t", "kCompositionExclusions", "0x%x,", composition_exclusions()),
        [("CombiningRange", "combining_ranges", "kCombiningRanges"),
         ("DecompositionRun", "decomposition_runs", "kDecompositionRuns"),
         ("std::uint32_t", "decomposition_characters", "kDecompositionCharacters"),
         ("std::uint32_t", "composition_exclusions", "kCompositionExclusions")])


def main():
    folder = Path(__file__).resolve().parent
    (folder / "unicode_tables.cc").write_text(unicode_tables())
    (folder / "normalize_tables.cc").write_text(normalize_tables())


if __name__ == "__main__":
    sys.exit(main())
