// SPDX-License-Identifier: Apache-2.0

// Workloads ephemeral and watch.

#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/chaos/workload.h"

namespace quorate::chaos {
namespace {

using Nodes = std::vector<std::pair<std::string, std::string>>;

class Ephemeral : public Workload {
 public:
  Ephemeral(Client* client, uint64_t seed) : Workload("ephemeral", client, seed) { DecideLife(); }

  void Step() override {
    if (client()->sessions() != session_) {
      session_ = client()->sessions();
      own_.clear();
      DecideLife();
    }
    if (steps_left_-- <= 0) return EndSession();
    const size_t dice = Below(100);
    if (dice < 35) {
      // Lists the nodes of all sessions.
      Perform(List(RootOf(name()), Chance(0.7)));
    } else if (dice < 45) {
      CheckOne();
    } else if (dice < 60 && !own_.empty()) {
      const std::string path = *own_.begin();
      if (Perform(Operation("delete", path)).what != What::kUnknown) own_.erase(path);
    } else if (own_.size() < kOwnMax) {
      const std::string token = NewToken();
      const bool sequential = Chance(0.2);
      const Line outcome =
          Perform(Create(absl::StrCat(RootOf(name()), "/", token, sequential ? "-" : ""), token,
                         sequential ? "ephemeral-sequential" : "ephemeral"));
      if (outcome.what == What::kOk) own_.insert(outcome.path);
    }
  }

  bool Finish(int64_t until_ns) override {
    return PerformFinally({List(RootOf(name()), true)}, until_ns);
  }

 private:
  static constexpr size_t kOwnMax = 4;
  static constexpr size_t kStepsMin = 30;
  static constexpr size_t kStepsMax = 400;
  // The length of an absence, in session timeouts, during which the client sends nothing: the
  // session survives the short one, but not the long one.
  static constexpr double kShortAbsence = 0.6;
  static constexpr double kLongAbsence = 1.5;

  Nodes Shared() const override { return {}; }

  void DecideLife() {
    steps_left_ = static_cast<int64_t>(kStepsMin + Below(kStepsMax - kStepsMin));
  }

  void CheckOne() {
    if (own_.empty()) return;
    Line exists = Operation("exists", *own_.begin());
    exists.linearizable = Chance(0.5);
    Perform(exists);
  }

  // Ends the session in one of five ways, in turn: the session is closed, abandoned, abandoned with
  // its connection open, survives an absence, or does not.
  void EndSession() {
    DecideLife();
    switch (ends_++ % 5) {
      case 0:
        client()->CloseSession();
        // The nodes are deleted as soon as the close is answered; every server must show that.
        Perform(List(RootOf(name()), true));
        break;
      case 1:
        client()->AbandonSession(false);
        break;
      case 2:
        client()->AbandonSession(true);
        break;
      case 3:
        return Leave(kShortAbsence);
      default:
        return Leave(kLongAbsence);
    }
  }
  void Leave(double absence) {
    client()->Move(static_cast<int64_t>(absence * client()->session_timeout_ms()));
  }

  int64_t session_ = 0;  // the session to which the following fields belong
  std::set<std::string> own_;
  int64_t steps_left_ = 0;
  size_t ends_;
};

class Watch : public Workload {
 public:
  Watch(Client* client, uint64_t seed, bool is_native)
      : Workload("watch", client, seed), is_native_(is_native) {
    for (size_t i = 0; i < kOwnTopics; ++i) {
      own_[i].path = absl::StrCat(RootOf(name()), "/", client->number(), "-", i);
    }
  }

  void Step() override {
    TakeEvents();
    Topic& topic = own_[Below(kOwnTopics)];
    if (!topic.is_there) {
      const Line outcome = Perform(Create(topic.path, "0"));
      topic.is_there = outcome.what == What::kOk || outcome.error == "NodeExists";
    } else if (watched_.empty() || (watched_.size() < kWatchedMax && Chance(0.1))) {
      WatchAnother();
    } else if (SetAgain()) {
      return;
    } else if (Chance(0.25)) {
      // The read shows changes, whose events must have come before.
      const char* const node = Chance(0.5) ? "" : "/present";
      Perform(Get(absl::StrCat(RootOf(name()), "/", AnyWatched(), node), Chance(0.3)));
    } else if (Chance(1.0 / kStepsAServer)) {
      // The next server has to report what changes meanwhile.
      client()->Move(static_cast<int64_t>(Below(kAwayMsMax)));
    } else if (Chance(1.0 / kStepsASession)) {
      EndSession(&topic);
    } else {
      Change(&topic);
    }
  }

  bool Finish(int64_t until_ns) override {
    TakeEvents();
    std::vector<Line> reads;
    for (const auto& [topic, watched] : watched_) {
      reads.push_back(Get(absl::StrCat(RootOf(name()), "/", topic), true));
    }
    return PerformFinally(reads, until_ns);
  }

 private:
  static constexpr size_t kOwnTopics = 3;
  static constexpr size_t kWatchedMax = 6;
  static constexpr size_t kItemsMax = 3;
  static constexpr int kStepsASession = 250;
  static constexpr int kStepsAServer = 60;
  static constexpr size_t kAwayMsMax = 300;

  struct Topic {
    std::string path;
    bool is_there = false;
    int64_t count = 0;
    bool is_present = false;
    int64_t left_until_ns = 0;  // until then "present" is not changed
    std::set<std::string> items;
  };
  struct Watched {
    std::string kind;
    int64_t number = 0;  // 0: has to be set again
  };

  Nodes Shared() const override { return {}; }

  bool Lasts(const std::string& kind) const { return kind == "persistent" || kind == "recursive"; }

  void TakeEvents() {
    const std::vector<Line> events = client()->TakeEvents();
    if (HasNewSession()) return;
    for (const Line& event : events) {
      for (auto& [topic, watched] : watched_) {
        const bool is_its = event.what == What::kEvent && event.watch == watched.number;
        if (is_its && !Lasts(watched.kind)) watched.number = 0;
      }
    }
  }

  // Whether there is a new session. It has no watches yet.
  bool HasNewSession() {
    if (client()->sessions() == session_) return false;
    session_ = client()->sessions();
    watched_.clear();
    return true;
  }

  // Watches one more of the existing topics.
  void WatchAnother() {
    const Line topics = Perform(List(RootOf(name()), false));
    if (topics.children.empty()) return;
    const std::string& topic = topics.children[Below(topics.children.size())];
    // The native front end has only persistent watches.
    if (!watched_.contains(topic)) SetWatch(topic, is_native_ || Chance(0.5));
  }

  void SetWatch(const std::string& topic, bool lasts) {
    static constexpr const char* kLasting[] = {"persistent", "recursive"};
    static constexpr const char* kOnce[] = {"data", "exist", "children"};
    Line watch = Operation("watch", absl::StrCat(RootOf(name()), "/", topic));
    watch.kind = lasts ? kLasting[Below(std::size(kLasting))] : kOnce[Below(std::size(kOnce))];
    if (watch.kind == "exist") watch.path += "/present";
    const Line outcome = Perform(watch);
    HasNewSession();
    if (outcome.what == What::kOk) {
      watched_[topic] = {watch.kind, outcome.watch};
    } else if (watched_.contains(topic)) {
      watched_[topic].number = 0;
    }
  }

  // Sets one watch again whose event has come, perhaps with another kind; one-shot stays one-shot.
  bool SetAgain() {
    for (const auto& [topic, watched] : watched_) {
      if (watched.number != 0) continue;
      SetWatch(std::string(topic), Lasts(watched.kind));
      return true;
    }
    return false;
  }

  std::string AnyWatched() {
    return std::next(watched_.begin(), static_cast<ptrdiff_t>(Below(watched_.size())))->first;
  }

  // Ends the session; an ephemeral node goes with it, at once or by the timeout, and those who
  // watch the node have to receive the event.
  void EndSession(Topic* topic) {
    if (!topic->is_present) {
      Perform(Create(topic->path + "/present", absl::StrCat(++topic->count), "ephemeral"));
      topic->is_present = true;
    }
    topic->left_until_ns = NowNs() + 2 * client()->session_timeout_ms() * kNsInMs;
    // Not every front end can abandon a session.
    if (Chance(0.5) || !client()->AbandonSession(false)) client()->CloseSession();
  }

  void Change(Topic* topic) {
    const size_t dice = Below(100);
    const std::string data = absl::StrCat(++topic->count);
    if (dice < 60 || (dice < 80 && NowNs() < topic->left_until_ns)) {
      Perform(Set(topic->path, data));
    } else if (dice < 80) {
      const std::string present = topic->path + "/present";
      // The node may have gone with its session; the deletion is refused then.
      const char* const mode = Chance(0.5) ? "ephemeral" : "persistent";
      Perform(topic->is_present ? Operation("delete", present) : Create(present, data, mode));
      topic->is_present = !topic->is_present;
    } else if (topic->items.size() < kItemsMax) {
      const std::string item = absl::StrCat(topic->path, "/item-", data);
      if (Perform(Create(item, data)).what == What::kOk) topic->items.insert(item);
    } else {
      const std::string item = *topic->items.begin();
      if (Perform(Operation("delete", item)).what != What::kUnknown) topic->items.erase(item);
    }
  }

  const bool is_native_;
  Topic own_[kOwnTopics];

  int64_t session_ = 0;                     // the session to which the watches belong
  std::map<std::string, Watched> watched_;  // by topic name
};

}  // namespace

std::unique_ptr<Workload> MakeEphemeral(Client* client, uint64_t seed) {
  return std::make_unique<Ephemeral>(client, seed);
}
std::unique_ptr<Workload> MakeWatch(Client* client, uint64_t seed, bool is_native) {
  return std::make_unique<Watch>(client, seed, is_native);
}

}  // namespace quorate::chaos
