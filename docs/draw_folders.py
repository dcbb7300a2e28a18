"""Draws docs/folders.svg from the table of folders in docs/architecture.md.

    draw_folders.py            writes the picture
    draw_folders.py --check    fails unless it is as the table says
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, HEIGHT, GAP, BAND_GAP, LABEL = 118, 26, 14, 46, 86
ROW = re.compile(r'^\| `([a-z0-9_/]+)/` \| (.*?) \|(.*)\|$')


def read_table():
    """[(folder, question, [what it may include])], as the table has them."""
    with open(os.path.join(HERE, 'architecture.md'), encoding='utf-8') as text:
        rows = [ROW.match(line.rstrip('\n')) for line in text]
    return [(row[1], row[2], re.findall(r'`([^`]+)`', row[3])) for row in rows if row]


def top_of(folder):
    return folder.split('/')[0]


def place(table):
    """{folder: (x, y)}: a band for each top folder, the highest first, its root at the left."""
    bands = []
    for folder, _, _ in table:
        if top_of(folder) not in bands:
            bands.append(top_of(folder))
    places = {}
    for number, band in enumerate(reversed(bands)):
        inside = [folder for folder, _, _ in table if top_of(folder) == band]
        inside.sort(key=lambda folder: folder != band)
        for column, folder in enumerate(inside):
            places[folder] = (LABEL + column * (WIDTH + GAP), 20 + number * (HEIGHT + BAND_GAP))
    return places


def box(folder, question, at):
    name = folder if len(folder) < 19 else '…/' + folder.rsplit('/', 1)[1]
    return (f'<g><title>{folder}/: {question.replace("`", "")}</title>'
            f'<rect x="{at[0]}" y="{at[1]}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>'
            f'<text x="{at[0] + WIDTH / 2}" y="{at[1] + 17}">{name}/</text></g>')


def arc(start, end):
    """Within a band: from the lower edge of one box to that of another, the farther the deeper."""
    x, y = start[0] + WIDTH / 2, start[1] + HEIGHT
    to = end[0] + WIDTH / 2 + (8 if end[0] < start[0] else -8)
    depth = 8 + abs(to - x) / 30
    return f'<path class="sisters" d="M{x} {y} C{x} {y + depth},{to} {y + depth},{to} {y + 1}"/>'


def between(number, start, end):
    """From a band to one below it, at the left of the labels."""
    x = LABEL - 18 - 7 * number
    y, to = start[1] + HEIGHT / 2, end[1] + HEIGHT / 2
    return f'<path class="tops" d="M{LABEL - 4} {y} C{x} {y},{x} {to},{LABEL - 4} {to}"/>'


def draw(table):
    places = place(table)
    lines, tops = [], set()
    for folder, _, includes in table:
        for name in includes:
            if name.endswith('.h'):
                continue
            if top_of(name) == top_of(folder):
                lines.append(arc(places[folder], places[name]))
            else:
                tops.add((top_of(folder), top_of(name)))
    band = {top_of(folder): at for folder, at in sorted(places.items(), reverse=True)}
    for start, end in sorted(tops):
        steps = round((band[end][1] - band[start][1]) / (HEIGHT + BAND_GAP))
        lines.append(between(steps, (0, band[start][1]), (0, band[end][1])))
    boxes = [box(folder, question, places[folder]) for folder, question, _ in table]
    width = max(x for x, _ in places.values()) + WIDTH + 20
    height = max(y for _, y in places.values()) + HEIGHT + 30
    style = ('rect{fill:#f4f6f8;stroke:#51606e}text{font:12px sans-serif;text-anchor:middle;'
             'fill:#1c2730}.sisters,.tops{fill:none;stroke:#8a99a6;marker-end:url(#tip)}'
             '.tops{stroke:#c08a3e}')
    tip = ('<marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" '
           'orient="auto"><path d="M0 0 L6 3 L0 6 z" style="fill:#51606e;stroke:none"/></marker>')
    return '\n'.join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
                      f'<style>{style}</style><defs>{tip}</defs>',
                      f'<rect width="{width}" height="{height}" style="fill:#fff;stroke:none"/>',
                      *lines, *boxes, '</svg>', ''])


def main():
    path = os.path.join(HERE, 'folders.svg')
    picture = draw(read_table())
    if sys.argv[1:] == ['--check']:
        with open(path, encoding='utf-8') as old:
            if old.read() != picture:
                sys.exit('docs/folders.svg is not as docs/architecture.md says: run docs/draw_folders.py')
        print('docs/folders.svg is as the table says')
        return
    with open(path, 'w', encoding='utf-8') as out:
        out.write(picture)


main()
