// SPDX-License-Identifier: Apache-2.0

#include "consensus/log/testing/fault_env.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/mutex.h"

namespace quorate::consensus {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// A generator of pseudorandom numbers: SplitMix64 (Steele, Lea and Flood 2014).
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

// The content of a file; pages that were never written take neither memory nor time.
class SparseBytes {
 public:
  static constexpr size_t kPageBytes = 4096;

  uint64_t size() const { return size_; }

  void Write(uint64_t offset, std::string_view bytes) {
    if (bytes.empty()) return;
    size_ = std::max(size_, offset + bytes.size());
    ForEachPage(offset, bytes.size(), [&](uint64_t page, size_t at, size_t done, size_t count) {
      std::string& content = pages_[page];
      content.resize(kPageBytes, '\0');
      std::memcpy(content.data() + at, bytes.data() + done, count);
    });
  }

  size_t Read(uint64_t offset, size_t size, char* to) const {
    if (offset >= size_) return 0;
    const size_t total = std::min<uint64_t>(size, size_ - offset);
    size_t done = 0;
    for (auto page = pages_.lower_bound(offset / kPageBytes); page != pages_.end(); ++page) {
      const uint64_t begin = page->first * kPageBytes;
      if (begin >= offset + total) break;
      const size_t zeros_end = std::max(begin, offset) - offset;
      std::memset(to + done, 0, zeros_end - done);
      const size_t at = offset + zeros_end - begin;
      const size_t count = std::min(total - zeros_end, kPageBytes - at);
      std::memcpy(to + zeros_end, page->second.data() + at, count);
      done = zeros_end + count;
    }
    std::memset(to + done, 0, total - done);
    return total;
  }

  // Sets a page to its content in `other`.
  void CopyPage(uint64_t page, const SparseBytes& other) {
    auto found = other.pages_.find(page);
    if (found == other.pages_.end()) {
      pages_.erase(page);
    } else {
      pages_[page] = found->second;
    }
  }
  // Returns the pages that SetSize(size) would change.
  std::vector<uint64_t> PagesFrom(uint64_t size) const {
    std::vector<uint64_t> pages;
    for (auto page = pages_.lower_bound(size / kPageBytes); page != pages_.end(); ++page) {
      pages.push_back(page->first);
    }
    return pages;
  }

  void SetSize(uint64_t size) {
    if (size < size_) {
      const uint64_t page = size / kPageBytes;
      pages_.erase(pages_.upper_bound(page), pages_.end());
      auto last = pages_.find(page);
      if (last != pages_.end()) {
        std::fill(last->second.begin() + static_cast<ptrdiff_t>(size % kPageBytes),
                  last->second.end(), '\0');
      }
    }
    size_ = size;
  }

 private:
  template <class Visit>
  static void ForEachPage(uint64_t offset, size_t size, Visit visit) {
    for (size_t done = 0; done < size;) {
      const size_t at = (offset + done) % kPageBytes;
      const size_t count = std::min(size - done, kPageBytes - at);
      visit((offset + done) / kPageBytes, at, done, count);
      done += count;
    }
  }

  uint64_t size_ = 0;
  std::map<uint64_t, std::string> pages_;
};

// A change of a file that waits to be synced.
struct FileChange {
  enum class Kind : uint8_t { kWrite, kGrow, kTruncate };
  uint64_t sequence = 0;
  Kind kind = Kind::kWrite;
  uint64_t offset = 0;  // or the new length
  std::string bytes{};

  void Apply(SparseBytes* to) const {
    if (kind == Kind::kWrite) {
      to->Write(offset, bytes);
    } else if (kind == Kind::kTruncate || offset > to->size()) {
      to->SetSize(offset);
    }
  }
};

struct Inode {
  SparseBytes cache;
  SparseBytes disk;
  std::vector<FileChange> waiting;
  // Pages that may differ between cache and disk; may hold some twice. With this list the cost of a
  // crash depends on the writes since the last sync, and not on the size of the file.
  std::vector<uint64_t> differing;
  bool lost_writes = false;  // a sync failed: the cache has data that will never be on the disk

  void Do(FileChange change) {
    if (change.kind == FileChange::Kind::kWrite) {
      const uint64_t end = change.offset + change.bytes.size();
      for (uint64_t page = change.offset / SparseBytes::kPageBytes;
           page * SparseBytes::kPageBytes < end; ++page) {
        if (differing.empty() || differing.back() != page) differing.push_back(page);
      }
    } else if (change.kind == FileChange::Kind::kTruncate) {
      const std::vector<uint64_t> pages = cache.PagesFrom(change.offset);
      differing.insert(differing.end(), pages.begin(), pages.end());
    }
    change.Apply(&cache);
    waiting.push_back(std::move(change));
  }

  void Sync() {
    for (const FileChange& change : waiting) change.Apply(&disk);
    waiting.clear();
    if (!lost_writes) differing.clear();
  }

  void FailSync() {
    waiting.clear();
    lost_writes = true;
  }

  // Makes the cache equal to the disk, after a crash has decided what is on the disk.
  void ForgetCache() {
    waiting.clear();
    cache.SetSize(disk.size());
    for (uint64_t page : differing) cache.CopyPage(page, disk);
    differing.clear();
    lost_writes = false;
  }
};

using Names = std::map<std::string, std::shared_ptr<Inode>>;

// A change of a directory that waits to be synced: `from` goes away, `to` becomes `inode`; either
// may be empty.
struct DirectoryChange {
  uint64_t sequence = 0;
  std::string from;
  std::string to;
  std::shared_ptr<Inode> inode;

  void Apply(Names* names) const {
    if (!from.empty()) names->erase(from);
    if (!to.empty()) (*names)[to] = inode;
  }
};

struct Directory {
  Names cache;
  Names disk;
  std::vector<DirectoryChange> waiting;

  void Do(DirectoryChange change) {
    change.Apply(&cache);
    waiting.push_back(std::move(change));
  }

  void Sync() {
    for (const DirectoryChange& change : waiting) change.Apply(&disk);
    waiting.clear();
  }
};

// Decides which changes reached the disk when the power failed.
class Survival {
 public:
  Survival(uint64_t seed, uint64_t first, uint64_t last) : dice_(seed) {
    ASSERT(first <= last);
    switch (dice_.Below(6)) {
      case 0:
        certain_below_ = possible_below_ = 0;
        break;
      case 1:
        certain_below_ = possible_below_ = kUnlimited;
        break;
      case 2:
        certain_below_ = first + dice_.Below(last - first + 1);
        possible_below_ = certain_below_ + 1;
        break;
      default:
        certain_below_ = 0;
        possible_below_ = kUnlimited;
    }
    quarters_ = 1 + dice_.Below(3);
  }

  // Returns whether (this part of) the change with that number survives. Each call draws a new
  // random number.
  bool Keeps(uint64_t sequence) {
    if (sequence < certain_below_) return true;
    return sequence < possible_below_ && dice_.Below(4) < quarters_;
  }

 private:
  Dice dice_;
  uint64_t certain_below_ = 0;
  uint64_t possible_below_ = 0;
  uint64_t quarters_ = 0;  // chance of survival between the two, in quarters
};

std::pair<std::string, std::string> SplitPath(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

class FaultEnv::Disk {
 public:
  Disk() {
    directories_["/"];
    directories_["."];
  }

  void Crash(uint64_t seed) {
    MutexLock lock(&mutex_);
    uint64_t first = kUnlimited;
    auto note = [&](const auto& waiting) {
      if (!waiting.empty()) first = std::min(first, waiting.front().sequence);
    };
    std::set<const Inode*> seen;
    std::vector<Inode*> inodes;  // in order of their names, so that equal seeds give equal results
    auto visit = [&](const std::shared_ptr<Inode>& inode) {
      if (!seen.insert(inode.get()).second) return;
      inodes.push_back(inode.get());
      note(inode->waiting);
    };
    for (auto& [path, directory] : directories_) {
      note(directory.waiting);
      for (const auto& [name, inode] : directory.disk) visit(inode);
      for (const auto& [name, inode] : directory.cache) visit(inode);
      // Also a file that was made and removed again: perhaps only its creation is durable.
      for (const DirectoryChange& change : directory.waiting) visit(change.inode);
    }
    Survival survival(seed, std::min(first, next_sequence_), next_sequence_);
    for (Inode* inode : inodes) Lose(inode, &survival);
    for (auto& [path, directory] : directories_) {
      for (const DirectoryChange& change : directory.waiting) {
        if (survival.Keeps(change.sequence)) change.Apply(&directory.disk);
      }
      if (directory.waiting.empty()) continue;
      directory.waiting.clear();
      directory.cache = directory.disk;
    }
    EndLife();
    powered_off_ = false;
    lies_about_.reset();
    lied_about_.clear();
    ForgetFaults();
  }

  void CancelFaults() {
    MutexLock lock(&mutex_);
    ForgetFaults();
  }

  void Kill() {
    MutexLock lock(&mutex_);
    EndLife();
    powered_off_ = false;
  }

  bool will_fail() const {
    MutexLock lock(&mutex_);
    return failing_reads_ > 0 || (fail_at_.has_value() && *fail_at_ >= operations_) ||
           (fail_sync_at_.has_value() && *fail_sync_at_ >= syncs_);
  }

  void LieAboutSyncs(std::string part) {
    MutexLock lock(&mutex_);
    lies_about_ = std::move(part);
  }
  void EndLies() {
    MutexLock lock(&mutex_);
    lies_about_.reset();
    for (const std::shared_ptr<Inode>& inode : std::exchange(lied_about_, {})) inode->Sync();
  }

  void PowerOffAfter(uint64_t operations) {
    MutexLock lock(&mutex_);
    power_off_at_ = operations_ + operations;
  }
  bool powered_off() const {
    MutexLock lock(&mutex_);
    return powered_off_;
  }
  void FailAfter(uint64_t operations, absl::Status error) {
    ASSERT(!error.ok());
    MutexLock lock(&mutex_);
    fail_at_ = operations_ + operations;
    fail_error_ = std::move(error);
  }
  void FailSyncAfter(uint64_t syncs, absl::Status error) {
    ASSERT(!error.ok());
    MutexLock lock(&mutex_);
    fail_sync_at_ = syncs_ + syncs;
    fail_sync_error_ = std::move(error);
  }
  void FailReads(uint64_t count, absl::Status error) {
    ASSERT(!error.ok());
    MutexLock lock(&mutex_);
    failing_reads_ = count;
    fail_read_error_ = std::move(error);
  }
  void SetCapacity(uint64_t bytes) {
    MutexLock lock(&mutex_);
    capacity_bytes_ = bytes;
  }

  void FlipBit(const std::string& path, uint64_t bit) {
    MutexLock lock(&mutex_);
    const std::shared_ptr<Inode> inode = Find(path);
    ASSERT(inode != nullptr);
    ASSERT(bit / 8 < inode->cache.size());
    for (SparseBytes* bytes : {&inode->cache, &inode->disk}) {
      char byte = 0;
      if (bytes->Read(bit / 8, 1, &byte) == 0) continue;
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
      bytes->Write(bit / 8, {&byte, 1});
    }
  }

  // Copies the durable state to `to`. REQUIRES: `to` is new.
  void CloneDurable(Disk* to) const {
    MutexLock lock(&mutex_);
    MutexLock other_lock(&to->mutex_);
    for (const auto& [path, directory] : directories_) {
      Directory& copy = to->directories_[path];
      for (const auto& [name, inode] : directory.disk) {
        copy.disk[name] = std::make_shared<Inode>(Inode{inode->disk, inode->disk, {}, {}, false});
      }
      copy.cache = copy.disk;
    }
  }

  std::vector<std::string> Files() const {
    MutexLock lock(&mutex_);
    std::vector<std::string> files;
    for (const auto& [path, directory] : directories_) {
      for (const auto& [name, inode] : directory.cache) {
        if (inode->cache.size() > 0) files.push_back(path + "/" + name);
      }
    }
    return files;
  }
  uint64_t used_bytes() const {
    MutexLock lock(&mutex_);
    uint64_t bytes = 0;
    for (const auto& [path, directory] : directories_) {
      for (const auto& [name, inode] : directory.cache) bytes += inode->cache.size();
    }
    return bytes;
  }

  uint64_t operations() const {
    MutexLock lock(&mutex_);
    return operations_;
  }
  uint64_t syncs() const {
    MutexLock lock(&mutex_);
    return syncs_;
  }
  uint64_t writes() const {
    MutexLock lock(&mutex_);
    return writes_;
  }

  // --- Files -----------------------------------------------------------------------------------

  absl::Status Write(Inode* inode, uint64_t life, const std::string& path, uint64_t offset,
                     std::span<const std::string_view> pieces) {
    MutexLock lock(&mutex_);
    absl::StatusOr<bool> cut = Begin(life, path);
    if (!cut.ok()) return cut.status();
    ++writes_;
    FileChange change{next_sequence_++, FileChange::Kind::kWrite, offset};
    size_t size = 0;
    for (std::string_view piece : pieces) size += piece.size();
    change.bytes.reserve(size);
    for (std::string_view piece : pieces) change.bytes += piece;
    const uint64_t end = offset + change.bytes.size();
    const uint64_t allowed = AllowedSize(*inode, end);
    const bool full = allowed < end;
    if (full) change.bytes.resize(std::max(allowed, offset) - offset);
    inode->Do(std::move(change));
    if (full) return NoSpace(path);
    return *cut ? PowerIsOff(path) : absl::OkStatus();
  }

  absl::StatusOr<size_t> Read(const Inode& inode, uint64_t life, const std::string& path,
                              uint64_t offset, size_t size, char* to) {
    MutexLock lock(&mutex_);
    if (absl::Status s = CheckAlive(life, path); !s.ok()) return s;
    if (failing_reads_ > 0) {
      --failing_reads_;
      return Named(fail_read_error_, path);
    }
    return inode.cache.Read(offset, size, to);
  }

  absl::Status SetLength(Inode* inode, uint64_t life, const std::string& path,
                         FileChange::Kind kind, uint64_t size) {
    MutexLock lock(&mutex_);
    absl::StatusOr<bool> cut = Begin(life, path);
    if (!cut.ok()) return cut.status();
    if (AllowedSize(*inode, size) < size) return NoSpace(path);
    inode->Do(FileChange{next_sequence_++, kind, size});
    return *cut ? PowerIsOff(path) : absl::OkStatus();
  }

  absl::Status Sync(const std::shared_ptr<Inode>& inode, uint64_t life, const std::string& path) {
    MutexLock lock(&mutex_);
    absl::StatusOr<bool> cut = Begin(life, path);
    if (!cut.ok()) return cut.status();
    if (*cut) return PowerIsOff(path);
    if (fail_sync_at_ == syncs_++) {
      inode->FailSync();
      return Named(fail_sync_error_, path);
    }
    if (lies_about_.has_value() && path.find(*lies_about_) != std::string::npos) {
      if (std::find(lied_about_.begin(), lied_about_.end(), inode) == lied_about_.end()) {
        lied_about_.push_back(inode);
      }
      return absl::OkStatus();
    }
    inode->Sync();
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Size(const Inode& inode, uint64_t life, const std::string& path) {
    MutexLock lock(&mutex_);
    if (absl::Status s = CheckAlive(life, path); !s.ok()) return s;
    return inode.cache.size();
  }

  // --- Directories -----------------------------------------------------------------------------

  struct Opened {
    std::shared_ptr<Inode> inode;
    uint64_t life = 0;
  };
  absl::StatusOr<Opened> Open(const std::string& path, bool create) {
    MutexLock lock(&mutex_);
    if (absl::Status s = CheckAlive(life_, path); !s.ok()) return s;
    if (std::shared_ptr<Inode> inode = Find(path)) return Opened{std::move(inode), life_};
    const auto [parent, name] = SplitPath(path);
    auto directory = directories_.find(parent);
    if (!create || directory == directories_.end()) return NotFound(path);
    ASSERT(!directories_.contains(path), "not a directory");
    absl::StatusOr<bool> cut = Begin(life_, path);
    if (!cut.ok()) return cut.status();
    auto inode = std::make_shared<Inode>();
    directory->second.Do({next_sequence_++, {}, name, inode});
    if (*cut) return PowerIsOff(path);
    return Opened{std::move(inode), life_};
  }

  absl::Status CreateDirectories(const std::string& path) {
    MutexLock lock(&mutex_);
    ASSERT(!path.empty());
    if (absl::Status s = CheckAlive(life_, path); !s.ok()) return s;
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      if (!directories_.contains(prefix)) {
        ASSERT(Find(prefix) == nullptr, "not a file");
        absl::StatusOr<bool> cut = Begin(life_, prefix);
        if (!cut.ok()) return cut.status();
        if (*cut) return PowerIsOff(prefix);
        directories_[prefix];
      }
      if (end == std::string::npos) return absl::OkStatus();
    }
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) {
    MutexLock lock(&mutex_);
    if (absl::Status s = CheckAlive(life_, path); !s.ok()) return s;
    auto directory = directories_.find(path);
    if (directory == directories_.end()) return NotFound(path);
    std::vector<std::string> names;
    for (const auto& [name, inode] : directory->second.cache) names.push_back(name);
    for (const auto& [other, content] : directories_) {
      const auto [parent, name] = SplitPath(other);
      if (parent == path && !name.empty() && other != path && name != ".") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  bool Exists(const std::string& path) {
    MutexLock lock(&mutex_);
    return !powered_off_ && (directories_.contains(path) || Find(path) != nullptr);
  }

  // Moves `from` to `to`, or removes it if `to` is empty.
  absl::Status Unlink(const std::string& from, const std::string& to) {
    MutexLock lock(&mutex_);
    absl::StatusOr<bool> cut = Begin(life_, from);
    if (!cut.ok()) return cut.status();
    const std::shared_ptr<Inode> inode = Find(from);
    if (inode == nullptr) return NotFound(from);
    const auto [parent, name] = SplitPath(from);
    const auto [to_parent, to_name] = SplitPath(to);
    ASSERT(to.empty() || to_parent == parent, "renames stay within a directory");
    directories_[parent].Do({next_sequence_++, name, to_name, inode});
    return *cut ? PowerIsOff(from) : absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) {
    MutexLock lock(&mutex_);
    absl::StatusOr<bool> cut = Begin(life_, path);
    if (!cut.ok()) return cut.status();
    auto directory = directories_.find(path);
    if (directory == directories_.end()) return NotFound(path);
    if (*cut) return PowerIsOff(path);
    directory->second.Sync();
    return absl::OkStatus();
  }

  // Locks the directory. Returns the life in which the lock is held.
  absl::StatusOr<uint64_t> Lock(const std::string& path) {
    MutexLock lock(&mutex_);
    if (absl::Status s = CheckAlive(life_, path); !s.ok()) return s;
    if (!directories_.contains(path)) return NotFound(path);
    if (!locks_.insert(path).second) {
      return absl::FailedPreconditionError(
          absl::StrCat(path,
                       ": the directory is in use by a running server; stop that server, or "
                       "give this one another directory"));
    }
    return life_;
  }
  void Unlock(const std::string& path, uint64_t life) {
    MutexLock lock(&mutex_);
    if (life == life_) locks_.erase(path);
  }

 private:
  static absl::Status PowerIsOff(const std::string& path) {
    return absl::UnavailableError(absl::StrCat(path, ": the power is off"));
  }
  static absl::Status NotFound(const std::string& path) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  }
  static absl::Status NoSpace(const std::string& path) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": no space left on the disk"));
  }
  static absl::Status Named(const absl::Status& error, const std::string& path) {
    return absl::Status(error.code(), absl::StrCat(path, ": ", error.message()));
  }

  absl::Status CheckAlive(uint64_t life, const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (powered_off_) return PowerIsOff(path);
    if (life != life_) return absl::AbortedError(absl::StrCat(path, ": opened before a crash"));
    return absl::OkStatus();
  }

  // Counts an operation. Returns true if the power fails during the operation: the caller then does
  // it in the cache, if it changes the cache, and returns PowerIsOff.
  absl::StatusOr<bool> Begin(uint64_t life, const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (absl::Status s = CheckAlive(life, path); !s.ok()) return s;
    const uint64_t number = operations_++;
    if (power_off_at_ == number) {
      powered_off_ = true;
      return true;
    }
    if (fail_at_ == number) return Named(fail_error_, path);
    return false;
  }

  void ForgetFaults() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    power_off_at_.reset();
    fail_at_.reset();
    fail_sync_at_.reset();
    failing_reads_ = 0;
  }

  void EndLife() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++life_;
    locks_.clear();
  }

  std::shared_ptr<Inode> Find(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [parent, name] = SplitPath(path);
    auto directory = directories_.find(parent);
    if (directory == directories_.end()) return nullptr;
    auto file = directory->second.cache.find(name);
    return file == directory->second.cache.end() ? nullptr : file->second;
  }

  // Returns the length that the file may have: `size`, or less if the capacity limits it.
  uint64_t AllowedSize(const Inode& inode, uint64_t size) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (size <= inode.cache.size() || capacity_bytes_ == kUnlimited) return size;
    uint64_t others = 0;
    for (const auto& [path, directory] : directories_) {
      for (const auto& [name, other] : directory.cache) {
        if (other.get() != &inode) others += other->cache.size();
      }
    }
    return std::max(inode.cache.size(),
                    std::min(size, capacity_bytes_ - std::min(capacity_bytes_, others)));
  }

  static void Lose(Inode* inode, Survival* survival) {
    for (const FileChange& change : inode->waiting) {
      if (change.kind != FileChange::Kind::kWrite) {
        if (survival->Keeps(change.sequence)) change.Apply(&inode->disk);
        continue;
      }
      const std::string_view bytes = change.bytes;
      for (size_t done = 0; done < bytes.size();) {
        const uint64_t offset = change.offset + done;
        const size_t count =
            std::min<uint64_t>(bytes.size() - done, kSectorBytes - offset % kSectorBytes);
        if (survival->Keeps(change.sequence)) inode->disk.Write(offset, bytes.substr(done, count));
        done += count;
      }
    }
    inode->ForgetCache();
  }

  mutable Mutex mutex_;
  std::map<std::string, Directory> directories_ ABSL_GUARDED_BY(mutex_);  // by path
  std::set<std::string> locks_ ABSL_GUARDED_BY(mutex_);
  uint64_t life_ ABSL_GUARDED_BY(mutex_) = 1;           // grows at Crash and Kill
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;  // of changes that wait
  uint64_t capacity_bytes_ ABSL_GUARDED_BY(mutex_) = kUnlimited;
  uint64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t writes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool powered_off_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<uint64_t> power_off_at_ ABSL_GUARDED_BY(mutex_);  // in operations_
  std::optional<uint64_t> fail_at_ ABSL_GUARDED_BY(mutex_);       // in operations_
  absl::Status fail_error_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> fail_sync_at_ ABSL_GUARDED_BY(mutex_);  // in syncs_
  absl::Status fail_sync_error_ ABSL_GUARDED_BY(mutex_);
  std::optional<std::string> lies_about_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Inode>> lied_about_ ABSL_GUARDED_BY(mutex_);  // not yet durable
  uint64_t failing_reads_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status fail_read_error_ ABSL_GUARDED_BY(mutex_);

  friend class FaultEnv;

  class OpenedFile : public File {
   public:
    OpenedFile(Disk* disk, std::string path, Opened opened)
        : disk_(*disk),
          path_(std::move(path)),
          inode_(std::move(opened.inode)),
          life_(opened.life) {}

    absl::Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces) override {
      return disk_.Write(inode_.get(), life_, path_, offset, pieces);
    }
    absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t size, char* to) const override {
      return disk_.Read(*inode_, life_, path_, offset, size, to);
    }
    absl::Status Preallocate(uint64_t size) override {
      return disk_.SetLength(inode_.get(), life_, path_, FileChange::Kind::kGrow, size);
    }
    absl::Status Truncate(uint64_t size) override {
      return disk_.SetLength(inode_.get(), life_, path_, FileChange::Kind::kTruncate, size);
    }
    absl::Status Sync() override { return disk_.Sync(inode_, life_, path_); }
    absl::StatusOr<uint64_t> Size() const override { return disk_.Size(*inode_, life_, path_); }

   private:
    Disk& disk_;
    const std::string path_;
    const std::shared_ptr<Inode> inode_;
    const uint64_t life_;
  };

  class HeldLock : public DirectoryLock {
   public:
    HeldLock(Disk* disk, std::string path, uint64_t life)
        : disk_(*disk), path_(std::move(path)), life_(life) {}
    ~HeldLock() override { disk_.Unlock(path_, life_); }

   private:
    Disk& disk_;
    const std::string path_;
    const uint64_t life_;
  };
};

FaultEnv::FaultEnv() : disk_(std::make_unique<Disk>()) {}
FaultEnv::~FaultEnv() = default;

void FaultEnv::Crash(uint64_t seed) { disk_->Crash(seed); }
void FaultEnv::Kill() { disk_->Kill(); }
void FaultEnv::PowerOffAfter(uint64_t operations) { disk_->PowerOffAfter(operations); }
bool FaultEnv::powered_off() const { return disk_->powered_off(); }
void FaultEnv::FailAfter(uint64_t operations, absl::Status error) {
  disk_->FailAfter(operations, std::move(error));
}
void FaultEnv::FailSyncAfter(uint64_t syncs, absl::Status error) {
  disk_->FailSyncAfter(syncs, std::move(error));
}
void FaultEnv::FailReads(uint64_t count, absl::Status error) {
  disk_->FailReads(count, std::move(error));
}
void FaultEnv::LieAboutSyncs(std::string part) { disk_->LieAboutSyncs(std::move(part)); }
void FaultEnv::EndLies() { disk_->EndLies(); }
bool FaultEnv::will_fail() const { return disk_->will_fail(); }
void FaultEnv::CancelFaults() { disk_->CancelFaults(); }
void FaultEnv::SetCapacity(uint64_t bytes) { disk_->SetCapacity(bytes); }
void FaultEnv::FlipBit(const std::string& path, uint64_t bit) { disk_->FlipBit(path, bit); }
std::unique_ptr<FaultEnv> FaultEnv::CloneDurable() const {
  auto clone = std::make_unique<FaultEnv>();
  disk_->CloneDurable(clone->disk_.get());
  return clone;
}
std::vector<std::string> FaultEnv::Files() const { return disk_->Files(); }
uint64_t FaultEnv::used_bytes() const { return disk_->used_bytes(); }
uint64_t FaultEnv::operations() const { return disk_->operations(); }
uint64_t FaultEnv::syncs() const { return disk_->syncs(); }
uint64_t FaultEnv::writes() const { return disk_->writes(); }

absl::StatusOr<std::unique_ptr<File>> FaultEnv::OpenFile(const std::string& path, bool create) {
  absl::StatusOr<Disk::Opened> opened = disk_->Open(path, create);
  if (!opened.ok()) return opened.status();
  return std::make_unique<Disk::OpenedFile>(disk_.get(), path, *std::move(opened));
}
absl::Status FaultEnv::CreateDirectories(const std::string& path) {
  return disk_->CreateDirectories(path);
}
absl::StatusOr<std::vector<std::string>> FaultEnv::List(const std::string& path) {
  return disk_->List(path);
}
bool FaultEnv::Exists(const std::string& path) { return disk_->Exists(path); }
absl::Status FaultEnv::Rename(const std::string& from, const std::string& to) {
  ASSERT(!to.empty());
  return disk_->Unlink(from, to);
}
absl::Status FaultEnv::Remove(const std::string& path) { return disk_->Unlink(path, ""); }
absl::Status FaultEnv::SyncDirectory(const std::string& path) { return disk_->SyncDirectory(path); }

absl::StatusOr<std::unique_ptr<DirectoryLock>> FaultEnv::LockDirectory(const std::string& path) {
  absl::StatusOr<uint64_t> life = disk_->Lock(path);
  if (!life.ok()) return life.status();
  auto lock = std::make_unique<Disk::HeldLock>(disk_.get(), path, *life);
  // The real Env creates this file, too.
  absl::StatusOr<Disk::Opened> file = disk_->Open(absl::StrCat(path, "/LOCK"), /*create=*/true);
  if (!file.ok()) return file.status();
  return lock;
}

}  // namespace quorate::consensus
