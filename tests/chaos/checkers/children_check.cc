// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/children_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

constexpr char kThere[] = "created nodes exist";
constexpr char kGone[] = "deleted nodes do not exist";
constexpr char kOnce[] = "each name exists once";
constexpr char kTried[] = "every existing node was created";
constexpr char kWhole[] = "a multi is applied as a whole";
constexpr size_t kDigits = 10;  // in the name of a sequential node

struct Child {
  const Operation* creation = nullptr;  // the acknowledged creation
  const Operation* attempt = nullptr;   // the first invoked creation that may have happened
  const Operation* refused = nullptr;
  int attempts = 0;  // how many creations may have happened
  bool may_go = false;
  const Operation* deletion = nullptr;  // the acknowledged deletion
  // The zxid from which on the child exists, unless may_go.
  int64_t from_zxid = kNever;
  const Operation* seen_by = nullptr;  // the operation that showed from_zxid
};

// The creations of one multi whose nodes no client deletes.
struct Group {
  const Operation* multi = nullptr;
  std::vector<std::string_view> names;
};

struct Parent {
  absl::flat_hash_map<std::string_view, Child> children;   // by name
  absl::flat_hash_set<std::string_view> unknown_prefixes;  // of sequential nodes
  std::vector<Group> groups;                               // of more than one
  std::vector<const Operation*> lists;
};

// A creation by a create, or by a step of a multi.
struct Creation {
  const Operation* operation = nullptr;
  std::string_view path;
  std::string_view made;
  bool ephemeral = false;
  bool sequential = false;
};

std::pair<std::string_view, std::string_view> Split(std::string_view path) {
  const size_t slash = path.rfind('/');
  return {slash == 0 ? path.substr(0, 1) : path.substr(0, slash), path.substr(slash + 1)};
}

class Checker {
 public:
  Checker(const Run& run, Verdicts* verdicts) : run_(run), verdicts_(verdicts) {}

  void Check() {
    for (const Operation& operation : run_.operations()) Take(operation);
    for (auto& [path, parent] : parents_) {
      for (const Operation* list : parent.lists) RecordSeen(*list, &parent);
      for (const Operation* list : parent.lists) CheckList(*list, parent);
      CheckLastList(path, parent);
    }
  }

 private:
  void Take(const Operation& operation) {
    if (operation.function == Function::kList && operation.ok()) {
      parents_[operation.path].lists.push_back(&operation);
    } else if (operation.function == Function::kDelete) {
      TakeDeletion(operation, operation.path);
    } else if (operation.function == Function::kCreate) {
      TakeCreation(
          {&operation, operation.path, operation.made, operation.ephemeral, operation.sequential});
    } else if (operation.function == Function::kMulti) {
      TakeMulti(operation);
    }
  }

  void TakeMulti(const Operation& operation) {
    absl::flat_hash_map<std::string_view, Group> groups;  // by parent; may have happened
    for (const RunStep& step : operation.steps) {
      if (step.check) continue;
      if (step.function == Function::kDelete) TakeDeletion(operation, step.path);
      if (step.function != Function::kCreate) continue;
      TakeCreation({&operation, step.path, step.made, step.ephemeral, step.sequential});
      const auto [parent, name] = Split(step.path);
      if (operation.outcome == Outcome::kRefused || step.sequential) continue;
      groups[parent].names.push_back(name);
    }
    for (auto& [parent, group] : groups) {
      if (group.names.size() < 2) continue;
      group.multi = &operation;
      parents_[parent].groups.push_back(std::move(group));
    }
  }

  void TakeDeletion(const Operation& operation, std::string_view path) {
    const auto [parent, name] = Split(path);
    Child& child = parents_[parent].children[name];
    if (operation.outcome != Outcome::kRefused) child.may_go = true;
    if (operation.ok() && child.deletion == nullptr) child.deletion = &operation;
  }

  void TakeCreation(const Creation& creation) {
    const Operation& operation = *creation.operation;
    const std::string_view path =
        creation.made.empty() || !operation.ok() ? creation.path : creation.made;
    const auto [parent_path, name] = Split(path);
    Parent& parent = parents_[parent_path];
    if (creation.sequential && !operation.ok()) {
      if (operation.outcome == Outcome::kUnknown) parent.unknown_prefixes.insert(name);
      return;
    }
    Child& child = parent.children[name];
    if (operation.outcome == Outcome::kRefused) {
      child.refused = &operation;
      return;
    }
    ++child.attempts;
    if (child.attempt == nullptr) child.attempt = &operation;
    child.may_go |= creation.ephemeral;
    if (!operation.ok()) return;
    verdicts_->Count("acknowledged creations");
    if (child.creation != nullptr && !child.may_go) {
      verdicts_->Fail(kOnce, absl::StrCat(std::string(path), " was created twice"),
                      {child.creation, &operation});
    }
    child.creation = &operation;
    const int64_t zxid = operation.WriteZxid();
    if (zxid > 0 && zxid < child.from_zxid) {
      child.from_zxid = zxid;
      child.seen_by = &operation;
    }
  }

  static void RecordSeen(const Operation& list, Parent* parent) {
    if (list.zxid <= 0) return;
    for (std::string_view name : list.children) {
      const auto child = parent->children.find(name);
      if (child == parent->children.end() || list.zxid >= child->second.from_zxid) continue;
      child->second.from_zxid = list.zxid;
      child->second.seen_by = &list;
    }
  }

  void CheckList(const Operation& list, const Parent& parent) {
    verdicts_->Count("lists");
    absl::flat_hash_set<std::string_view> names;
    names.reserve(list.children.size());
    for (std::string_view name : list.children) {
      if (!names.insert(name).second) {
        verdicts_->Fail(kOnce, absl::StrCat(std::string(name), " is in a list twice"), {&list});
      }
      CheckPresent(list, parent, name);
    }
    for (const auto& [name, child] : parent.children) {
      if (child.may_go || names.count(name) > 0) continue;
      CheckAbsent(list, name, child);
    }
    for (const Group& group : parent.groups) CheckGroup(list, parent, group, names);
  }

  void CheckGroup(const Operation& list, const Parent& parent, const Group& group,
                  const absl::flat_hash_set<std::string_view>& names) {
    std::string_view there, missing;
    for (std::string_view name : group.names) {
      if (parent.children.at(name).may_go || parent.children.at(name).attempts > 1) return;
      (names.count(name) > 0 ? there : missing) = name;
    }
    if (there.empty()) return;
    verdicts_->Count("multis in lists");
    if (missing.empty()) return;
    verdicts_->Fail(kWhole,
                    absl::StrCat(std::string(there), " is in a list, and ", std::string(missing),
                                 " of the same multi is not"),
                    {group.multi, &list});
  }

  void CheckPresent(const Operation& list, const Parent& parent, std::string_view name) {
    const auto found = parent.children.find(name);
    if (found == parent.children.end() || found->second.attempt == nullptr) {
      if (name.size() > kDigits &&
          parent.unknown_prefixes.count(name.substr(0, name.size() - kDigits)) > 0) {
        return;
      }
      const Operation* refused = found == parent.children.end() ? nullptr : found->second.refused;
      verdicts_->Fail(kTried,
                      absl::StrCat(std::string(name), " is in a list, and ",
                                   refused != nullptr ? "its creation was refused"
                                                      : "no client tried to create it"),
                      {refused, &list});
      return;
    }
    const Child& child = found->second;
    if (child.attempt->invoked_ns > list.answered_ns) {
      verdicts_->Fail(kTried,
                      absl::StrCat(std::string(name), " is in a list before its creation began"),
                      {&list, child.attempt});
    }
    if (child.deletion != nullptr && child.attempts == 1 && list.linearizable &&
        child.deletion->answered_ns < list.invoked_ns) {
      verdicts_->Fail(
          kGone, absl::StrCat(std::string(name), " is in a linearizable list after its deletion"),
          {child.deletion, &list});
    }
  }

  void CheckAbsent(const Operation& list, std::string_view name, const Child& child) {
    const Operation* creation = child.creation;
    const bool before = creation != nullptr && creation->answered_ns < list.invoked_ns;
    const bool own = before && creation->session == list.session && list.session != kNone;
    if ((before && list.linearizable) || own) {
      verdicts_->Fail(kThere,
                      absl::StrCat(std::string(list.path), " has lost ", std::string(name), ": ",
                                   list.linearizable ? "a linearizable list"
                                                     : "a list of the session that created it",
                                   " does not have it"),
                      {creation, &list});
    } else if (list.zxid > 0 && child.from_zxid <= list.zxid) {
      verdicts_->Fail(kThere,
                      absl::StrCat(std::string(list.path), " has lost ", std::string(name),
                                   ": it was there at zxid ", child.from_zxid,
                                   ", and is missing in a list of zxid ", list.zxid),
                      {child.seen_by, &list});
    }
  }

  // Reports as undecided whether the last creations are in the tree, if no list follows them.
  void CheckLastList(std::string_view path, const Parent& parent) {
    int64_t created_ns = 0;
    for (const auto& [name, child] : parent.children) {
      if (child.creation != nullptr && !child.may_go && child.creation->workload == "set") {
        created_ns = std::max(created_ns, child.creation->answered_ns);
      }
    }
    // No client lists the node above all parents.
    if (created_ns == 0 || parent.lists.empty()) return;
    for (const Operation* list : parent.lists) {
      if (list->linearizable && list->invoked_ns > created_ns) return;
    }
    verdicts_->Undecided(absl::StrCat("whether the last creations in ", std::string(path), " exist",
                                      ": there is no linearizable list after it"));
  }

  const Run& run_;
  Verdicts* const verdicts_;
  absl::flat_hash_map<std::string_view, Parent> parents_;  // by path
};

}  // namespace

Verdicts CheckChildren(const Run& run) {
  Verdicts verdicts(&run, "set");
  Checker(run, &verdicts).Check();
  return verdicts;
}

}  // namespace quorate::chaos
