#!/bin/sh
# On a machine with an NVIDIA GPU: builds everything, runs every test (the conformance suite on the
# GPU among them), checks memory accesses, and times searches. Arguments go to ctest.
#   tests/run_gpu.sh
# GPU_BUILD: the build folder (build/gpu). CMAKE_OPTIONS: more options, where headers lie elsewhere.
# GPU_BASE: a .bvecs file of image descriptors to time searches with.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${GPU_BUILD:-build/gpu}

# shellcheck disable=SC2086  # the options are meant to be split
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DWARPLITE_CUDA=ON ${CMAKE_OPTIONS:-} &&
  cmake --build "$build" || exit 1

ctest --test-dir "$build" --output-on-failure --timeout 1200 --parallel "${TEST_JOBS:-4}" "$@"
tests=$?

# The ways of multiplying that this GPU would not choose, and what only whole processes show.
for product in warps small-warps cublas; do
  echo "== product by $product"
  if [ "$product" = cublas ] && ! python3 -c 'import ctypes, os
ctypes.CDLL(os.environ.get("WARPLITE_CUBLAS") or "libcublas.so.13")'; then
    echo "skipped: there is no cuBLAS library; LD_LIBRARY_PATH or WARPLITE_CUBLAS can say where it is"
    continue
  fi
  WARPLITE_GPU_PRODUCT=$product "$build/tests/warplite_tests" -tc='devices*' || tests=1
done
echo "== metric indexes wherever they can be used"
WARPLITE_GPU_METRIC=always "$build/tests/warplite_tests" -tc='devices*,metric*,edit*' || tests=1
echo "== random statements"
for seed in 1 2 3 4; do
  for oracle in oracle text_oracle content_oracle; do
    WARPLITE_ORACLE_DEVICE=gpu python3 "tests/oracle/$oracle.py" "$build/warplite.so" $seed ||
      tests=1
  done
done
echo "== processes"
python3 tests/gpu/process_test.py "$build/warplite.so" || tests=1

if command -v compute-sanitizer >/dev/null 2>&1; then
  echo "== compute-sanitizer"
  # Devices, and the scratch memory that they keep, live as long as the process: no leaks are counted.
  compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$build/tests/warplite_tests" -tc='devices: tables large*' || tests=9
fi

echo "== inside the engine"
"$build/bench/gpu_lab" "$build/warplite_cuda.so" ${GPU_BASE:+--base "$GPU_BASE"} || tests=1
"$build/bench/gpu_ivf_lab" "$build/warplite_cuda.so" ${GPU_BASE:+--base "$GPU_BASE"} || tests=1
"$build/bench/gpu_sparse_lab" "$build/warplite_cuda.so" || tests=1
echo "== through SQL"
python3 bench/gpu.py --build "$build" --work "$build/gpu-bench" ${GPU_BASE:+--base "$GPU_BASE"} ||
  tests=1
exit $tests
