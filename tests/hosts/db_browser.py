#!/usr/bin/env python3
"""The statements that DB Browser for SQLite sends: a table of warp or vec0 gives what an ordinary table gives.

usage: db_browser.py path/to/warplite.so

They are those of its sources, and those that versions 3.12 and 3.13 were seen to send, in the order in which a person
causes them: a database is opened, a table is looked at, filtered, sorted, edited, exported, and renamed; a search is
typed. Its function REGEXP is Python's here.
"""
import os
import re
import sys

from connection import answer, connect

COLUMNS = ('id', 'embedding', 'title', 'year', 'score')
TABLES = ('CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, embedding FLOAT[2], '
          'title TEXT index=words, year INTEGER, score REAL)',
          'CREATE VIRTUAL TABLE papers USING vec0(id INTEGER PRIMARY KEY, embedding float[2], '
          'title text, year integer, score float)')
PLAIN = 'CREATE TABLE papers(id INTEGER PRIMARY KEY, embedding BLOB, title TEXT, year INTEGER, score REAL)'
ROWS = ("INSERT INTO papers SELECT value, CAST(printf('%08d', value) AS BLOB), 'title ' || value % 7, 1990 + value % 40, "
        "value / 4.0 FROM (WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 300) "
        'SELECT value FROM n) WHERE value % 10')

OPEN = ('SELECT COUNT(*) FROM sqlite_master WHERE name = \'papers\';', 'PRAGMA foreign_keys;', 'PRAGMA auto_vacuum;',
        'PRAGMA database_list;', 'SELECT type,name,tbl_name FROM "main".sqlite_master WHERE name = \'papers\';',
        'PRAGMA "main".TABLE_INFO("papers");', 'PRAGMA encoding', 'SELECT "_rowid_" FROM "main"."papers" LIMIT 1;')
# What a filter's field makes of: text, a range, comparisons, NULL, a pattern, a text with its own wildcards.
FILTERS = ("LIKE '%5%' ESCAPE '\\'", 'BETWEEN 3 AND 50 ', '>= 2000 ', "<> '7' ", "> 'title 3' ", '= 1999 ', "= 'title 4' ",
           'IS NULL ', 'IS NOT NULL ', "<> '' ", "REGEXP '[13]$' ", "LIKE 'title%' ESCAPE '\\'", "LIKE '%\\_%' ESCAPE '\\'")


def looked_at():
    yield 'SELECT COUNT(*) FROM "main"."papers" '
    yield 'SELECT "_rowid_",* FROM "main"."papers"   LIMIT 49999 OFFSET 0;'
    yield 'SELECT "_rowid_",* FROM "main"."papers"   LIMIT 100 OFFSET 200;'
    yield 'SELECT "_rowid_",* FROM "main"."papers" LIMIT 0, 49999;'
    yield 'SELECT COUNT(*) FROM (SELECT id, title FROM papers WHERE year > 2000);'
    yield 'SELECT id, title FROM papers WHERE year > 2000 LIMIT 0, 49999'
    wheres = [f'WHERE "{column}" {test}' for column in COLUMNS for test in FILTERS]
    wheres += [f'WHERE "year" >= 2000  AND ({" OR ".join(f"{chr(34)}{column}{chr(34)} {test}" for column in some)})'
               for test in FILTERS for some in (COLUMNS, ('_rowid_', *COLUMNS))]
    wheres += [f'WHERE "year" >= 2000  AND "title" {test} AND ("id" {test} OR "score" {test})' for test in FILTERS]
    for where in wheres:
        yield f'SELECT COUNT(*) FROM "main"."papers" {where}'
        yield f'SELECT "_rowid_",* FROM "main"."papers" {where} ORDER BY "id" ASC LIMIT 50 OFFSET 0;'
    for column in COLUMNS:
        for order in ('ASC', 'DESC'):
            sort = f'ORDER BY "{column}" {order},"id" ASC'
            yield f'SELECT "_rowid_",* FROM "main"."papers" WHERE "year" > 1995  {sort} LIMIT 60 OFFSET 30;'
        yield f'SELECT "_rowid_","id",upper("{column}") AS "{column}" FROM "main"."papers"  ORDER BY "id" ASC LIMIT 20 OFFSET 0;'
        yield f'SELECT MAX(CAST("{column}" AS INTEGER)) FROM "main"."papers"'
        yield f'SELECT COUNT(DISTINCT "{column}") FROM "main"."papers";'
        yield f'SELECT COUNT("{column}") FROM "main"."papers" WHERE coalesce(NULL,"{column}") IS NULL;'
    yield 'SELECT COUNT(*) FROM (SELECT "title", count(*) FROM papers GROUP BY "title");'
    yield 'SELECT "papers" AS "name", \'table\' AS "type", COUNT(*) AS "rows" FROM "main"."papers"'


def undone():
    """Each change has a savepoint, all of one name; the last is taken back, and those before it are kept."""
    for title in ('first', 'second'):
        yield 'SAVEPOINT "UNDOPOINT";'
        yield 'UPDATE "main"."papers" SET "title"=? WHERE "_rowid_"=\'6\'', title
    for end in ('ROLLBACK TO SAVEPOINT "UNDOPOINT";', 'RELEASE "UNDOPOINT";', 'RELEASE "UNDOPOINT";'):
        yield end
        yield 'SELECT * FROM "main"."papers" WHERE "_rowid_"=\'6\''


def edited():
    yield 'SAVEPOINT "db4s_edit_1";'
    yield 'INSERT INTO "main"."papers"("id","embedding","title","year","score") VALUES (NULL,NULL,NULL,NULL,NULL);'
    yield 'SELECT last_insert_rowid()'
    yield 'INSERT INTO "main"."papers" DEFAULT VALUES;'
    yield 'SELECT * FROM "main"."papers" WHERE "_rowid_"=\'301\''
    # A cell's new content is bound as text, or as what was there before if it looks the same.
    for column, value in (('title', 'new title'), ('year', '2024'), ('year', 2025), ('score', '1.5'), ('score', 2.5), ('title', ''),
                          ('embedding', bytes.fromhex('0000803f00000040')), ('embedding', None), ('title', None), ('id', '1000')):
        yield f'UPDATE "main"."papers" SET "{column}"=? WHERE "_rowid_"=\'299\'', value
        yield 'SELECT * FROM "main"."papers" WHERE "_rowid_"=\'299\''
    yield 'SELECT * FROM "main"."papers" WHERE "_rowid_"=\'1000\''
    yield from undone()
    yield 'SAVEPOINT "db4s_edit_2";'
    yield 'DELETE FROM "main"."papers" WHERE _rowid_ IN (\'1\', \'2\', \'1000\');'
    yield 'SELECT COUNT(*), SUM("id") FROM "main"."papers" '
    yield 'ROLLBACK TO SAVEPOINT "db4s_edit_2";'
    yield 'RELEASE "db4s_edit_2";'
    yield 'DELETE FROM "main"."papers" WHERE _rowid_ IN (\'5\');'
    yield 'SELECT "_rowid_",* FROM "main"."papers" WHERE "title" LIKE \'%title 5%\' ESCAPE \'\\\'  LIMIT 50 OFFSET 0;'
    yield 'INSERT OR IGNORE INTO "main"."papers"("id","title") VALUES (7, \'imported\'), (2000, \'imported\');'
    yield 'INSERT OR REPLACE INTO "main"."papers"("id","title") VALUES (8, \'imported\');'
    yield 'SELECT "_rowid_",* FROM "main"."papers" WHERE "title" = \'imported\'  ORDER BY "id" ASC'
    yield 'PRAGMA integrity_check;'
    yield 'RELEASE "db4s_edit_1";'
    yield 'SELECT COUNT(*), SUM("id"), MAX("year") FROM "main"."papers" '


def kept():
    """What it does with a whole table or file; the last renames the table."""
    yield 'SELECT * FROM "papers"'
    yield 'SELECT * FROM "main"."papers" WHERE "_rowid_"=\'4\''
    yield 'PRAGMA quick_check'
    yield 'PRAGMA integrity_check'
    yield 'PRAGMA foreign_key_check'
    yield 'PRAGMA optimize'
    yield 'VACUUM "main"'
    yield 'CREATE VIEW "chosen" AS SELECT "_rowid_",* FROM "main"."papers" WHERE "year" >= 2000 '
    yield 'SELECT COUNT(*) FROM "main"."chosen"'
    yield 'ALTER TABLE "main"."papers" RENAME TO "renamed"'
    yield 'SELECT COUNT(*) FROM "main"."renamed"'
    yield 'DROP VIEW "main"."chosen"'
    yield 'DROP TABLE "main"."renamed"'
    yield 'SELECT COUNT(*) FROM sqlite_master;'


def refused():
    """A cell's new content that a table of vectors does not take, and the sentence that the person reads."""
    yield ('embedding', bytes.fromhex('12345678'), 'papers.embedding: expected a FLOAT[2] vector (8 bytes of float32, or a JSON '
           'array of 2 numbers), got a BLOB of 4 bytes')
    yield 'embedding', '[1, 2, 3]', 'papers.embedding: expected a FLOAT[2] vector'
    yield 'embedding', '', 'papers.embedding: expected a JSON array of numbers'
    yield 'id', '', "papers.id: expected INTEGER, got the text ''"
    yield 'id', 6, 'UNIQUE constraint failed: papers.id'


def opened(extension, table):
    db = connect([extension])
    db.create_function('regexp', 2, lambda pattern, value: value is not None and bool(re.search(pattern, str(value))))
    db.execute(table)
    db.execute(ROWS)
    return db


def compared(db, plain):
    """Failures of statements, which db answers otherwise than an ordinary table, and how many there are."""
    failures, done = [], 0
    for part in (OPEN, looked_at(), edited(), kept()):
        for sql in part:
            sql, *values = (sql,) if isinstance(sql, str) else sql
            got, expected = answer(db, sql, values), answer(plain, sql, values)
            if sql.startswith('PRAGMA "main".TABLE_INFO'):  # but for the type's name
                got, expected = ([(row[1], row[5]) for row in rows] for rows in (got, expected))
            done += 1
            if got != expected or isinstance(got, str):
                failures.append(f'{sql}\n  an ordinary table {str(expected)[:300]}\n  a virtual table   {str(got)[:300]}')
    return failures, done


def corrected(db):
    """Failures of edits that have to be refused: what stood there stays, and so does what was edited before."""
    failures, done = [], 0
    db.execute('SAVEPOINT "RESTOREPOINT";')
    db.execute('UPDATE "main"."papers" SET "title"=? WHERE "_rowid_"=\'3\'', ('kept',))
    rows = answer(db, 'SELECT * FROM papers')
    for column, value, sentence in refused():
        got = answer(db, f'UPDATE "main"."papers" SET "{column}"=? WHERE "_rowid_"=\'4\'', [value])
        done += 1
        if sentence not in got or answer(db, 'SELECT * FROM papers') != rows:
            failures.append(f'{column} = {value!r}\n  expected {sentence}\n  got      {got}')
    db.execute('RELEASE "RESTOREPOINT";')
    return failures, done


def searched(db):
    """Failures of a search that a person types, which is counted and read in parts of what may be a larger answer."""
    failures, done = [], 0
    for search in ("SELECT id, title, distance FROM papers WHERE embedding MATCH '[1, 2]' AND year > 2000 ORDER BY distance LIMIT 5",
                   "SELECT id, distance FROM papers WHERE embedding MATCH '[1, 2]' AND k = 4"):
        expected = answer(db, search)
        for sql, rows in ((f'SELECT COUNT(*) FROM ({search});', [(len(expected),)]),
                          (search if 'LIMIT' in search else f'{search} LIMIT 0, 49999;', expected)):
            got = answer(db, sql)
            done += 1
            if got != rows or len(expected) not in (4, 5):
                failures.append(f'{sql}\n  expected {rows}\n  got      {got}')
    return failures, done


def main():
    extension = os.path.abspath(sys.argv[1])
    done, failures = 0, []
    for table in TABLES:
        db = opened(extension, table)
        for failed, tried in (searched(db), corrected(db), compared(opened(extension, table), opened(extension, PLAIN))):
            failures += failed
            done += tried
    print('\n'.join(failures))
    print(f'{done - len(failures)} passed, {len(failures)} failed')
    return 1 if failures else 0


sys.exit(main())
