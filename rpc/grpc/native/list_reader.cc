// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/list_reader.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/frontend/config_node.h"
#include "rpc/frontend/detailed_listing.h"
#include "rpc/frontend/recursive_listing.h"
#include "rpc/grpc/native/translation.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// A list of at most this size in bytes is finished even if replies take too much memory.
constexpr size_t kSmallListBytes = 1u << 20;
// The most bytes that a v1::Stat takes in a message: eleven fields with a tag and a number, a tag
// and a length.
constexpr size_t kStatBytesMax = 11 * 11 + 2;

// Returns the most bytes that a list may take.
size_t BytesMax(const NativeFrontend& frontend) {
  return static_cast<size_t>(frontend.config().max_reply_bytes);
}

// Reads the names of all children.
class NamesReader final : public ListReader {
 public:
  NamesReader(NativeFrontend* frontend, std::string path) : ListReader(frontend, std::move(path)) {}

  bool done() const override { return done_; }
  void Finish(v1::Response* to) override {
    ASSERT(done_);
    if (listing_ != nullptr) names_ = listing_->Finish();
    std::vector<std::string_view> names;
    names.reserve(names_.count);
    ForEachName(names_, [&names](std::string_view name) { names.push_back(name); });
    std::sort(names.begin(), names.end());
    v1::ListResult* result = to->mutable_list();
    result->mutable_children()->Reserve(static_cast<int>(names.size()));
    for (std::string_view name : names) result->add_children(name.data(), name.size());
    ToProto(stat_, result->mutable_stat());
    result->set_watch_after_zxid(last_zxid());
  }

 private:
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent) override {
    const size_t bytes_max = BytesMax(frontend());
    const tree::ErrorCode error =
        listing_ == nullptr ? Listing::Read(tree, path(), identities, bytes_max, &names_, &stat_)
                            : listing_->ReadNext(tree, identities, &stat_);
    if (error != tree::ErrorCode::kOk) return error;
    *spent += listing_ == nullptr ? 1 + names_.count : kNodesPerHold;
    if (listing_ != nullptr) {
      done_ = listing_->done();
    } else if (names_.place.at_end) {
      done_ = true;
    } else {
      listing_ =
          std::make_unique<Listing>(&frontend().listings(), path(), bytes_max, std::move(names_));
      names_ = {};
    }
    if (done_) CompleteConfigNode(frontend().members_text(), path(), &stat_);
    return error;
  }
  size_t KeptBytes() const override {
    return listing_ == nullptr ? names_.bytes.size() : listing_->bytes();
  }

  Listing::Names names_;              // names in the first piece
  std::unique_ptr<Listing> listing_;  // for the further pieces
  tree::Stat stat_;
  bool done_ = false;
};

// Reads children of one kind, or with their metadata or data.
class DetailsReader final : public ListReader {
 public:
  DetailsReader(NativeFrontend* frontend, std::string path, const ListDetails& details)
      : ListReader(frontend, path),
        details_(details),
        listing_(&frontend->listings(), frontend->members_text(), std::move(path), details,
                 kStatBytesMax, BytesMax(*frontend)) {}

  void OnEvent(const Event& event) override { listing_.OnEvent(event.path); }
  bool done() const override { return listing_.done(); }
  void Finish(v1::Response* to) override {
    using Entry = DetailedListing::Entry;
    std::vector<Entry> entries = listing_.Finish();
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    v1::ListResult* result = to->mutable_list();
    const int count = static_cast<int>(entries.size());
    result->mutable_children()->Reserve(count);
    if (details_.has_stats) result->mutable_child_stats()->Reserve(count);
    if (details_.has_data) result->mutable_child_data()->Reserve(count);
    for (const Entry& entry : entries) {
      result->add_children(entry.name.data(), entry.name.size());
      if (details_.has_stats) ToProto(*entry.child->stat, result->add_child_stats());
      if (details_.has_data) result->add_child_data(entry.child->data);
    }
    tree::Stat stat = listing_.stat();
    CompleteConfigNode(frontend().members_text(), path(), &stat);
    ToProto(stat, result->mutable_stat());
    result->set_watch_after_zxid(first_zxid());
  }

 private:
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent) override {
    return listing_.ReadNext(tree, identities, spent);
  }
  size_t KeptBytes() const override { return listing_.bytes(); }

  const ListDetails details_;
  DetailedListing listing_;
};

// Reads the paths of everything below a znode.
class RecursiveReader final : public ListReader {
 public:
  RecursiveReader(NativeFrontend* frontend, std::string path, size_t paths_max)
      : ListReader(frontend, path), listing_(std::move(path), paths_max, BytesMax(*frontend)) {}

  void OnEvent(const Event& event) override { listing_.OnEvent(event.type, event.path); }
  bool done() const override { return listing_.done(); }
  void Finish(v1::Response* to) override {
    const RecursiveListing::Result listed = listing_.Finish();
    struct Entry {
      ptrdiff_t level;
      std::string_view path;
      auto operator<=>(const Entry&) const = default;
    };
    std::vector<Entry> entries;
    entries.reserve(listed.count);
    BigEndianReader reader(listed.paths);
    while (!reader.empty()) {
      const std::string_view each = reader.String();
      entries.push_back({std::count(each.begin(), each.end(), '/'), each});
    }
    std::sort(entries.begin(), entries.end());
    v1::ListRecursiveResult* result = to->mutable_list_recursive();
    result->mutable_paths()->Reserve(static_cast<int>(entries.size()));
    for (const Entry& entry : entries) result->add_paths(entry.path.data(), entry.path.size());
    result->set_watch_after_zxid(first_zxid());
  }

 private:
  tree::ErrorCode ReadNext(const tree::Tree& tree, std::span<const tree::Identity> identities,
                           size_t* spent) override {
    return listing_.ReadNext(tree, identities, spent);
  }
  size_t KeptBytes() const override { return listing_.bytes(); }

  RecursiveListing listing_;
};

// Answers a request that has a kind of children which this server does not know.
class RefusingReader final : public ListReader {
 public:
  RefusingReader(NativeFrontend* frontend, std::string path)
      : ListReader(frontend, std::move(path)) {}

  bool done() const override { return false; }
  void Finish(v1::Response*) override { ASSERT(false, "it is never done"); }

 private:
  tree::ErrorCode ReadNext(const tree::Tree&, std::span<const tree::Identity>, size_t*) override {
    return tree::ErrorCode::kBadArguments;
  }
  size_t KeptBytes() const override { return 0; }
};

std::optional<ChildKind> FromProto(v1::ChildKind kind) {
  switch (kind) {
    case v1::CHILD_KIND_UNSPECIFIED:
    case v1::CHILD_KIND_ALL:
      return ChildKind::kAll;
    case v1::CHILD_KIND_PERSISTENT:
      return ChildKind::kPersistent;
    case v1::CHILD_KIND_EPHEMERAL:
      return ChildKind::kEphemeral;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::unique_ptr<ListReader> ListReader::New(const v1::Request& request, NativeFrontend* frontend) {
  if (request.has_list_recursive()) {
    const v1::Request::ListRecursive& list = request.list_recursive();
    return std::make_unique<RecursiveReader>(frontend, list.path(),
                                             list.has_max() ? list.max() : SIZE_MAX);
  }
  ASSERT(request.has_list());
  const v1::Request::List& list = request.list();
  const std::optional<ChildKind> kind = FromProto(list.kind());
  if (!kind.has_value()) return std::make_unique<RefusingReader>(frontend, list.path());
  const ListDetails details{*kind, list.with_stats(), list.with_data()};
  if (!details.reads_children()) return std::make_unique<NamesReader>(frontend, list.path());
  return std::make_unique<DetailsReader>(frontend, list.path(), details);
}

ListReader::ListReader(NativeFrontend* frontend, std::string path)
    : frontend_(frontend),
      path_(std::move(path)),
      counted_(&frontend->service().memory(), MemoryUse::kReads) {}

v1::ErrorCode ListReader::Read(const tree::Tree& tree, tree::Zxid zxid,
                               const ClientIdentities& identities) {
  ASSERT(!done());
  spent_ = 0;
  if (!tree::IsValidPath(path_, /*sequential=*/false)) return v1::ERROR_CODE_BAD_ARGUMENTS;
  MemoryBudget& memory = frontend_->service().memory();
  if (counted_.bytes() > kSmallListBytes && memory.replies_exceed()) {
    memory.CountRefused();
    return v1::ERROR_CODE_UNAVAILABLE;
  }
  if (pieces_++ == 0) first_zxid_ = zxid;
  last_zxid_ = zxid;
  const tree::ErrorCode error = ReadNext(tree, identities.all(), &spent_);
  counted_.Set(KeptBytes());
  return ToProto(error);
}

}  // namespace quorate::rpc::native
