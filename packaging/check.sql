-- Run by check_wheels.py on every platform; prints the same everywhere (check.expected). Distances are scaled by
-- a power of two to whole numbers, which show every bit: versions of SQLite print other last digits.
SELECT warp_version();
CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, e FLOAT[16], i INT8[16] distance=cosine, w TEXT index=ngram(n=3), y INTEGER);
INSERT INTO t
WITH RECURSIVE c(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM c WHERE n < 3000),
  v(n, j) AS (SELECT n, json_array((n%7), (n%11), (n%13), (n%17)/3.0, (n%19), (n%23)/7.0, (n%29), (n%31), (n%37), (n%41)/11.0, (n%43),
    (n%47), (n%53), (n%59)/13.0, (n%61), (n%67)) FROM c)
SELECT n, j, vec_quantize_int8(vec_normalize(j), 'unit'), 'text number ' || (n * 7919), n % 40 FROM v;
SELECT id, CAST(distance * (1 << 58) AS INTEGER) FROM t WHERE e MATCH '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' AND k = 5;
SELECT id, CAST(distance * (1 << 58) AS INTEGER) FROM t WHERE e MATCH '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' AND y IN (3, 5, 7) AND k = 5;
SELECT id, CAST(distance * (1 << 58) AS INTEGER) FROM t WHERE i MATCH vec_int8('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]') AND k = 3;
SELECT id, distance FROM t WHERE w MATCH 'text numbre 7919' AND k = 3;
SELECT hex(vec_f32(vec_normalize('[0.1, 1e-3, 2.5e7, 1.5]')));
CREATE VIRTUAL TABLE a USING warp(e FLOAT[16] index=ivfpq(lists=16, m=4));
INSERT INTO a(rowid, e) SELECT id, e FROM t;
INSERT INTO a(a) VALUES ('rebuild');
SELECT rowid, CAST(distance * (1 << 58) AS INTEGER) FROM a WHERE e MATCH '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' AND k = 5;
INSERT INTO a(a) VALUES ('integrity-check');
CREATE VIRTUAL TABLE r USING warp(e FLOAT[16] index=ivfrabitq(lists=16, bits=6), f FLOAT[16] distance=ip index=ivfrabitq(lists=600, bits=1));
INSERT INTO r(rowid, e, f) SELECT id, e, e FROM t;
INSERT INTO r(r) VALUES ('rebuild');
SELECT rowid, CAST(distance * (1 << 58) AS INTEGER) FROM warp_knn_search('r', 'e', '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]', 5, '{"nprobe":4,"refine":0}');
SELECT rowid, CAST(distance * (1 << 50) AS INTEGER) FROM warp_knn_search('r', 'f', '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]', 5, '{"nprobe":40,"refine":0}');
INSERT INTO r(r) VALUES ('integrity-check');
CREATE VIRTUAL TABLE s USING warp(v SPARSE[1000]);
INSERT INTO s(rowid, v) SELECT id, json_object('' || (id % 97), (id % 7 + 1) / 3.0, '' || (100 + id % 89), (id % 11 + 1) / 7.0, '' || (300 + id % 83), 0.1) FROM t;
SELECT rowid, CAST(distance * (1 << 58) AS INTEGER) FROM s WHERE v MATCH '{"3":1.5,"105":2.1,"311":0.7,"312":0.3}' AND k = 5;
SELECT 'done';
