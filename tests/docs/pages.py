#!/usr/bin/env python3
"""Runs what the documentation shows: every SQL statement and every Python snippet, page by page, in order.

usage: pages.py path/to/warplite.so FOLDER [PAGE…]

Each page runs in a process and an empty folder of its own, first on the SQLite of this Python, then on the newest, of
a wheel of apsw that FOLDER keeps. Where that cannot be had, or NumPy for the snippets, the test says so. A link to a file
that is not there is a fault, too. A page may hold

  <!-- set-up … -->           statements that it needs and does not show
  <!-- after PAGE -->         it goes on where that page has ended: in its folder, with its files
  -- 1|2   3|4                on lines right below a statement: the rows that it gives, as the shell's list mode has them
  -- error: text              there: the statement fails with a message that contains the text
  .load .open .parameter .read  as the shell knows them
  ```text                     after a block of Python: what the block prints
"""
import contextlib
import functools
import glob
import importlib.util
import io
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'tests', 'hosts'))
import wheels  # noqa: E402

BLOCK = re.compile(r'^```(sql|python|text)\n(.*?)^```$|^<!-- (set-up)\n(.*?)^-->$', re.DOTALL | re.MULTILINE)
AFTER = re.compile(r'^<!-- after (\S+) -->$', re.MULTILINE)
LINK = re.compile(r'\]\(([^)#:]+)(?:#[^)]*)?\)')
# Blocks that nothing runs, and what may not begin a line of theirs.
OTHER = re.compile(r'^```(?!sql|python)\w*\n(.*?)^```$', re.DOTALL | re.MULTILINE)
STATEMENT = re.compile(r'^(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|ATTACH|BEGIN) ', re.MULTILINE)
EXPECTED = re.compile(r'--( .*)?')
# Where a page's statements and snippets find these folders of the repository.
LINKED = ('examples', 'tests')


def all_pages():
    pages = [os.path.join(ROOT, name) for name in ('README.md', os.path.join('python', 'README.md'))]
    return pages + sorted(glob.glob(os.path.join(ROOT, 'docs', '**', '*.md'), recursive=True))


def shown(value):
    return '' if value is None else value.hex() if isinstance(value, bytes) else str(value)


def split(text):
    """(line, statement or command, [comment lines right below it]) of a block."""
    lines = text.split('\n')
    number, begin, gathered = 0, 0, ''
    while number < len(lines):
        line = lines[number]
        number += 1
        if not gathered.strip():
            begin, gathered = number, ''
            if line.startswith('.'):
                yield number, line, []
                continue
        *pieces, rest = line.split(';')
        complete = []
        for piece in pieces:
            gathered += piece + ';'
            if sqlite3.complete_statement(gathered):
                complete.append(gathered)
                gathered = ''
        gathered += rest + '\n'
        only_comment = not gathered.strip() or gathered.strip().startswith('--')
        for statement in complete[:-1] if only_comment else complete:
            yield begin, statement, []
        if complete and only_comment:
            gathered, below = '', []
            while number < len(lines) and EXPECTED.fullmatch(lines[number]):
                below.append(lines[number][3:])
                number += 1
            yield begin, complete[-1], below
    if re.sub(r'--.*', '', gathered).strip():
        yield begin, gathered, []


class Page:
    """One page on one connection; what went wrong is in faults."""

    def __init__(self, path, module):
        import warplite

        self.path, self.module, self.faults, self.count = path, module, [], 0
        self.parameters, self.names, self.db = {}, {}, None
        self.needs_numpy = False  # which is not there
        self.connect = warplite.connect = functools.partial(warplite.connect, module=module)  # for snippets, too
        self.open(':memory:')

    def open(self, file):
        if self.db is not None:
            self.db.close()
        options = {} if self.module == 'apsw' else {'isolation_level': None}  # transactions begin with BEGIN alone
        self.db = self.connect(file, **options)

    def fault(self, line, text):
        self.faults.append(f'{os.path.relpath(self.path, ROOT)}:{line}: {text}')

    def run(self):
        with open(self.path, encoding='utf-8') as file:
            text = file.read()
        for link in LINK.finditer(BLOCK.sub('', text)):
            if not os.path.exists(os.path.join(os.path.dirname(self.path), link[1])):
                self.fault(0, f'there is no {link[1]}')
        for block in OTHER.finditer(BLOCK.sub(lambda m: m[0] if m[1] == 'text' else '', text)):
            if STATEMENT.search(block[1]):
                self.fault(0, f'a statement is in a block that is not marked as sql:\n{block[1]}')
        if AFTER.search(text) and not have_numpy():  # what it goes on from are snippets
            return 0
        for before in AFTER.findall(text):
            page = Page(os.path.join(os.path.dirname(self.path), before), self.module)
            page.run()
            self.faults += page.faults
        printed = None
        for block in BLOCK.finditer(text):
            kind, body = (block[1], block[2]) if block[1] else ('sql', block[4])
            line = text.count('\n', 0, block.start()) + 1
            if kind == 'python':
                printed = self.run_python(body, line)
            elif kind == 'text':
                if printed is not None and printed.rstrip() != body.rstrip():
                    self.fault(line, f'printed is\n{printed}')
                printed = None
            else:
                self.run_sql(body, line)
        return self.count

    def run_sql(self, text, line):
        for offset, statement, below in split(text):
            self.count += 1
            if statement.startswith('.'):
                self.run_command(statement, line + offset)
            else:
                self.run_statement(statement, below, line + offset)

    def run_command(self, command, line):
        words = command.split(maxsplit=3)
        if words[:2] == ['.parameter', 'set']:
            self.parameters[words[2][1:]] = self.evaluate(words[3])
        elif words[0] == '.read':
            with open(words[1], encoding='utf-8') as file:
                self.run_sql(file.read(), line)
        elif words[0] == '.open':
            self.open(words[1])
        elif words[0] != '.load':
            self.fault(line, f'unknown command {command}')

    def evaluate(self, value):
        """As the shell does: without its quotes an expression of SQL, else text."""
        value = value[1:-1] if value[0] in '"\'' else value
        try:
            return self.db.execute(f'SELECT {value}').fetchone()[0]
        except Exception:  # of either module
            return value

    def run_statement(self, statement, below, line):
        bound = {name: value for name, value in self.parameters.items() if f':{name}' in statement}
        expected = '   '.join(below)
        try:
            rows = self.db.execute(statement, bound).fetchall()
        except Exception as error:  # of either module
            wanted = expected[len('error: '):] if expected.startswith('error: ') else None
            if wanted is None or wanted not in str(error):
                self.fault(line, f'{error}\n{statement.strip()}')
            return
        got = '   '.join('|'.join(map(shown, row)) for row in rows)
        if below and got != expected:
            self.fault(line, f'{statement.strip()}\n  gives {got}\n  not   {expected}')

    def run_python(self, text, line):
        self.count += 1
        if self.needs_numpy:  # names that a snippet above was to make are not there
            return None
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile('\n' * line + text, self.path, 'exec'), self.names)
        except ModuleNotFoundError as error:
            if error.name != 'numpy':
                self.fault(line, traceback.format_exc(limit=-2))
            self.needs_numpy = True
            return None
        except Exception:
            self.fault(line, traceback.format_exc(limit=-2))
        return out.getvalue()


def run_page(path, module):
    page = Page(path, module)
    count = page.run()
    print('\n'.join(page.faults) or f'{os.path.relpath(path, ROOT)}: {count} on {module}')
    return 1 if page.faults else 0


def run_apart(library, folder, *arguments):
    """This program again, in a process and a folder of its own."""
    environment = dict(os.environ, WARPLITE_EXTENSION=os.path.abspath(library), PYTHONDONTWRITEBYTECODE='1')
    environment['PYTHONPATH'] = os.pathsep.join([os.path.join(ROOT, 'python'), os.path.abspath(folder)])
    with tempfile.TemporaryDirectory() as empty:
        for name in LINKED:
            os.symlink(os.path.join(ROOT, name), os.path.join(empty, name))
        command = [sys.executable, os.path.abspath(__file__), *arguments]
        return subprocess.run(command, cwd=empty, env=environment).returncode


# A page whose every line numbered below is at fault, and no other; 0 is the page as a whole.
FAULTY = """```sql
SELECT 1;
-- 1
SELECT 2;
-- 1
SELECT missing; SELECT 3;
SELECT 4;
-- error: no such
SELECT missing;
-- error: no such column
SELECT unfinished
```
```python
print(5)
```
```text
6
```
```python
raise ValueError
```
[nowhere](no_such_page.md)
```
SELECT 1;
```
"""


def check_the_runner():
    """What a page says and what is not so must be found, or no page means anything."""
    with tempfile.NamedTemporaryFile('w', suffix='.md') as file:
        file.write(FAULTY)
        file.flush()
        page = Page(file.name, 'sqlite3')
        page.run()
    found = [int(fault.split(':')[1]) for fault in page.faults]
    expected = [0, 0, 4, 6, 7, 11, 16, 19]
    if found != expected:
        sys.exit(f'faults are in lines {expected}, and were found in lines {found}: {page.faults}')


def have_numpy():
    return importlib.util.find_spec('numpy') is not None


def main():
    if sys.argv[1] == '--page':
        sys.exit(run_page(*sys.argv[2:]))
    if sys.argv[1] == '--itself':
        sys.exit(check_the_runner())
    library, folder, *pages = sys.argv[1:]
    modules = ['sqlite3']
    if wheels.installed('apsw', folder):
        modules.append('apsw')
    else:
        print('apsw cannot be had: the newest SQLite is left out')
    runs = [['--itself']] + [['--page', path, module] for module in modules
                             for path in map(os.path.abspath, pages or all_pages())]
    failed = [run for run in runs if run_apart(library, folder, *run) != 0]
    if not have_numpy():
        print(f'{sys.executable} has no NumPy: the snippets of Python that need it are left out')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
