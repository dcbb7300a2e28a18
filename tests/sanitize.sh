#!/bin/sh
# Builds everything with sanitizers and runs every test: the C++ cases file by file, the random oracles,
# crashes and fuzzers. One line of outcome for each sanitizer comes last.
#   tests/sanitize.sh              the address and undefined-behaviour sanitizers, then the thread sanitizer
#   tests/sanitize.sh dev          the first two alone
#   tests/sanitize.sh tsan         the thread sanitizer alone (the C++ cases; Python is not instrumented)
# More arguments go to ctest and choose a piece, e.g. tests/sanitize.sh dev -R ivf, or every fourth test
# with tests/sanitize.sh tsan -I 1,,4.
set -u
cd "$(dirname "$0")/.." || exit 1
presets="dev tsan"
case "${1:-}" in
  dev | tsan)
    presets=$1
    shift
    ;;
esac
sh examples/setup.sh || exit 1

# The thread sanitizer cannot map its shadow where addresses are randomised widely.
fixed_addresses="setarch $(uname -m) -R"
$fixed_addresses true 2>/dev/null || fixed_addresses=""

# GCC misaligns 64-byte variables, which AVX-512 has, on the stacks that finding their use after a
# return takes (GCC bug 110027).
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1}"

outcome=""
failures=0
for preset in $presets; do
  if cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" &&
    $fixed_addresses ctest --test-dir "build/$preset" --output-on-failure --parallel "$(nproc)" \
      --timeout 5400 --exclude-regex include_rules "$@"; then
    outcome="$outcome$preset: passed
"
  else
    outcome="$outcome$preset: FAILED
"
    failures=$((failures + 1))
  fi
done
printf '%s' "$outcome"
exit "$failures"
