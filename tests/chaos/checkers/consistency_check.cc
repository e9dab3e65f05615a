// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/consistency_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tests/chaos/checkers/seen_zxids.h"

namespace quorate::chaos {
namespace {

// The state of a node that an answer shows.
struct Sight {
  const Operation* operation = nullptr;
  std::string_view path;
  const Stat* stat = nullptr;
  bool has_data = false;
  std::string_view data;
};

void AddSights(const Operation& operation, std::vector<Sight>* sights) {
  if (!operation.ok()) return;
  const auto add = [&](std::string_view path, const std::optional<Stat>& stat, bool has_data,
                       std::string_view data) {
    if (stat) sights->push_back({&operation, path, &*stat, has_data, data});
  };
  switch (operation.function) {
    case Function::kGet:
      return add(operation.path, operation.stat, true, operation.read);
    case Function::kSet:
      return add(operation.path, operation.stat, true, operation.written);
    case Function::kCreate:
      return add(operation.made.empty() ? operation.path : operation.made, operation.stat, true,
                 operation.written);
    case Function::kMulti:
      for (const RunStep& step : operation.steps) {
        if (step.check || step.function == Function::kDelete) continue;
        add(step.made.empty() ? step.path : step.made, step.stat, true, step.data);
      }
      return;
    case Function::kMultiGet:
      for (const RunStep& step : operation.steps) add(step.path, step.stat, true, step.data);
      return;
    default:
      return add(operation.path, operation.stat, false, {});
  }
}

// Whether the answer shows that the node of its path does not exist.
bool ShowsAbsence(const Operation& operation) {
  if (operation.outcome == Outcome::kRefused) {
    return operation.error == "NoNode" &&
           (operation.function == Function::kGet || operation.function == Function::kExists ||
            operation.function == Function::kList || operation.function == Function::kSet);
  }
  return operation.ok() && operation.function == Function::kExists && !operation.stat;
}

// --- Sessions ------------------------------------------------------------------------------------

constexpr char kTime[] = "a session does not see time go back";

class SessionChecker {
 public:
  SessionChecker(const Run& run, Verdicts* verdicts) : run_(run), verdicts_(verdicts) {}

  void Check(const Session& session) {
    seen_.clear();
    newest_ = nullptr;
    native_ = session.native;
    for (size_t id : session.operations) {
      const Operation& operation = run_.operations()[id];
      CheckZxid(operation);
      sights_.clear();
      AddSights(operation, &sights_);
      for (const Sight& sight : sights_) CheckSight(sight);
    }
  }

 private:
  // Whether `write` may have happened before `read`, which was begun earlier. The native client
  // sends unanswered requests again to the next member: a write is executed once, and keeps its
  // zxid; a read, though sent before that write, shows the state at the time when it is repeated.
  bool MayBeOlder(const Operation& write, const Operation& read) const {
    return native_ && write.IsWrite() && !read.IsWrite() && write.zxid < read.zxid &&
           read.answered_ns > write.invoked_ns;
  }

  void CheckZxid(const Operation& operation) {
    if (operation.outcome == Outcome::kUnknown || operation.zxid <= 0) return;
    if (newest_ != nullptr && MayBeOlder(operation, *newest_)) return;
    if (newest_ != nullptr && operation.zxid < newest_->zxid) {
      verdicts_->Fail(
          kTime,
          absl::StrCat("an answer of zxid ", operation.zxid, " after one of zxid ", newest_->zxid),
          {newest_, &operation});
    } else {
      newest_ = &operation;
    }
  }

  void CheckSight(const Sight& sight) {
    const auto [at, fresh] = seen_.emplace(sight.path, sight);
    if (fresh) return;
    if (MayBeOlder(*sight.operation, *at->second.operation)) return;
    const Stat& before = *at->second.stat;
    const Stat& now = *sight.stat;
    const bool same_node = before.czxid == now.czxid;
    const bool back =
        now.czxid < before.czxid || now.mzxid < before.mzxid || now.pzxid < before.pzxid ||
        (same_node && (now.version < before.version || now.cversion < before.cversion));
    if (back) {
      verdicts_->Fail(
          kTime,
          absl::StrCat(std::string(sight.path), ": version ", now.version, " (created, changed, ",
                       "children changed at ", now.czxid, ", ", now.mzxid, ", ", now.pzxid,
                       ") after version ", before.version, " (", before.czxid, ", ", before.mzxid,
                       ", ", before.pzxid, ")",
                       at->second.operation->IsWrite() ? ": it does not see its own write" : ""),
          {at->second.operation, sight.operation});
      return;
    }
    at->second = sight;
  }

  const Run& run_;
  Verdicts* const verdicts_;
  absl::flat_hash_map<std::string_view, Sight> seen_;  // by path
  bool native_ = false;
  const Operation* newest_ = nullptr;
  std::vector<Sight> sights_;
};

// --- Events --------------------------------------------------------------------------------------

constexpr char kAfterEvent[] = "an answer is as new as the events that came before its request";

// Checks that later answers on a connection show the changes whose events it has received.
void CheckEvents(const Run& run, const Client& client, Verdicts* verdicts) {
  const WatchEvent* newest = nullptr;                               // of the connection
  absl::flat_hash_map<size_t, const WatchEvent*> newest_at_invoke;  // by operation
  for (const ClientLine& line : client.lines) {
    switch (line.what) {
      case What::kInvoke:
        if (newest != nullptr) newest_at_invoke[line.index] = newest;
        break;
      case What::kEvent: {
        const WatchEvent& event = run.events()[line.index];
        if (event.zxid > 0 && (newest == nullptr || newest->zxid < event.zxid)) newest = &event;
        break;
      }
      case What::kOk:
      case What::kRefused: {
        const Operation& operation = run.operations()[line.index];
        const auto found = newest_at_invoke.find(operation.id);
        if (found == newest_at_invoke.end() || operation.zxid <= 0) break;
        verdicts->Count("answers held against earlier events");
        if (operation.zxid >= found->second->zxid) break;
        verdicts->Fail(kAfterEvent,
                       absl::StrCat("an answer of zxid ", operation.zxid,
                                    " after an event of zxid ", found->second->zxid),
                       {&operation}, {found->second->line});
        break;
      }
      case What::kUnknown:
      case What::kWatchReset:
      case What::kEnd:
        break;
      default:  // another connection
        newest = nullptr;
        newest_at_invoke.clear();
    }
  }
}

// --- One history ---------------------------------------------------------------------------------

constexpr char kOneHistory[] = "all see the same history";

class HistoryChecker {
 public:
  HistoryChecker(const Run& run, Verdicts* verdicts) : run_(run), verdicts_(verdicts) {}

  void Check() {
    std::vector<Sight> sights;
    for (const Operation& operation : run_.operations()) {
      sights.clear();
      AddSights(operation, &sights);
      for (const Sight& sight : sights) CheckSight(sight);
      if (operation.function == Function::kList && operation.ok()) CheckChildren(operation);
      CheckOwnZxid(operation);
    }
    for (const Operation& operation : run_.operations()) {
      sights.clear();
      AddSights(operation, &sights);
      for (const Sight& sight : sights) CheckComplete(sight);
    }
    verdicts_->Count("versions of nodes seen", static_cast<int64_t>(by_change_.size()));
  }

  // The first sight of these data at the node, or null.
  const Sight* FindData(std::string_view path, std::string_view data) const {
    const auto found = by_data_.find(std::pair(path, data));
    return found == by_data_.end() ? nullptr : &found->second;
  }

 private:
  void CheckSight(const Sight& sight) {
    changes_[sight.path].emplace(sight.stat->mzxid, sight.operation);
    if (sight.has_data) by_data_.emplace(std::pair(sight.path, sight.data), sight);
    const auto [change, fresh] =
        by_change_.emplace(std::pair(sight.path, sight.stat->mzxid), sight);
    Sight& before = change->second;
    if (!fresh) {
      if (before.stat->version != sight.stat->version ||
          (before.has_data && sight.has_data && before.data != sight.data)) {
        Differ(before, sight, absl::StrCat("the change of zxid ", sight.stat->mzxid));
      }
      if (!before.has_data && sight.has_data) before = sight;
    }
    const auto [version, first] =
        by_version_.emplace(std::tuple(sight.path, sight.stat->czxid, sight.stat->version), sight);
    if (!first && version->second.stat->mzxid != sight.stat->mzxid) {
      Differ(version->second, sight, absl::StrCat("version ", sight.stat->version));
    }
  }

  // Checks that an answer shows all changes up to its zxid.
  void CheckComplete(const Sight& sight) {
    const std::map<int64_t, const Operation*>& changes = changes_.at(sight.path);
    const auto next = changes.upper_bound(sight.stat->mzxid);
    if (next == changes.end() || next->first > sight.operation->zxid) return;
    verdicts_->Fail("an answer shows all changes up to its zxid",
                    absl::StrCat(std::string(sight.path), ": an answer of zxid ",
                                 sight.operation->zxid, " shows the change of zxid ",
                                 sight.stat->mzxid, " and not that of ", next->first),
                    {next->second, sight.operation});
  }

  void Differ(const Sight& a, const Sight& b, const std::string& what) {
    verdicts_->Fail(kOneHistory,
                    absl::StrCat(std::string(b.path), ": two answers differ about ", what, ": ",
                                 Describe(a), " and ", Describe(b)),
                    {a.operation, b.operation});
  }

  static std::string Describe(const Sight& sight) {
    std::string text =
        absl::StrCat("version ", sight.stat->version, " changed at zxid ", sight.stat->mzxid);
    if (sight.has_data) {
      absl::StrAppend(&text, " with \"", std::string(sight.data.substr(0, 60)), "\"");
    }
    return text;
  }

  // Children are listed in any order: their hashes are added up.
  void CheckChildren(const Operation& operation) {
    if (!operation.stat) return;
    size_t sum = operation.children.size();
    for (std::string_view child : operation.children) {
      sum += absl::Hash<std::string_view>()(child);
    }
    const auto [at, fresh] = children_.emplace(std::pair(operation.path, operation.stat->pzxid),
                                               std::pair(sum, &operation));
    if (fresh || at->second.first == sum) return;
    const Operation& before = *at->second.second;
    const absl::flat_hash_set<std::string_view> names(before.children.begin(),
                                                      before.children.end());
    std::string_view other;
    for (std::string_view child : operation.children) {
      if (names.count(child) == 0) other = child;
    }
    verdicts_->Fail(
        kOneHistory,
        absl::StrCat(std::string(operation.path), ": two lists of the children as of zxid ",
                     operation.stat->pzxid, " differ: ", before.children.size(), " and ",
                     operation.children.size(), " names", other.empty() ? "" : ", for example ",
                     std::string(other)),
        {&before, &operation});
  }

  void CheckOwnZxid(const Operation& operation) {
    const int64_t zxid = operation.WriteZxid();
    if (zxid <= 0) return;
    const auto [at, fresh] = writes_.emplace(zxid, &operation);
    if (fresh) return;
    verdicts_->Fail("each write has a zxid of its own",
                    absl::StrCat("two acknowledged writes have zxid ", zxid),
                    {at->second, &operation});
  }

  const Run& run_;
  Verdicts* const verdicts_;
  absl::flat_hash_map<std::pair<std::string_view, int64_t>, Sight> by_change_;  // path, mzxid
  absl::flat_hash_map<std::tuple<std::string_view, int64_t, int32_t>, Sight> by_version_;
  absl::flat_hash_map<std::pair<std::string_view, std::string_view>, Sight> by_data_;
  absl::flat_hash_map<std::pair<std::string_view, int64_t>, std::pair<size_t, const Operation*>>
      children_;  // path, pzxid
  absl::flat_hash_map<int64_t, const Operation*> writes_;
  // By path and mzxid: the operation that saw the change first.
  absl::flat_hash_map<std::string_view, std::map<int64_t, const Operation*>> changes_;
};

// --- Real time -----------------------------------------------------------------------------------

constexpr char kRealTime[] = "a write comes after everything that had been seen when it began";

void CheckRealTime(const Run& run, const SeenZxids& seen, Verdicts* verdicts) {
  for (const Operation& operation : run.operations()) {
    if (!operation.ok() || !operation.IsConfirmed()) continue;
    const bool is_write = operation.IsWrite();
    const int64_t zxid = is_write ? operation.WriteZxid() : operation.zxid;
    if (zxid <= 0) continue;
    verdicts->Count("confirmed answers held against real time");
    const SeenZxids::Seen before = seen.Before(operation.invoked_ns);
    if (is_write ? before.zxid < zxid : before.zxid <= zxid) continue;
    verdicts->Fail(
        is_write ? kRealTime : "a linearizable read sees everything that had been seen before",
        absl::StrCat("it has zxid ", zxid, ", and zxid ", before.zxid,
                     " had been seen by a client before it began"),
        {&operation}, {before.line});
  }
}

// Checks unknown writes that took effect: data that only they wrote were read.
class UnknownChecker {
 public:
  UnknownChecker(const Run& run, const HistoryChecker& history, const SeenZxids& seen,
                 Verdicts* verdicts)
      : run_(run), history_(history), seen_(seen), verdicts_(verdicts) {
    for (const Operation& operation : run.operations()) {
      if (Counts(operation)) ++writers_[std::pair(operation.path, operation.written)];
    }
  }

  void Check() const {
    for (const Session& session : run_.sessions()) {
      const Operation* later_write = nullptr;
      const Operation* later_answer = nullptr;
      for (size_t i = session.operations.size(); i > 0; --i) {
        const Operation& operation = run_.operations()[session.operations[i - 1]];
        if (operation.outcome == Outcome::kUnknown) Check(operation, later_write, later_answer);
        if (operation.WriteZxid() > 0) later_write = &operation;
        if (operation.ok() && operation.zxid > 0) later_answer = &operation;
      }
    }
  }

 private:
  static bool Counts(const Operation& operation) {
    return operation.outcome != Outcome::kRefused && !operation.sequential &&
           !operation.written.empty() &&
           (operation.function == Function::kSet || operation.function == Function::kCreate);
  }

  // `later_write` and `later_answer`: the first ones of the same session after it.
  void Check(const Operation& operation, const Operation* later_write,
             const Operation* later_answer) const {
    if (!Counts(operation) || writers_.at(std::pair(operation.path, operation.written)) != 1)
      return;
    const Sight* effect = history_.FindData(operation.path, operation.written);
    if (effect == nullptr) return;
    verdicts_->Count("unknown writes that had an effect");
    const int64_t zxid = effect->stat->mzxid;
    const SeenZxids::Seen before = seen_.Before(operation.invoked_ns);
    if (before.zxid >= zxid) {
      verdicts_->Fail(kRealTime,
                      absl::StrCat("an unknown write took effect at zxid ", zxid, ", and zxid ",
                                   before.zxid, " had been seen by a client before it began"),
                      {&operation, effect->operation}, {before.line});
    }
    const bool behind_write = later_write != nullptr && later_write->WriteZxid() <= zxid;
    const bool behind_answer = later_answer != nullptr && later_answer->zxid < zxid;
    if (!behind_write && !behind_answer) return;
    const Operation* later = behind_write ? later_write : later_answer;
    verdicts_->Fail("the operations of a session take effect in their order",
                    absl::StrCat("an unknown write took effect at zxid ", zxid,
                                 ", behind a later operation of its session, which has zxid ",
                                 behind_write ? later->WriteZxid() : later->zxid),
                    {&operation, later, effect->operation});
  }

  const Run& run_;
  const HistoryChecker& history_;
  const SeenZxids& seen_;
  Verdicts* const verdicts_;
  absl::flat_hash_map<std::pair<std::string_view, std::string_view>, int> writers_;
};

// --- Created nodes -------------------------------------------------------------------------------

void CheckPresence(const Run& run, Verdicts* verdicts) {
  absl::flat_hash_set<std::string_view> may_go;
  absl::flat_hash_map<std::string_view, const Operation*> made;  // by path: the first one
  const auto note = [&](const Operation& operation, std::string_view path, bool ephemeral) {
    if (ephemeral) {
      may_go.insert(path);
      return;
    }
    const auto [at, fresh] = made.emplace(path, &operation);
    if (!fresh && operation.answered_ns < at->second->answered_ns) at->second = &operation;
  };
  for (const Operation& operation : run.operations()) {
    if (operation.function == Function::kDelete) may_go.insert(operation.path);
    for (const RunStep& step : operation.steps) {
      if (step.function == Function::kDelete) may_go.insert(step.path);
      if (step.function != Function::kCreate || !operation.ok()) continue;
      note(operation, step.made.empty() ? step.path : step.made, step.ephemeral);
    }
    if (operation.function != Function::kCreate || !operation.ok()) continue;
    note(operation, operation.made.empty() ? operation.path : operation.made, operation.ephemeral);
  }
  for (const Operation& operation : run.operations()) {
    if (!ShowsAbsence(operation) || may_go.count(operation.path) > 0) continue;
    const auto found = made.find(operation.path);
    if (found == made.end()) continue;
    const Operation& creation = *found->second;
    const int64_t created_zxid = creation.WriteZxid();
    const bool after = creation.answered_ns < operation.invoked_ns;
    const bool own = after && creation.session == operation.session && creation.session != kNone;
    const bool confirmed = after && operation.IsConfirmed();
    const bool shown = created_zxid > 0 && operation.zxid >= created_zxid;
    if (!own && !confirmed && !shown) continue;
    verdicts->Fail("a created node that no client tried to delete exists",
                   absl::StrCat(std::string(operation.path), " does not exist"),
                   {&creation, &operation});
  }
  verdicts->Count("nodes made", static_cast<int64_t>(made.size()));
}

}  // namespace

Verdicts CheckConsistency(const Run& run) {
  Verdicts verdicts(&run, "consistency");
  SessionChecker sessions(run, &verdicts);
  for (const Session& session : run.sessions()) sessions.Check(session);
  verdicts.Count("sessions", static_cast<int64_t>(run.sessions().size()));
  for (const Client& client : run.clients()) CheckEvents(run, client, &verdicts);
  HistoryChecker history(run, &verdicts);
  history.Check();
  const SeenZxids seen(run);
  CheckRealTime(run, seen, &verdicts);
  UnknownChecker(run, history, seen, &verdicts).Check();
  CheckPresence(run, &verdicts);
  return verdicts;
}

}  // namespace quorate::chaos
