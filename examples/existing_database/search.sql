-- The one statement that gives the library of make_library.py its search, and what it can do then.
-- From the repository's root:  sqlite3 build/library.db < examples/existing_database/search.sql
.load build/release/warplite
.bail on
.mode column
.headers on
.echo on

-- No row is copied: embeddings and titles stay in books, and triggers keep the index in step.
CREATE VIRTUAL TABLE books_idx USING warp(
  content=books, content_rowid=id,
  embedding FLOAT[100] distance=cosine,
  title TEXT index=ngram(n=3),
  year INTEGER
);

-- Books like number 23, none from before 2000, with what the application knows of them.
SELECT b.id, b.title, b.year, a.name, round(x.distance, 4) AS distance
FROM books_idx x JOIN books b ON b.id = x.rowid JOIN authors a ON a.id = b.author
WHERE x.embedding MATCH (SELECT embedding FROM books WHERE id = 23) AND x.year >= 2000 AND x.rowid <> 23
ORDER BY x.distance LIMIT 5;

-- A title as somebody remembers it: the nearest by edit distance.
SELECT rowid, title, distance FROM books_idx WHERE title MATCH 'Storm witout archipelago' AND k = 3;

-- The application goes on as before, in its own transactions; the search follows.
PRAGMA foreign_keys = on;
BEGIN;
UPDATE books SET title = 'Storms without an archipelago' WHERE id = 23;
DELETE FROM authors WHERE id <= 200;   -- and, by the foreign key, their books
INSERT INTO books(isbn, title, year, embedding)
  SELECT '978-1-000001', 'On rain', 2026, embedding FROM books WHERE id = 23
  ON CONFLICT(isbn) DO UPDATE SET embedding = excluded.embedding;
SELECT rowid, title, distance FROM books_idx WHERE title MATCH 'Storm witout archipelago' AND k = 3;
SELECT (SELECT count(*) FROM books) AS books, (SELECT count(*) FROM books_idx) AS searched;
ROLLBACK;
SELECT (SELECT count(*) FROM books) AS books, (SELECT count(*) FROM books_idx) AS searched;

-- Each book's nearest other one, as one batch: pairs that are almost the same.
SELECT b.title, o.title AS other, round(g.distance, 4) AS distance
FROM warp_knn_graph('books_idx', 'embedding', 1) g
JOIN books b ON b.id = g.rowid JOIN books o ON o.id = g.neighbor
WHERE g.rowid < g.neighbor AND g.distance > 0.001 ORDER BY g.distance, g.rowid LIMIT 5;

INSERT INTO books_idx(books_idx) VALUES ('integrity-check');
