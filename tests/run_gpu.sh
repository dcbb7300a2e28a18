#!/bin/sh
# On a machine with an NVIDIA GPU: builds everything, runs every test (the conformance suite on the
# GPU among them, and those of tests/gpu/), and times searches. Arguments go to ctest; with --long,
# which comes first, the heavier variants run too.
#   tests/run_gpu.sh
# GPU_BUILD: the build folder (build/gpu). CMAKE_OPTIONS: more options, where headers lie elsewhere.
# GPU_BASE: a .bvecs file of image descriptors to time searches with.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${GPU_BUILD:-build/gpu}
if [ "${1:-}" = --long ]; then
  shift
else
  set -- --label-exclude long "$@"
fi

# shellcheck disable=SC2086  # the options are meant to be split
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWARPLITE_CUDA=ON \
  -DWARPLITE_GPU_TESTS=ON ${CMAKE_OPTIONS:-} &&
  cmake --build "$build" || exit 1

ctest --test-dir "$build" --output-on-failure --timeout 1200 --parallel "${TEST_JOBS:-$(nproc)}" "$@"
tests=$?

echo "== inside the engine"
"$build/bench/gpu_lab" "$build/warplite_cuda.so" ${GPU_BASE:+--base "$GPU_BASE"} || tests=1
"$build/bench/gpu_ivf_lab" "$build/warplite_cuda.so" ${GPU_BASE:+--base "$GPU_BASE"} || tests=1
"$build/bench/gpu_sparse_lab" "$build/warplite_cuda.so" || tests=1
echo "== through SQL"
python3 bench/gpu.py --build "$build" --work "$build/gpu-bench" ${GPU_BASE:+--base "$GPU_BASE"} ||
  tests=1
exit $tests
