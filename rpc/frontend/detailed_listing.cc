// SPDX-License-Identifier: Apache-2.0

#include "rpc/frontend/detailed_listing.h"

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/seeded_bug.h"
#include "base/strings.h"
#include "rpc/frontend/config_node.h"

namespace quorate::rpc {
namespace {

// How many children may be read again, in addition to one for each child.
constexpr size_t kReadAgainMax = 100'000;
// The bytes of the length of a child's data in the reply.
constexpr size_t kLengthBytes = 4;

}  // namespace

DetailedListing::DetailedListing(Listings* listings, std::string_view members_text,
                                 std::string path, const ListDetails& details, size_t stat_bytes,
                                 size_t bytes_max)
    : listings_(listings),
      members_text_(members_text),
      path_(path.empty() ? "/" : std::move(path)),
      details_(details),
      stat_bytes_(stat_bytes),
      bytes_max_(bytes_max) {
  ASSERT(details.reads_children(), "Listing is for names alone");
}

DetailedListing::~DetailedListing() {
  if (log_ != nullptr) listings_->End(path_, log_);
}

void DetailedListing::BeginRecording() {
  if (log_ == nullptr) log_ = listings_->Begin(path_, &next_change_);
}

bool DetailedListing::TakeChanges() {
  if (log_ == nullptr) return true;
  Listings::Changes changes;
  if (!listings_->Take(*log_, next_change_, &changes)) return false;
  for (size_t i = changes.first; i < changes.end; ++i) again_.insert(changes[i].name);
  next_change_ = changes.end;
  return read_again_ + again_.size() <= kReadAgainMax + names_.count;
}

void DetailedListing::OnEvent(std::string_view path) {
  const std::string_view parent = path_ == "/" ? std::string_view() : path_;
  if (path.size() <= parent.size() + 1 || !path.starts_with(parent)) return;
  if (path[parent.size()] != '/') return;
  const std::string_view below = path.substr(parent.size() + 1);
  const size_t slash = below.find('/');
  // A child of the child may change the child's stat.
  const bool is_child = slash == std::string_view::npos;
  const bool is_grandchild = !is_child && below.find('/', slash + 1) == std::string_view::npos;
  if (is_child || (is_grandchild && details_.has_stats)) again_.emplace(below.substr(0, slash));
}

tree::ErrorCode DetailedListing::ReadChild(const tree::Tree& tree, std::string_view name,
                                           std::span<const tree::Identity> identities,
                                           size_t* spent, std::optional<ListedChild>* child) const {
  child->reset();
  std::string path = path_ == "/" ? std::string() : path_;
  path.append("/").append(name);
  tree::Stat stat;
  std::string_view data;
  bool has_data = false;
  const tree::ErrorCode error = tree.GetData(path, identities, &data, &has_data, &stat);
  *spent += 1 + path.size() / kBytesPerNode + identities.size() / kIdentitiesPerNode;
  if (error == tree::ErrorCode::kNoNode) return tree::ErrorCode::kOk;
  if (error != tree::ErrorCode::kOk) return error;
  CompleteConfigNode(members_text_, path, &stat, &data, &has_data);
  const bool is_ephemeral = stat.ephemeral_owner != tree::kNoSession;
  const bool is_listed = details_.kind == ChildKind::kAll ||
                         is_ephemeral == (details_.kind == ChildKind::kEphemeral) ||
                         SeededBug("filters are ignored");
  if (!is_listed) return tree::ErrorCode::kOk;
  ListedChild& read = child->emplace();
  if (details_.has_stats) read.stat = std::make_unique<const tree::Stat>(stat);
  if (details_.has_data) {
    read.has_data = has_data;
    read.data = data;
    *spent += data.size() / kBytesPerNode;
  }
  return tree::ErrorCode::kOk;
}

tree::ErrorCode DetailedListing::ReadNext(const tree::Tree& tree,
                                          std::span<const tree::Identity> identities,
                                          size_t* spent) {
  ASSERT(!done_);
  using tree::ErrorCode;
  // Also sets stat_ when all names were read.
  const size_t names_before = names_.count;
  if (const ErrorCode error = Listing::Read(tree, path_, identities, bytes_max_, &names_, &stat_);
      error != ErrorCode::kOk) {
    return error;
  }
  *spent += 1 + names_.count - names_before;
  if (!names_.place.at_end) {
    BeginRecording();
    return ErrorCode::kOk;
  }
  children_.reserve(names_.count);
  BigEndianReader reader(std::string_view(names_.bytes).substr(names_read_bytes_));
  while (children_.size() < names_.count) {
    if (*spent >= kNodesPerHold) {
      BeginRecording();
      return ErrorCode::kOk;
    }
    const std::string_view name = reader.String();
    std::optional<ListedChild>& child = children_.emplace_back();
    const ErrorCode error = ReadChild(tree, name, identities, spent, &child);
    if (error != ErrorCode::kOk) return error;
    names_read_bytes_ = names_.bytes.size() - reader.rest().size();
    kept_bytes_ += sizeof(child);
    if (!Count(child)) return ErrorCode::kTooLarge;
  }
  if (!TakeChanges()) return ErrorCode::kTooLarge;
  for (; !again_.empty(); again_.erase(again_.begin())) {
    if (*spent >= kNodesPerHold) return ErrorCode::kOk;
    ++read_again_;
    std::optional<ListedChild>& child = corrections_[*again_.begin()];
    const ErrorCode error = ReadChild(tree, *again_.begin(), identities, spent, &child);
    if (error != ErrorCode::kOk) return error;
    kept_bytes_ += sizeof(child) + again_.begin()->size();
    if (!Count(child)) return ErrorCode::kTooLarge;
  }
  done_ = true;
  return ErrorCode::kOk;
}

bool DetailedListing::Count(const std::optional<ListedChild>& child) {
  if (!child.has_value()) return true;
  kept_bytes_ += (details_.has_stats ? sizeof(tree::Stat) : 0) + child->data.size();
  reply_bytes_ += (details_.has_stats ? stat_bytes_ : 0) +
                  (details_.has_data ? kLengthBytes + child->data.size() : 0);
  return names_.bytes.size() + reply_bytes_ <= bytes_max_;
}

std::vector<DetailedListing::Entry> DetailedListing::Finish() const {
  ASSERT(done_);
  std::vector<Entry> entries;
  BigEndianReader reader(names_.bytes);
  for (const std::optional<ListedChild>& child : children_) {
    const std::string_view name = reader.String();
    if (child.has_value() && !corrections_.contains(ToAbsl(name)))
      entries.push_back({name, &*child});
  }
  for (const auto& [name, child] : corrections_) {
    if (child.has_value()) entries.push_back({name, &*child});
  }
  return entries;
}

}  // namespace quorate::rpc
