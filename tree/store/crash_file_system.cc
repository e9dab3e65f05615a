#include "tree/store/crash_file_system.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace quorate::tree {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

using Lock = std::lock_guard<std::recursive_mutex>;

class CrashFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  CrashFile(CrashFileSystem* fs, std::string name, std::unique_ptr<rocksdb::FSWritableFile> file)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(file)), fs_(*fs), name_(std::move(name)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    const Lock lock(fs_.mutex());
    fs_.OnAppend(name_, data.size());
    return FSWritableFileOwnerWrapper::Append(data, options, debug);
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*verification*/,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    const Lock lock(fs_.mutex());
    // A crash before it, and one after.
    fs_.OnAppend(name_, 0);
    const IOStatus status = FSWritableFileOwnerWrapper::Flush(options, debug);
    fs_.OnSync(name_);
    return status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  CrashFileSystem& fs_;
  const std::string name_;
};

class CrashDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  CrashDirectory(CrashFileSystem* fs, std::string name,
                 std::unique_ptr<rocksdb::FSDirectory> directory)
      : rocksdb::FSDirectoryWrapper(std::move(directory)), fs_(*fs), name_(std::move(name)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    const Lock lock(fs_.mutex());
    fs_.OnDirectorySync(name_);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& /*directory_options*/) override {
    return Fsync(options, debug);
  }

 private:
  CrashFileSystem& fs_;
  const std::string name_;
};

std::string DirectoryOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

CrashFileSystem::CrashFileSystem(uint64_t crash_at, uint64_t seed, bool keeps_all,
                                 std::string graveyard)
    : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()),
      crash_at_(crash_at),
      keeps_all_(keeps_all),
      graveyard_(std::move(graveyard)),
      random_(seed) {}

void CrashFileSystem::Count() {
  if (++operations_ == crash_at_) Crash();
}

void CrashFileSystem::Crash() {
  if (!keeps_all_) {
    for (const auto& [name, sizes] : files_) {
      if (sizes.synced == sizes.written) continue;
      const uint64_t kept = sizes.synced + random_() % (sizes.written - sizes.synced + 1);
      // One that is not there any more has nothing to lose.
      if (truncate(name.c_str(), static_cast<off_t>(kept)) != 0) continue;
    }
    size_t lost = random_() % (changes_.size() + 1);
    for (auto change = changes_.rbegin(); lost > 0; ++change, --lost) change->undo();
  }
  _exit(kCrashExitCode);
}

void CrashFileSystem::Changed(const std::string& path, std::function<void()> undo) {
  changes_.push_back({DirectoryOf(path), std::move(undo)});
}

std::string CrashFileSystem::Bury(const std::string& path) {
  std::string grave = graveyard_ + "/" + std::to_string(buried_++);
  return link(path.c_str(), grave.c_str()) == 0 ? grave : "";
}

void CrashFileSystem::OnAppend(const std::string& name, size_t bytes) {
  Count();
  files_[name].written += bytes;
}

void CrashFileSystem::OnSync(const std::string& name) {
  files_[name].synced = files_[name].written;
  Count();
}

void CrashFileSystem::OnDirectorySync(const std::string& name) {
  Count();
  std::erase_if(changes_, [&name](const Change& change) { return change.directory == name; });
  Count();
}

IOStatus CrashFileSystem::NewWritableFile(const std::string& name,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* file,
                                          IODebugContext* debug) {
  const Lock lock(mutex_);
  Count();
  std::unique_ptr<rocksdb::FSWritableFile> target;
  IOStatus status = FileSystemWrapper::NewWritableFile(name, options, &target, debug);
  if (!status.ok()) return status;
  files_[name] = Sizes{};
  Changed(name, [name] { std::remove(name.c_str()); });
  *file = std::make_unique<CrashFile>(this, name, std::move(target));
  return status;
}

IOStatus CrashFileSystem::NewDirectory(const std::string& name, const IOOptions& options,
                                       std::unique_ptr<rocksdb::FSDirectory>* directory,
                                       IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> target;
  IOStatus status = FileSystemWrapper::NewDirectory(name, options, &target, debug);
  if (!status.ok()) return status;
  *directory = std::make_unique<CrashDirectory>(this, name, std::move(target));
  return status;
}

IOStatus CrashFileSystem::RenameFile(const std::string& from, const std::string& to,
                                     const IOOptions& options, IODebugContext* debug) {
  const Lock lock(mutex_);
  Count();
  const std::string replaced = Bury(to);
  IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
  if (!status.ok()) return status;
  files_[to] = files_[from];
  files_.erase(from);
  Changed(to, [from, to, replaced] {
    std::rename(to.c_str(), from.c_str());
    if (!replaced.empty()) std::rename(replaced.c_str(), to.c_str());
  });
  return status;
}

IOStatus CrashFileSystem::LinkFile(const std::string& from, const std::string& to,
                                   const IOOptions& options, IODebugContext* debug) {
  const Lock lock(mutex_);
  Count();
  IOStatus status = FileSystemWrapper::LinkFile(from, to, options, debug);
  if (!status.ok()) return status;
  files_[to] = files_[from];
  Changed(to, [to] { std::remove(to.c_str()); });
  return status;
}

IOStatus CrashFileSystem::DeleteFile(const std::string& name, const IOOptions& options,
                                     IODebugContext* debug) {
  const Lock lock(mutex_);
  Count();
  const std::string grave = Bury(name);
  IOStatus status = FileSystemWrapper::DeleteFile(name, options, debug);
  if (!status.ok()) return status;
  files_.erase(name);
  Changed(name, [name, grave] {
    if (!grave.empty()) std::rename(grave.c_str(), name.c_str());
  });
  return status;
}

}  // namespace quorate::tree
