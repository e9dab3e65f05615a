// A file system over the real one on which every operation can be made to fail: what
// CrashFileSystem and ErrorFileSystem share. Nothing is really synced.
//
// Thread-safety: may be used from any thread; operations that are seen here come one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "rocksdb/file_system.h"

namespace quorate::tree {

class FaultFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using IOStatus = rocksdb::IOStatus;
  using IOOptions = rocksdb::IOOptions;
  using IODebugContext = rocksdb::IODebugContext;

  enum class Operation : uint8_t {
    kCreate,
    kAppend,
    kSync,
    kRename,
    kLink,
    kDelete,
    kSyncDirectory,
    kRead,
  };
  // One of them. `to` is the new name of a rename or a link.
  struct Call {
    Operation operation;
    const std::string& path;
    const std::string& to;
    size_t bytes = 0;  // of an append
  };

  FaultFileSystem();

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override;
  IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext* debug) override;
  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override;
  IOStatus NewDirectory(const std::string& name, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext* debug) override;
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* debug) override;
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override;
  IOStatus DeleteFile(const std::string& name, const IOOptions& options,
                      IODebugContext* debug) override;

 protected:
  // How much of a file was appended, and how much of that is durable.
  struct Sizes {
    uint64_t written = 0;
    uint64_t synced = 0;
    bool sync_failed = false;  // what was not synced then never will be
  };

  // Before an operation; with an error it is not done, and fails with that. Of an append that
  // fails, `*bytes_done` are written all the same (0 by default).
  virtual IOStatus Before(const Call& call, size_t* bytes_done) = 0;
  // After one that went well.
  virtual void After(const Call& /*call*/) {}
  // By name, of all that were made here.
  std::map<std::string, Sizes>& files() { return files_; }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  class WritableFile;
  class SequentialFile;
  class RandomAccessFile;
  class Directory;

  // Does `call` by calling `act`, between Before and After.
  template <class Act>
  IOStatus Do(const Call& call, Act act);
  void Note(const Call& call);

  std::recursive_mutex mutex_;
  std::map<std::string, Sizes> files_;
};

}  // namespace quorate::tree
