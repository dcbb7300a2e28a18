"""Random WHERE terms on plain columns and rowids, as text that means the same on both tables."""
from tables import WORDS

# What begins a number as it is printed, and not always as it is written.
NUMBERS = ('0.3', '0.30', '5', '5.', '-1', '1e', '1.0e+22', 'Inf', '-I', '05', '2.0e-05', '9007199254740992')


def literal(value):
    if value is None:
        return 'NULL'
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value).replace('inf', '9e999')


def random_literal(rng, column):
    """Mostly of the column's type, sometimes as other types spell it. Text columns get text
    only here: against a number SQLite applies the term itself."""
    value = column.random_value(rng)
    if column.type == 'TEXT' or value is None or rng.random() < 0.8:
        return literal(value)
    return rng.choice((literal(str(value)), literal(float(value)), literal(value + 0.5), "'abc'"))


def on_plain(rng, column):
    """A term that SQLite offers to the table: a filter before k counts."""
    name, kind = column.name, rng.randrange(10)
    if kind < 4:
        op, collate = rng.choice(('=', '<>', '<', '<=', '>', '>=', 'IS', 'IS NOT')), ''
        # SQLite does not tell a virtual table which collation <> and IS NOT have.
        if column.type == 'TEXT' and op not in ('<>', 'IS NOT') and rng.random() < 0.3:
            collate = ' COLLATE ' + rng.choice(('NOCASE', 'RTRIM', 'BINARY'))
        if rng.random() < 0.1 and not op.startswith('IS'):
            return f'{random_literal(rng, column)} {op} {name}{collate}'
        return f'{name} {op} {random_literal(rng, column)}{collate}'
    if kind == 4:
        return f'{name} BETWEEN {random_literal(rng, column)} AND {random_literal(rng, column)}'
    if kind == 5:
        return name + rng.choice((' IS NULL', ' IS NOT NULL'))
    if kind < 8:
        values = ', '.join(random_literal(rng, column) for _ in range(rng.randint(0, 5)))
        return f'{name} IN ({values})'
    return pattern_term(rng, name)


def pattern_term(rng, name):
    """LIKE and GLOB, of numbers too."""
    if rng.random() < 0.5:
        return f'{name} LIKE {literal(like_pattern(rng))}'
    word = rng.choice(WORDS + NUMBERS)
    pattern = rng.choice((word, word + '*', '*p*', '[a-c]*', '?pple', '[^a]*', '*', '*.0', '-*'))
    return f'{name} GLOB {literal(pattern)}'


def like_pattern(rng):
    word = rng.choice(WORDS + NUMBERS)
    return rng.choice((word, word + '%', '%' + word[1:], '%p%', '_' + word[1:], '%', '%.0', '%4', 'i%'))


def escaped_term(rng, name):
    """SQLite applies it, and may offer a range that it derives."""
    return f"{name} LIKE {literal(like_pattern(rng))} ESCAPE '!'"


def on_rowid(rng, low, high):
    a, b = sorted((rng.randint(low, high), rng.randint(low, high)))
    return rng.choice((f'id >= {a}', f'id < {b}', f'id BETWEEN {a} AND {b}', f'id = {a}',
                       f'id IN ({a}, {b}, {(a + b) // 2})', 'id IN (SELECT ref FROM o)',
                       f'id <> {a}', f'id > {a}.5', f'id IS NOT {b}', f'id IS {a}', f"id LIKE '{str(a)[:1]}%'",
                       f"id GLOB '*{abs(b) % 10}'",
                       f'id IN (SELECT ref FROM o WHERE tag > {rng.randint(0, 5)})'))


def applied_by_sqlite(rng, table, with_k):
    """A term that no version of SQLite offers: LIMIT counts what passes, k does not.

    SQLite may draw conclusions from a few of them (c0 = 1 AND c0 < c1 offers 1 < c1, a row value
    offers its first column): those are left out where k makes a difference of it.
    """
    column = rng.choice(table.plains)
    other = rng.choice(table.plains)
    name = column.name
    value = random_literal(rng, column)
    terms = [f'{name} NOT IN ({value}, {random_literal(rng, column)})',
             f'{name} NOT BETWEEN {value} AND {random_literal(rng, column)}',
             f'NOT ({name} = {value})', f'{name} = {value} OR {other.name} IS NULL',
             f'({name} > {value} OR {other.name} <= {random_literal(rng, other)})',
             f'+{name} > {value}', 'id % 3 = 1', f'length({name}) > 2', f'({name} > {value}) IS TRUE',
             f"{name} NOT LIKE '%p%'", f'coalesce({name}, 1) = 1',
             'NOT EXISTS (SELECT 1 FROM o WHERE o.ref + 0 = t.id)']
    if not with_k:
        terms += [escaped_term(rng, name), escaped_term(rng, 'id')]
        terms += [f'{name} <> {value} COLLATE NOCASE', f'{name} IS NOT {value} COLLATE RTRIM']
        terms += [f'{name} < {other.name}', f'({name}, id) > ({value}, 5)']
    terms += [f'{c.name} = {random_literal(rng, c)}' for c in table.aux]
    return '(' + rng.choice(terms) + ')'


def random_filters(rng, table, low, high, most=3):
    terms = []
    for _ in range(rng.choice((0, 1, 1, 2, most))):
        if rng.random() < 0.25:
            terms.append(on_rowid(rng, low, high))
        else:
            terms.append(on_plain(rng, rng.choice(table.plains)))
    if rng.random() < 0.05:
        terms += [f'id > {low - 1 - i}' for i in range(rng.randint(20, 70))]
        rng.shuffle(terms)
    return terms
