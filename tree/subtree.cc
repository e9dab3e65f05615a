// SPDX-License-Identifier: Apache-2.0

#include "tree/subtree.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <utility>

#include "base/assert.h"
#include "tree/path.h"
#include "tree/tree.h"
#include "tree/tree_impl.h"

namespace quorate::tree {
namespace {

// The number of names that are put in order at once, while the tree is locked.
constexpr size_t kSortedAtOnceMax = 2048;
// The numbers of bytes and of identities that count as one znode.
constexpr size_t kBytesPerStep = 256;
constexpr size_t kIdentitiesPerStep = 4;
// The steps of a visit: a name is taken out of the order of many, found in the tree and shown.
constexpr size_t kVisitSteps = 4;
// The steps that find a znode of the place again, without those for its name and its check.
constexpr size_t kFindSteps = 1;

// Which children of a znode may belong to the read, or have such znodes below them.
struct NameFilter {
  bool is_exact = false;  // only the child of that name
  std::string_view text;  // otherwise, those whose name begins with it
};

// `directory` is the relative path of the znode with a slash behind it, or empty for the top.
NameFilter FilterOf(std::string_view prefix, std::string_view directory) {
  if (prefix.size() <= directory.size()) return {};
  const std::string_view rest = prefix.substr(directory.size());
  const size_t slash = rest.find('/');
  return {slash != std::string_view::npos, rest.substr(0, slash)};
}

}  // namespace

// --- The place -----------------------------------------------------------------------------------

std::optional<SubtreePlace> SubtreePlace::Behind(const SubtreeQuery& query, std::string_view last) {
  if (last.empty() || last.front() == '/') return std::nullopt;
  // A level takes far more memory than its slash.
  const auto depth = static_cast<size_t>(std::count(last.begin(), last.end(), '/')) + 1;
  if (depth > std::min(query.depth_max, SubtreeDepthMax(query.order))) return std::nullopt;
  if (!IsValidPath("/" + std::string(last))) return std::nullopt;
  SubtreePlace place;
  place.begun_ = true;
  place.last_ = last;
  place.depth_ = depth;
  place.levels_.reserve(depth + 1);
  std::string directory;
  for (bool is_last = false; !is_last;) {
    const size_t slash = last.find('/');
    is_last = slash == std::string_view::npos;
    const std::string_view name = last.substr(0, slash);
    place.Push(std::move(directory), std::string(name));
    directory = name;
    last.remove_prefix(is_last ? last.size() : slash + 1);
  }
  if (query.order == SubtreeOrder::kLevels) {
    place.has_deeper_ = true;  // the znodes in front of the place may have children
  } else if (depth < query.depth_max) {
    place.Push(std::move(directory), {});
  }
  return place;
}

void SubtreePlace::Push(std::string name, std::string after) {
  Level& level = levels_.emplace_back();
  level.name = std::move(name);
  level.after = std::move(after);
  level.Gather();
}

void SubtreePlace::SortNames(const SubtreeQuery& query) {
  std::vector<Level>().swap(dropped_);
  if (!std::exchange(has_names_to_sort_, false)) return;
  Level& level = levels_.back();
  if (level.names.bytes() > query.names_bytes_max) level.names.Cut(query.names_bytes_max);
  if (!level.is_gathering) level.names.Order();
}

size_t SubtreePlace::bytes() const {
  size_t bytes = last_.capacity() + (levels_.capacity() + dropped_.capacity()) * sizeof(Level);
  for (const std::vector<Level>* levels : {&levels_, &dropped_}) {
    for (const Level& level : *levels) {
      bytes += level.name.capacity() + level.after.capacity() + level.names.allocated_bytes();
    }
  }
  return bytes;
}

// --- The read ------------------------------------------------------------------------------------

// Reads one piece.
class SubtreeWalk {
 public:
  using MayRead = std::function<bool(const Znode& node)>;
  using Take = std::function<bool(const SubtreeEntry& entry)>;

  SubtreeWalk(const SubtreeQuery& query, const MayRead& may_read, size_t identities,
              const Take& take, SubtreePlace* place)
      : query_(query),
        may_read_(may_read),
        check_steps_(identities / kIdentitiesPerStep),
        take_(take),
        place_(*place) {}

  // Reads below `top` until about `steps_max` steps were made. Returns their number.
  size_t Run(const Znode* top, size_t steps_max);

 private:
  using Level = SubtreePlace::Level;

  // Finds the znodes of the place's levels. Drops the levels from the first one on that is gone.
  void FindLevels(const Znode* top);
  void EndPass(const Znode* top);
  void Push(const Znode& node);
  // Drops names of upper levels, those of the uppermost first, until the others are few enough.
  void DropNames();
  void Pop();
  // Gathers names of the last level.
  void Gather(size_t steps_max);
  // Shows the next child of the last level. Returns false if it was not taken.
  bool Visit();
  bool Show(const Znode& child, std::string_view path);
  // Returns whether the children of the last level are those that this pass shows.
  bool shows_children() const {
    return query_.order == SubtreeOrder::kPaths || place_.levels_.size() == place_.depth_;
  }

  const SubtreeQuery& query_;
  const MayRead& may_read_;
  const size_t check_steps_;  // of one check of an access control list
  const Take& take_;
  SubtreePlace& place_;
  std::vector<const Znode*> nodes_;  // of place_.levels_
  std::string directory_;            // relative path of the last level, with a slash behind it
  // The bytes of the names of all levels but the last one, and the number of upper levels whose names
  // were dropped already.
  size_t upper_bytes_ = 0;
  size_t levels_without_names_ = 0;
  size_t steps_ = 0;
};

void SubtreeWalk::FindLevels(const Znode* top) {
  std::vector<Level>& levels = place_.levels_;
  while (nodes_.size() < levels.size()) {
    const Level& level = levels[nodes_.size()];
    steps_ += kFindSteps + check_steps_ + level.name.size() / kBytesPerStep;
    const Znode* node = nodes_.empty() ? top : nodes_.back()->children().Find(level.name);
    if (node == nullptr || !may_read_(*node)) break;
    if (!nodes_.empty()) directory_.append(level.name).append("/");
    nodes_.push_back(node);
  }
  if (nodes_.size() < levels.size()) {
    std::vector<Level>& dropped = place_.dropped_;
    dropped.swap(levels);
    levels.assign(std::make_move_iterator(dropped.begin()),
                  std::make_move_iterator(dropped.begin() + static_cast<ptrdiff_t>(nodes_.size())));
    place_.has_names_to_sort_ = false;
  }
  for (size_t i = 0; i + 1 < levels.size(); ++i) upper_bytes_ += levels[i].names.bytes();
}

size_t SubtreeWalk::Run(const Znode* top, size_t steps_max) {
  if (!std::exchange(place_.begun_, true)) place_.Push({}, {});
  FindLevels(top);
  // However deep the place is, the piece makes progress.
  steps_max = std::max(steps_max, steps_ + steps_max / 4 + 1);
  while (steps_ < steps_max && !place_.done_ && !place_.has_names_to_sort_ &&
         !place_.is_too_deep_) {
    if (place_.levels_.empty()) {
      EndPass(top);
      continue;
    }
    Level& level = place_.levels_.back();
    if (level.is_gathering) {
      Gather(steps_max);
    } else if (!level.names.empty()) {
      if (!Visit()) break;
    } else if (level.names.is_complete()) {
      Pop();
    } else {
      level.Gather();
    }
  }
  return steps_;
}

void SubtreeWalk::EndPass(const Znode* top) {
  const bool ends = query_.order == SubtreeOrder::kPaths || !place_.has_deeper_ ||
                    place_.depth_ >= query_.depth_max;
  if (ends) {
    place_.done_ = true;
    return;
  }
  if (place_.depth_ >= SubtreeDepthMax(query_.order)) {
    place_.is_too_deep_ = true;
    return;
  }
  ++steps_;
  ++place_.depth_;
  place_.has_deeper_ = false;
  place_.Push({}, {});
  nodes_.push_back(top);
}

void SubtreeWalk::Push(const Znode& node) {
  steps_ += check_steps_ + node.name().size() / kBytesPerStep;
  if (!may_read_(node)) return;
  if (place_.levels_.size() >= SubtreeDepthMax(query_.order)) {
    place_.is_too_deep_ = true;
    return;
  }
  upper_bytes_ += place_.levels_.back().names.bytes();
  place_.Push(std::string(node.name()), {});
  nodes_.push_back(&node);
  directory_.append(node.name()).append("/");
  DropNames();
}

void SubtreeWalk::DropNames() {
  // The names of upper levels are needed last.
  std::vector<Level>& levels = place_.levels_;
  while (upper_bytes_ > query_.names_bytes_max && levels_without_names_ + 1 < levels.size()) {
    Level& level = levels[levels_without_names_++];
    if (level.names.bytes() == 0) continue;
    upper_bytes_ -= level.names.bytes();
    level.Gather();
    ++steps_;
  }
}

void SubtreeWalk::Pop() {
  ++steps_;
  if (place_.levels_.size() > 1) {
    directory_.resize(directory_.size() - place_.levels_.back().name.size() - 1);
  }
  place_.levels_.pop_back();
  nodes_.pop_back();
  if (place_.levels_.empty()) return;
  upper_bytes_ -= place_.levels_.back().names.bytes();
  levels_without_names_ = std::min(levels_without_names_, place_.levels_.size() - 1);
}

void SubtreeWalk::Gather(size_t steps_max) {
  Level& level = place_.levels_.back();
  const ChildSet& children = nodes_.back()->children();
  const NameFilter filter = FilterOf(query_.prefix, directory_);
  const bool needs_parents = !shows_children();
  const auto add = [&](const Znode& child) {
    const std::string_view name = child.name();
    steps_ += 1 + name.size() / kBytesPerStep;
    if (!name.starts_with(filter.text) || (needs_parents && child.children().empty())) return;
    level.names.Add(name);
    // The children of one piece may have names of a megabyte each.
    if (level.names.bytes() > 4 * query_.names_bytes_max) level.names.Cut(query_.names_bytes_max);
  };
  ++steps_;
  level.gathered.at_end = true;
  if (filter.is_exact) {
    if (const Znode* child = children.Find(filter.text); child != nullptr) add(*child);
  } else {
    const size_t count_max = steps_max > steps_ ? steps_max - steps_ : 1;
    level.gathered.position = children.ForEachFrom(level.gathered.position, count_max,
                                                   [&add](const Znode* child) { add(*child); });
    level.gathered.at_end = level.gathered.position == ChildSet::kFirstPosition;
  }
  level.is_gathering = !level.gathered.at_end;
  const bool is_too_large = level.names.bytes() > 2 * query_.names_bytes_max;
  if (level.is_gathering) {
    place_.has_names_to_sort_ = is_too_large;
  } else if (is_too_large || level.names.count() > kSortedAtOnceMax) {
    place_.has_names_to_sort_ = true;
  } else {
    level.names.Order();
  }
}

bool SubtreeWalk::Show(const Znode& child, std::string_view path) {
  const bool is_wanted =
      query_.kinds == 0 || (query_.kinds & (1u << static_cast<uint32_t>(child.kind()))) != 0;
  if (!is_wanted || !path.starts_with(query_.prefix)) return true;
  SubtreeEntry entry;
  entry.path = path;
  entry.stat = child.ToStat();
  entry.kind = child.kind();
  if (query_.with_data) {
    steps_ += check_steps_;
    entry.may_read = may_read_(child);
    entry.has_data = entry.may_read && child.data.has_data();
    if (entry.may_read) entry.data = child.data.view();
  }
  steps_ += (path.size() + entry.data.size()) / kBytesPerStep;
  return take_(entry);
}

bool SubtreeWalk::Visit() {
  steps_ += kVisitSteps;
  Level& level = place_.levels_.back();
  const std::string_view name = level.names.front();
  const Znode* child = nodes_.back()->children().Find(name);
  const bool shows = shows_children();
  if (shows) {
    std::string path = directory_;
    path.append(name);
    if (child != nullptr && !Show(*child, path)) return false;
    place_.last_ = std::move(path);
  }
  level.after = name;
  level.names.Pop();
  if (child == nullptr || child->children().empty() || place_.levels_.size() >= query_.depth_max) {
    return true;
  }
  if (query_.order == SubtreeOrder::kLevels && shows) {
    place_.has_deeper_ = true;
  } else {
    Push(*child);
  }
  return true;
}

ErrorCode Tree::ReadSubtree(const SubtreeQuery& query, std::span<const Identity> identities,
                            size_t steps_max,
                            const std::function<bool(const SubtreeEntry& entry)>& take,
                            SubtreePlace* place, size_t* steps) const {
  ASSERT(!place->done() && !place->has_names_to_sort() && query.depth_max > 0);
  ErrorCode error;
  const Znode* top = impl_->FindReadable(query.top, identities, &error);
  if (top == nullptr) return error;
  const SubtreeWalk::MayRead may_read = [&](const Znode& node) {
    return impl_->IsPermitted(node, identities, permission::kRead);
  };
  *steps += SubtreeWalk(query, may_read, identities.size(), take, place).Run(top, steps_max);
  return ErrorCode::kOk;
}

}  // namespace quorate::tree
