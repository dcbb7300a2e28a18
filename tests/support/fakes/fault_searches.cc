#include "tests/support/fakes/fault_scenarios.h"

namespace warplite::testing {
namespace {

const std::vector<Scenario> kVectors{
    {"ivfflat",
     {"SELECT id, distance FROM t WHERE a MATCH '[30,0,0,1]' AND k = 5",
      "SELECT id FROM t WHERE a MATCH '[30,0,0,1]' AND n = 2 ORDER BY distance LIMIT 5"}},
    {"ivfpq",
     {"SELECT id, distance FROM t WHERE b MATCH '[3,1,1,1]' AND nprobe = 2 AND k = 5",
      "SELECT rowid FROM warp_ivfpq_search('t', 'b', '[3,1,1,1]', 4, 2, '{\"refine\":2}')",
      "SELECT rowid FROM warp_knn_search('t', 'b', '[3,1,1,1]', 4, '{\"exact\":1}')"}},
    {"ivfrabitq",
     {"SELECT id, distance FROM t WHERE j MATCH '[3,1,1,1,9]' AND k = 5",
      "SELECT id FROM t WHERE j MATCH '[3,1,1,1,9]' AND n = 2 ORDER BY distance LIMIT 5"}},
    {"groups of lists",
     {"SELECT rowid, distance FROM g WHERE e MATCH '[90,1,2,1]' AND k = 5",
      "SELECT count(*) FROM warp_knn_join('g', 'e', 'SELECT rowid, e FROM g WHERE rowid < 9', 3)"}},
    {"ivf joins",
     {"SELECT * FROM warp_knn_join('t', 'a', 'SELECT id, a FROM t WHERE id < 9', 3)",
      "SELECT count(*) FROM warp_knn_graph('t', 'b', 2)"}},
    {"flat kinds",
     {"SELECT id, distance FROM t WHERE c MATCH vec_int8('[5,0,1,2]') AND k = 3",
      "SELECT id, distance FROM t WHERE d MATCH vec_bit(x'41') AND k = 3",
      "SELECT id, distance FROM t WHERE i MATCH '[9,1]' AND p = 'odd' AND k = 3"}},
    {"lsh",
     {"SELECT id, distance FROM t WHERE f MATCH '[30,1,3,1]' AND k = 5",
      "SELECT id FROM t WHERE f MATCH '[30,1,3,1]' AND n <> 2 ORDER BY distance LIMIT 4"}},
    {"metric",
     {"SELECT id FROM t WHERE g MATCH '[3,3]' AND distance < 2",
      "SELECT id FROM t WHERE h MATCH '[3,3]' AND distance < 3",
      "SELECT count(*) FROM warp_range_join('t', 'g', 'SELECT id, g FROM t', 1.5)",
      "SELECT count(*) FROM warp_range_join('t', 'h', 'SELECT id, h FROM t', 1.5)"}},
    {"codes",
     {"SELECT rowid, distance FROM coded WHERE e MATCH '[30,0,0,1]' AND k = 5",
      "SELECT rowid, distance FROM coded WHERE f MATCH '[30,0,1]' AND k = 5",
      "SELECT rowid, hex(e), hex(f) FROM coded WHERE n = 7",
      "SELECT count(*) FROM coded WHERE e MATCH '[30,0,0,1]' AND distance < 9",
      "UPDATE coded SET n = 8 WHERE n = 7", "INSERT INTO coded(coded) VALUES ('optimize')"}},
    {"create",
     {"CREATE VIRTUAL TABLE v USING warp(a FLOAT[4] index=ivfflat, b FLOAT[8] distance=ip "
      "index=ivfpq(lists=2, bits=4), "
      "c FLOAT[4] index=lsh(family=e2lsh, m=8), d FLOAT[4] distance=cosine "
      "index=lsh(family=simhash, m=64), "
      "e FLOAT[2] index=sss(alpha=0.3), f text partition key, g FLOAT[9] index=ivfrabitq(bits=1), "
      "h INT8[3] index=approximate, chunk_size=1024)",
      "DROP TABLE v"}},
    {"write",
     {"INSERT INTO t SELECT id + 1000, a, b, c, d, f, g, h, i, j, p, n FROM t WHERE id < 60",
      "UPDATE t SET g = '[0,0]', p = 'even' WHERE id = 3",
      "DELETE FROM t WHERE p = 'odd' AND id > 90"}},
    {"train", {"INSERT INTO t(t) VALUES ('train')"}},
    {"optimize", {"INSERT INTO t(t) VALUES ('optimize')"}},
    {"rebuild", {"INSERT INTO t(t) VALUES ('rebuild')"}},
    {"check",
     {"INSERT INTO t(t) VALUES ('integrity-check')",
      "INSERT INTO coded(coded) VALUES ('integrity-check')"}},
    {"scalars",
     {"SELECT vec_to_json(vec_normalize(vec_add('[1,2]', '[3,4]'))), vec_to_json(vec_sub('[1,2]', "
      "'[3,4]'))",
      "SELECT hex(vec_f32('[1,2]')), hex(vec_f16('[1,2]')), hex(vec_int8('[1,2]')), "
      "hex(vec_bit(x'41'))",
      "SELECT vec_length('[1,2]'), vec_type(vec_int8('[1,2]')), vec_to_json(vec_slice('[1,2,3]', "
      "1, 2))",
      "SELECT vec_distance_l2('[1,2]', '[3,4]'), vec_distance_cosine('[1,2]', '[3,4]'), "
      "vec_distance_l1('[1,2]', '[3,4]'), "
      "vec_distance_ip('[1,2]', '[3,4]'), vec_distance_hamming(vec_bit(x'41'), vec_bit(x'42'))",
      "SELECT hex(vec_quantize_int8('[0.5,-1]', 'unit')), "
      "hex(vec_quantize_binary('[1,-1,1,-1,1,-1,1,-1]'))",
      "SELECT edit_distance('kitten', 'sitting'), warp_version() IS NOT NULL",
      "SELECT rowid, value FROM vec_each('[1,2,3]')"}},
};

const std::vector<Scenario> kTexts{
    {"edit",
     {"SELECT id, distance FROM t WHERE a MATCH 'word12' AND k = 4",
      "SELECT id FROM t WHERE a MATCH 'word12' AND n = 2 ORDER BY distance LIMIT 3",
      "SELECT rowid, distance FROM warp_range_search('t', 'a', 'word3', 1)"}},
    {"clusters",
     {"SELECT id, distance FROM t WHERE b MATCH 'ab12' AND distance <= 1",
      "SELECT count(*) FROM warp_range_join('t', 'b', 'SELECT id, b FROM t', 1)"}},
    {"pivots",
     {"SELECT id, distance FROM t WHERE c MATCH 'cd12' AND k = 3",
      "SELECT count(*) FROM warp_range_join('t', 'c', 'SELECT id, c FROM t', 1)"}},
    {"ngrams",
     {"SELECT id, distance, matches FROM t WHERE g MATCH 'grams of 12' AND k = 3",
      "SELECT rowid, distance, certified FROM warp_sequence_search('t', 'g', 'grams 77', 2)",
      "SELECT rowid FROM warp_sequence_search('t', 'g', 'grams 77', 2, 50)"}},
    {"sequence join",
     {"SELECT query_id, rowid FROM warp_sequence_join('t', 'g', 'SELECT id, g FROM t WHERE id < "
      "9', 2)"}},
    {"words",
     {"SELECT id, matches FROM t WHERE w MATCH 'number 7 and' AND matches >= 2",
      "SELECT rowid, matches FROM warp_document_search('t', 'w', 'words 7', 3)",
      "SELECT rowid, score FROM warp_document_search('t', 'w', 'words 7', 3, '{\"idf\":1}')"}},
    {"document join",
     {"SELECT query_id, rowid FROM warp_document_join('t', 'w', 'SELECT id, w FROM t WHERE id < "
      "9', 2)"}},
    {"match",
     {"SELECT rowid, matches FROM m WHERE m MATCH '{\"year\":[1995,2000], "
      "\"venue\":[\"v1\",\"v2\"], \"o\":true}' AND k = 5",
      "SELECT rowid, matches FROM m WHERE m MATCH '{\"r\":[[1,2],[5,null]], \"city\":\"c1\"}' AND "
      "o = 1 AND matches >= 1 LIMIT 9"}},
    {"match functions",
     {"SELECT rowid, matches FROM warp_match_count('m', '{\"year\":[1995,2000], "
      "\"venue\":{\"value\":\"v1\",\"weight\":3}}', 4)",
      "SELECT query_id, rowid FROM warp_match_join('m', 'SELECT rowid, json_object(''year'', year, "
      "''venue'', venue) FROM m WHERE rowid < 20', 2)"}},
    {"create",
     {"CREATE VIRTUAL TABLE v USING warp(a TEXT index=ngram, b TEXT index=words, "
      "c TEXT distance=edit index=sss(alpha=0.5), d INTEGER index=match(buckets=4))",
      "DROP TABLE v"}},
    {"write",
     {"INSERT INTO t SELECT id + 1000, a, b, c, g, w, n FROM t WHERE id < 60",
      "UPDATE t SET a = 'other', g = 'other' WHERE id = 3", "DELETE FROM t WHERE n = 2",
      "UPDATE m SET city = 'c2' WHERE venue = 'v3'", "DELETE FROM m WHERE o"}},
    {"optimize", {"INSERT INTO t(t) VALUES ('optimize')", "INSERT INTO m(m) VALUES ('optimize')"}},
    {"rebuild", {"INSERT INTO t(t) VALUES ('rebuild')", "INSERT INTO m(m) VALUES ('rebuild')"}},
    {"check",
     {"INSERT INTO t(t) VALUES ('integrity-check')",
      "INSERT INTO m(m) VALUES ('integrity-check')"}},
};

const std::vector<Scenario> kRankings{
    {"sparse",
     {"SELECT id, distance FROM t WHERE z MATCH '{\"3\":1, \"20\":0.5}' AND k = 5",
      "SELECT id, distance FROM t WHERE z MATCH '{\"3\":1}' AND n IN (1, 2) ORDER BY distance LIMIT 4",
      "SELECT count(*), sum(distance) FROM t WHERE z MATCH '{\"3\":1}' AND distance < -2",
      "SELECT vec_to_json(z), vec_length(z) FROM t WHERE id = 7"}},
    {"sparse joins",
     {"SELECT * FROM warp_knn_join('t', 'z', 'SELECT id, z FROM t WHERE id < 40', 2)",
      "SELECT count(*) FROM warp_range_join('t', 'z', 'SELECT id, z FROM t WHERE id < 9', -3)",
      "SELECT hex(rowids) FROM warp_knn_arrays('t', 'z', warp_csr(x'000000000000000001000000000000000200000000000000', "
      "x'0300000005000000', x'0000803f0000803f'), 3)"}},
    {"hybrid",
     {"SELECT rowid, score, rank, ranks FROM warp_hybrid_search('t', 4, 'e', '[9,1,0,0]', 'z', "
      "'{\"3\":1}', 'w', 'number 7 and', 'g', 'grams 12', 'f', 'alpha OR beta', "
      "'{\"filter\":\"n > 1\", \"weights\":[1,2,3,4,5], \"depth\":20}')"}},
    {"hybrid, linear",
     {"SELECT rowid, score FROM warp_hybrid_search('t', 4, 'f', 'alpha', 'l', '[9,1,0,0]', "
      "'{\"fusion\":\"linear\", \"recall\":0.9}')"}},
    {"fused by hand",
     {"SELECT rowid, warp_rrf(rank, weight) AS score FROM (SELECT rowid, rank, 1 AS weight FROM "
      "warp_knn_search('t', 'e', '[9,1,0,0]', 9) UNION ALL SELECT rowid, rank, 0.5 FROM "
      "warp_document_search('t', 'w', 'number 7', 9)) GROUP BY rowid ORDER BY score DESC, rowid"}},
    {"documents of several vectors",
     {"SELECT * FROM warp_maxsim_search('t', 'e', 'p', '[[9,1,0,0],[1,2,3,4]]', 3)",
      "SELECT * FROM warp_maxsim_search('t', 'l', 'n', '[[9,1,0,0],[1,2,3,4]]', 3, "
      "'{\"candidates\":5, \"filter\":\"id > 9\"}')",
      "SELECT * FROM warp_maxsim_search('t', 'e', 'p', zeroblob(32), 3, "
      "'{\"documents\":[\"p3\", \"p5\", \"p9\"]}')"}},
    {"recall",
     {"SELECT id, distance FROM t WHERE l MATCH '[9,1,0,0]' AND recall = 1 AND k = 5",
      "SELECT count(*) FROM t WHERE l MATCH '[9,1,0,0]' AND recall = 0.9"}},
    {"models",
     {"SELECT length(warp_model('t', 'l')) > 0", "SELECT warp_use_model('unlearnt', 'l', warp_model('t', 'l'))",
      "SELECT rowid FROM unlearnt WHERE l MATCH '[9,1,0,0]' AND k = 3"}},
    {"change",
     {"UPDATE t SET z = '{\"4\":2}', w = 'other' WHERE id % 40 = 3", "DELETE FROM t WHERE n = 3",
      "INSERT INTO t(id, e, z) VALUES (900, NULL, NULL), (901, '[1,1,1,1]', '{}')"}},
    {"changed before searches",
     {"BEGIN", "UPDATE t SET z = '{\"3\":99}' WHERE n = 2", "SAVEPOINT s", "DELETE FROM t WHERE id > 50",
      "SELECT rowid, score FROM warp_hybrid_search('t', 4, 'z', '{\"3\":1}', 'f', 'alpha')",
      "SELECT document, score FROM warp_maxsim_search('t', 'e', 'p', '[[9,1,0,0]]', 3)", "ROLLBACK TO s",
      "SELECT id, distance FROM t WHERE z MATCH '{\"3\":1}' AND k = 5", "COMMIT"}},
    {"optimize", {"INSERT INTO t(t) VALUES ('optimize')"}},
    {"rebuild", {"INSERT INTO t(t) VALUES ('rebuild')"}},
    {"check", {"INSERT INTO t(t) VALUES ('integrity-check')"}},
    {"vacuum", {"VACUUM", "SELECT id FROM t WHERE z MATCH '{\"3\":1}' AND k = 5"}},
    {"other modules",
     {"CREATE VIRTUAL TABLE v USING vec0(a float[2], b text partition key, +c text, chunk_size=8)",
      "INSERT INTO v(rowid, a, b, c) VALUES (1, '[1,2]', 'x', 'y')", "SELECT * FROM v",
      "SELECT rowid, distance FROM v WHERE a MATCH '[1,2]' AND k = 1", "DROP TABLE v"}},
};

}  // namespace

World vectors_world() {
  return {
      "vectors",
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, a FLOAT[4] index=ivfflat(lists=2, "
      "nprobe=1), "
      "b FLOAT16[4] distance=cosine index=ivfpq(lists=2, m=2, nprobe=1, opq=1), c INT8[4] "
      "distance=ip, "
      "d BIT[8], f FLOAT[4] distance=l1 index=lsh(m=16), g FLOAT[2] "
      "index=list_of_clusters(size=8), "
      "h FLOAT[2] distance=l1 index=sss, i FLOAT[2], "
      "j FLOAT16[5] index=ivfrabitq(lists=2, bits=7, nprobe=1), p TEXT PARTITION KEY, n INTEGER);" +
          counting(160) +
          "INSERT INTO t SELECT x, '[' || x || ',0,0,1]', '[' || (x % 40 - 9) || ',1,' || (x % 7) "
          "|| ',1]', "
          "vec_int8('[' || (x % 99) || ',0,1,2]'), vec_bit(CAST(char(32 + x % 90) AS BLOB)), "
          "'[' || x || ',1,' || (x % 9) || ',1]', '[' || (x % 13) || ',' || (x / 13) || ']', "
          "'[' || (x % 11) || ',' || (x / 11) || ']', iif(x % 3, '[' || x || ',1]', NULL), "
          "'[' || (x % 17) || ',1,' || (x % 5) || ',1,' || x || ']', "
          "iif(x % 2, 'odd', 'even'), x % 5 FROM c;"
          "INSERT INTO t(t) VALUES ('train');"
          "DELETE FROM t WHERE id % 20 = 0;"
          "INSERT INTO t(id, a, b, p) VALUES (500, '[1,1,1,1]', '[1,1,1,1]', 'late');"
          "CREATE VIRTUAL TABLE coded USING warp(e FLOAT[4] index=ivfpq(lists=2, m=2), "
          "f FLOAT[3] index=ivfrabitq(lists=2, bits=1), n INTEGER, store=codes);" +
          counting(80) +
          "INSERT INTO coded SELECT '[' || x || ',0,0,1]', '[' || x || ',0,1]', x FROM c;"
          "INSERT INTO coded(coded) VALUES ('train'); INSERT INTO coded VALUES ('[500,0,0,1]', "
          "NULL, 500);"
          "CREATE VIRTUAL TABLE g USING warp(e FLOAT[4] index=ivfrabitq(lists=512, nprobe=3));" +
          counting(560) +
          "INSERT INTO g SELECT '[' || x || ',1,' || (x % 9) || ',1]' FROM c;"
          "INSERT INTO g(g) VALUES ('train')",
      "SELECT count(*), sum(n), sum(id), group_concat(DISTINCT p) FROM t;"
      "SELECT id, hex(a), hex(b), hex(c), hex(d), hex(f), hex(g), hex(i) FROM t WHERE id % 31 = 1 "
      "OR id > 490;"
      "SELECT id FROM t WHERE a MATCH '[0,0,0,0]' AND distance < 9;"
      "SELECT count(*), sum(n) FROM coded; SELECT count(*) FROM g",
      "BEGIN; INSERT INTO t(id, a, p, n) VALUES (1000, '[1,1,1,1]', 'odd', 1);"
      "UPDATE t SET n = 2, b = '[1,0,0,0]' WHERE id = 1000; DELETE FROM t WHERE id = 1000; COMMIT;"
      "INSERT INTO t(t) VALUES ('integrity-check'); INSERT INTO coded(coded) VALUES "
      "('integrity-check');"
      "SELECT id FROM t WHERE a MATCH '[1,1,1,1]' AND k = 3; SELECT id FROM t WHERE b MATCH "
      "'[1,1,1,1]' AND k = 3;"
      "SELECT id FROM t WHERE f MATCH '[1,1,1,1]' AND k = 3; SELECT rowid FROM coded WHERE e MATCH "
      "'[1,1,1,1]' AND k = 3; SELECT rowid FROM g WHERE e MATCH '[1,1,1,1]' AND k = 3",
      kVectors};
}

World texts_world() {
  return {
      "texts",
      "CREATE VIRTUAL TABLE t USING warp(id INTEGER PRIMARY KEY, a TEXT distance=edit, "
      "b TEXT distance=edit index=list_of_clusters(size=8), c TEXT distance=edit index=sss, "
      "g TEXT index=ngram(n=2, fold=1), w TEXT index=words(normalize=nfkc), n INTEGER);" +
          counting(120) +
          "INSERT INTO t SELECT x, 'word' || x, 'ab' || (x * 7919 % 997), 'cd' || (x * 6007 % "
          "991), "
          "'Grams of ' || (x * 4099 % 1009), 'words number ' || x || ' and ' || (x % 7), x % 5 "
          "FROM c;"
          "INSERT INTO t(t) VALUES ('optimize');"
          "DELETE FROM t WHERE id % 30 = 0; INSERT INTO t VALUES (500, 'word', 'ab1', 'cd1', "
          "'Grams', 'words', 1);"
          "CREATE VIRTUAL TABLE m USING warp(year INTEGER index=match(buckets=8), venue TEXT, r "
          "REAL, o BOOLEAN, city TEXT PARTITION KEY);" +
          counting(120) +
          "INSERT INTO m SELECT 1990 + x % 30, 'v' || (x % 9), x / 4.0, x % 2, 'c' || (x % 3) FROM "
          "c;"
          "INSERT INTO m(m) VALUES ('optimize'); INSERT INTO m VALUES (2000, 'v1', NULL, 1, 'c1')",
      "SELECT count(*), sum(n), group_concat(a || b || c || g || w) FROM t;"
      "SELECT count(*), sum(year), group_concat(venue || city) FROM m",
      "BEGIN; INSERT INTO t VALUES (1000, 'word', 'ab1', 'cd1', 'Grams', 'words', 1);"
      "INSERT INTO m VALUES (2000, 'v1', NULL, 1, 'next'); UPDATE t SET g = 'gram' WHERE id = 1000;"
      "DELETE FROM t WHERE id = 1000; DELETE FROM m WHERE city = 'next'; COMMIT;"
      "INSERT INTO t(t) VALUES ('integrity-check'); INSERT INTO m(m) VALUES ('integrity-check');"
      "SELECT id FROM t WHERE g MATCH 'grams 12' AND k = 2; SELECT id FROM t WHERE b MATCH 'ab12' "
      "AND k = 2;"
      "SELECT rowid FROM m WHERE m MATCH '{\"year\":2000}' AND k = 2",
      kTexts};
}

World rankings_world() {
  const std::string columns =
      "(id INTEGER PRIMARY KEY, e FLOAT[4], l FLOAT[4] index=ivfrabitq(lists=4), z SPARSE[50], w TEXT "
      "index=words, g TEXT index=ngram(n=2), p TEXT PARTITION KEY, n INTEGER);";
  return {
      "rankings",
      "CREATE VIRTUAL TABLE t USING warp" + columns + counting(160) +
          "INSERT INTO t SELECT x, '[' || x || ',1,' || (x % 9) || ',1]', '[' || x || ',1,' || (x % 9) || "
          "',1]', '[[' || (x % 7) || ',' || x || '],[' || (7 + x % 40) || ',-0.5]]', 'words number ' || x || "
          "' and ' || (x % 7), 'Grams of ' || (x * 4099 % 1009), 'p' || (x % 12), x % 5 FROM c;"
          "INSERT INTO t(t) VALUES ('train'); DELETE FROM t WHERE id % 20 = 0;"
          "INSERT INTO t(id, e, z) VALUES (500, '[1,1,1,1]', '{\"3\":7}');"
          "CREATE VIRTUAL TABLE unlearnt USING warp(l FLOAT[4] index=ivfrabitq(lists=4));"
          "INSERT INTO unlearnt SELECT l FROM t WHERE l IS NOT NULL;"
          "INSERT INTO unlearnt(unlearnt) VALUES ('optimize');"
          "CREATE VIRTUAL TABLE f USING fts5(s, content='');" +
          counting(160) +
          "INSERT INTO f(rowid, s) SELECT x, iif(x % 3, 'alpha ', 'beta ') || hex(x) FROM c",
      "SELECT count(*), sum(n), group_concat(w) FROM t;"
      "SELECT id, hex(e), hex(l), vec_to_json(z), p FROM t WHERE id % 31 = 1 OR id > 490;"
      "SELECT id, distance FROM t WHERE z MATCH '{\"3\":1}' AND k = 7;"
      "SELECT warp_model('unlearnt', 'l') IS NULL, count(*) FROM unlearnt",
      "BEGIN; INSERT INTO t(id, e, z, p) VALUES (1000, '[1,1,1,1]', '{\"3\":1}', 'next');"
      "UPDATE t SET z = '{}' WHERE id = 1000; DELETE FROM t WHERE id = 1000; COMMIT;"
      "INSERT INTO t(t) VALUES ('integrity-check'); INSERT INTO unlearnt(unlearnt) VALUES ('integrity-check');"
      "SELECT rowid FROM warp_hybrid_search('t', 4, 'z', '{\"3\":1}', 'l', '[9,1,0,0]', 'f', 'alpha')",
      kRankings};
}

}  // namespace warplite::testing
