"""SQLAlchemy's reflection and ORM on warp tables, as on ordinary ones."""

import asyncio

import numpy as np
import pytest

sqlalchemy = pytest.importorskip("sqlalchemy", "2.0")

from sqlalchemy import delete, func, insert, literal_column, select, text, update  # noqa: E402
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column  # noqa: E402

import warplite  # noqa: E402
from warplite.sqlalchemy import load_into  # noqa: E402

CREATE = "CREATE VIRTUAL TABLE papers USING warp(id INTEGER PRIMARY KEY, embedding FLOAT[2], title TEXT, year INTEGER)"


def vector(*numbers):
    return np.array(numbers, "<f4").tobytes()


@pytest.fixture
def engine(tmp_path):
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/a.db")
    load_into(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql(CREATE)
        connection.exec_driver_sql("CREATE TABLE notes(id INTEGER PRIMARY KEY, note TEXT)")
    return engine


@pytest.fixture
def classes():
    class Base(DeclarativeBase):
        pass

    class Paper(Base):
        __tablename__ = "papers"
        id: Mapped[int] = mapped_column(primary_key=True)
        embedding: Mapped[bytes]
        title: Mapped[str]
        year: Mapped[int] = mapped_column(nullable=True)

    class Note(Base):
        __tablename__ = "notes"
        id: Mapped[int] = mapped_column(primary_key=True)
        note: Mapped[str]

    return Paper, Note


def test_reflection(engine):
    inspector = sqlalchemy.inspect(engine)
    assert {"papers", "notes"} <= set(inspector.get_table_names())
    columns = [(c["name"], str(c["type"]), c["primary_key"]) for c in inspector.get_columns("papers")]
    assert columns == [("id", "INTEGER", 1), ("embedding", "BLOB", 0), ("title", "TEXT", 0), ("year", "INTEGER", 0)]
    assert inspector.get_pk_constraint("papers")["constrained_columns"] == ["id"]
    for other in ("indexes", "unique_constraints", "check_constraints", "foreign_keys"):
        assert getattr(inspector, f"get_{other}")("papers") == []
    papers = sqlalchemy.Table("papers", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        done = connection.execute(insert(papers).values(embedding=vector(1, 2), title="reflected"))
        assert done.inserted_primary_key == (1,)
        assert connection.execute(select(papers.c.title)).scalars().all() == ["reflected"]


def test_objects_are_written_and_found(engine, classes):
    Paper, Note = classes
    with Session(engine) as session:
        papers = [Paper(embedding=vector(i, 0), title=f"title {i}", year=2000 + i) for i in range(5)]
        notes = [Note(note=str(i)) for i in range(3)]
        session.add_all(papers + notes)  # several keys in one flush
        session.commit()
        assert [(p.id, p.title) for p in papers] == [(i + 1, f"title {i}") for i in range(5)]
        assert [n.id for n in notes] == [1, 2, 3]
        session.add_all([Paper(id=100 + i, embedding=vector(9, i), title="named") for i in range(2)])
        session.add(Paper(embedding=vector(8, 8), title="last"))
        session.commit()
        near = (
            select(Paper, literal_column("distance"))
            .where(Paper.embedding.op("MATCH")(vector(3, 0)), Paper.year != 2003)
            .order_by(literal_column("distance"))
            .limit(2)
        )
        assert [(p.title, d) for p, d in session.execute(near)] == [("title 2", 1.0), ("title 4", 1.0)]
    with Session(engine) as session:
        session.get(Paper, 100).title = "changed"
        session.delete(session.get(Paper, 101))
        session.commit()
        assert session.scalars(select(Paper.title).order_by(Paper.id)).all() == [
            *(f"title {i}" for i in range(5)), "changed", "last"
        ]  # fmt: skip
    assert not Paper.__table__.implicit_returning and Note.__table__.implicit_returning


def test_statements_that_the_session_follows(engine, classes):
    """UPDATE and DELETE whose rows the ORM cannot find by itself: it would ask for them by RETURNING."""
    Paper, _ = classes
    with Session(engine) as session:
        session.execute(insert(Paper), [dict(embedding=vector(i, 0), title="ab"[i % 2] * i) for i in range(6)])
        session.commit()
    for strategy in ("auto", "fetch"):
        with Session(engine) as session:
            options = {"synchronize_session": strategy}
            kept = session.scalars(select(Paper)).all()
            session.execute(
                update(Paper).where(func.length(Paper.title) == 2).values(year=7), execution_options=options
            )
            session.execute(delete(Paper).where(Paper.title.like("b%")), execution_options=options)
            assert [p.year for p in kept if p in session and p.title == "aa"] == [7]
            assert session.scalar(select(func.count()).select_from(Paper)) == 3
            session.rollback()


def test_temporary_tables_and_tables_made_in_the_transaction(engine, classes):
    Paper, _ = classes
    with Session(engine) as session:
        session.execute(text("DROP TABLE papers"))
        session.execute(text(CREATE.replace(" papers", " temp.papers")))
        papers = [Paper(embedding=vector(i, 0), title="t") for i in range(3)]
        session.add_all(papers)
        session.flush()
        assert [p.id for p in papers] == [1, 2, 3]


def test_asynchronous_sessions(tmp_path, classes):
    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    Paper, _ = classes

    async def write():
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/b.db")
        load_into(engine)
        async with AsyncSession(engine, expire_on_commit=False) as session:
            await session.execute(text(CREATE))
            papers = [Paper(embedding=vector(i, 0), title="t") for i in range(3)]
            session.add_all(papers)
            await session.commit()
        await engine.dispose()
        return [p.id for p in papers]

    assert asyncio.run(write()) == [1, 2, 3]


def test_other_engines_are_left_alone(tmp_path, classes):
    _, Note = classes
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/c.db")
    asked = []
    sqlalchemy.event.listen(engine, "before_cursor_execute", lambda *event: asked.append(event[2]))
    Note.__table__.create(engine)
    with Session(engine) as session:
        session.add_all([Note(note="a"), Note(note="b")])
        session.commit()
    assert not [sql for sql in asked if "VIRTUAL" in sql]


def test_arrays_in_asynchronous_connections(tmp_path):
    pytest.importorskip("aiosqlite")
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    def found(connection):
        return warplite.search(connection, "t", "e", [[1, 2]], 2)[0].tolist()

    def add(connection):
        return warplite.add(connection, "t", None, e=np.eye(2))

    async def ask():
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/b.db")
        load_into(engine)
        async with engine.begin() as connection:
            await connection.exec_driver_sql("CREATE VIRTUAL TABLE t USING warp(e FLOAT[2])")
            assert await connection.run_sync(add) == 2
            await connection.run_sync(warplite.load)  # does no harm
        async with engine.connect() as connection:
            await connection.begin()
            await connection.run_sync(add)
            assert await connection.run_sync(found) == [[2, 4]]
            with pytest.raises(TypeError, match="run_sync"):
                found(connection)
            await connection.rollback()
        async with AsyncSession(engine) as session:
            with pytest.raises(TypeError, match="run_sync"):
                add(session)
            with pytest.raises(ValueError, match="t.e takes vectors of 2"):
                await session.run_sync(lambda inner: warplite.search(inner, "t", "e", [[1]], 1))
            result = await session.run_sync(found)
        await engine.dispose()
        return result

    assert asyncio.run(ask()) == [[2, 1]]
