// SPDX-License-Identifier: Apache-2.0

#include "tree/store/testing/fault_file_system.h"

#include <utility>

namespace quorate::tree {

using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

const std::string kNoName;

}  // namespace

FaultFileSystem::FaultFileSystem() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}

template <class Act>
IOStatus FaultFileSystem::Do(const Call& call, Act act) {
  const std::lock_guard<std::recursive_mutex> lock(mutex_);
  size_t bytes_done = 0;
  IOStatus status = Before(call, &bytes_done);
  if (!status.ok()) {
    if (call.operation == Operation::kSync) files_[call.path].sync_failed = true;
    if (bytes_done == 0 || !act(bytes_done).ok()) return status;
    Note({call.operation, call.path, call.to, bytes_done});
    return status;
  }
  status = act(call.bytes);
  if (!status.ok()) return status;
  Note(call);
  After(call);
  return status;
}

void FaultFileSystem::Note(const Call& call) {
  switch (call.operation) {
    case Operation::kCreate:
      files_[call.path] = Sizes{};
      return;
    case Operation::kAppend:
      files_[call.path].written += call.bytes;
      return;
    case Operation::kSync: {
      Sizes& sizes = files_[call.path];
      if (!sizes.sync_failed) sizes.synced = sizes.written;
      return;
    }
    case Operation::kRename:
      files_[call.to] = files_[call.path];
      files_.erase(call.path);
      return;
    case Operation::kLink:
      files_[call.to] = files_[call.path];
      return;
    case Operation::kDelete:
      files_.erase(call.path);
      return;
    case Operation::kSyncDirectory:
    case Operation::kRead:
      return;
  }
}

class FaultFileSystem::WritableFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WritableFile(FaultFileSystem* fs, std::string name, std::unique_ptr<rocksdb::FSWritableFile> file)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(file)), fs_(*fs), name_(std::move(name)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return fs_.Do({Operation::kAppend, name_, kNoName, data.size()}, [&](size_t bytes) {
      return FSWritableFileOwnerWrapper::Append(Slice(data.data(), bytes), options, debug);
    });
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*verification*/,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return fs_.Do({Operation::kSync, name_, kNoName},
                  [&](size_t) { return FSWritableFileOwnerWrapper::Flush(options, debug); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  FaultFileSystem& fs_;
  const std::string name_;
};

class FaultFileSystem::SequentialFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SequentialFile(FaultFileSystem* fs, std::string name,
                 std::unique_ptr<rocksdb::FSSequentialFile> file)
      : rocksdb::FSSequentialFileOwnerWrapper(std::move(file)), fs_(*fs), name_(std::move(name)) {}

  IOStatus Read(size_t size, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) override {
    return fs_.Do({Operation::kRead, name_, kNoName}, [&](size_t) {
      return FSSequentialFileOwnerWrapper::Read(size, options, result, scratch, debug);
    });
  }

 private:
  FaultFileSystem& fs_;
  const std::string name_;
};

class FaultFileSystem::RandomAccessFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccessFile(FaultFileSystem* fs, std::string name,
                   std::unique_ptr<rocksdb::FSRandomAccessFile> file)
      : rocksdb::FSRandomAccessFileOwnerWrapper(std::move(file)),
        fs_(*fs),
        name_(std::move(name)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext* debug) const override {
    return fs_.Do({Operation::kRead, name_, kNoName}, [&](size_t) {
      return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
    });
  }

 private:
  FaultFileSystem& fs_;
  const std::string name_;
};

class FaultFileSystem::Directory : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(FaultFileSystem* fs, std::string name, std::unique_ptr<rocksdb::FSDirectory> directory)
      : rocksdb::FSDirectoryWrapper(std::move(directory)), fs_(*fs), name_(std::move(name)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return fs_.Do({Operation::kSyncDirectory, name_, kNoName},
                  [](size_t) { return IOStatus::OK(); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& /*directory_options*/) override {
    return Fsync(options, debug);
  }

 private:
  FaultFileSystem& fs_;
  const std::string name_;
};

IOStatus FaultFileSystem::NewWritableFile(const std::string& name,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* file,
                                          IODebugContext* debug) {
  return Do({Operation::kCreate, name, kNoName}, [&](size_t) {
    std::unique_ptr<rocksdb::FSWritableFile> target;
    IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &target, debug);
    if (status.ok()) *file = std::make_unique<WritableFile>(this, name, std::move(target));
    return status;
  });
}

IOStatus FaultFileSystem::NewSequentialFile(const std::string& name,
                                            const rocksdb::FileOptions& options,
                                            std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                            IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSSequentialFile> target;
  IOStatus status = FileSystemWrapper::NewSequentialFile(name, options, &target, debug);
  if (status.ok()) *file = std::make_unique<SequentialFile>(this, name, std::move(target));
  return status;
}

IOStatus FaultFileSystem::NewRandomAccessFile(const std::string& name,
                                              const rocksdb::FileOptions& options,
                                              std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                              IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSRandomAccessFile> target;
  IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, &target, debug);
  if (status.ok()) *file = std::make_unique<RandomAccessFile>(this, name, std::move(target));
  return status;
}

IOStatus FaultFileSystem::NewDirectory(const std::string& name, const IOOptions& options,
                                       std::unique_ptr<rocksdb::FSDirectory>* directory,
                                       IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> target;
  IOStatus status = FileSystemWrapper::NewDirectory(name, options, &target, debug);
  if (status.ok()) *directory = std::make_unique<Directory>(this, name, std::move(target));
  return status;
}

IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to,
                                     const IOOptions& options, IODebugContext* debug) {
  return Do({Operation::kRename, from, to},
            [&](size_t) { return FileSystemWrapper::RenameFile(from, to, options, debug); });
}

IOStatus FaultFileSystem::LinkFile(const std::string& from, const std::string& to,
                                   const IOOptions& options, IODebugContext* debug) {
  return Do({Operation::kLink, from, to},
            [&](size_t) { return FileSystemWrapper::LinkFile(from, to, options, debug); });
}

IOStatus FaultFileSystem::DeleteFile(const std::string& name, const IOOptions& options,
                                     IODebugContext* debug) {
  return Do({Operation::kDelete, name, kNoName},
            [&](size_t) { return FileSystemWrapper::DeleteFile(name, options, debug); });
}

}  // namespace quorate::tree
