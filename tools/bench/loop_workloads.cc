// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/loop_workloads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/assert.h"
#include "base/strings.h"

namespace quorate::tools::bench {
namespace {

// In an open loop the number of outstanding requests is practically unlimited.
constexpr size_t kOpenLoopDepth = 10'000;
constexpr size_t kDigits = 7;
constexpr size_t kStatBytes = 68;
// The number of znodes in each large directory that populate creates.
constexpr uint32_t kLargeDirectoryNodes = 1000;

// Writes the digits of `number` to `to`, but only the first `room` digits if there are more.
void PutDigits(char* to, size_t room, uint32_t number) {
  char digits[kDigits];
  for (size_t i = kDigits; i > 0; --i, number /= 10) {
    digits[i - 1] = static_cast<char>('0' + number % 10);
  }
  std::memcpy(to, digits, std::min(room, kDigits));
}

// The paths and data of the keys, built without allocation. The data begins with the key's number,
// so that an answer to the wrong request is detected; data that populate has left lacks it.
class Keys {
 public:
  explicit Keys(const Options& options)
      : is_populated_(options.populated > 0),
        count_(is_populated_ ? options.populated : options.keys),
        path_(is_populated_ ? NumberedPath(NumberedPath(options.root, 'd', 0), 'n', 0)
                            : NumberedPath(options.root, 'k', 0)),
        directory_end_(path_.size() - kDigits - sizeof("/n") + 1),
        data_(options.data_bytes, 'x') {}

  uint32_t count() const { return count_; }
  std::string_view Path(uint32_t key) {
    PutDigits(path_.data() + path_.size() - kDigits, kDigits, key);
    if (is_populated_) {
      PutDigits(path_.data() + directory_end_ - kDigits, kDigits, key / kLargeDirectoryNodes);
    }
    return path_;
  }
  std::string_view Data(uint32_t key) {
    PutDigits(data_.data(), data_.size(), key);
    return data_;
  }
  bool IsDataOf(uint32_t key, std::string_view data) {
    const size_t tag = std::min(data.size(), kDigits);
    return data.size() == data_.size() &&
           (data.substr(0, tag) == Data(key).substr(0, tag) ||
            (is_populated_ && data.find_first_not_of('x') == std::string_view::npos));
  }

 private:
  const bool is_populated_;
  const uint32_t count_;
  std::string path_;
  const size_t directory_end_;  // end of the directory in the path, if the keys are in directories
  std::string data_;
};

std::vector<NodeToMake> AllKeys(const Options& options) {
  if (options.populated > 0) return {};
  std::vector<NodeToMake> nodes = {{options.root, ""}};
  Keys keys(options);
  for (uint32_t key = 0; key < options.keys; ++key) {
    nodes.push_back({std::string(keys.Path(key)), std::string(keys.Data(key))});
  }
  return nodes;
}

// Sends getData and setData of random keys.
class KeyWorkload : public LoopWorkload {
 public:
  KeyWorkload(const Options& options, Engine* engine, double read_share, bool open_loop)
      : LoopWorkload(options, engine, open_loop), read_share_(read_share), keys_(options) {}

  std::vector<std::string> series() const override {
    if (read_share_ <= 0) return {"setData"};
    if (read_share_ >= 1) return {"getData"};
    return {"getData", "setData"};
  }
  std::vector<NodeToMake> SetUp() const override { return AllKeys(options()); }

 protected:
  void Issue(Connection& connection, int64_t start_ns) override {
    constexpr uint32_t kParts = 1 << 20;
    const bool is_read = Random(kParts) < read_share_ * kParts;
    SendOne(connection, is_read ? kRead : kWrite, Random(keys_.count()), start_ns);
  }
  void Repeat(Connection& connection, const Request& request) override {
    SendOne(connection, request.kind, request.key, request.start_ns);
  }
  size_t SeriesOf(int32_t kind) const override { return kind == kWrite && read_share_ > 0 ? 1 : 0; }
  const char* Check(const Request& request, std::string_view body) override {
    if (request.kind == kWrite) return body.size() == kStatBytes ? nullptr : "wrong answer";
    BigEndianReader reader(body);
    const std::string_view data = wire::ReadBuffer(reader);
    const bool is_right = reader.rest().size() == kStatBytes && keys_.IsDataOf(request.key, data);
    return is_right ? nullptr : "wrong data";
  }

 private:
  enum Kind : int32_t { kRead, kWrite };

  void SendOne(Connection& connection, int32_t kind, uint32_t key, int64_t start_ns) {
    if (kind == kRead) {
      wire::RequestWriter to = engine().Send(connection, wire::kGetData, kind, key, start_ns);
      wire::WriteRead(keys_.Path(key), false, to.body());
    } else {
      wire::RequestWriter to = engine().Send(connection, wire::kSetData, kind, key, start_ns);
      wire::WriteSetData(keys_.Path(key), keys_.Data(key), -1, to.body());
    }
  }

  const double read_share_;
  Keys keys_;
};

// Sends transactions of setData.
class MultiWorkload : public LoopWorkload {
 public:
  MultiWorkload(const Options& options, Engine* engine)
      : LoopWorkload(options, engine, false), keys_(options) {}

  std::vector<std::string> series() const override { return {"multi"}; }
  std::vector<NodeToMake> SetUp() const override { return AllKeys(options()); }

 protected:
  void Issue(Connection& connection, int64_t start_ns) override {
    SendOne(connection, Random(keys_.count()), start_ns);
  }
  void Repeat(Connection& connection, const Request& request) override {
    SendOne(connection, request.key, request.start_ns);
  }
  const char* Check(const Request&, std::string_view body) override {
    BigEndianReader reader(body);
    const auto op = static_cast<wire::OpCode>(reader.Int<int32_t>());
    return op == wire::kSetData ? nullptr : "transaction refused";
  }

 private:
  void SendOne(Connection& connection, uint32_t first, int64_t start_ns) {
    wire::RequestWriter to = engine().Send(connection, wire::kMulti, 0, first, start_ns);
    for (uint32_t i = 0; i < options().multi_operations; ++i) {
      const uint32_t key = (first + i) % keys_.count();
      wire::WriteMultiHeader(wire::kSetData, to.body());
      wire::WriteSetData(keys_.Path(key), keys_.Data(key), -1, to.body());
    }
    wire::WriteMultiEnd(to.body());
  }

  Keys keys_;
};

class ChildrenWorkload : public LoopWorkload {
 public:
  ChildrenWorkload(const Options& options, Engine* engine)
      : LoopWorkload(options, engine, false), directory_(options.root + "/children") {}

  std::vector<std::string> series() const override { return {"getChildren"}; }
  std::vector<NodeToMake> SetUp() const override {
    std::vector<NodeToMake> nodes = {{options().root, ""}, {directory_, ""}};
    for (uint32_t i = 0; i < options().children; ++i) {
      nodes.push_back({NumberedPath(directory_, 'c', i), ""});
    }
    return nodes;
  }

 protected:
  void Issue(Connection& connection, int64_t start_ns) override {
    wire::RequestWriter to = engine().Send(connection, wire::kGetChildren, 0, 0, start_ns);
    wire::WriteRead(directory_, false, to.body());
  }
  void Repeat(Connection& connection, const Request& request) override {
    Issue(connection, request.start_ns);
  }
  const char* Check(const Request&, std::string_view body) override {
    BigEndianReader reader(body);
    return reader.Int<uint32_t>() == options().children ? nullptr : "wrong number of children";
  }

 private:
  const std::string directory_;
};

// Creates and deletes ephemeral sequential znodes; both requests count as operations.
class EphemeralWorkload : public LoopWorkload {
 public:
  EphemeralWorkload(const Options& options, Engine* engine)
      : LoopWorkload(options, engine, false),
        directory_(options.root + "/ephemeral"),
        data_(options.data_bytes, 'x') {}

  std::vector<std::string> series() const override { return {"create", "delete"}; }
  std::vector<NodeToMake> SetUp() const override {
    return {{options().root, ""}, {directory_, ""}};
  }

 protected:
  void Issue(Connection& connection, int64_t start_ns) override {
    wire::RequestWriter to = engine().Send(connection, wire::kCreate, kCreate, 0, start_ns);
    wire::WriteCreate(directory_ + "/e-", data_, tree::CreateMode::kEphemeralSequential, to.body());
  }
  // Znodes that are not deleted yet are deleted with the session.
  bool MayRepeat() const override { return false; }
  void Repeat(Connection&, const Request&) override {}
  size_t SeriesOf(int32_t kind) const override { return static_cast<size_t>(kind); }
  bool Continue(Connection& connection, const Request& request, std::string_view body,
                int64_t now_ns) override {
    if (request.kind == kDelete) return false;
    BigEndianReader reader(body);
    wire::RequestWriter to = engine().Send(connection, wire::kDelete, kDelete, 0, now_ns);
    wire::WriteDelete(wire::ReadBuffer(reader), -1, to.body());
    return true;
  }

 private:
  enum Kind : int32_t { kCreate, kDelete };

  const std::string directory_;
  const std::string data_;
};

// Creates a tree of a given shape. Related znodes form a group, which one connection creates alone
// and in order, so that a child is never sent before its parent.
class PopulateWorkload : public LoopWorkload {
 public:
  PopulateWorkload(const Options& options, Engine* engine)
      : LoopWorkload(options, engine, false),
        shape_(options.shape),
        group_nodes_(shape_ == Shape::kChains || shape_ == Shape::kDirectories ? kGroupNodes : 1),
        data_(options.data_bytes, 'x'),
        groups_(options.connections) {}

  std::vector<std::string> series() const override { return {"create"}; }
  std::vector<NodeToMake> SetUp() const override {
    std::vector<NodeToMake> nodes = {{options().root, ""}};
    if (shape_ != Shape::kLargeDirectories) return nodes;
    for (uint32_t i = 0; i * kLargeDirectoryNodes < options().count; ++i) {
      nodes.push_back({Child(options().root, 'd', i), ""});
    }
    return nodes;
  }
  bool is_exhausted() const override {
    const auto is_done = [](const Group& group) { return group.next == group.end; };
    return next_ == options().count && std::all_of(groups_.begin(), groups_.end(), is_done) &&
           HasStopped();
  }

 protected:
  void Issue(Connection& connection, int64_t start_ns) override {
    Group& group = groups_[connection.number()];
    if (group.next == group.end) {
      group.next = next_;
      next_ = group.end = std::min(next_ + group_nodes_, options().count);
    }
    if (group.next < group.end) SendOne(connection, group.next++, start_ns);
  }
  // If the znode exists when the request is sent again, the first request has created it.
  void Repeat(Connection& connection, const Request& request) override {
    repeated_.push_back(request.key);
    SendOne(connection, request.key, request.start_ns);
  }
  void OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                std::string_view body, int64_t now_ns) override {
    if (error == tree::ErrorCode::kNodeExists && std::erase(repeated_, request.key) > 0) {
      error = tree::ErrorCode::kOk;
    }
    LoopWorkload::OnAnswer(connection, request, error, body, now_ns);
  }

 private:
  // The number of znodes in a chain, or in a directory with its parent.
  static constexpr uint32_t kGroupNodes = 20;

  // The numbers of the znodes that a connection still has to create.
  struct Group {
    uint32_t next = 0;
    uint32_t end = 0;
  };

  std::string Child(std::string_view parent, char letter, uint32_t number) const {
    return absl::StrFormat("%s/%c%0*d", ToAbsl(parent), letter,
                           static_cast<int>(options().name_bytes) - 1, number);
  }

  std::string PathOf(uint32_t number) const {
    const std::string& root = options().root;
    const uint32_t group = number / kGroupNodes;
    const uint32_t place = number % kGroupNodes;
    switch (shape_) {
      case Shape::kFlat:
        return Child(root, 'n', number);
      case Shape::kLargeDirectories:
        return Child(Child(root, 'd', number / kLargeDirectoryNodes), 'n', number);
      case Shape::kDirectories: {
        const std::string directory = Child(root, 'd', group);
        return place == 0 ? directory : Child(directory, 'n', place);
      }
      case Shape::kChains: {
        std::string path = Child(root, 'c', group);
        for (uint32_t depth = 1; depth <= place; ++depth) path = Child(path, 'n', depth);
        return path;
      }
    }
    ASSERT(false, "there are no other shapes");
  }

  void SendOne(Connection& connection, uint32_t number, int64_t start_ns) {
    wire::RequestWriter to = engine().Send(connection, wire::kCreate, 0, number, start_ns);
    wire::WriteCreate(PathOf(number), data_, tree::CreateMode::kPersistent, to.body());
  }

  const Shape shape_;
  const uint32_t group_nodes_;
  const std::string data_;
  uint32_t next_ = 0;  // the first number that is in no connection's group yet
  std::vector<Group> groups_;
  std::vector<uint32_t> repeated_;
};

}  // namespace

LoopWorkload::LoopWorkload(const Options& options, Engine* engine, bool open_loop)
    : Workload(options, engine),
      open_loop_(open_loop),
      depth_(open_loop ? kOpenLoopDepth : options.depth),
      interval_ns_(static_cast<double>(kNsInSecond) / options.rate),
      states_(options.connections) {}

int64_t LoopWorkload::DueNs(uint64_t number) const {
  return start_ns_ + static_cast<int64_t>(static_cast<double>(number) * interval_ns_);
}

void LoopWorkload::OnStart(int64_t now_ns) {
  start_ns_ = now_ns;
  due_ = 0;
  for (State& state : states_) state.due = state.issued = 0;
  for (const auto& connection : connections()) Fill(*connection, now_ns);
}

bool LoopWorkload::HasStopped() const {
  for (const auto& connection : connections()) {
    const State& state = states_[connection->number()];
    if (connection->pending() > 0 || !state.again.empty()) return false;
    if (open_loop_ && state.issued < state.due) return false;
  }
  return true;
}

void LoopWorkload::OnUp(Connection& connection, int64_t now_ns) {
  Workload::OnUp(connection, now_ns);
  std::deque<Request> again;
  again.swap(states_[connection.number()].again);
  for (const Request& request : again) Repeat(connection, request);
  Fill(connection, now_ns);
}

void LoopWorkload::OnLost(Connection& connection, const Request& request, int64_t now_ns) {
  if (request.kind >= 0 && MayRepeat()) {
    states_[connection.number()].again.push_back(request);
  } else {
    Workload::OnLost(connection, request, now_ns);
  }
}

void LoopWorkload::OnTurn(int64_t now_ns) {
  if (!open_loop_ || !is_running()) return;
  for (; DueNs(due_) <= now_ns; ++due_) {
    const size_t number = due_ % states_.size();
    ++states_[number].due;
    Fill(*connections()[number], now_ns);
  }
}

int64_t LoopWorkload::NextTurnNs(int64_t) const {
  return open_loop_ && is_running() ? DueNs(due_) : INT64_MAX;
}

void LoopWorkload::Fill(Connection& connection, int64_t now_ns) {
  if (!connection.is_up()) return;
  State& state = states_[connection.number()];
  if (open_loop_) {
    for (; state.issued < state.due && connection.pending() < depth_; ++state.issued) {
      Issue(connection, DueNs(state.issued * states_.size() + connection.number()));
    }
    return;
  }
  if (!is_running()) return;
  for (size_t i = connection.pending(); i < depth_; ++i) Issue(connection, now_ns);
}

void LoopWorkload::OnAnswer(Connection& connection, const Request& request, tree::ErrorCode error,
                            std::string_view body, int64_t now_ns) {
  if (error != tree::ErrorCode::kOk) {
    Fail(error);
  } else if (const char* wrong = Check(request, body); wrong != nullptr) {
    Fail(wrong);
  } else {
    slice().Record(SeriesOf(request.kind), request.start_ns, now_ns);
    slice().Count(now_ns);
    if (Continue(connection, request, body, now_ns)) return;
  }
  Fill(connection, now_ns);
}

std::unique_ptr<Workload> MakeLoopWorkload(const std::string& name, const Options& options,
                                           Engine* engine) {
  const auto share = [&options](double usual) {
    return options.read_share < 0 ? usual : options.read_share;
  };
  if (name == "write") return std::make_unique<KeyWorkload>(options, engine, 0, false);
  if (name == "read") return std::make_unique<KeyWorkload>(options, engine, 1, false);
  if (name == "mix") return std::make_unique<KeyWorkload>(options, engine, share(0.9), false);
  if (name == "open-loop") return std::make_unique<KeyWorkload>(options, engine, share(0.5), true);
  if (name == "failover") return std::make_unique<KeyWorkload>(options, engine, 0, true);
  if (name == "multi") return std::make_unique<MultiWorkload>(options, engine);
  if (name == "children") return std::make_unique<ChildrenWorkload>(options, engine);
  if (name == "ephemeral") return std::make_unique<EphemeralWorkload>(options, engine);
  if (name == "populate") return std::make_unique<PopulateWorkload>(options, engine);
  return nullptr;
}

}  // namespace quorate::tools::bench
