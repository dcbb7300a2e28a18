#include "tests/support/fakes/failing_files.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <sys/uio.h>

#include <cerrno>

#include "tests/support/fakes/fault_plan.h"

namespace warplite::testing {
namespace {

FaultPlan error_plan;
FaultPlan full_plan;
FaultPlan* active = nullptr;

sqlite3_vfs* original = nullptr;

// The file that does the work lies right behind the one that SQLite sees.
sqlite3_file* behind(sqlite3_file* file) { return file + 1; }

template <auto Method, class Result, class... Arguments>
Result forward(sqlite3_file* file, Arguments... arguments) {
  return (behind(file)->pMethods->*Method)(behind(file), arguments...);
}

template <auto Method, int Code, class... Arguments>
int forward_or_fail(sqlite3_file* file, Arguments... arguments) {
  return error_plan.fails() ? Code : forward<Method, int>(file, arguments...);
}

// A write that fails has written something, as it may when a disk is full.
int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 at) {
  const int code = full_plan.fails()    ? SQLITE_FULL
                   : error_plan.fails() ? SQLITE_IOERR_WRITE
                                        : SQLITE_OK;
  const int written = forward<&sqlite3_io_methods::xWrite, int>(
      file, bytes, code == SQLITE_OK ? size : size / 2, at);
  return code == SQLITE_OK ? written : code;
}

int sync(sqlite3_file*, int) { return error_plan.fails() ? SQLITE_IOERR_FSYNC : SQLITE_OK; }

// Without files in memory (version 3), whose reads nobody could see.
const sqlite3_io_methods kMethods{
    .iVersion = 2,
    .xClose = forward<&sqlite3_io_methods::xClose>,
    .xRead = forward_or_fail<&sqlite3_io_methods::xRead, SQLITE_IOERR_READ>,
    .xWrite = write,
    .xTruncate = forward_or_fail<&sqlite3_io_methods::xTruncate, SQLITE_IOERR_TRUNCATE>,
    .xSync = sync,
    .xFileSize = forward_or_fail<&sqlite3_io_methods::xFileSize, SQLITE_IOERR_FSTAT>,
    .xLock = forward_or_fail<&sqlite3_io_methods::xLock, SQLITE_IOERR_LOCK>,
    .xUnlock = forward<&sqlite3_io_methods::xUnlock>,
    .xCheckReservedLock =
        forward_or_fail<&sqlite3_io_methods::xCheckReservedLock, SQLITE_IOERR_CHECKRESERVEDLOCK>,
    .xFileControl = forward<&sqlite3_io_methods::xFileControl>,
    .xSectorSize = forward<&sqlite3_io_methods::xSectorSize>,
    .xDeviceCharacteristics = forward<&sqlite3_io_methods::xDeviceCharacteristics>,
    .xShmMap = forward_or_fail<&sqlite3_io_methods::xShmMap, SQLITE_IOERR_SHMMAP>,
    .xShmLock = forward<&sqlite3_io_methods::xShmLock>,
    .xShmBarrier = forward<&sqlite3_io_methods::xShmBarrier>,
    .xShmUnmap = forward<&sqlite3_io_methods::xShmUnmap>,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* flags_out) {
  file->pMethods = nullptr;
  if (error_plan.fails()) return SQLITE_CANTOPEN;
  const int code = original->xOpen(original, path, behind(file), flags, flags_out);
  if (behind(file)->pMethods != nullptr) file->pMethods = &kMethods;
  return code;
}

int access(sqlite3_vfs*, const char* path, int flags, int* found) {
  return error_plan.fails() ? SQLITE_IOERR_ACCESS : original->xAccess(original, path, flags, found);
}

int remove(sqlite3_vfs*, const char* path, int sync_folder) {
  return error_plan.fails() ? SQLITE_IOERR_DELETE : original->xDelete(original, path, sync_folder);
}

sqlite3_vfs failing;

}  // namespace

FailingFiles::FailingFiles() {
  original = sqlite3_vfs_find(nullptr);
  failing = *original;
  failing.szOsFile += static_cast<int>(sizeof(sqlite3_file));
  failing.pNext = nullptr;
  failing.zName = "failing";
  failing.xOpen = open;
  failing.xAccess = access;
  failing.xDelete = remove;
  sqlite3_vfs_register(&failing, 1);
}

FailingFiles::~FailingFiles() {
  sqlite3_vfs_unregister(&failing);
  sqlite3_vfs_register(original, 1);
}

FileFault::FileFault(FileFailure failure, long nth, bool forever) : nth_(nth) {
  active = failure == FileFailure::kFull ? &full_plan : &error_plan;
  active->begin(nth, forever);
}

FileFault::~FileFault() {
  active->end();
}

bool FileFault::fired() const {
  return active->fired();
}

long FileFault::operations() const {
  return nth_ - active->remaining();
}

}  // namespace warplite::testing

// What os::read_pieces() calls, and nobody else.
extern "C" ssize_t preadv(int file, const iovec* parts, int count, off_t at) {
  if (warplite::testing::error_plan.fails()) {
    errno = EIO;
    return -1;
  }
  static const auto next = reinterpret_cast<decltype(&preadv)>(dlsym(RTLD_NEXT, "preadv"));
  return next(file, parts, count, at);
}
