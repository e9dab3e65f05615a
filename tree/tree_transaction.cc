// SPDX-License-Identifier: Apache-2.0

// The functions of Tree::Impl for requests with branches: compares, reads, and creates with their
// missing parents.
#include <algorithm>
#include <compare>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "tree/limits.h"
#include "tree/path.h"
#include "tree/tree_impl.h"

namespace quorate::tree {
namespace {

bool Holds(CompareRelation relation, std::strong_ordering order) {
  switch (relation) {
    case CompareRelation::kEqual:
      return order == 0;
    case CompareRelation::kNotEqual:
      return order != 0;
    case CompareRelation::kLess:
      return order < 0;
    case CompareRelation::kGreater:
      return order > 0;
  }
  ASSERT(false, "unknown relation: decoding refuses it");
}

// Returns the number at which a compare of an existing node looks. REQUIRES: it is a number.
int64_t NumberOf(CompareTarget target, const Stat& stat) {
  switch (target) {
    case CompareTarget::kExists:
      return 1;
    case CompareTarget::kCzxid:
      return stat.czxid.value();
    case CompareTarget::kMzxid:
      return stat.mzxid.value();
    case CompareTarget::kPzxid:
      return stat.pzxid.value();
    case CompareTarget::kVersion:
      return stat.version;
    case CompareTarget::kCversion:
      return stat.cversion;
    case CompareTarget::kAversion:
      return stat.aversion;
    case CompareTarget::kValue:
      break;
  }
  ASSERT(false, "data are no number");
}

// Returns whether a compare holds for a node that does not exist.
bool HoldsForNone(const Compare& compare) {
  switch (compare.target) {
    case CompareTarget::kExists:
    case CompareTarget::kCzxid:
    case CompareTarget::kMzxid:
    case CompareTarget::kPzxid:
      return Holds(compare.relation, int64_t{0} <=> compare.number);
    case CompareTarget::kVersion:
    case CompareTarget::kCversion:
    case CompareTarget::kAversion:
    case CompareTarget::kValue:
      return false;
  }
  ASSERT(false, "unknown target: decoding refuses it");
}

}  // namespace

Branch Tree::Impl::MakeCompares(const Request& request, std::span<const Identity> identities,
                                size_t* place, ErrorCode* error) const {
  for (*place = 0; *place < request.compares.size(); ++*place) {
    bool holds = false;
    *error = MakeCompare(request.compares[*place], identities, &holds);
    if (*error != ErrorCode::kOk) return Branch::kCompares;
    if (!holds) return Branch::kOtherwise;
  }
  return Branch::kThen;
}

ErrorCode Tree::Impl::MakeCompare(const Compare& compare, std::span<const Identity> identities,
                                  bool* holds) const {
  if (!IsValidPath(compare.path)) return ErrorCode::kBadArguments;
  const Znode* node = Lookup(compare.path);
  if (node == nullptr) {
    *holds = HoldsForNone(compare);
    return ErrorCode::kOk;
  }
  const bool is_protected =
      compare.target != CompareTarget::kExists && compare.target != CompareTarget::kCzxid;
  if (is_protected && !IsPermitted(*node, identities, permission::kRead)) return ErrorCode::kNoAuth;
  if (compare.target == CompareTarget::kValue) {
    *holds = Holds(compare.relation, node->data.view() <=> compare.value);
  } else {
    *holds = Holds(compare.relation, NumberOf(compare.target, node->ToStat()) <=> compare.number);
  }
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::AddReadCost(const Context& context, size_t cost) {
  read_cost_ += cost;
  return read_cost_ <= context.read_cost_max ? ErrorCode::kOk : ErrorCode::kTooLarge;
}

ErrorCode Tree::Impl::Read(const Op& op, const Context& context, OpResult* result) {
  if (!IsValidPath(op.path)) return ErrorCode::kBadArguments;
  if (const ErrorCode error = AddReadCost(context, kReadCost); error != ErrorCode::kOk)
    return error;
  const Znode* node = Lookup(op.path);
  if (node == nullptr) return op.kind == OpKind::kExists ? ErrorCode::kOk : ErrorCode::kNoNode;
  if (op.kind != OpKind::kExists && !IsPermitted(*node, context.identities, permission::kRead)) {
    return ErrorCode::kNoAuth;
  }
  if (op.kind == OpKind::kGet) {
    if (const ErrorCode error = AddReadCost(context, node->data.size()); error != ErrorCode::kOk) {
      return error;
    }
    if (result != nullptr) result->data = node->data.view();
  } else if (op.kind == OpKind::kGetChildren) {
    const ChildSet& children = node->children();
    // Looks at no child if there are too many, of this node or of all that the request lists.
    ErrorCode error = AddReadCost(context, children.size() * kReadChildCost);
    if (error != ErrorCode::kOk) return error;
    listed_nodes_ += children.size();
    if (VisitsTooMany()) return ErrorCode::kTooLarge;
    size_t bytes = 0;
    children.ForEach([&bytes](const Znode* child) { bytes += child->name_length; });
    error = AddReadCost(context, bytes);
    if (error != ErrorCode::kOk) return error;
    if (result != nullptr) {
      result->children.reserve(children.size());
      children.ForEach([&](const Znode* child) { result->children.emplace_back(child->name()); });
      std::sort(result->children.begin(), result->children.end());
    }
  }
  if (result != nullptr) {
    result->found = true;
    result->stat = node->ToStat();
  }
  return ErrorCode::kOk;
}

ErrorCode Tree::Impl::AddParents(const Op& op, const Context& context, Znode** parent,
                                 bool* is_new) {
  const std::string_view path = op.path;
  // `at` and `next` are the ends of a node's path and of its child's.
  const size_t end = path.rfind('/');
  const auto end_of_child = [&](size_t at) { return std::min(path.find('/', at + 1), end); };
  size_t at = 0;
  Znode* node = root_;
  while (at < end) {
    const size_t next = end_of_child(at);
    Znode* child = node->children().Find(path.substr(at + 1, next - at - 1));
    if (child == nullptr) break;
    node = child;
    at = next;
  }
  *is_new = at < end;
  if (*is_new) {
    if (!IsPermitted(*node, context.identities, permission::kCreate)) return ErrorCode::kNoAuth;
    if (node->is_ephemeral()) return ErrorCode::kNoChildrenForEphemerals;
  }
  // Adds nothing if there are too many.
  for (size_t next = at; next < end;) {
    next = end_of_child(next);
    ++recursive_nodes_;
    recursive_path_bytes_ += next;
    if (VisitsTooMany() || recursive_path_bytes_ > kDeleteRecursivePathBytesMax) {
      return ErrorCode::kTooLarge;
    }
  }
  Op empty;
  empty.has_data = true;
  while (at < end) {
    at = end_of_child(at);
    const std::string_view of_node = path.substr(0, at);
    const ErrorCode error = AddNode(node, of_node, kNoSession, empty, context, nullptr);
    if (error != ErrorCode::kOk) return error;
    node = node->children().Find(LastSegment(of_node));
  }
  *parent = node;
  return ErrorCode::kOk;
}

}  // namespace quorate::tree
