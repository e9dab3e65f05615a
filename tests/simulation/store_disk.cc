// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/store_disk.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace quorate::simulation {
namespace {

// A directory in memory, if there is one: RocksDB creates and removes thousands of files in a run.
std::string ParentDirectory() {
  if (const char* parent = std::getenv("TMPDIR"); parent != nullptr) return parent;
  constexpr char kInMemory[] = "/dev/shm";
  return access(kInMemory, W_OK | X_OK) == 0 ? kInMemory : "/tmp";
}

std::string DirectoryOf(int process) {
  return ParentDirectory() + "/quorate-simulation-" + std::to_string(process);
}

}  // namespace

class StoreDisk::Files : public tree::FaultFileSystem {
 public:
  explicit Files(std::string graveyard) : graveyard_(std::move(graveyard)) {}

  const char* Name() const override { return "StoreDisk"; }

  // RocksDB opens each file that it ingests again, only to sync it.
  IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              IODebugContext* debug) override {
    if (stopped_) return IOStatus::IOError(name, "the process is dead");
    std::unique_ptr<rocksdb::FSWritableFile> target;
    IOStatus status = FileSystemWrapper::ReopenWritableFile(name, options, &target, debug);
    if (status.ok()) *file = std::make_unique<ReopenedFile>(this, name, std::move(target));
    return status;
  }

  void SetStopped(bool stopped) { stopped_ = stopped; }

  void Crash(Random* random) {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    for (auto& [name, sizes] : files()) {
      const uint64_t unsynced = sizes.written - sizes.synced;
      if (unsynced == 0) continue;
      sizes.written = sizes.synced + random->Below(unsynced + 1);
      // A file that was removed meanwhile has nothing to lose.
      if (truncate(name.c_str(), static_cast<off_t>(sizes.written)) != 0) continue;
    }
    for (uint64_t lost = random->Below(changes_.size() + 1); lost > 0; --lost) {
      changes_.back().undo();
      changes_.pop_back();
    }
    changes_.clear();
    files().clear();
  }

 protected:
  IOStatus Before(const Call& call, size_t* /*bytes_done*/) override {
    if (call.operation == Operation::kRead) return IOStatus::OK();
    if (stopped_) return IOStatus::IOError(call.path, "the process is dead");
    if (call.operation == Operation::kRename) grave_ = Bury(call.to);
    if (call.operation == Operation::kDelete) grave_ = Bury(call.path);
    return IOStatus::OK();
  }

  void After(const Call& call) override {
    const std::string& path = call.path;
    const std::string& to = call.to;
    switch (call.operation) {
      case Operation::kCreate:
        return Changed(path, [path] { std::remove(path.c_str()); });
      case Operation::kRename:
        return Changed(to, [path, to, replaced = grave_] {
          std::rename(to.c_str(), path.c_str());
          if (!replaced.empty()) std::rename(replaced.c_str(), to.c_str());
        });
      case Operation::kLink:
        return Changed(to, [to] { std::remove(to.c_str()); });
      case Operation::kDelete:
        return Changed(path, [path, grave = grave_] {
          if (!grave.empty()) std::rename(grave.c_str(), path.c_str());
        });
      case Operation::kSyncDirectory:
        std::erase_if(changes_, [&path](const Change& change) { return change.directory == path; });
        return;
      case Operation::kAppend:
      case Operation::kSync:
      case Operation::kRead:
        return;
    }
  }

 private:
  struct Change {
    std::string directory;
    std::function<void()> undo;
  };

  // A sync of the file is recorded, but not passed on: the real disk would make a run take minutes.
  class ReopenedFile : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    ReopenedFile(Files* files, std::string name, std::unique_ptr<rocksdb::FSWritableFile> file)
        : rocksdb::FSWritableFileOwnerWrapper(std::move(file)),
          files_(*files),
          name_(std::move(name)) {}

    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
      if (files_.stopped_) return IOStatus::IOError(name_, "the process is dead");
      IOStatus status = Flush(options, debug);
      if (status.ok()) files_.Synced(name_);
      return status;
    }
    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
      return Sync(options, debug);
    }

   private:
    Files& files_;
    const std::string name_;
  };

  void Synced(const std::string& name) {
    const std::lock_guard<std::recursive_mutex> lock(mutex());
    Sizes& sizes = files()[name];
    if (!sizes.sync_failed) sizes.synced = sizes.written;
  }

  void Changed(const std::string& path, std::function<void()> undo) {
    changes_.push_back({path.substr(0, path.rfind('/')), std::move(undo)});
  }
  // Links a file that is about to lose its name under a second one; returns the second name, empty
  // if there is no such file.
  std::string Bury(const std::string& path) {
    std::string grave = graveyard_ + "/" + std::to_string(buried_++);
    return link(path.c_str(), grave.c_str()) == 0 ? grave : "";
  }

  const std::string graveyard_;
  std::atomic<bool> stopped_ = false;
  uint64_t buried_ = 0;
  std::string grave_;            // what the operation under way replaces or removes
  std::vector<Change> changes_;  // of directories, not synced, in order
};

StoreDisk::StoreDisk() {
  static int made = 0;
  directory_ = DirectoryOf(getpid()) + "/" + std::to_string(++made);
  std::filesystem::create_directories(directory_ + "/graveyard");
  files_ = std::make_shared<Files>(directory_ + "/graveyard");
  env_ = rocksdb::NewCompositeEnv(files_);
}

StoreDisk::~StoreDisk() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void StoreDisk::RemoveAllOf(int process) {
  std::error_code ignored;
  std::filesystem::remove_all(DirectoryOf(process), ignored);
}

void StoreDisk::Stop() { files_->SetStopped(true); }
void StoreDisk::Crash(Random* random) { files_->Crash(random); }
void StoreDisk::Revive() { files_->SetStopped(false); }

}  // namespace quorate::simulation
