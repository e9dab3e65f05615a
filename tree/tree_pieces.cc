// SPDX-License-Identifier: Apache-2.0

// The functions of Tree that read any number of znodes, in pieces.
#include <string>
#include <utility>

#include "tree/tree.h"
#include "tree/tree_impl.h"

namespace quorate::tree {

ErrorCode Tree::ReadChildren(std::string_view path, std::span<const Identity> identities,
                             size_t count_max, const std::function<void(std::string_view)>& child,
                             ChildrenPlace* place, Stat* stat) const {
  ErrorCode error;
  const Znode* node = impl_->FindReadable(path, identities, &error);
  if (node == nullptr) return error;
  *stat = node->ToStat();
  if (place->at_end) return ErrorCode::kOk;
  place->position = node->children().ForEachFrom(place->position, count_max,
                                                 [&child](Znode* each) { child(each->name()); });
  place->at_end = place->position == ChildSet::kFirstPosition;
  return ErrorCode::kOk;
}

ErrorCode Tree::CountDescendants(std::string_view path, std::span<const Identity> identities,
                                 size_t nodes_max, DescendantsPlace* place, bool* done) const {
  ErrorCode error;
  const Znode* top = impl_->FindReadable(path, identities, &error);
  if (top == nullptr) return error;
  *done = true;
  if (top->parent == nullptr) {
    place->count = impl_->node_count() - 1;
    return ErrorCode::kOk;
  }
  std::vector<DescendantsPlace::Step>& way = place->way;
  if (!std::exchange(place->begun, true)) {
    way.emplace_back();
    place->count = top->children().size();
  }
  // The nodes of the steps. The list ends before the first step whose node no longer exists.
  std::vector<const Znode*> nodes = {top};
  while (nodes.size() < way.size()) {
    const Znode* next = nodes.back()->children().Find(way[nodes.size()].name);
    if (next == nullptr) break;
    nodes.push_back(next);
  }
  if (nodes.size() < way.size()) way.resize(nodes.size());
  size_t looked_at = 0;  // does not count the steps, so that each piece makes progress
  while (!way.empty() && looked_at < nodes_max) {
    DescendantsPlace::Step& step = way.back();
    const ChildSet& children = nodes.back()->children();
    if (!step.parents.empty()) {
      std::string name = std::move(step.parents.back());
      step.parents.pop_back();
      ++looked_at;
      const Znode* parent = children.Find(name);
      if (parent == nullptr) continue;
      place->count += parent->children().size();
      nodes.push_back(parent);
      way.push_back({std::move(name), {}, {}});
    } else if (step.children.at_end) {
      way.pop_back();
      nodes.pop_back();
    } else {
      step.children.position = children.ForEachFrom(step.children.position, nodes_max - looked_at,
                                                    [&](const Znode* child) {
                                                      ++looked_at;
                                                      if (!child->children().empty())
                                                        step.parents.emplace_back(child->name());
                                                    });
      step.children.at_end = step.children.position == ChildSet::kFirstPosition;
    }
  }
  *done = way.empty();
  return ErrorCode::kOk;
}

std::vector<SessionInfo> Tree::SessionsAfter(SessionId id, size_t max) const {
  const SessionTable::Map& all = impl_->sessions().all();
  std::vector<SessionInfo> infos;
  for (auto it = all.upper_bound(id); it != all.end() && infos.size() < max; ++it) {
    infos.push_back(ToInfo(*it->second));
  }
  return infos;
}

bool Tree::ReadEphemerals(SessionId id, std::string_view after,
                          const std::function<bool(std::string_view path)>& path) const {
  const Session* session = impl_->sessions().Find(id);
  if (session == nullptr) return after.empty();
  Znode* next = session->first;
  if (!after.empty()) {
    Znode* last = impl_->Lookup(after);
    if (last == nullptr || !last->is_ephemeral() || last->owner() != id) return false;
    next = last->links().next;
  }
  while (next != nullptr && path(next->Path())) next = next->links().next;
  return true;
}

}  // namespace quorate::tree
