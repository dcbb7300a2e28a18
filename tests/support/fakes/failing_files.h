// Files that fail on purpose: what SQLite does with them, by a VFS around its own, and the reads of
// blocks that go around SQLite.
// Threads: counted over all threads; at most one FileFault at a time.
#pragma once

namespace warplite::testing {

// While it lives, connections are opened on files that may fail. A sync that does not fail does
// nothing: no test with them pulls the plug.
class FailingFiles {
 public:
  FailingFiles();
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;
};

// What fails, and what SQLite hears.
enum class FileFailure {
  kError,  // every operation, by the error of its own
  kFull,   // writes: there is no room
};

// While it lives, operation number `nth` (from 0) of those that may fail so does; with `forever`,
// all after it too.
class FileFault {
 public:
  FileFault(FileFailure failure, long nth, bool forever);
  ~FileFault();
  FileFault(const FileFault&) = delete;
  FileFault& operator=(const FileFault&) = delete;

  bool fired() const;
  // Returns how many operations there were. REQUIRES: it has not fired.
  long operations() const;

 private:
  long nth_;
};

}  // namespace warplite::testing
