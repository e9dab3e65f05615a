// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/watch_check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/chaos/checkers/changes.h"

namespace quorate::chaos {
namespace {

constexpr char kBefore[] = "an event comes before any answer that is as new as its change";
constexpr char kOnce[] = "a watch fires once for a change, and only where it was set";
constexpr char kFirst[] = "a watch reports the first change after it was set";
constexpr char kEach[] = "a persistent watch reports each change, in order";
constexpr char kMade[] = "an event reports a change that was made";

constexpr int64_t kNotKnown = -1;

// A client of the ZooKeeper front end that has connected again gets what its lasting watches
// missed, from the last answer on that it got. Whether nothing was left out is counted and not
// judged here, because a member may not have events of so long ago; it says so in its log.
constexpr char kResumptions[] = "reconnects with lasting watches";
constexpr char kGaps[] = "reconnects after which events were missing";

struct Watch {
  const Operation* set_by = nullptr;
  bool lasting = false;
  bool native = false;
  bool for_creation = false;                     // "exist" of a node that is not there
  const std::vector<Change>* changes = nullptr;  // the known changes that it has to report
  // Every change after this zxid has to be reported. Not known: from the next answer on.
  int64_t since_zxid = kNotKnown;
  int64_t last_zxid = 0;      // of the events
  std::set<Change> reported;  // changes after since_zxid that were reported
  // Changes that were reported before the client was disconnected. They may come again, and need not:
  // the client names the zxid of its last answer when it connects again, and the history does not have
  // that of each answer (of refused writes, and of syncs). Empty unless `resumes`.
  std::set<Change> reported_before;
  // The client has connected again, and not yet got the answer after which nothing missed follows.
  bool resumes = false;
  // For a lasting watch: what its session last learned of the nodes, by events or answers, and as
  // of which zxid.
  struct Known {
    bool there = false;
    int64_t zxid = 0;
  };
  std::map<std::string_view, Known> known;  // by path
};

// Whether the answer shows that the node of its path exists; no value if it does not show that.
std::optional<bool> ShowsPresence(const Operation& operation) {
  if (operation.function != Function::kGet && operation.function != Function::kExists) {
    return std::nullopt;
  }
  if (operation.ok()) return operation.stat.has_value();
  if (operation.error == "NoNode") return false;
  return std::nullopt;
}

class ChangesOfWatches {
 public:
  explicit ChangesOfWatches(const Changes& changes) : changes_(changes) {}

  const std::vector<Change>* For(std::string_view kind, bool native, bool for_creation,
                                 std::string_view path) {
    const auto [at, fresh] =
        cache_.emplace(std::tuple(kind, native, for_creation, path), std::vector<Change>());
    if (!fresh) return &at->second;
    if (kind == "recursive") {
      at->second = changes_.OfSubtree(path);
      return &at->second;
    }
    for (const Change& change : changes_.Of(path)) {
      const bool of_children = change.type == "children";
      const bool wanted = kind == "children"     ? of_children || change.type == "deleted"
                          : kind == "persistent" ? !of_children || !native
                          : for_creation         ? change.type == "created"
                                                 : !of_children;
      if (wanted) at->second.push_back(change);
    }
    return &at->second;
  }

 private:
  const Changes& changes_;
  std::map<std::tuple<std::string_view, bool, bool, std::string_view>, std::vector<Change>> cache_;
};

// Checks the watches of one client.
class Checker {
 public:
  Checker(const Run& run, const Changes& changes, ChangesOfWatches* of_watches, Verdicts* verdicts)
      : run_(run), changes_(changes), of_watches_(of_watches), verdicts_(verdicts) {}

  void Check(const Client& client) {
    for (const ClientLine& line : client.lines) {
      switch (line.what) {
        case What::kOk:
        case What::kRefused:
          OnAnswer(run_.operations()[line.index]);
          break;
        case What::kUnknown:
          // The watch may be set nevertheless.
          if (run_.operations()[line.index].function == Function::kWatch) {
            over_.insert(run_.operations()[line.index].watch);
          }
          break;
        case What::kEvent:
          OnEvent(run_.events()[line.index]);
          break;
        case What::kWatchReset:
          OnReset(run_.events()[line.index]);
          break;
        case What::kDisconnected:
          OnDisconnected();
          break;
        case What::kClosed:
        case What::kExpired:
        case What::kAbandoned:
          for (const auto& [number, watch] : watches_) over_.insert(number);
          watches_.clear();
          break;
        default:
          break;
      }
    }
  }

 private:
  using Place = std::vector<Change>::const_iterator;

  // The first change after a zxid that the watch has to report.
  static Place After(const Watch& watch, int64_t zxid) {
    return std::upper_bound(
        watch.changes->begin(), watch.changes->end(), zxid,
        [](int64_t value, const Change& change) { return value < change.zxid; });
  }

  void Fail(std::string_view invariant, const Watch* watch, const std::string& details,
            const Change* change, const Operation* other, LineId line) const {
    std::string text;
    if (watch != nullptr) {
      text = absl::StrCat("the ", std::string(watch->set_by->kind), " watch ", watch->set_by->watch,
                          " on ", std::string(watch->set_by->path), ": ");
    }
    verdicts_->Fail(invariant, absl::StrCat(text, details),
                    {watch == nullptr ? nullptr : watch->set_by,
                     change == nullptr ? nullptr : change->operation, other},
                    {line});
  }

  static std::string Describe(const Change& change) {
    return absl::StrCat("\"", std::string(change.type), "\" of ", std::string(change.path),
                        " at zxid ", change.zxid);
  }

  // --- Answers -----------------------------------------------------------------------------------

  void OnAnswer(const Operation& operation) {
    const std::optional<bool> there = ShowsPresence(operation);
    for (auto at = watches_.begin(); at != watches_.end();) {
      Watch& watch = at->second;
      const bool same = watch.set_by->session == operation.session;
      const bool good = !same || ((!there || CheckPresence(operation, *there, &watch)) &&
                                  (operation.zxid <= 0 || CheckZxid(operation, &watch)));
      at = good ? std::next(at) : watches_.erase(at);
    }
    const bool is_set = operation.function == Function::kWatch && operation.ok();
    if (is_set && operation.session != kNone) Set(operation);
  }

  // If the node has appeared or disappeared since the watch was set, or since the last event or
  // answer, an event must have reported that. Returns false if the watch is wrong from now on.
  bool CheckPresence(const Operation& operation, bool there, Watch* watch) {
    if (!watch->lasting) {
      if (watch->set_by->path != operation.path) return true;
      verdicts_->Count("presences held against watches");
      return there != watch->for_creation || FailPresence(operation, there, *watch);
    }
    if (watch->since_zxid == kNotKnown || operation.zxid <= 0 || !IsOf(*watch, operation.path)) {
      return true;
    }
    const auto [at, fresh] = watch->known.try_emplace(operation.path, there, operation.zxid);
    if (fresh || operation.zxid < at->second.zxid) return true;
    verdicts_->Count("presences held against watches");
    if (there != at->second.there) return FailPresence(operation, there, *watch);
    at->second.zxid = operation.zxid;
    return true;
  }

  bool FailPresence(const Operation& operation, bool there, const Watch& watch) {
    over_.insert(watch.set_by->watch);
    Fail(kBefore, &watch,
         absl::StrCat("an answer shows that ", std::string(operation.path),
                      there ? " was created" : " was deleted", ", and no event has reported that"),
         nullptr, &operation, {});
    return false;
  }

  static bool IsOf(const Watch& watch, std::string_view path) {
    const std::string_view top = watch.set_by->path;
    if (path == top) return true;
    return watch.set_by->kind == "recursive" && path.size() > top.size() && path.starts_with(top) &&
           path[top.size()] == '/';
  }

  // Returns false if the watch is wrong from now on.
  bool CheckZxid(const Operation& operation, Watch* watch) {
    if (watch->since_zxid == kNotKnown) {
      watch->since_zxid = operation.zxid;
      return true;
    }
    const Change* missing = FindMissing(*watch, operation.zxid);
    if (missing != nullptr && watch->resumes) {
      CountGap();
    } else if (missing != nullptr) {
      over_.insert(watch->set_by->watch);
      Fail(kBefore, watch,
           absl::StrCat("an answer has zxid ", operation.zxid, ", and no event came for ",
                        Describe(*missing)),
           missing, &operation, {});
      return false;
    }
    if (!watch->lasting) return true;
    watch->resumes = false;
    watch->reported_before.clear();
    watch->since_zxid = std::max(watch->since_zxid, operation.zxid);
    watch->reported.erase(watch->reported.begin(), watch->reported.lower_bound(Change{
                                                       watch->since_zxid + 1, {}, {}, nullptr}));
    return true;
  }

  // A change up to this zxid that the watch did not report.
  static const Change* FindMissing(const Watch& watch, int64_t zxid) {
    for (Place at = After(watch, watch.since_zxid); at != watch.changes->end() && at->zxid <= zxid;
         ++at) {
      const bool is_reported =
          watch.reported.count(*at) != 0 || watch.reported_before.count(*at) != 0;
      if (!watch.lasting || !is_reported) return &*at;
    }
    return nullptr;
  }

  void Set(const Operation& operation) {
    verdicts_->Count("watches");
    Watch watch;
    watch.set_by = &operation;
    watch.lasting = operation.kind == "persistent" || operation.kind == "recursive";
    watch.native = run_.sessions()[operation.session].native;
    watch.for_creation = operation.kind == "exist" && !operation.stat;
    watch.changes =
        of_watches_->For(operation.kind, watch.native, watch.for_creation, operation.path);
    if (operation.zxid > 0) watch.since_zxid = operation.zxid;
    watches_[operation.watch] = std::move(watch);
  }

  // --- Events ------------------------------------------------------------------------------------

  void OnEvent(const WatchEvent& event) {
    verdicts_->Count("events");
    if (event.zxid <= 0) verdicts_->Count("events without a zxid");
    CheckMade(event);
    const auto found = watches_.find(event.watch);
    if (found == watches_.end()) {
      if (over_.count(event.watch) > 0) return;
      const auto fired = fired_.find(event.watch);
      verdicts_->Fail(kOnce,
                      fired == fired_.end()
                          ? absl::StrCat("no watch of its client is set for \"",
                                         std::string(event.type), "\" of ", std::string(event.path))
                          : absl::StrCat("watch ", event.watch, " fires a second time"),
                      {fired == fired_.end() ? nullptr : fired->second}, {event.line});
      return;
    }
    Watch& watch = found->second;
    if (watch.lasting) return OnLastingEvent(event, &watch);
    if (event.zxid > 0 && watch.since_zxid != kNotKnown) CheckFirst(event, watch);
    fired_[event.watch] = watch.set_by;
    watches_.erase(found);
  }

  void CheckFirst(const WatchEvent& event, const Watch& watch) const {
    if (event.zxid <= watch.since_zxid) {
      return Fail(
          kFirst, &watch,
          absl::StrCat("it reports zxid ", event.zxid, " and was set at zxid ", watch.since_zxid),
          nullptr, nullptr, event.line);
    }
    const Change* missing = FindMissing(watch, event.zxid - 1);
    if (missing == nullptr) return;
    Fail(kFirst, &watch,
         absl::StrCat("it reports zxid ", event.zxid, " and not ", Describe(*missing)), missing,
         nullptr, event.line);
  }

  // For front ends whose events have no zxid: the event counts as that of the first change that
  // fits.
  static void OnEventWithoutZxid(const WatchEvent& event, Watch* watch) {
    for (Place at = After(*watch, watch->since_zxid); at != watch->changes->end(); ++at) {
      if (at->type != event.type || at->path != event.path) continue;
      if (watch->reported.insert(*at).second) return;
    }
  }

  void OnLastingEvent(const WatchEvent& event, Watch* watch) {
    if (event.type == "created" || event.type == "deleted") {
      watch->known.insert_or_assign(event.path, Watch::Known{event.type == "created", event.zxid});
    }
    if (event.zxid <= 0) return OnEventWithoutZxid(event, watch);
    const Change change{event.zxid, event.type, event.path, nullptr};
    if (event.zxid < watch->last_zxid) {
      return Fail(kEach, watch,
                  absl::StrCat("an event of zxid ", event.zxid, " after one of ", watch->last_zxid),
                  nullptr, nullptr, event.line);
    }
    watch->last_zxid = event.zxid;
    if (watch->resumes && watch->since_zxid != kNotKnown && event.zxid <= watch->since_zxid) {
      return verdicts_->Count("events that came again after a reconnect");
    }
    if (!watch->reported.insert(change).second) {
      return Fail(kOnce, watch, absl::StrCat(Describe(change), " is reported a second time"),
                  nullptr, nullptr, event.line);
    }
    if (watch->since_zxid != kNotKnown && event.zxid <= watch->since_zxid) {
      Fail(kBefore, watch,
           absl::StrCat("an event of zxid ", event.zxid, " comes after an answer of zxid ",
                        watch->since_zxid),
           nullptr, nullptr, event.line);
    } else if (watch->since_zxid != kNotKnown) {
      const Change* missing = FindMissing(*watch, event.zxid - 1);
      if (missing != nullptr && watch->resumes) {
        CountGap();
      } else if (missing != nullptr) {
        Fail(kEach, watch,
             absl::StrCat("an event of zxid ", event.zxid, ", and none for ", Describe(*missing)),
             missing, nullptr, event.line);
      }
    }
    watch->since_zxid = std::max(watch->since_zxid, event.zxid - 1);
  }

  // Events of setWatches have no zxid.
  void CheckMade(const WatchEvent& event) const {
    const std::vector<Change>& known = changes_.Of(event.path);
    const Change change{event.zxid, event.type, event.path, nullptr};
    const auto found = std::lower_bound(known.begin(), known.end(), change);
    const bool is_known = found != known.end() && *found == change;
    if (is_known && found->operation->function == Function::kClose) {
      verdicts_->Count("events of nodes that went with their session");
    }
    if (event.zxid <= 0 || is_known || changes_.MayHaveBeen(event.path, event.type, event.zxid)) {
      return;
    }
    verdicts_->Fail(kMade, absl::StrCat("no operation made ", Describe(change)), {}, {event.line});
  }

  // --- Gaps --------------------------------------------------------------------------------------

  // One-shot watches may miss that a node appears and disappears again while the client is
  // disconnected.
  void OnDisconnected() {
    bool any_resumes = false;
    for (auto& [number, watch] : watches_) {
      if (watch.native) continue;
      watch.known.clear();
      if (watch.for_creation) watch.since_zxid = kNotKnown;
      if (!watch.lasting) continue;
      watch.resumes = any_resumes = true;
      watch.reported_before.merge(watch.reported);  // those of an earlier connection stay
      watch.reported.clear();
      watch.last_zxid = 0;
    }
    if (any_resumes) verdicts_->Count(kResumptions);
    gap_is_counted_ = false;
  }

  void CountGap() {
    if (!std::exchange(gap_is_counted_, true)) verdicts_->Count(kGaps);
  }

  void OnReset(const WatchEvent& reset) {
    verdicts_->Count("resets");
    for (auto& [number, watch] : watches_) {
      if (reset.watch != 0 ? number != reset.watch : watch.set_by->path != reset.path) continue;
      if (watch.resumes && watch.since_zxid != kNotKnown && reset.zxid > 0 &&
          FindMissing(watch, reset.zxid) != nullptr) {
        CountGap();
      }
      watch.resumes = false;
      watch.reported_before.clear();
      watch.since_zxid = reset.zxid > 0 ? reset.zxid : kNotKnown;
      watch.known.clear();
    }
  }

  const Run& run_;
  const Changes& changes_;
  ChangesOfWatches* const of_watches_;
  Verdicts* const verdicts_;
  std::map<int64_t, Watch> watches_;  // by number
  std::map<int64_t, const Operation*> fired_;
  bool gap_is_counted_ = false;  // since the client was disconnected
  std::set<int64_t> over_;  // ended with their sessions, known to be wrong, or not known to be set
};

}  // namespace

Verdicts CheckWatches(const Run& run) {
  Verdicts verdicts(&run, "watch");
  const Changes changes(run);
  ChangesOfWatches of_watches(changes);
  for (const Client& client : run.clients()) {
    Checker(run, changes, &of_watches, &verdicts).Check(client);
  }
  return verdicts;
}

}  // namespace quorate::chaos
