// SPDX-License-Identifier: Apache-2.0

#include "rpc/admin/children_page.h"

#include <set>
#include <utility>

#include "rpc/frontend/listing.h"

namespace quorate::rpc::admin {
namespace {

// The first names of those that were added.
class FirstNames {
 public:
  explicit FirstNames(size_t limit) : limit_(limit) {}

  void Add(std::string_view name) {
    // Once a name was left out, a name after it belongs to a later page.
    if (has_more_ && name >= left_out_) return;
    names_.emplace(name);
    bytes_ += name.size();
    while (names_.size() > limit_ || (names_.size() > 1 && bytes_ > kPageNameBytesMax)) {
      auto last = names_.extract(std::prev(names_.end()));
      bytes_ -= last.value().size();
      left_out_ = std::move(last.value());
      has_more_ = true;
    }
  }
  void MoveTo(ChildrenPage* page) {
    while (!names_.empty()) page->names.push_back(names_.extract(names_.begin()).value());
    page->has_more = has_more_;
  }

 private:
  const size_t limit_;
  std::set<std::string, std::less<>> names_;
  size_t bytes_ = 0;
  std::string left_out_;  // the first name that was left out
  bool has_more_ = false;
};

}  // namespace

tree::ErrorCode ReadChildrenPage(const Service& service, const ChildrenRequest& request,
                                 std::span<const tree::Identity> identities, ChildrenPage* page) {
  FirstNames first(request.limit);
  tree::ChildrenPlace place;
  while (!place.at_end) {
    const auto tree = service.ReadTree();
    const tree::ErrorCode error = tree->ReadChildren(
        request.path, identities, kNodesPerHold,
        [&](std::string_view name) {
          if (name > request.after && name.starts_with(request.prefix)) first.Add(name);
        },
        &place, &page->stat);
    if (error != tree::ErrorCode::kOk) return error;
  }
  first.MoveTo(page);
  return tree::ErrorCode::kOk;
}

}  // namespace quorate::rpc::admin
