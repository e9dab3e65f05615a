// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/changes.h"

#include <algorithm>

namespace quorate::chaos {
namespace {

std::string_view ParentOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view TypeOf(Function function) {
  return function == Function::kCreate   ? "created"
         : function == Function::kDelete ? "deleted"
                                         : "changed";
}

}  // namespace

Changes::Changes(const Run& run) : run_(run), seen_(run) {
  for (const Operation& operation : run.operations()) Add(operation);
  for (const Session& session : run.sessions()) AddEndOf(session);
  for (auto& [path, changes] : by_path_) {
    std::stable_sort(changes.begin(), changes.end());
    changes.erase(std::unique(changes.begin(), changes.end()), changes.end());
  }
}

const std::vector<Change>& Changes::Of(std::string_view path) const {
  static const std::vector<Change> none;
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? none : found->second;
}

std::vector<Change> Changes::OfSubtree(std::string_view path) const {
  std::vector<Change> all;
  for (auto at = by_path_.lower_bound(path); at != by_path_.end() && at->first.starts_with(path);
       ++at) {
    if (at->first.size() > path.size() && at->first[path.size()] != '/') continue;
    for (const Change& change : at->second) {
      if (change.type != "children") all.push_back(change);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool Changes::MayHaveBeen(std::string_view path, std::string_view type, int64_t zxid) const {
  const auto found = unknown_.find(std::pair(path, type));
  if (found == unknown_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [zxid](const auto& between) {
    return between.first < zxid && zxid < between.second;
  });
}

void Changes::Add(const Operation& operation) {
  if (operation.outcome == Outcome::kRefused) return;
  if (operation.ok() && operation.stat) {
    AddStat(operation, operation.made.empty() ? operation.path : operation.made, *operation.stat);
  }
  switch (operation.function) {
    case Function::kCreate:
    case Function::kSet:
    case Function::kDelete:
    case Function::kAdd:
      return AddEffect(operation, operation.function,
                       operation.made.empty() ? operation.path : operation.made,
                       operation.WriteZxid());
    case Function::kMulti:
      for (const RunStep& step : operation.steps) {
        const std::string_view path = step.made.empty() ? step.path : step.made;
        if (!step.check) AddEffect(operation, step.function, path, operation.WriteZxid());
      }
      return;
    case Function::kMultiGet:
      for (const RunStep& step : operation.steps) {
        if (operation.ok() && step.stat) AddStat(operation, step.path, *step.stat);
      }
      return;
    default:
      return;
  }
}

void Changes::AddStat(const Operation& operation, std::string_view path, const Stat& stat) {
  if (stat.czxid > 0) Note(stat.czxid, "created", path, operation);
  if (stat.mzxid > stat.czxid) Note(stat.mzxid, "changed", path, operation);
  if (stat.pzxid > stat.czxid) Note(stat.pzxid, "children", path, operation);
}

void Changes::AddEffect(const Operation& operation, Function function, std::string_view path,
                        int64_t zxid) {
  const std::string_view type = TypeOf(function);
  const std::string_view parent = type == "changed" ? std::string_view() : ParentOf(path);
  if (function == Function::kDelete) deletions_[path].push_back(&operation);
  if (operation.ok() && zxid > 0) {
    Note(zxid, type, path, operation);
    if (!parent.empty()) Note(zxid, "children", parent, operation);
    return;
  }
  const int64_t above = seen_.Before(operation.invoked_ns).zxid;
  const int64_t below =
      seen_.BegunAfter(operation.ok() ? operation.answered_ns : operation.until_ns);
  RecordUnknown(type, path, above, below);
  if (!parent.empty()) RecordUnknown("children", parent, above, below);
}

// The end of a session deletes its ephemeral nodes.
void Changes::AddEndOf(const Session& session) {
  const Operation* close = nullptr;
  std::map<std::string_view, const Operation*> made;  // by path, the last creation
  int64_t newest = 0;
  for (size_t id : session.operations) {
    const Operation& operation = run_.operations()[id];
    if (operation.outcome != Outcome::kUnknown && operation.function != Function::kClose) {
      newest = std::max({newest, operation.zxid, operation.WriteZxid()});
    }
    if (operation.function == Function::kClose) close = &operation;
    if (operation.function != Function::kCreate || !operation.ephemeral) continue;
    if (operation.outcome == Outcome::kRefused) continue;
    made[operation.made.empty() ? operation.path : operation.made] = &operation;
  }
  const bool is_told = session.end == SessionEnd::kClosed || session.end == SessionEnd::kExpired;
  const int64_t below = seen_.BegunAfter(is_told ? session.end_ns : kNever);
  for (const auto& [path, creation] : made) {
    const bool is_closed = close != nullptr && close->ok() && close->zxid > 0;
    if (is_closed && creation->ok() && !IsDeletedBetween(path, *creation, *close)) {
      Note(close->zxid, "deleted", path, *close);
      Note(close->zxid, "children", ParentOf(path), *close);
    } else {
      // The session's answers came before its end.
      RecordUnknown("deleted", path, newest, below);
      RecordUnknown("children", ParentOf(path), newest, below);
    }
  }
}

// Whether a client may have deleted the path between these two operations.
bool Changes::IsDeletedBetween(std::string_view path, const Operation& begin,
                               const Operation& end) const {
  const auto found = deletions_.find(path);
  if (found == deletions_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Operation* deletion) {
    const int64_t last_ns = deletion->ok() ? deletion->answered_ns : deletion->until_ns;
    return last_ns > begin.invoked_ns && deletion->invoked_ns < end.answered_ns;
  });
}

void Changes::Note(int64_t zxid, std::string_view type, std::string_view path,
                   const Operation& operation) {
  std::vector<Change>& changes = by_path_[path];
  // Several reads see the same change.
  if (!changes.empty() && changes.back() == Change{zxid, type, path, nullptr}) return;
  changes.push_back({zxid, type, path, &operation});
}

void Changes::RecordUnknown(std::string_view type, std::string_view path, int64_t above,
                            int64_t below) {
  unknown_[std::pair(path, type)].emplace_back(above, below);
}

}  // namespace quorate::chaos
