#include "gpu/runtime/blas.h"

#include <cstdlib>
#include <string_view>
#include <vector>

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#endif

#include "core/system.h"
#include "gpu/runtime/cuda_error.h"

namespace warplite::gpu {
namespace {

// The few of its functions and numbers that are used, so that a toolkit without cuBLAS builds this as well.
constexpr int kSuccess = 0, kAllocFailed = 3, kNotTransposed = 0, kTransposed = 1;
constexpr int kSumsOfFloat32 = 68, kAnyAlgorithm = -1;
using Create = int(void** handle);
using Destroy = int(void* handle);
using SetStream = int(void* handle, cudaStream_t stream);
using SetWorkspace = int(void* handle, void* memory, std::size_t size);
using Multiply = int(void* handle, int transposed_a, int transposed_b, int m, int n, int k,
                     const void* alpha, const void* a, cudaDataType type_a, int stride_a, const void* b,
                     cudaDataType type_b, int stride_b, const void* beta, void* c, cudaDataType type_c,
                     int stride_c, int sums, int algorithm);
using NameOf = const char*(int status);
#ifdef CUBLAS_VERSION
static_assert(CUBLAS_STATUS_SUCCESS == kSuccess && CUBLAS_STATUS_ALLOC_FAILED == kAllocFailed);
static_assert(CUBLAS_OP_N == kNotTransposed && CUBLAS_OP_T == kTransposed);
static_assert(CUBLAS_COMPUTE_32F == kSumsOfFloat32 && CUBLAS_GEMM_DEFAULT == kAnyAlgorithm);
#endif

// Where it may be: as the system finds it (LD_LIBRARY_PATH, or another part of the program has opened it),
// or among Python's packages beside the plug-in's.
std::vector<std::string> places() {
  if (const char* path = std::getenv("WARPLITE_CUBLAS"); path != nullptr && *path != '\0') return {path};
  const std::string plugin = os::path_of(reinterpret_cast<const void*>(&blas_works));
  const std::string packages = plugin.substr(0, plugin.find_last_of('/') + 1) + "../nvidia/";
  return {"libcublas.so.13", packages + "cu13/lib/libcublas.so.13", "libcublas.so.12",
          packages + "cublas/lib/libcublas.so.12", "libcublas.so"};
}

// The library, open for good.
struct Library {
  std::string why;  // it does not work; empty: it does
  Create* create = nullptr;
  Destroy* destroy = nullptr;
  SetStream* set_stream = nullptr;
  SetWorkspace* set_workspace = nullptr;
  Multiply* multiply = nullptr;
  NameOf* name_of = nullptr;

  Library() {
    const std::vector<std::string> paths = places();
    void* const library = os::open_first_library(paths, why);
    if (library == nullptr) {
      why = "no cuBLAS library was found: " + why;
      return;
    }
    why.clear();
    find(library, "cublasCreate_v2", create);
    find(library, "cublasDestroy_v2", destroy);
    find(library, "cublasSetStream_v2", set_stream);
    find(library, "cublasSetWorkspace_v2", set_workspace);
    find(library, "cublasGemmEx", multiply);
    find(library, "cublasGetStatusString", name_of);
    if (why.empty()) try_it();
  }

 private:
  template <typename Function>
  void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(os::symbol(library, name));
    if (function == nullptr) why = std::string("the cuBLAS library has no ") + name;
  }
  // A driver may be too old for it, or the GPU.
  void try_it() {
    void* handle = nullptr;
    const int status = create(&handle);
    if (status == kSuccess) {
      destroy(handle);
    } else {
      why = std::string("the cuBLAS library does not work here: ") + name_of(status);
    }
  }
};

const Library& library() {
  static const Library opened;
  return opened;
}

void check_blas(int status, const char* what) {
  if (status == kSuccess) return;
  check(cudaGetLastError(), what);
  throw Error(status == kAllocFailed ? ErrorKind::kNoMemory : ErrorKind::kUnsupported,
              std::string(what) + ": " + library().name_of(status));
}

}  // namespace

bool blas_works(std::string& why) {
  why = library().why;
  return why.empty();
}

Blas::Blas(cudaStream_t stream) {
  check_blas(library().create(&handle_), "starting cuBLAS");
  if (const int status = library().set_stream(handle_, stream); status != kSuccess) {
    library().destroy(handle_);
    check_blas(status, "starting cuBLAS");
  }
}

Blas::~Blas() { library().destroy(handle_); }

void Blas::set_workspace(std::byte* memory, std::size_t size) {
  check_blas(library().set_workspace(handle_, memory, size), "multiplying by cuBLAS");
}

// cuBLAS sees columns where rows are: the transposed product of rows by queries.
void Blas::multiply(const BlasProduct& product) {
  const float one = 1, zero = 0;
  const auto rows = static_cast<int>(product.rows), dim = static_cast<int>(product.dim);
  check_blas(library().multiply(handle_, kTransposed, kNotTransposed, rows,
                                static_cast<int>(product.queries), dim, &one, product.rows_at, CUDA_R_16F,
                                dim, product.queries_at, CUDA_R_16F, dim, &zero, product.sums, CUDA_R_32F,
                                rows, kSumsOfFloat32, kAnyAlgorithm),
             "multiplying by cuBLAS");
}

}  // namespace warplite::gpu
