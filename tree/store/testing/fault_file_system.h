// SPDX-License-Identifier: Apache-2.0

// A file system on top of the real one, in which every operation can be made to fail. It is the
// base of CrashFileSystem and ErrorFileSystem. It never really syncs.
//
// Thread-safety: may be used from any thread; Before and After are called for one operation at a
// time.
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
  // One call of an operation. `to` is the new name in a rename or a link.
  struct Call {
    Operation operation;
    const std::string& path;
    const std::string& to;
    size_t bytes = 0;  // number of bytes of an append
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
  // The number of bytes appended to a file, and how many of them are durable.
  struct Sizes {
    uint64_t written = 0;
    uint64_t synced = 0;
    bool sync_failed = false;  // if true, the bytes not synced at that time never become durable
  };

  // Called before an operation. If this returns an error, the operation is not performed and fails
  // with that error. A failed append still writes the first `*bytes_done` bytes (0 by default).
  virtual IOStatus Before(const Call& call, size_t* bytes_done) = 0;
  // Called after an operation that succeeded.
  virtual void After(const Call& /*call*/) {}
  // Returns the sizes of all files that were created through this file system, by name.
  std::map<std::string, Sizes>& files() { return files_; }
  std::recursive_mutex& mutex() { return mutex_; }

 private:
  class WritableFile;
  class SequentialFile;
  class RandomAccessFile;
  class Directory;

  // Performs `call` by calling `act`, between Before and After.
  template <class Act>
  IOStatus Do(const Call& call, Act act);
  void Note(const Call& call);

  std::recursive_mutex mutex_;
  std::map<std::string, Sizes> files_;
};

}  // namespace quorate::tree
