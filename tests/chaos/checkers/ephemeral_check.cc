// SPDX-License-Identifier: Apache-2.0

#include "tests/chaos/checkers/ephemeral_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace quorate::chaos {
namespace {

constexpr char kEarly[] = "a session does not end before its timeout";
constexpr char kLives[] = "an ephemeral node lives as long as its session";
constexpr char kGone[] = "an ephemeral node is deleted with its session";
constexpr char kOwner[] = "an ephemeral node belongs to the session that made it";

constexpr int64_t kMsToNs = 1'000'000;
// For how long a member answers without a leader: half a session timeout, or three election
// timeouts.
constexpr int64_t kWithoutLeaderMs = 1'000;
// How late messages between members may be.
constexpr int64_t kLateMs = 600;
// In a steady period, touches reach the leader within a sixth of a timeout, for which a member
// collects them, plus this margin.
constexpr int64_t kMarginMs = 200;
// In a steady period, the leader checks timeouts each tick of half a second. The rest is for a slow
// machine.
constexpr int64_t kEndsLateMs = 2'000;
// How long the last operations of all clients may take.
constexpr int64_t kLastReadsMs = 5'000;

struct Node {
  std::string_view path;
  bool shared = false;                  // others have created it too: its owner cannot be known
  const Operation* attempt = nullptr;   // may have created it
  const Operation* creation = nullptr;  // the acknowledged creation
};

// What is known of a session and of its end.
struct Life {
  const Operation* close = nullptr;
  std::vector<int64_t> answered_ns;      // when its answered messages were sent; ascending
  const Operation* newest = nullptr;     // the answer with the greatest zxid
  const Operation* confirmed = nullptr;  // the last one that a majority confirmed
};

// Something that shows that a node does not exist.
struct Absence {
  const Operation* operation = nullptr;  // null: an event
  LineId event_line;
  int64_t time_ns = 0;
  int64_t zxid = 0;
};

std::pair<std::string_view, std::string_view> Split(std::string_view path) {
  const size_t slash = path.rfind('/');
  return {path.substr(0, slash), path.substr(slash + 1)};
}

class Checker {
 public:
  Checker(const Run& run, const std::vector<SteadyPeriod>& periods, Verdicts* verdicts)
      : run_(run), periods_(periods), verdicts_(verdicts), lives_(run.sessions().size()) {}

  void Check() {
    for (const Operation& operation : run_.operations()) Take(operation);
    for (const Operation& operation : run_.operations()) TakePersistent(operation);
    for (Life& life : lives_) std::sort(life.answered_ns.begin(), life.answered_ns.end());
    CheckIds();
    for (size_t i = 0; i < run_.sessions().size(); ++i) CheckExpired(i);
    for (const Operation& operation : run_.operations()) CheckSight(operation);
    for (const WatchEvent& event : run_.events()) {
      if (event.type != "deleted" || event.zxid <= 0) continue;
      const Node* node = Find(event.path);
      if (node != nullptr) CheckAbsent(*node, {nullptr, event.line, event.time_ns, event.zxid});
    }
    CountLeft();
  }

 private:
  void Take(const Operation& operation) {
    if (operation.function == Function::kCreate && operation.ephemeral &&
        operation.outcome != Outcome::kRefused) {
      TakeCreation(operation);
    } else if (operation.function == Function::kDelete && operation.outcome != Outcome::kRefused) {
      deletions_.emplace(operation.path, operation.invoked_ns);
    }
    if (operation.function == Function::kList && operation.ok() && operation.linearizable) {
      lists_ns_[operation.path].push_back(operation.invoked_ns);
    }
    if (operation.ok()) last_answer_ns_ = std::max(last_answer_ns_, operation.answered_ns);
    if (operation.session == kNone) return;
    Life& life = lives_[operation.session];
    if (operation.function == Function::kClose && life.close == nullptr) life.close = &operation;
    if (!operation.ok() || operation.function == Function::kClose) return;
    life.answered_ns.push_back(operation.invoked_ns);
    if (operation.IsConfirmed()) life.confirmed = &operation;
    if (operation.zxid > 0 && (life.newest == nullptr || life.newest->zxid < operation.zxid)) {
      life.newest = &operation;
    }
  }

  void TakeCreation(const Operation& operation) {
    // The name of a sequential node is unknown if its creation was not answered.
    if (operation.sequential && !operation.ok()) return;
    const std::string_view path =
        operation.ok() && !operation.made.empty() ? operation.made : operation.path;
    const auto [parent, name] = Split(path);
    Node& node = nodes_[parent][name];
    if (node.attempt != nullptr && node.attempt->session != operation.session) {
      node = {path, true};
    }
    if (node.shared) return;
    node.path = path;
    node.attempt = &operation;
    if (!operation.ok()) return;
    node.creation = &operation;
    verdicts_->Count("ephemeral nodes");
    if (operation.stat && operation.stat->owner != 0) CheckOwner(node, operation);
  }

  void TakePersistent(const Operation& operation) {
    if (operation.function != Function::kCreate || operation.ephemeral) return;
    Node* node = operation.outcome == Outcome::kRefused ? nullptr : Find(&nodes_, operation.path);
    if (node != nullptr) *node = {operation.path, true};
  }

  // By parent and name.
  using Nodes = absl::flat_hash_map<std::string_view, std::map<std::string_view, Node>>;

  const Node* Find(std::string_view path) const { return Find(&nodes_, path); }
  template <class Any>
  static auto Find(Any* nodes, std::string_view path)
      -> decltype(&nodes->begin()->second.begin()->second) {
    const auto [parent_path, name] = Split(path);
    const auto parent = nodes->find(parent_path);
    if (parent == nodes->end()) return nullptr;
    const auto node = parent->second.find(name);
    return node == parent->second.end() ? nullptr : &node->second;
  }

  const Session& SessionOf(const Node& node) const {
    return run_.sessions()[node.attempt->session];
  }

  void CheckIds() const {
    std::map<int64_t, const Session*> by_id;
    for (const Session& session : run_.sessions()) {
      const auto [at, fresh] = by_id.emplace(session.id, &session);
      verdicts_->Count("sessions");
      if (fresh) continue;
      verdicts_->Fail("a session id is used only once",
                      absl::StrCat("session ", session.id, " was there before"), {},
                      {at->second->began_line, at->second->end_line, session.began_line});
    }
  }

  // --- Not too early -----------------------------------------------------------------------------

  bool IsSteady(int64_t from_ns, int64_t to_ns) const {
    return std::any_of(periods_.begin(), periods_.end(), [&](const SteadyPeriod& period) {
      return period.from_ns <= from_ns && to_ns <= period.to_ns;
    });
  }

  // When the last message was sent that was sent before this time and answered; 0: none is known.
  int64_t LastAnswered(size_t session, int64_t time_ns) const {
    const std::vector<int64_t>& times = lives_[session].answered_ns;
    const auto after = std::lower_bound(times.begin(), times.end(), time_ns);
    int64_t last_ns = after == times.begin() ? 0 : *std::prev(after);
    const int64_t told_ns = run_.sessions()[session].answered_ns;
    if (told_ns < time_ns) last_ns = std::max(last_ns, told_ns);
    return last_ns;
  }

  // Whether an earlier message kept the session alive until the leader knew of this one too.
  bool IsCovered(size_t session, int64_t sent_ns, int64_t timeout_ns) const {
    const std::vector<int64_t>& times = lives_[session].answered_ns;
    const int64_t from_ns = sent_ns - timeout_ns / 2;
    const int64_t to_ns = sent_ns - timeout_ns / 6 - kMarginMs * kMsToNs;
    const auto at = std::lower_bound(times.begin(), times.end(), from_ns);
    return at != times.end() && *at <= to_ns && IsSteady(from_ns, sent_ns);
  }

  // The session, which nobody closed, had ended by `time_ns`. Returns why that is too early, or an
  // empty string.
  std::string TooEarly(size_t session, int64_t time_ns) const {
    const int64_t sent_ns = LastAnswered(session, time_ns);
    if (sent_ns == 0) return {};
    const int64_t timeout_ns = run_.sessions()[session].timeout_ms * kMsToNs;
    const bool exact = IsSteady(sent_ns, time_ns) && IsCovered(session, sent_ns, timeout_ns);
    const int64_t heard_ns =
        exact ? sent_ns
              : LastAnswered(session, sent_ns - UnheardNs(run_.sessions()[session].timeout_ms));
    if (heard_ns == 0 || time_ns - heard_ns >= timeout_ns) return {};
    return absl::StrCat("it had ended ", (time_ns - sent_ns) / kMsToNs,
                        " ms after a message that was answered; its timeout is ",
                        run_.sessions()[session].timeout_ms, " ms",
                        exact ? ", and there was no fault"
                              : ", and a leader had received one less than that before");
  }

  void CheckExpired(size_t index) const {
    const Session& session = run_.sessions()[index];
    if (session.end != SessionEnd::kExpired || lives_[index].close != nullptr) return;
    verdicts_->Count("expired sessions");
    const std::string early = TooEarly(index, session.end_ns);
    if (early.empty()) return;
    verdicts_->Fail(kEarly, absl::StrCat("session ", session.id, ": ", early),
                    {lives_[index].newest}, {session.began_line, session.end_line});
  }

  // --- What answers show -------------------------------------------------------------------------

  void CheckSight(const Operation& operation) const {
    if (operation.function == Function::kList) return CheckList(operation);
    const bool reads =
        operation.function == Function::kExists || operation.function == Function::kGet;
    if (!reads || operation.outcome == Outcome::kUnknown) return;
    const Node* node = Find(operation.path);
    if (node == nullptr || node->attempt == nullptr) return;
    if (operation.ok() && operation.stat) {
      CheckOwner(*node, operation);
      CheckPresent(*node, operation);
    } else if (operation.ok() || operation.error == "NoNode") {
      CheckAbsent(*node, {&operation, {}, operation.answered_ns, operation.zxid});
    }
  }

  void CheckList(const Operation& list) const {
    const auto parent = nodes_.find(list.path);
    if (!list.ok() || parent == nodes_.end()) return;
    const absl::flat_hash_set<std::string_view> names(list.children.begin(), list.children.end());
    for (const auto& [name, node] : parent->second) {
      if (node.attempt == nullptr) continue;
      if (names.count(name) > 0) {
        CheckPresent(node, list);
      } else {
        CheckAbsent(node, {&list, {}, list.answered_ns, list.zxid});
      }
    }
  }

  void CheckOwner(const Node& node, const Operation& operation) const {
    if (node.attempt->session == kNone || operation.stat->owner == SessionOf(node).id) return;
    verdicts_->Fail(kOwner,
                    absl::StrCat(std::string(node.path), " belongs to ", operation.stat->owner,
                                 " and was made by ", SessionOf(node).id),
                    {node.attempt, &operation});
  }

  // Whether the node had been created before the event or answer that shows its absence.
  static bool WasThere(const Operation& creation, const Absence& absence) {
    if (absence.zxid > 0 && creation.WriteZxid() > 0 && absence.zxid >= creation.WriteZxid()) {
      return true;
    }
    const Operation* by = absence.operation;
    if (by == nullptr || creation.answered_ns >= by->invoked_ns) return false;
    return by->linearizable || by->session == creation.session;
  }

  void CheckAbsent(const Node& node, const Absence& absence) const {
    if (node.creation == nullptr || node.creation->session == kNone) return;
    if (!WasThere(*node.creation, absence)) return;
    const auto deletion = deletions_.find(node.path);
    if (deletion != deletions_.end() && deletion->second < absence.time_ns) return;
    const size_t session = node.creation->session;
    const Life& life = lives_[session];
    if (life.close != nullptr && life.close->invoked_ns < absence.time_ns) return;
    verdicts_->Count("absences explained by the end of a session");
    const auto fail = [&](std::string_view invariant, const std::string& details,
                          const Operation* other) {
      verdicts_->Fail(invariant, absl::StrCat(std::string(node.path), " does not exist: ", details),
                      {node.creation, absence.operation, other},
                      {absence.event_line, run_.sessions()[session].began_line,
                       run_.sessions()[session].end_line});
    };
    if (absence.zxid > 0 && life.newest != nullptr && life.newest->zxid > absence.zxid) {
      fail(kLives,
           absl::StrCat("at zxid ", absence.zxid, ", and its session got an answer of zxid ",
                        life.newest->zxid),
           life.newest);
    } else if (life.confirmed != nullptr && life.confirmed->invoked_ns > absence.time_ns) {
      fail(kLives, "and its session did a confirmed operation afterwards", life.confirmed);
    } else if (const std::string early = TooEarly(session, absence.time_ns); !early.empty()) {
      fail(kEarly, absl::StrCat("its session was not closed, and ", early), life.newest);
    }
  }

  void CheckPresent(const Node& node, const Operation& operation) const {
    if (node.attempt->session == kNone) return;
    const Session& session = SessionOf(node);
    const Life& life = lives_[node.attempt->session];
    const auto fail = [&](const std::string& why) {
      verdicts_->Fail(kGone, absl::StrCat(std::string(node.path), " exists: ", why),
                      {node.attempt, life.close, &operation}, {session.end_line});
    };
    const bool closed = life.close != nullptr && life.close->ok();
    if (closed && life.close->zxid > 0 && operation.zxid >= life.close->zxid) {
      return fail(absl::StrCat("at zxid ", operation.zxid, ", and its session was closed at zxid ",
                               life.close->zxid));
    }
    if (!operation.linearizable) return;
    if (closed && life.close->answered_ns < operation.invoked_ns) {
      return fail("a linearizable read shows it after its session was closed");
    }
    if (session.end == SessionEnd::kExpired && session.end_ns < operation.invoked_ns) {
      return fail("a linearizable read shows it after its session had expired");
    }
    if (StaysTooLong(session, operation.invoked_ns)) {
      fail("its session was abandoned long ago, and there was no fault since");
    }
  }

  bool StaysTooLong(const Session& session, int64_t time_ns) const {
    return std::any_of(periods_.begin(), periods_.end(), [&](const SteadyPeriod& period) {
      return time_ns <= period.to_ns && time_ns > MustBeGone(session, period);
    });
  }

  // When the session's client sent its last message, as far as is known.
  int64_t SilentNs(const Session& session) const {
    return session.end == SessionEnd::kUnseen ? run_.LastSignOf(session.process) : session.end_ns;
  }
  // The time in this steady period by which the session's nodes must be gone.
  int64_t MustBeGone(const Session& session, const SteadyPeriod& period) const {
    const int64_t allowed_ns = (2 * int64_t{session.timeout_ms} + kEndsLateMs) * kMsToNs;
    return std::max(SilentNs(session), period.from_ns) + allowed_ns;
  }

  // Counts the abandoned sessions, and those for which a linearizable list shows whether they ended
  // in time.
  void CountLeft() const {
    std::set<size_t> left, checked;
    bool is_due = false;
    for (const auto& [parent, nodes] : nodes_) {
      const auto lists = lists_ns_.find(parent);
      if (lists == lists_ns_.end()) continue;
      for (const auto& [name, node] : nodes) {
        const size_t session = node.creation == nullptr ? kNone : node.creation->session;
        if (session == kNone || deletions_.count(node.path) > 0) continue;
        if (!IsLeft(run_.sessions()[session])) continue;
        if (!left.insert(session).second) continue;
        is_due |= IsDue(run_.sessions()[session]);
        if (IsChecked(run_.sessions()[session], lists->second)) checked.insert(session);
      }
    }
    verdicts_->Count("abandoned sessions", static_cast<int64_t>(left.size()));
    verdicts_->Count("abandoned sessions that were checked", static_cast<int64_t>(checked.size()));
    if (is_due && checked.empty()) {
      verdicts_->Undecided(
          absl::StrCat("whether the ", left.size(),
                       " abandoned sessions have ended in time: there is no list after a steady "
                       "period that is long enough"));
    }
  }

  static bool IsLeft(const Session& session) {
    return session.end == SessionEnd::kUnseen || session.end == SessionEnd::kAbandoned;
  }
  // Whether the last steady period should have checked the session. A session may be abandoned
  // within that period, but too shortly before the last list. The time of that list is not known
  // exactly, only that it is close to the last operations.
  bool IsDue(const Session& session) const {
    if (periods_.empty()) return false;
    const SteadyPeriod& last = periods_.back();
    return SilentNs(session) <= last.from_ns ||
           MustBeGone(session, last) + kLastReadsMs * kMsToNs <= last_answer_ns_;
  }
  // `lists_ns`: the times of linearizable lists, ascending.
  bool IsChecked(const Session& session, const std::vector<int64_t>& lists_ns) const {
    return std::any_of(periods_.begin(), periods_.end(), [&](const SteadyPeriod& period) {
      const auto list =
          std::upper_bound(lists_ns.begin(), lists_ns.end(), MustBeGone(session, period));
      return list != lists_ns.end() && *list <= period.to_ns;
    });
  }

  const Run& run_;
  const std::vector<SteadyPeriod>& periods_;
  Verdicts* const verdicts_;
  std::vector<Life> lives_;  // parallel to the run's sessions
  int64_t last_answer_ns_ = 0;
  // By path: the times of linearizable lists.
  absl::flat_hash_map<std::string_view, std::vector<int64_t>> lists_ns_;
  Nodes nodes_;
  absl::flat_hash_map<std::string_view, int64_t> deletions_;  // by path: when first tried
};

}  // namespace

int64_t UnheardNs(int32_t timeout_ms) {
  const int64_t timeout = timeout_ms;
  const int64_t alone = std::max(timeout / 2, kWithoutLeaderMs);
  return (alone + timeout / 6 + kLateMs) * kMsToNs;
}

Verdicts CheckEphemerals(const Run& run, const std::vector<SteadyPeriod>& periods) {
  Verdicts verdicts(&run, "ephemeral");
  Checker(run, periods, &verdicts).Check();
  return verdicts;
}

}  // namespace quorate::chaos
