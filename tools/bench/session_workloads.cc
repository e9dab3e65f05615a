// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/session_workloads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::tools::bench {
namespace {

// Opens and closes sessions. An operation is the opening and the closing of one session.
class ConnectWorkload : public Workload {
 public:
  using Workload::Workload;

  std::vector<std::string> series() const override { return {"open", "close"}; }
  std::vector<NodeToMake> SetUp() const override { return {}; }
  bool parked() const override { return true; }
  bool HasStopped() const override { return open_ == 0; }

  void OnUp(Connection& connection, int64_t now_ns) override {
    slice().Record(0, connection.connect_start_ns(), now_ns);
    close_start_ns_[connection.number()] = now_ns;
    engine().Close(connection);
  }
  void OnClosed(Connection& connection, int64_t now_ns) override {
    slice().Record(1, close_start_ns_[connection.number()], now_ns);
    slice().Count(now_ns);
    if (is_running()) {
      engine().Connect(connection);
    } else {
      --open_;
    }
  }

 protected:
  void OnStart(int64_t) override {
    close_start_ns_.resize(connections().size());
    for (const auto& connection : connections()) engine().Connect(*connection);
    open_ = connections().size();
  }
  void OnAnswer(Connection&, const Request&, tree::ErrorCode, std::string_view, int64_t) override {}

 private:
  size_t open_ = 0;
  std::vector<int64_t> close_start_ns_;
};

// Keeps idle sessions. An operation is one session that is kept for a second.
class IdleWorkload : public Workload {
 public:
  using Workload::Workload;

  std::vector<std::string> series() const override { return {"nothing"}; }
  std::vector<NodeToMake> SetUp() const override { return {}; }
  bool HasStopped() const override { return true; }

  void OnTurn(int64_t now_ns) override {
    if (!is_running()) return;
    const double seconds = static_cast<double>(now_ns - start_ns_) / kNsInSecond;
    const auto kept = static_cast<uint64_t>(seconds * static_cast<double>(connections().size()));
    for (; counted_ < kept; ++counted_) slice().Count(now_ns);
  }
  int64_t NextTurnNs(int64_t now_ns) const override {
    return is_running() ? now_ns + kTurnNs : INT64_MAX;
  }

 protected:
  void OnStart(int64_t now_ns) override {
    start_ns_ = now_ns;
    counted_ = 0;
  }
  void OnAnswer(Connection&, const Request&, tree::ErrorCode, std::string_view, int64_t) override {}

 private:
  static constexpr int64_t kTurnNs = 20 * kNsInMs;

  int64_t start_ns_ = 0;
  uint64_t counted_ = 0;
};

// Measures rounds: all watchers read and watch a znode, and another session writes it. The next
// round begins when each watcher has its event and the writer has its answer.
class WatchWorkload : public Workload {
 public:
  WatchWorkload(const Options& options, Engine* engine)
      : Workload(options, engine),
        path_(options.root + "/watched"),
        data_(options.data_bytes, 'x'),
        states_(options.watchers, State::kIdle) {}

  std::vector<std::string> series() const override {
    return {"write to last event", "write to each event", "write to answer", "round"};
  }
  std::vector<NodeToMake> SetUp() const override { return {{options().root, ""}, {path_, data_}}; }
  size_t connection_count() const override { return options().watchers + 1; }
  bool HasStopped() const override { return phase_ == Phase::kIdle; }

  void OnUp(Connection& connection, int64_t now_ns) override {
    Workload::OnUp(connection, now_ns);
    // A watch does not survive its connection, so it is set again.
    if (phase_ == Phase::kIdle || IsWriter(connection)) return;
    if (states_[connection.number()] != State::kNotified) Arm(connection, now_ns);
  }
  void OnLost(Connection& connection, const Request& request, int64_t now_ns) override {
    Workload::OnLost(connection, request, now_ns);
    if (IsWriter(connection) && request.kind == kWrite) write_lost_ = true;
  }
  void OnEvent(Connection& connection, std::string_view path, int64_t now_ns) override {
    if (path != path_ || IsWriter(connection)) return;
    State& state = states_[connection.number()];
    if (phase_ != Phase::kNotifying || state != State::kArmed) return Fail("unexpected event");
    state = State::kNotified;
    ++notified_;
    slice().Record(1, write_ns_, now_ns);
    slice().Count(now_ns);
    last_event_ns_ = now_ns;
    EndRoundIfDone(now_ns);
  }
  void OnTurn(int64_t now_ns) override {
    if (write_lost_ && Writer().is_up()) {
      write_lost_ = false;
      Write(now_ns);
    }
  }

 protected:
  void OnStart(int64_t now_ns) override { BeginRound(now_ns); }
  void OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                std::string_view, int64_t now_ns) override {
    if (error != tree::ErrorCode::kOk) Fail(error);
    if (request.kind == kWrite) {
      slice().Record(2, write_ns_, now_ns);
      is_answered_ = true;
      return EndRoundIfDone(now_ns);
    }
    State& state = states_[connection.number()];
    if (state == State::kNotified) return;
    if (phase_ == Phase::kNotifying) {
      // The watch was set again on another connection after the write: the event may have been
      // missed.
      state = State::kNotified;
      ++notified_;
      return EndRoundIfDone(now_ns);
    }
    if (state != State::kArmed) ++armed_;
    state = State::kArmed;
    if (phase_ == Phase::kArming && armed_ == states_.size()) {
      if (Writer().is_up()) {
        Write(now_ns);
      } else {
        write_lost_ = true;
      }
    }
  }

 private:
  enum class Phase { kIdle, kArming, kNotifying };
  enum class State : uint8_t { kIdle, kArmed, kNotified };
  enum Kind : int32_t { kArm, kWrite };

  bool IsWriter(const Connection& connection) const {
    return connection.number() == states_.size();
  }
  Connection& Writer() { return *connections()[states_.size()]; }

  void BeginRound(int64_t now_ns) {
    phase_ = Phase::kArming;
    round_ns_ = now_ns;
    armed_ = notified_ = 0;
    is_answered_ = false;
    std::fill(states_.begin(), states_.end(), State::kIdle);
    for (size_t i = 0; i < states_.size(); ++i) Arm(*connections()[i], now_ns);
  }
  void Arm(Connection& connection, int64_t now_ns) {
    if (!connection.is_up()) return;
    wire::RequestWriter to = engine().Send(connection, wire::kGetData, kArm, 0, now_ns);
    wire::WriteRead(path_, true, to.body());
  }
  void Write(int64_t now_ns) {
    phase_ = Phase::kNotifying;
    write_ns_ = now_ns;
    wire::RequestWriter to = engine().Send(Writer(), wire::kSetData, kWrite, 0, now_ns);
    wire::WriteSetData(path_, data_, -1, to.body());
  }
  void EndRoundIfDone(int64_t now_ns) {
    if (notified_ < states_.size() || !is_answered_) return;
    slice().Record(0, write_ns_, last_event_ns_);
    slice().Record(3, round_ns_, now_ns);
    phase_ = Phase::kIdle;
    if (is_running()) BeginRound(now_ns);
  }

  const std::string path_;
  const std::string data_;
  Phase phase_ = Phase::kIdle;
  std::vector<State> states_;
  size_t armed_ = 0;
  size_t notified_ = 0;
  bool is_answered_ = false;
  bool write_lost_ = false;
  int64_t round_ns_ = 0;
  int64_t write_ns_ = 0;
  int64_t last_event_ns_ = 0;
};

// Passes a lock on by the usual recipe. Each contender creates an ephemeral sequential znode and
// lists all of them. It holds the lock if its own znode is the first, and otherwise waits for the
// deletion of the znode before its own. A holder releases the lock at once and requests it again.
class LockWorkload : public Workload {
 public:
  LockWorkload(const Options& options, Engine* engine)
      : Workload(options, engine),
        directory_(options.root + "/lock"),
        contenders_(options.connections) {}

  std::vector<std::string> series() const override { return {"hand-over", "wait"}; }
  std::vector<NodeToMake> SetUp() const override {
    return {{options().root, ""}, {directory_, ""}};
  }
  bool HasStopped() const override {
    return std::all_of(contenders_.begin(), contenders_.end(),
                       [](const Contender& contender) { return contender.step == Step::kIdle; });
  }

  void OnUp(Connection& connection, int64_t now_ns) override {
    Workload::OnUp(connection, now_ns);
    // The session may have been resumed. Then its znode is in the list.
    if (At(connection).step != Step::kIdle) List(connection, now_ns);
  }
  void OnEvent(Connection& connection, std::string_view path, int64_t now_ns) override {
    Contender& contender = At(connection);
    if (path != contender.watched) return;
    contender.watched.clear();
    if (contender.step == Step::kWaiting) List(connection, now_ns);
  }

 protected:
  void OnStart(int64_t now_ns) override {
    released_ns_ = 0;
    for (const auto& connection : connections()) Ask(*connection, now_ns);
  }
  void OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                std::string_view body, int64_t now_ns) override {
    Contender& contender = At(connection);
    const bool is_gone = error == tree::ErrorCode::kNoNode;
    if (error != tree::ErrorCode::kOk && !(is_gone && request.kind != kList)) {
      Fail(error);
      return List(connection, now_ns);
    }
    BigEndianReader reader(body);
    switch (request.kind) {
      case kCreate:
        contender.node = wire::ReadBuffer(reader).substr(directory_.size() + 1);
        return List(connection, now_ns);
      case kList:
        return Look(connection, reader, now_ns);
      case kExists:
        // The znode before this contender's was deleted before the watch was set.
        if (is_gone && contender.step == Step::kWaiting) List(connection, now_ns);
        return;
      default:  // kDelete
        contender.node.clear();
        contender.step = Step::kIdle;
        if (is_running()) Ask(connection, now_ns);
    }
  }

 private:
  enum class Step { kIdle, kAsking, kWaiting, kReleasing };
  enum Kind : int32_t { kCreate, kList, kExists, kDelete };
  struct Contender {
    Step step = Step::kIdle;
    std::string node;     // the name of its znode in the directory; empty: not known to exist
    std::string watched;  // the path of the znode before it
    int64_t asked_ns = 0;
  };

  Contender& At(const Connection& connection) { return contenders_[connection.number()]; }
  // Returns the digits that the server has appended to the name.
  static std::string_view SequenceOf(std::string_view name) {
    constexpr size_t kSequenceDigits = 10;
    return name.size() < kSequenceDigits ? name : name.substr(name.size() - kSequenceDigits);
  }
  // Returns the prefix of a contender's names, by which a znode is found whose creation was not
  // answered.
  static std::string PrefixOf(const Connection& connection) {
    return absl::StrCat("c", connection.number(), "-");
  }

  void Ask(Connection& connection, int64_t now_ns) {
    Contender& contender = At(connection);
    contender.step = Step::kAsking;
    contender.asked_ns = now_ns;
    if (!connection.is_up()) return;
    wire::RequestWriter to = engine().Send(connection, wire::kCreate, kCreate, 0, now_ns);
    wire::WriteCreate(absl::StrCat(directory_, "/", PrefixOf(connection)), "",
                      tree::CreateMode::kEphemeralSequential, to.body());
  }
  void List(Connection& connection, int64_t now_ns) {
    At(connection).step = Step::kAsking;
    if (!connection.is_up()) return;
    wire::RequestWriter to = engine().Send(connection, wire::kGetChildren, kList, 0, now_ns);
    wire::WriteRead(directory_, false, to.body());
  }
  void Look(Connection& connection, BigEndianReader& reader, int64_t now_ns) {
    Contender& contender = At(connection);
    const std::string prefix = PrefixOf(connection);
    std::string_view own;
    std::vector<std::string_view> names(std::min<size_t>(reader.Int<uint32_t>(), 1 << 20));
    for (std::string_view& name : names) {
      name = wire::ReadBuffer(reader);
      if (name.substr(0, prefix.size()) == prefix) own = name;
    }
    if (own.empty()) return Ask(connection, now_ns);
    contender.node = own;
    std::string_view before;
    for (const std::string_view name : names) {
      if (SequenceOf(name) < SequenceOf(own) && SequenceOf(name) > SequenceOf(before))
        before = name;
    }
    if (before.empty()) return Hold(connection, now_ns);
    contender.step = Step::kWaiting;
    contender.watched = absl::StrCat(directory_, "/", std::string(before));
    wire::RequestWriter to = engine().Send(connection, wire::kExists, kExists, 0, now_ns);
    wire::WriteRead(contender.watched, true, to.body());
  }
  void Hold(Connection& connection, int64_t now_ns) {
    Contender& contender = At(connection);
    // The lock is granted in the order of the numbers; otherwise two contenders held it at the same
    // time.
    const std::string sequence(SequenceOf(contender.node));
    if (sequence < granted_) Fail("lock held twice");
    granted_ = sequence;
    if (released_ns_ != 0) slice().Record(0, released_ns_, now_ns);
    slice().Record(1, contender.asked_ns, now_ns);
    slice().Count(now_ns);
    contender.step = Step::kReleasing;
    released_ns_ = now_ns;
    wire::RequestWriter to = engine().Send(connection, wire::kDelete, kDelete, 0, now_ns);
    wire::WriteDelete(absl::StrCat(directory_, "/", contender.node), -1, to.body());
  }

  const std::string directory_;
  std::vector<Contender> contenders_;
  std::string granted_;
  int64_t released_ns_ = 0;
};

}  // namespace

std::unique_ptr<Workload> MakeSessionWorkload(const std::string& name, const Options& options,
                                              Engine* engine) {
  if (name == "connect") return std::make_unique<ConnectWorkload>(options, engine);
  if (name == "idle") return std::make_unique<IdleWorkload>(options, engine);
  if (name == "watch") return std::make_unique<WatchWorkload>(options, engine);
  if (name == "lock") return std::make_unique<LockWorkload>(options, engine);
  return nullptr;
}

}  // namespace quorate::tools::bench
