// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/reads.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/frontend/config_node.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

// A list of at most this size in bytes is finished even if replies take too much memory.
constexpr size_t kSmallListBytes = 1u << 20;

bool IsPath(const std::string& path) { return tree::IsValidPath(path, /*sequential=*/false); }

}  // namespace

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetResult* result) {
  if (!IsPath(path)) return v1::BAD_ARGUMENTS;
  std::string_view data;
  bool has_data = false;
  tree::Stat stat;
  const tree::ErrorCode error = tree.GetData(path, identities.all(), &data, &has_data, &stat);
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat, &data, &has_data);
  result->set_data(data.data(), data.size());
  ToProto(stat, result->mutable_stat());
  return v1::OK;
}

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path, const ClientIdentities&,
                   const std::string& members_text, v1::ExistsResult* result) {
  if (!IsPath(path)) return v1::BAD_ARGUMENTS;
  tree::Stat stat;
  const tree::ErrorCode error = tree.Exists(path, &stat);
  if (error == tree::ErrorCode::kNoNode) return v1::OK;
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat);
  result->set_exists(true);
  ToProto(stat, result->mutable_stat());
  return v1::OK;
}

ListReader::ListReader(Listings* listings, MemoryBudget* memory, std::string path, size_t bytes_max)
    : listings_(listings),
      memory_(memory),
      path_(std::move(path)),
      bytes_max_(bytes_max),
      counted_(memory, MemoryUse::kReads) {}

v1::ErrorCode ListReader::Read(const tree::Tree& tree, const ClientIdentities& identities,
                               const std::string& members_text) {
  ASSERT(!done_);
  if (!IsPath(path_)) return v1::BAD_ARGUMENTS;
  if (counted_.bytes() > kSmallListBytes && memory_->replies_exceed()) {
    memory_->CountRefused();
    return v1::UNAVAILABLE;
  }
  const size_t before = names_.count;
  const tree::ErrorCode error =
      listing_ == nullptr
          ? Listing::Read(tree, path_, identities.all(), bytes_max_, &names_, &stat_)
          : listing_->ReadNext(tree, identities.all(), &stat_);
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  spent_ = listing_ == nullptr ? 1 + names_.count - before : kNodesPerHold;
  if (listing_ != nullptr) {
    done_ = listing_->done();
  } else if (names_.place.at_end) {
    done_ = true;
  } else {
    listing_ = std::make_unique<Listing>(listings_, path_, bytes_max_, std::move(names_));
    names_ = {};
  }
  counted_.Set(listing_ == nullptr ? names_.bytes.size() : listing_->bytes());
  if (done_) CompleteConfigNode(members_text, path_, &stat_);
  return v1::OK;
}

void ListReader::Finish(v1::ListResult* result) {
  ASSERT(done_);
  if (listing_ != nullptr) names_ = listing_->Finish();
  std::vector<std::string_view> names;
  names.reserve(names_.count);
  ForEachName(names_, [&names](std::string_view name) { names.push_back(name); });
  std::sort(names.begin(), names.end());
  result->mutable_children()->Reserve(static_cast<int>(names.size()));
  for (std::string_view name : names) result->add_children(name.data(), name.size());
  ToProto(stat_, result->mutable_stat());
}

v1::ErrorCode Read(const tree::Tree& tree, const std::string& path,
                   const ClientIdentities& identities, const std::string& members_text,
                   v1::GetAclResult* result) {
  if (!IsPath(path)) return v1::BAD_ARGUMENTS;
  tree::Stat stat;
  std::vector<tree::Acl> acl;
  const tree::ErrorCode error = tree.GetAcl(path, identities.all(), &acl, &stat);
  if (error != tree::ErrorCode::kOk) return ToProto(error);
  CompleteConfigNode(members_text, path, &stat);
  for (const tree::Acl& entry : acl) ToProto(entry, result->add_acl());
  ToProto(stat, result->mutable_stat());
  return v1::OK;
}

}  // namespace quorate::rpc::native
