#!/bin/sh
# Installs what is missing, builds warplite.so and takes the tour of quickstart.sql.
set -eu
cd "$(dirname "$0")/.."

sh examples/setup.sh

echo "== Building build/release/warplite.so (the first time takes some minutes)"
log=build/quickstart.log
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release --target warplite; } \
    >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  exit 1
fi

echo "== The tour: examples/quickstart.sql in the sqlite3 shell, on build/quickstart.db"
rm -f build/quickstart.db build/quickstart.db-*
sqlite3 -batch -bail build/quickstart.db <examples/quickstart.sql

echo
echo "== Done. Go on by hand, from $(pwd):"
echo "   sqlite3 build/quickstart.db"
echo "   sqlite> .load build/release/warplite"
echo "   sqlite> SELECT word, distance FROM words"
echo "      ...> WHERE embedding MATCH (SELECT embedding FROM words WHERE word = 'music') LIMIT 5;"
