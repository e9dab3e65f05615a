// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/listing.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/assert.h"
#include "base/bytes.h"

namespace quorate::rpc {
namespace {

// The most bytes of changes that a log keeps.
constexpr size_t kLogBytesMax = 4u << 20;
// A new listing does not join a log with more bytes than this.
constexpr size_t kLogBytesToJoin = kLogBytesMax / 4;
constexpr size_t kChangeBytes = sizeof(Listings::Change);
constexpr int kRestartsMax = 3;

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

}  // namespace

// --- Listings ------------------------------------------------------------------------------------

void Listings::Record(tree::EventType type, std::string_view path) {
  if (type == tree::EventType::kNodeDataChanged || path == "/") return;
  MutexLock lock(&mutex_);
  const auto found = logs_.find(ParentOf(path));
  if (found == logs_.end()) return;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::shared_ptr<Log>& log : found->second) {
    if (log->overflowed) continue;
    const size_t place = log->count % std::tuple_size_v<Chunk>;
    if (place == 0) log->chunks.push_back(std::make_shared<Chunk>());
    (*log->chunks.back())[place] = {std::string(name), type == tree::EventType::kNodeCreated};
    ++log->count;
    log->bytes += kChangeBytes + name.size();
    log->overflowed = log->bytes > kLogBytesMax;
  }
}

std::shared_ptr<Listings::Log> Listings::Begin(std::string_view path, size_t* first) {
  MutexLock lock(&mutex_);
  listed_.fetch_add(1, std::memory_order_relaxed);
  std::vector<std::shared_ptr<Log>>& of_path = logs_[std::string(path)];
  if (of_path.empty() || of_path.back()->overflowed || of_path.back()->bytes > kLogBytesToJoin) {
    of_path.push_back(std::make_shared<Log>());
  }
  const std::shared_ptr<Log>& log = of_path.back();
  ++log->listings;
  *first = log->count;
  return log;
}

bool Listings::Take(const Log& log, size_t first, Changes* changes) {
  MutexLock lock(&mutex_);
  if (log.overflowed) return false;
  changes->chunks.assign(log.chunks.begin(), log.chunks.end());
  changes->first = first;
  changes->end = log.count;
  return true;
}

void Listings::End(std::string_view path, const std::shared_ptr<Log>& log) {
  MutexLock lock(&mutex_);
  ASSERT(log->listings > 0, "each is ended once");
  listed_.fetch_sub(1, std::memory_order_relaxed);
  if (--log->listings > 0) return;
  const auto found = logs_.find(path);
  ASSERT(found != logs_.end(), "a path with listings has logs");
  std::erase(found->second, log);
  if (found->second.empty()) logs_.erase(found);
}

// --- Listing -------------------------------------------------------------------------------------

tree::ErrorCode Listing::Read(const tree::Tree& tree, std::string_view path,
                              std::span<const tree::Identity> identities, size_t bytes_max,
                              Names* names, tree::Stat* stat) {
  BigEndianWriter writer(&names->bytes);
  const tree::ErrorCode error = tree.ReadChildren(
      path, identities, kNodesPerHold,
      [&](std::string_view name) {
        writer.String(name);
        ++names->count;
      },
      &names->place, stat);
  if (error != tree::ErrorCode::kOk) return error;
  // The number of children may show already that the list will be too large.
  const size_t bytes_min =
      names->place.at_end ? 0 : static_cast<size_t>(stat->num_children) * sizeof(int32_t);
  return std::max(names->bytes.size(), bytes_min) > bytes_max ? tree::ErrorCode::kTooLarge
                                                              : tree::ErrorCode::kOk;
}

Listing::Listing(Listings* listings, std::string path, size_t bytes_max, Names names)
    : listings_(listings),
      path_(path.empty() ? "/" : std::move(path)),
      bytes_max_(bytes_max),
      names_(std::move(names)) {
  ASSERT(!names_.place.at_end, "it takes more pieces");
  Begin();
}

Listing::~Listing() {
  if (log_ != nullptr) listings_->End(path_, log_);
}

void Listing::Begin() { log_ = listings_->Begin(path_, &first_change_); }

tree::ErrorCode Listing::ReadNext(const tree::Tree& tree,
                                  std::span<const tree::Identity> identities, tree::Stat* stat) {
  ASSERT(!done_);
  const tree::ErrorCode error = Read(tree, path_, identities, bytes_max_, &names_, stat);
  if (error != tree::ErrorCode::kOk || !names_.place.at_end) return error;
  done_ = listings_->Take(*log_, first_change_, &changes_);
  listings_->End(path_, log_);
  ended_logs_.push_back(std::exchange(log_, nullptr));
  if (done_) return tree::ErrorCode::kOk;
  if (++restarts_ > kRestartsMax) return tree::ErrorCode::kTooLarge;
  names_ = {};
  Begin();
  return tree::ErrorCode::kOk;
}

Listing::Names Listing::Finish() {
  ASSERT(done_);
  if (changes_.first == changes_.end) return std::move(names_);
  absl::flat_hash_map<absl::string_view, bool> exists;
  for (size_t i = changes_.first; i < changes_.end; ++i) {
    exists[changes_[i].name] = changes_[i].exists;
  }
  Names corrected;
  corrected.bytes.reserve(names_.bytes.size());
  BigEndianWriter writer(&corrected.bytes);
  const auto add = [&](std::string_view name) {
    writer.String(name);
    ++corrected.count;
  };
  ForEachName(names_, [&](std::string_view name) {
    if (!exists.contains(ToAbsl(name))) add(name);
  });
  // Adds each name once, though it may have changed several times.
  for (size_t i = changes_.first; i < changes_.end; ++i) {
    const Listings::Change& change = changes_[i];
    const auto found = exists.find(change.name);
    if (found == exists.end()) continue;
    if (found->second) add(change.name);
    exists.erase(found);
  }
  return corrected;
}

void ForEachName(const Listing::Names& names, const std::function<void(std::string_view)>& name) {
  BigEndianReader reader(names.bytes);
  for (size_t i = 0; i < names.count; ++i) name(reader.String());
  ASSERT(reader.ok() && reader.empty());
}

}  // namespace quorate::rpc
