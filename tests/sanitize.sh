#!/bin/sh
# Builds the C++ tests with the address and undefined-behaviour sanitizers, then
# with the thread sanitizer, and runs them; one line of outcome for each.
# Arguments go to the test program, e.g. tests/sanitize.sh -tc='*rollback*'.
set -u
cd "$(dirname "$0")/.." || exit 1
sh examples/setup.sh || exit 1

# The thread sanitizer cannot map its shadow where addresses are randomised widely.
fixed_addresses="setarch $(uname -m) -R"
$fixed_addresses true 2>/dev/null || fixed_addresses=""

outcome=""
failures=0
run() {
  preset=$1
  shift
  cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" --target warplite_tests &&
    $fixed_addresses "build/$preset/tests/warplite_tests" "$@"
  if [ $? = 0 ]; then
    outcome="$outcome$preset: passed
"
  else
    outcome="$outcome$preset: FAILED
"
    failures=$((failures + 1))
  fi
}

export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1}"
run dev "$@"
run tsan "$@"
printf '%s' "$outcome"
exit "$failures"
