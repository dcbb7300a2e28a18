#!/usr/bin/env python3
"""Writes index/unicode_tables.cc from the Unicode data that this Python has.

Keywords in databases were made with these tables: another version of Unicode changes what stored
indexes hold, so it needs a rebuild of every one of them.
"""
import sys
import unicodedata

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


def lines(items, width=96):
    line = "   "
    for item in items:
        if len(line) + 1 + len(item) > width:
            yield line
            line = "   "
        line += " " + item
    yield line


def main():
    words = ["{0x%x, 0x%x}," % r for r in word_ranges()]
    folds = ["{0x%x, 0x%x, %d, %d}," % r for r in fold_ranges()]
    print("// Written by make_unicode_tables.py from Unicode %s." % unicodedata.unidata_version)
    print('#include "index/unicode.h"\n\nnamespace warplite::index {\nnamespace {\n')
    print("constexpr CodePointRange kWordRanges[] = {")
    print("\n".join(lines(words)) + "\n};\n")
    print("constexpr FoldRange kFoldRanges[] = {")
    print("\n".join(lines(folds)) + "\n};\n\n}  // namespace\n")
    print("std::span<const CodePointRange> word_ranges() { return kWordRanges; }")
    print("std::span<const FoldRange> fold_ranges() { return kFoldRanges; }\n")
    print("}  // namespace warplite::index")


if __name__ == "__main__":
    sys.exit(main())
