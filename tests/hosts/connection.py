"""Connections with extensions, and what they answer."""
import sqlite3


def connect(extensions, path=':memory:', by_sql=False):
    """by_sql: loaded by SELECT load_extension(), in a statement that runs meanwhile."""
    db = sqlite3.connect(path, isolation_level=None)
    db.enable_load_extension(True)
    for extension in extensions:
        if by_sql:
            db.execute('SELECT load_extension(?)', (extension,)).fetchall()
        else:
            db.load_extension(extension)
    return db


def answer(db, sql, values=()):
    """The rows, or the error's text."""
    try:
        return db.execute(sql, values).fetchall()
    except sqlite3.Error as error:
        return str(error)
