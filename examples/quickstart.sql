.load build/release/warplite
CREATE TABLE dictionary(word TEXT);
.mode ascii
.separator "\t" "\n"
.import examples/data/glove10k_words.txt dictionary
.mode column
.headers on
.timer on
.echo on

-- A table of 10,000 words: each with its GloVe vector and columns to filter by.
CREATE VIRTUAL TABLE words USING warp(
  rank      INTEGER PRIMARY KEY,          -- 1 is the most frequent word
  embedding FLOAT[100] distance=cosine,
  word      TEXT,
  letters   INTEGER
);

-- The vectors are streamed from a file, which counts from 0; the words stand in an ordinary table.
INSERT INTO words(rank, embedding, word, letters)
SELECT d.rowid, v.vector, d.word, length(d.word)
FROM warp_vectors_file('examples/data/glove10k.fvecs') v
JOIN dictionary d ON d.rowid = v.rowid + 1;

-- The nearest words to "ocean".
SELECT word, distance FROM words
WHERE embedding MATCH (SELECT embedding FROM words WHERE word = 'ocean')
ORDER BY distance LIMIT 6;

-- Filters come first: the 6 nearest among the long words that are not too common.
SELECT word, rank, distance FROM words
WHERE embedding MATCH (SELECT embedding FROM words WHERE word = 'ocean')
  AND letters >= 9 AND rank BETWEEN 1000 AND 9000 AND word NOT LIKE '%-%'
ORDER BY distance LIMIT 6;

-- A range search: everything within a distance, however many rows that is.
SELECT count(*) AS words, max(distance) FROM words
WHERE embedding MATCH (SELECT embedding FROM words WHERE word = 'ocean')
  AND distance <= 0.5;

-- king - man + woman = ?
SELECT word, distance FROM words
WHERE embedding MATCH (
  SELECT vec_add(vec_sub(king.embedding, man.embedding), woman.embedding)
  FROM words king, words man, words woman
  WHERE king.word = 'king' AND man.word = 'man' AND woman.word = 'woman')
AND word <> 'king' AND k = 3;

-- A join without k: the search goes on until the other table has given its 5 rows.
CREATE TABLE capitals(city TEXT PRIMARY KEY, country TEXT);
INSERT INTO capitals VALUES
  ('london', 'United Kingdom'), ('paris', 'France'), ('madrid', 'Spain'), ('rome', 'Italy'),
  ('berlin', 'Germany'), ('athens', 'Greece'), ('oslo', 'Norway'), ('copenhagen', 'Denmark'),
  ('tokyo', 'Japan'), ('beijing', 'China'), ('cairo', 'Egypt'), ('moscow', 'Russia');
SELECT w.word, c.country, w.distance
FROM words w JOIN capitals c ON c.city = w.word
WHERE w.embedding MATCH (SELECT embedding FROM words WHERE word = 'peace')
ORDER BY w.distance LIMIT 5;

-- The 3 nearest neighbours of 1,000 words in one batch; here, the closest pairs of all.
SELECT a.word, b.word AS neighbour, j.distance
FROM warp_knn_join('words', 'embedding', 'SELECT rank, embedding FROM words WHERE rank <= 1000', 3) j
JOIN words a ON a.rank = j.query_id
JOIN words b ON b.rank = j.rowid
WHERE a.rank < b.rank
ORDER BY j.distance LIMIT 5;

-- The same words under an approximate index: 16 of 64 lists are looked into, by codes of 25 bytes.
CREATE VIRTUAL TABLE coded USING warp(
  rank INTEGER PRIMARY KEY,
  embedding FLOAT[100] distance=cosine index=ivfpq(lists=64),
  word TEXT
);
INSERT INTO coded SELECT rank, embedding, word FROM words;
INSERT INTO coded(coded) VALUES ('train');
SELECT word, distance FROM coded
WHERE embedding MATCH (SELECT embedding FROM words WHERE word = 'ocean') AND nprobe = 16
ORDER BY distance LIMIT 6;

-- How many of the 10 nearest it finds, over 1,000 queries.
SELECT count(*) / 10000.0 AS recall FROM (
  SELECT query_id, rowid
  FROM warp_knn_join('coded', 'embedding', 'SELECT rank, embedding FROM words WHERE rank <= 1000', 10, '{"nprobe":16}')
  INTERSECT
  SELECT query_id, rowid
  FROM warp_knn_join('words', 'embedding', 'SELECT rank, embedding FROM words WHERE rank <= 1000', 10)
);

-- Eight clusters of words, each by the word that is nearest to its centroid.
SELECT c.size, (SELECT word FROM words WHERE embedding MATCH c.centroid AND k = 1) AS word
FROM warp_kmeans('words', 'embedding', 8) c ORDER BY c.size DESC;

-- The graph of nearest neighbours, of every word: pairs that choose one another.
CREATE TEMP TABLE graph AS SELECT rowid AS a, neighbor AS b FROM warp_knn_graph('coded', 'embedding', 1);
SELECT count(*) AS pairs FROM graph g JOIN graph h ON g.b = h.a AND g.a = h.b WHERE g.a < g.b;

-- What runs, and that it is an ordinary SQLite transaction.
EXPLAIN QUERY PLAN SELECT word FROM words
WHERE embedding MATCH zeroblob(400) AND letters = 5 AND k = 3;
BEGIN;
DELETE FROM words WHERE letters < 9;
SELECT count(*) FROM words;
ROLLBACK;
SELECT count(*) FROM words;
INSERT INTO words(words) VALUES ('integrity-check');
