"""Django's models, inspectdb and migrations beside warp tables; settings are made once a process."""

import subprocess
import sys
import textwrap

import pytest

SET_UP = """
import struct, sys
import django
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["warplite.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.core.management import call_command
from django.db import NotSupportedError, connection, models

def vector(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)

def ask(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()

def alter(model, name, field):
    field.set_attributes_from_name(name)
    field.model = model
    with connection.schema_editor() as editor:
        editor.alter_field(model, model._meta.get_field(name), field)

class Paper(models.Model):
    embedding = models.BinaryField()
    title = models.TextField()
    year = models.IntegerField(null=True)

    class Meta:
        app_label, db_table, managed = "tests", "papers", False

class Document(models.Model):
    embedding = models.BinaryField()
    title = models.CharField(max_length=20)

    class Meta:
        app_label, db_table = "tests", "documents"

with connection.cursor() as cursor:
    columns = "id INTEGER PRIMARY KEY, embedding FLOAT[2], title TEXT, year INTEGER"
    cursor.execute(f"CREATE VIRTUAL TABLE papers USING warp({columns})")
"""

MODELS = """
paper = Paper.objects.create(embedding=vector(1, 1), title="one", year=2001)  # the process's first INSERT
assert paper.pk == 1
paper.year = 2002
paper.save()
papers = Paper.objects.bulk_create([Paper(embedding=vector(i, 1), title="many") for i in range(3)])
assert [p.pk for p in papers] == [2, 3, 4]
papers = Paper.objects.bulk_create([Paper(pk=100 + i, embedding=vector(i, 1), title="many") for i in range(2)])
assert [p.pk for p in papers] == [100, 101]
assert Paper.objects.get_or_create(title="late", defaults={"embedding": vector(9, 9)})[0].pk == 102
assert Paper.objects.update_or_create(title="late", defaults={"year": 1999})[1] is False
near = Paper.objects.filter(title="many").extra(
    select={"far": "distance"}, where=["embedding MATCH %s"], params=[vector(1, 1)], order_by=["far"]
)[:3]
assert [(p.pk, p.far) for p in near] == [(3, 0), (101, 0), (2, 1)]
years = Paper.objects.values_list("year").annotate(models.Count("pk")).order_by("year")
assert list(years) == [(None, 5), (1999, 1), (2002, 1)]
assert Paper.objects.filter(title__contains="an").delete() == (5, {"tests.Paper": 5})
with connection.schema_editor() as editor:
    editor.create_model(Document)
documents = Document.objects.bulk_create([Document(embedding=vector(i, 1), title=str(i)) for i in range(3)])
assert [d.pk for d in documents] == [1, 2, 3]
print(Paper.objects.count(), Document.objects.create(embedding=b"", title="last").pk)
"""

INSPECTDB = """
from io import StringIO
out = StringIO()
call_command("inspectdb", "papers", stdout=out)
names = {}
code = out.getvalue().replace("        managed = False", "        managed = False\\n        app_label = 'inspected'")
exec(code, names)
found = [(f.name, f.get_internal_type()) for f in names["Papers"]._meta.fields]
assert found == [
    ("id", "BigAutoField"), ("embedding", "BinaryField"), ("title", "TextField"), ("year", "IntegerField")
], found
names["Papers"].objects.create(embedding=vector(1, 2), title="by the inspected model")
out = StringIO()
call_command("inspectdb", stdout=out)  # everything there is
print(names["Papers"].objects.get(pk=1).title, out.getvalue().count("class Papers(models.Model)"))
"""

ALTER_FIELD = """
with connection.schema_editor() as editor:
    editor.create_model(Document)
ask("CREATE VIRTUAL TABLE found USING warp(embedding FLOAT[2], title TEXT, content=documents, content_rowid=id)")
ask("CREATE VIEW near AS SELECT rowid FROM found WHERE embedding MATCH '[1, 1]' AND k = 2")
for i in range(3):
    Document.objects.create(embedding=vector(i, 1), title=str(i))
alter(Document, "title", models.CharField(max_length=40, default="none"))
assert ask("SELECT rowid FROM near") == [(2,), (1,)]
Document.objects.create(embedding=vector(1, 1), title="new")
assert ask("SELECT rowid FROM near") == [(2,), (4,)]
ask("INSERT INTO found(found) VALUES ('integrity-check')")
Paper.objects.create(embedding=vector(1, 1), title="one")
try:
    alter(Paper, "title", models.TextField(null=True, default=""))
except NotSupportedError as error:
    print(error)
assert ask("SELECT rowid FROM papers WHERE embedding MATCH '[0, 0]' AND k = 1") == [(1,)]
"""


@pytest.mark.parametrize(
    "code, said",
    [
        (MODELS, "2 4"),
        (INSPECTDB, "by the inspected model 1"),
        (ALTER_FIELD, "papers is a virtual table, which cannot be altered: create another one and copy"),
    ],
    ids=["models", "inspectdb", "alter_field"],
)
def test_django(tmp_path, code, said):
    import sqlite3

    pytest.importorskip("django")
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    command = [sys.executable, "-c", SET_UP + textwrap.dedent(code), tmp_path / "a.db"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout == said + "\n", run.stdout + run.stderr
