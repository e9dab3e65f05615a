// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/clients/fake_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "tree/watch_table.h"

namespace quorate::simulation {
namespace {

namespace zk = rpc::zk;
using tree::ErrorCode;
using tree::EventType;

constexpr int64_t kMsToUs = 1000;
constexpr int64_t kNetworkUs = 400;
constexpr int64_t kExpiryPeriodUs = 50 * kMsToUs;
constexpr int32_t kTimeoutMsMin = 1000;
constexpr int32_t kTimeoutMsMax = 8000;

}  // namespace

struct FakeCluster::Connection {
  struct Pending {
    int32_t xid = 0;
    zk::OpCode op = zk::OpCode::kPing;
    std::string body;
    std::vector<zk::OpCode> shapes;
    bool in_flight = false;
    bool answered_falsely = false;
    std::optional<std::string> early_reply;
    size_t sync_target = 0;
    bool syncing = false;
  };

  ConnectionId id = 0;
  size_t member = 0;
  ConnectionHandler* handler = nullptr;
  bool open = true;          // at the server
  bool client_left = false;  // nothing more is delivered to it
  bool up = false;
  bool connecting = false;
  zk::ConnectRequest connect;
  int64_t session = 0;
  tree::Zxid attach_zxid;
  std::vector<tree::Identity> identities;
  std::string in;
  std::string out;
  std::string late_event;
  bool close_when_sent = false;
  int64_t last_delivery_us = 0;
  std::deque<Pending> pipeline;
};

// One server. Its connections are known by their ids, which serve as proposer tags.
class FakeCluster::Member : public tree::ApplyListener {
 public:
  Member(FakeCluster* cluster, size_t number) : cluster_(cluster), number_(number) {}

  const tree::Tree& tree() const { return tree_; }
  size_t applied() const { return static_cast<size_t>(tree_.last_zxid().value()); }
  uint64_t NextSequence() { return ++sequence_; }
  tree::Proposer proposer() const { return {static_cast<uint16_t>(number_ + 1), 1}; }

  void Apply(const consensus::Entry& entry) {
    const tree::Zxid zxid(static_cast<int64_t>(entry.index.value()));
    if (entry.kind != consensus::EntryKind::kCommand || cluster_->Lies(Lie::kTwoTrees)) {
      tree_.Skip(zxid);
    } else {
      tree_.Apply(zxid, entry.payload.view(), proposer(), this);
    }
    for (auto& [id, connection] : MyConnections()) {
      StartMore(*connection);
      cluster_->Deliver(connection);
    }
  }

  void OnBytes(const std::shared_ptr<Connection>& connection, std::string_view bytes) {
    connection->in.append(bytes);
    while (connection->open && !connection->connecting && connection->in.size() >= 4) {
      const auto length =
          static_cast<size_t>(LoadInt<std::endian::big, int32_t>(connection->in.data()));
      if (connection->in.size() < 4 + length) break;
      const std::string packet = connection->in.substr(4, length);
      connection->in.erase(0, 4 + length);
      if (connection->up) {
        cluster_->Heard(connection->session);
        OnRequest(*connection, packet);
      } else {
        OnHandshake(connection, packet);
      }
    }
    if (connection->open) cluster_->Deliver(connection);
  }

  void Forget(ConnectionId id) { watches_.RemoveWatcher(id); }

 private:
  std::map<ConnectionId, std::shared_ptr<Connection>> MyConnections() const {
    std::map<ConnectionId, std::shared_ptr<Connection>> mine;
    for (const auto& [id, connection] : cluster_->connections_) {
      if (connection->member == number_) mine.emplace(id, connection);
    }
    return mine;
  }
  Connection* Find(ConnectionId id) const {
    const auto found = cluster_->connections_.find(id);
    return found == cluster_->connections_.end() ? nullptr : found->second.get();
  }

  tree::CommandHeader Header(const Connection& connection, tree::CommandKind kind) const {
    tree::CommandHeader header;
    header.kind = kind;
    header.proposer = proposer();
    header.proposer_tag = static_cast<uint32_t>(connection.id);
    header.session = tree::SessionId(connection.session);
    header.attach_zxid = connection.attach_zxid;
    return header;
  }

  // --- Requests ----------------------------------------------------------------------------------

  void OnHandshake(const std::shared_ptr<Connection>& connection, std::string_view packet) {
    connection->connect = zk::DecodeConnectRequest(packet).value();
    const zk::ConnectRequest& request = connection->connect;
    if (request.last_zxid_seen > tree_.last_zxid().value()) {
      cluster_->Break(connection);
      return;
    }
    if (request.session_id != 0 && cluster_->Lies(Lie::kRefused)) {
      zk::ConnectResponse response;
      response.has_read_only = request.has_read_only;
      zk::AppendConnectResponse(response, &connection->out);
      connection->close_when_sent = true;
      return;
    }
    connection->connecting = true;
    const int32_t timeout_ms = std::clamp(request.timeout_ms, kTimeoutMsMin, kTimeoutMsMax);
    std::string command;
    if (request.session_id == 0) {
      connection->session = cluster_->next_session_++;
      connection->connect.password = std::string(16, static_cast<char>(connection->session));
      tree::AppendCreateSession(Header(*connection, tree::CommandKind::kCreateSession), timeout_ms,
                                connection->connect.password, &command);
    } else {
      connection->session = request.session_id;
      tree::AppendAttachSession(Header(*connection, tree::CommandKind::kAttachSession), timeout_ms,
                                connection->connect.password, &command);
    }
    cluster_->Submit(number_, std::move(command));
  }

  void OnRequest(Connection& connection, std::string_view packet) {
    BigEndianReader reader(packet);
    Connection::Pending pending;
    pending.xid = reader.Int<int32_t>();
    pending.op = static_cast<zk::OpCode>(reader.Int<int32_t>());
    pending.body = reader.rest();
    if (pending.op == zk::OpCode::kPing) {
      const int64_t back = cluster_->Lies(Lie::kOldZxid) ? 100 : 0;
      zk::ReplyWriter(&connection.out, zk::kPingXid, tree_.last_zxid() - back, ErrorCode::kOk);
    } else if (pending.op == zk::OpCode::kAuth) {
      zk::AuthRequest request;
      ASSERT(zk::DecodeAuthRequest(pending.body, &request));
      const std::string_view user = request.credentials.substr(0, request.credentials.find(':'));
      connection.identities.push_back({"digest", std::string(user) + ":hash"});
      zk::ReplyWriter(&connection.out, pending.xid, tree::Zxid(0), ErrorCode::kOk);
    } else {
      connection.pipeline.push_back(std::move(pending));
      StartMore(connection);
    }
  }

  static bool IsLogged(zk::OpCode op) { return zk::IsWrite(op) || op == zk::OpCode::kCloseSession; }

  void StartMore(Connection& connection) {
    if (!connection.up) return;
    auto& pipeline = connection.pipeline;
    for (size_t i = 0; i < pipeline.size() && connection.open; ++i) {
      Connection::Pending& pending = pipeline[i];
      if (pending.in_flight) continue;
      if (IsLogged(pending.op)) {
        StartWrite(connection, i);
      } else if (i == 0) {
        if (!Answer(connection, pending)) return;
        pipeline.pop_front();
        --i;
      } else {
        if (zk::OpCode::kSync != pending.op && !pending.early_reply &&
            cluster_->Lies(Lie::kEarlyRead)) {
          std::string kept = std::exchange(connection.out, "");
          Answer(connection, pending);
          pending.early_reply = std::exchange(connection.out, kept);
        }
        return;
      }
    }
  }

  void StartWrite(Connection& connection, size_t at) {
    Connection::Pending& pending = connection.pipeline[at];
    pending.in_flight = true;
    if (pending.op == zk::OpCode::kCloseSession) {
      std::string command;
      tree::AppendCloseSession(Header(connection, tree::CommandKind::kCloseSession), &command);
      cluster_->Submit(number_, std::move(command));
      return;
    }
    tree::Request request;
    ASSERT(zk::DecodeWrite(pending.op, pending.body, &request, &pending.shapes) == ErrorCode::kOk);
    request.identities = connection.identities;
    if (pending.op == zk::OpCode::kSetData && at == 0 && cluster_->Lies(Lie::kLostWrite)) {
      zk::ReplyWriter reply(&connection.out, pending.xid, tree_.last_zxid(), ErrorCode::kOk);
      zk::WriteStat(tree::Stat(), reply.body());
      pending.answered_falsely = true;
      return;
    }
    tree::Request sent = request;
    if (request.multi && request.ops.size() > 1 && cluster_->Lies(Lie::kHalfMulti)) {
      sent.ops.pop_back();
    }
    std::string command;
    tree::AppendRequest(Header(connection, tree::CommandKind::kRequest), sent, &command);
    if (held_ && held_->first == connection.id) {
      cluster_->Submit(number_, std::move(command));
      cluster_->Submit(number_, std::exchange(held_, std::nullopt)->second);
      return;
    }
    // Only if there is another write to swap with.
    if (!held_ && at + 1 < connection.pipeline.size() &&
        zk::IsWrite(connection.pipeline[at + 1].op) &&
        connection.pipeline[at + 1].body != pending.body && cluster_->Lies(Lie::kSwappedWrites)) {
      held_ = {connection.id, std::move(command)};
      return;
    }
    const bool twice = cluster_->Lies(Lie::kWriteTwice);
    if (twice) cluster_->Submit(number_, command);
    cluster_->Submit(number_, std::move(command));
  }

  // Returns false if the request cannot be answered yet.
  bool Answer(Connection& connection, Connection::Pending& pending) {
    if (pending.early_reply) {
      connection.out += *pending.early_reply;
      return true;
    }
    if (pending.op == zk::OpCode::kSync) return AnswerSync(connection, pending);
    if (pending.op == zk::OpCode::kSetWatches) {
      AnswerSetWatches(connection, pending);
      return true;
    }
    if (zk::IsOfKeeper(pending.op)) {
      AnswerKeeper(connection, pending);
      return true;
    }
    zk::ReadRequest request;
    ASSERT(zk::DecodeReadRequest(pending.body, true, &request));
    if (request.path == "/keeper/feature_flags") {
      AnswerKeeperFlags(connection, pending);
      return true;
    }
    std::string reply;
    const bool children =
        pending.op == zk::OpCode::kGetChildren || pending.op == zk::OpCode::kGetChildren2;
    const ErrorCode error =
        children ? ReadChildren(pending, request, &reply) : ReadNode(pending, request, &reply);
    const bool found = error == ErrorCode::kOk;
    if (request.watch && (found || pending.op == zk::OpCode::kExists)) {
      watches_.Add(connection.id, request.path,
                   children ? tree::WatchKind::kChild : tree::WatchKind::kData);
    }
    connection.out += reply;
    connection.out += std::exchange(connection.late_event, "");
    return true;
  }

  // --- The reads of ClickHouse Keeper ------------------------------------------------------------

  void AnswerKeeperFlags(Connection& connection, const Connection::Pending& pending) {
    zk::ReplyWriter reply(&connection.out, pending.xid, tree_.last_zxid(), ErrorCode::kOk);
    std::string flags = "\xfb\xe0";
    if (cluster_->Lies(Lie::kWrongFlags)) flags.back() ^= 0x20;
    zk::WriteData(true, flags, reply.body());
    tree::Stat stat;
    stat.data_length = static_cast<int32_t>(flags.size());
    zk::WriteStat(stat, reply.body());
  }

  void AnswerKeeper(Connection& connection, const Connection::Pending& pending) {
    if (pending.op == zk::OpCode::kListRecursive) return ListRecursive(connection, pending);
    zk::FilteredListRequest request;
    ASSERT(zk::DecodeFilteredList(pending.op, pending.body, &request));
    tree::Stat stat;
    std::vector<std::string> names;
    const std::string path(request.path);
    const ErrorCode error = ListNames(path, &names, &stat);
    zk::ReplyWriter reply(&connection.out, pending.xid, tree_.last_zxid(), error);
    if (error != ErrorCode::kOk) return;
    if (request.watch) watches_.Add(connection.id, path, tree::WatchKind::kChild);
    struct Child {
      std::string name;
      tree::Stat stat;
      bool has_data = false;
      std::string data;
    };
    std::vector<Child> children;
    for (const std::string& name : names) {
      Child child{name, {}, false, {}};
      std::string_view data;
      tree_.GetData((path == "/" ? "" : path) + "/" + name, {}, &data, &child.has_data,
                    &child.stat);
      child.data = data;
      const bool is_ephemeral = child.stat.ephemeral_owner != tree::kNoSession;
      const bool is_listed = request.details.kind == rpc::ChildKind::kAll ||
                             is_ephemeral == (request.details.kind == rpc::ChildKind::kEphemeral);
      if (is_listed || cluster_->Lies(Lie::kWrongKind)) children.push_back(std::move(child));
    }
    BigEndianWriter& to = reply.body();
    to.Int(static_cast<int32_t>(children.size()));
    for (const Child& child : children) to.String(child.name);
    zk::WriteStat(stat, to);
    if (pending.op != zk::OpCode::kFilteredListDetailed) return;
    to.Int(static_cast<int32_t>(request.details.has_stats ? children.size() : 0));
    for (const Child& child : children) {
      if (request.details.has_stats) zk::WriteStat(child.stat, to);
    }
    to.Int(static_cast<int32_t>(request.details.has_data ? children.size() : 0));
    for (Child& child : children) {
      if (!request.details.has_data) continue;
      if (!child.data.empty() && cluster_->Lies(Lie::kWrongChildData)) child.data.back() ^= 1;
      zk::WriteData(child.has_data, child.data, to);
    }
  }

  void ListRecursive(Connection& connection, const Connection::Pending& pending) {
    zk::ListRecursiveRequest request;
    ASSERT(zk::DecodeListRecursive(pending.body, &request));
    std::vector<std::string> paths = {std::string(request.path)};
    ErrorCode top_error = ErrorCode::kOk;
    for (size_t i = 0; i < paths.size() && paths.size() <= request.max; ++i) {
      tree::Stat stat;
      std::vector<std::string> names;
      const ErrorCode error = ListNames(paths[i], &names, &stat);
      if (i == 0) top_error = error;
      for (const std::string& name : names) {
        paths.push_back((paths[i] == "/" ? "" : paths[i]) + "/" + name);
      }
    }
    paths.erase(paths.begin());
    if (paths.size() > request.max) paths.resize(request.max);
    if (paths.size() > 1 && paths.back().starts_with(paths.front() + "/") &&
        cluster_->Lies(Lie::kWrongDepth)) {
      std::swap(paths.front(), paths.back());
    }
    if (top_error == ErrorCode::kOk && request.max == 0) {
      tree::Stat stat;
      if (!tree_.FindStat(request.path, &stat)) top_error = ErrorCode::kNoNode;
    }
    zk::ReplyWriter reply(&connection.out, pending.xid, tree_.last_zxid(), top_error);
    if (top_error != ErrorCode::kOk) return;
    reply.body().Int(static_cast<int32_t>(paths.size()));
    for (const std::string& path : paths) reply.body().String(path);
  }

  ErrorCode ListNames(const std::string& path, std::vector<std::string>* names,
                      tree::Stat* stat) const {
    return tree_.GetChildren(
        path, {}, [names](std::string_view name) { names->emplace_back(name); }, stat);
  }

  tree::Zxid ReplyZxid() const {
    return tree_.last_zxid() + (cluster_->Lies(Lie::kFutureZxid) ? 1'000'000 : 0);
  }

  ErrorCode ReadNode(const Connection::Pending& pending, const zk::ReadRequest& request,
                     std::string* out) const {
    tree::Stat stat;
    std::string_view data;
    bool has_data = false;
    const ErrorCode error = tree_.GetData(request.path, {}, &data, &has_data, &stat);
    std::string shown(data);
    zk::ReplyWriter reply(out, pending.xid, ReplyZxid(), error);
    if (error != ErrorCode::kOk) return error;
    if (pending.op == zk::OpCode::kGetData) {
      if (!shown.empty() && cluster_->Lies(Lie::kWrongData)) shown.back() ^= 1;
      zk::WriteData(has_data, shown, reply.body());
    }
    zk::WriteStat(stat, reply.body());
    return error;
  }

  ErrorCode ReadChildren(const Connection::Pending& pending, const zk::ReadRequest& request,
                         std::string* out) const {
    tree::Stat stat;
    std::vector<std::string> names;
    const ErrorCode error = tree_.GetChildren(
        request.path, {}, [&names](std::string_view name) { names.emplace_back(name); }, &stat);
    if (!names.empty() && cluster_->Lies(Lie::kWrongChildren)) names.pop_back();
    zk::ReplyWriter reply(out, pending.xid, ReplyZxid(), error);
    if (error != ErrorCode::kOk) return error;
    reply.body().Int(static_cast<int32_t>(names.size()));
    for (const std::string& name : names) reply.body().String(name);
    if (pending.op == zk::OpCode::kGetChildren2) zk::WriteStat(stat, reply.body());
    return error;
  }

  bool AnswerSync(Connection& connection, Connection::Pending& pending) {
    if (!pending.syncing) {
      pending.syncing = true;
      pending.sync_target = cluster_->committed_;
    }
    const bool behind = applied() < pending.sync_target;
    if (behind && !cluster_->Lies(Lie::kOldSync)) return false;
    zk::ReadRequest request;
    ASSERT(zk::DecodeReadRequest(pending.body, false, &request));
    zk::ReplyWriter reply(&connection.out, pending.xid, tree_.last_zxid(), ErrorCode::kOk);
    reply.body().String(request.path);
    return true;
  }

  void AnswerSetWatches(Connection& connection, const Connection::Pending& pending) {
    zk::SetWatchesRequest request;
    ASSERT(zk::DecodeSetWatches(zk::OpCode::kSetWatches, pending.body, &request));
    const auto missed = [&](EventType type, std::string_view path) {
      if (cluster_->Lies(Lie::kMissedEvent)) return;
      zk::AppendNotification(type, path, tree::Zxid(-1), &connection.out);
    };
    tree::Stat stat;
    for (std::string_view path : request.data_watches) {
      if (!tree_.FindStat(path, &stat)) {
        missed(EventType::kNodeDeleted, path);
      } else if (stat.mzxid.value() > request.relative_zxid) {
        missed(EventType::kNodeDataChanged, path);
      } else {
        watches_.Add(connection.id, path, tree::WatchKind::kData);
      }
    }
    for (std::string_view path : request.exist_watches) {
      if (tree_.FindStat(path, &stat)) {
        missed(EventType::kNodeCreated, path);
      } else {
        watches_.Add(connection.id, path, tree::WatchKind::kData);
      }
    }
    for (std::string_view path : request.child_watches) {
      if (!tree_.FindStat(path, &stat)) {
        missed(EventType::kNodeDeleted, path);
      } else if (stat.pzxid.value() > request.relative_zxid) {
        missed(EventType::kNodeChildrenChanged, path);
      } else {
        watches_.Add(connection.id, path, tree::WatchKind::kChild);
      }
    }
    zk::ReplyWriter(&connection.out, pending.xid, tree_.last_zxid(), ErrorCode::kOk);
  }

  // --- Applying ----------------------------------------------------------------------------------

  void OnNodeEvent(EventType type, std::string_view path, tree::Zxid zxid,
                   const tree::EventAcls&) override {
    watches_.Fire(type, path, [&](tree::WatcherId watcher, EventType event, std::string_view at) {
      Connection* connection = Find(watcher);
      if (connection == nullptr || cluster_->Lies(Lie::kLostEvent)) return;
      if (event == EventType::kNodeDataChanged && cluster_->Lies(Lie::kWrongEvent)) {
        event = EventType::kNodeDeleted;
      }
      if (cluster_->Lies(Lie::kLateEvent)) {
        zk::AppendNotification(event, at, zxid, &connection->late_event);
        return;
      }
      zk::AppendNotification(event, at, zxid, &connection->out);
      if (cluster_->Lies(Lie::kEventTwice)) {
        zk::AppendNotification(event, at, zxid, &connection->out);
      }
    });
  }

  void OnSessionAttached(const tree::SessionInfo& session) override {
    cluster_->Heard(session.id.value());
    EndOthers(session.id.value(), session.attach_zxid);
  }
  void OnSessionClosed(tree::SessionId session, tree::Zxid zxid) override {
    EndOthers(session.value(), zxid);
  }
  // Closes the connections of a session, except one that waits for the answer to its own close.
  void EndOthers(int64_t session, tree::Zxid zxid) {
    for (auto& [id, connection] : MyConnections()) {
      if (!connection->up || connection->session != session || connection->attach_zxid == zxid) {
        continue;
      }
      const auto& pipeline = connection->pipeline;
      if (std::any_of(pipeline.begin(), pipeline.end(), [](const Connection::Pending& p) {
            return p.op == zk::OpCode::kCloseSession;
          })) {
        continue;
      }
      cluster_->Break(connection);
    }
  }

  void OnResult(tree::ApplyResult result) override {
    Connection* connection = Find(result.header.proposer_tag);
    if (connection == nullptr || !connection->open) return;
    if (result.header.kind == tree::CommandKind::kCreateSession ||
        result.header.kind == tree::CommandKind::kAttachSession) {
      OnSessionResult(*connection, result);
      return;
    }
    auto& pipeline = connection->pipeline;
    while (!pipeline.empty() && pipeline.front().answered_falsely) pipeline.pop_front();
    if (pipeline.empty() || !pipeline.front().in_flight) return;  // the command of a lie
    if (result.error == ErrorCode::kSessionMoved) {
      connection->close_when_sent = true;
      return;
    }
    const Connection::Pending pending = std::move(pipeline.front());
    pipeline.pop_front();
    WriteResult(*connection, pending, result);
    connection->out += std::exchange(connection->late_event, "");
    if (pending.op == zk::OpCode::kCloseSession || result.error == ErrorCode::kSessionExpired) {
      connection->close_when_sent = true;
    }
  }

  void WriteResult(Connection& connection, const Connection::Pending& pending,
                   const tree::ApplyResult& result) {
    const bool multi = pending.op == zk::OpCode::kMulti;
    ErrorCode error = result.error;
    if (error == ErrorCode::kOk && !multi && !result.ops.empty()) error = result.ops[0].error;
    std::string bytes;
    {
      zk::ReplyWriter reply(&bytes, pending.xid, result.zxid, error);
      if (error == ErrorCode::kOk && multi) {
        zk::WriteMultiResult(pending.shapes, result.ops, reply.body());
      } else if (error == ErrorCode::kOk && !result.ops.empty()) {
        tree::OpResult shown = result.ops[0];
        if (pending.op == zk::OpCode::kSetData && cluster_->Lies(Lie::kWrongAnswer)) {
          ++shown.stat.version;
        }
        zk::WriteOpResult(pending.op, shown, reply.body());
      }
    }
    // The event goes behind the next reply, which is always a write's.
    if (connection.pipeline.size() > 0 && connection.pipeline.front().in_flight &&
        swapped_.empty() && cluster_->Lies(Lie::kSwappedReplies)) {
      swapped_ = bytes;
      return;
    }
    connection.out += bytes + std::exchange(swapped_, "");
  }

  void OnSessionResult(Connection& connection, const tree::ApplyResult& result) {
    connection.connecting = false;
    zk::ConnectResponse response;
    response.has_read_only = connection.connect.has_read_only;
    if (result.error == ErrorCode::kOk) {
      connection.up = true;
      connection.attach_zxid = result.zxid;
      response.timeout_ms = result.timeout_ms;
      response.session_id = connection.session;
      response.password = connection.connect.password;
      cluster_->Heard(connection.session);
    } else {
      connection.close_when_sent = true;
    }
    zk::AppendConnectResponse(response, &connection.out);
  }

  FakeCluster* const cluster_;
  const size_t number_;
  tree::Tree tree_;
  tree::WatchTable watches_;
  uint64_t sequence_ = 0;
  std::optional<std::pair<ConnectionId, std::string>> held_;  // Lie::kSwappedWrites
  std::string swapped_;                                       // Lie::kSwappedReplies
};

FakeCluster::FakeCluster(FakeEnvironment* environment, Lie lie, int64_t from_us)
    : environment_(environment),
      lie_(lie),
      lie_from_us_(from_us),
      random_(environment->random("cluster")) {
  for (size_t i = 0; i < environment->member_count(); ++i) {
    members_.push_back(std::make_unique<Member>(this, i));
    environment->SetTree(i, &members_[i]->tree());
  }
  consensus::Entry entry;
  entry.index = consensus::Index(1);
  entry.term = consensus::Term(1);
  entry.kind = consensus::EntryKind::kNoOp;
  log_.push_back(entry);
  for (size_t i = 0; i < members_.size(); ++i) {
    environment_->After(0, [this, i] { ApplyNext(i); });
  }
  environment_->After(kExpiryPeriodUs, [this] { ExpireSessions(); });
}

FakeCluster::~FakeCluster() = default;

bool FakeCluster::Lies(Lie lie) {
  if (lie != lie_ || environment_->now_us() < lie_from_us_) return false;
  if (lie == Lie::kNoExpiry) return lied_ = true;
  if (lied_) return false;
  return lied_ = true;
}

bool FakeCluster::converged() const {
  return std::all_of(members_.begin(), members_.end(),
                     [this](const auto& member) { return member->applied() == log_.size(); });
}

void FakeCluster::Submit(size_t member, std::string command) {
  tree::StampSequence(command.data(), members_[member]->NextSequence());
  Append(std::move(command));
}

void FakeCluster::Append(std::string command) {
  tree::StampTime(command.data(), environment_->now_us() / kMsToUs);
  consensus::Entry entry;
  entry.index = consensus::Index(log_.size() + 1);
  entry.term = consensus::Term(1);
  entry.payload = Slice(std::move(command));
  log_.push_back(std::move(entry));
}

// Each member applies entry by entry at its own pace.
void FakeCluster::ApplyNext(size_t member) {
  Member& self = *members_[member];
  if (self.applied() < log_.size()) {
    const consensus::Entry entry = log_[self.applied()];
    if (entry.index.value() > committed_) {
      committed_ = entry.index.value();
      environment_->Commit(entry);
    }
    self.Apply(entry);
  }
  const bool trouble = environment_->now_us() < trouble_until_us_;
  int64_t pause_us = random_.Between(50, 2000);
  if (trouble && random_.Chance(0.001)) pause_us = 500 * kMsToUs;
  if (!trouble) pause_us = 500;
  environment_->After(pause_us, [this, member] { ApplyNext(member); });
}

void FakeCluster::ExpireSessions() {
  environment_->After(kExpiryPeriodUs, [this] { ExpireSessions(); });
  const Member* newest = nullptr;
  for (const auto& member : members_) {
    if (newest == nullptr || member->applied() > newest->applied()) newest = member.get();
  }
  for (const tree::SessionInfo& session : newest->tree().Sessions()) {
    const auto heard = heard_us_.find(session.id.value());
    const int64_t silent_us =
        environment_->now_us() - (heard == heard_us_.end() ? 0 : heard->second);
    const bool due = silent_us > session.timeout_ms * kMsToUs + kExpiryPeriodUs;
    if (!due && !(silent_us < session.timeout_ms * kMsToUs / 3 && Lies(Lie::kEarlyExpiry)))
      continue;
    if (Lies(Lie::kNoExpiry)) continue;
    if (heard == heard_us_.end()) {
      // Created a moment ago, and its client has not been answered yet.
      Heard(session.id.value());
      continue;
    }
    tree::CommandHeader header;
    header.kind = tree::CommandKind::kExpireSession;
    header.session = session.id;
    header.attach_zxid = session.attach_zxid;
    std::string command;
    tree::AppendCloseSession(header, &command);
    Append(std::move(command));
    Heard(session.id.value());
  }
}

// --- Network -------------------------------------------------------------------------------------

ConnectionId FakeCluster::Connect(size_t member, ConnectionHandler* handler) {
  auto connection = std::make_shared<Connection>();
  connection->id = next_connection_++;
  connection->member = member;
  connection->handler = handler;
  connections_[connection->id] = connection;
  environment_->After(kNetworkUs, [connection] {
    if (!connection->client_left) connection->handler->OnOpen(connection->id);
  });
  return connection->id;
}

void FakeCluster::Send(ConnectionId id, std::string bytes) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::shared_ptr<Connection> connection = found->second;
  if (environment_->now_us() < trouble_until_us_ && random_.Chance(0.005)) {
    Break(connection);
    return;
  }
  environment_->After(kNetworkUs, [this, connection, bytes = std::move(bytes)] {
    if (connection->open) members_[connection->member]->OnBytes(connection, bytes);
  });
}

void FakeCluster::Close(ConnectionId id) {
  const auto found = left_.find(id);
  if (found != left_.end()) found->second->client_left = true;
  const auto open = connections_.find(id);
  if (open == connections_.end()) return;
  open->second->client_left = true;
  Drop(open->second);
}

void FakeCluster::Drop(const std::shared_ptr<Connection>& connection) {
  connection->open = false;
  members_[connection->member]->Forget(connection->id);
  connections_.erase(connection->id);
}

void FakeCluster::Break(const std::shared_ptr<Connection>& connection) {
  if (!connection->open) return;
  const std::shared_ptr<Connection> kept = connection;
  left_[kept->id] = kept;
  Drop(kept);
  // What was sent before is delivered first.
  const int64_t at_us = std::max(environment_->now_us() + kNetworkUs, kept->last_delivery_us);
  environment_->After(at_us - environment_->now_us(), [this, kept] {
    left_.erase(kept->id);
    if (!kept->client_left) kept->handler->OnClosed(kept->id);
  });
}

void FakeCluster::Deliver(const std::shared_ptr<Connection>& connection) {
  if (!connection->out.empty()) {
    std::string bytes = std::exchange(connection->out, "");
    const int64_t at_us = std::max(environment_->now_us() + kNetworkUs + random_.Between(0, 500),
                                   connection->last_delivery_us);
    connection->last_delivery_us = at_us;
    const size_t cut = random_.Below(bytes.size());
    for (std::string& piece : std::vector<std::string>{bytes.substr(0, cut), bytes.substr(cut)}) {
      environment_->After(at_us - environment_->now_us(), [connection, piece = std::move(piece)] {
        if (!connection->client_left && !piece.empty()) {
          connection->handler->OnBytes(connection->id, piece);
        }
      });
    }
  }
  if (connection->close_when_sent) Break(connection);
}

}  // namespace quorate::simulation
