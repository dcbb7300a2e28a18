#!/bin/sh
# Installs what is missing, builds everything in Release mode and runs every test.
# The last line is "N passed, N failed": the test cases of the C++ programs, and one
# for each other test. Arguments go to ctest, e.g. tests/run.sh -R include_rules; with --long, which comes
# first, the heavier variants run too.
set -u
cd "$(dirname "$0")/.." || exit 1
if [ "${1:-}" = --long ]; then
  shift
else
  set -- --label-exclude long "$@"
fi

sh examples/setup.sh || exit 1
cmake --preset release || exit 1
cmake --build --preset release || exit 1

log=build/release/Testing/Temporary/LastTest.log
rm -f "$log"
ctest --test-dir build/release --output-on-failure --timeout 1200 --parallel "$(nproc)" "$@"
status=$?
[ -e "$log" ] || exit 1

grep '^\[doctest\] \(test cases\|assertions\)' "$log"
awk '
  / Testing: / { passed = failed = 0 }
  /^\[doctest\] test cases:/ {
    split($0, part, "|")
    gsub(/[^0-9]/, "", part[2]); passed += part[2]
    gsub(/[^0-9]/, "", part[3]); failed += part[3]
  }
  /^Test Passed\.$/ { if (passed == 0) passed = 1; good += passed; bad += failed }
  /^Test Failed\.$/ { if (failed == 0) failed = 1; good += passed; bad += failed }
  END { printf "%d passed, %d failed\n", good, bad; exit bad != 0 || good == 0 }
' "$log"
counted=$?
[ "$status" = 0 ] && [ "$counted" = 0 ]
