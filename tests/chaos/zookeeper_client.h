// SPDX-License-Identifier: Apache-2.0

// A client over the ZooKeeper front end, with its own implementation of the protocol: it does what
// client libraries do (pings, moves to another server when one is silent for two thirds of the
// timeout, keeps its session and its one-shot watches), so that the history shows what servers do,
// without a library in between.
//
// Requests that are under way when the connection ends have an unknown outcome.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/zookeeper/wire/connection.h"
#include "tests/chaos/client.h"
#include "tests/simulation/clients/operation.h"

namespace quorate::chaos {

class ZookeeperClient : public Client {
 public:
  // `recorder` must outlive the client.
  ZookeeperClient(ClientSettings settings, Recorder* recorder);

  using Client::Perform;
  std::vector<Line> Perform(std::vector<Line> operations) override;
  void Idle(int64_t until_ns) override;
  void Move(int64_t away_ms) override;
  void CloseSession() override;
  bool AbandonSession(bool silently) override;
  int64_t sessions() override { return sessions_; }
  bool has_session() override { return session_ != 0; }
  std::vector<Line> TakeEvents() override;
  int32_t number() const override { return settings_.number; }
  int32_t session_timeout_ms() const override { return settings_.session_timeout_ms; }

 private:
  // The purpose of a request. kIgnored: the operation has its outcome already.
  enum class Part { kOperation, kSyncBefore, kSetWatches, kClose, kIgnored };
  struct Pending {
    Part part = Part::kOperation;
    int32_t xid = 0;
    simulation::Request request;
    int64_t sent_ns = 0;
    size_t place = 0;  // index of the operation in operations_
  };
  struct Watch {
    std::string kind;
    int64_t number = 0;
  };

  // Returns whether the session is on a connection; tries until `until_ns`.
  bool Connect(int64_t until_ns);
  void ConnectOnce();
  // Returns false if the answer contains no session.
  bool TakeHandshake(std::string_view packet, int64_t sent_ns);
  void Queue(Part part, simulation::Request request, size_t place);
  // Removes the chroot from a path that a server sent, if the client has it. Returns false if the
  // path does not begin with the chroot.
  bool RemoveChroot(std::string* path) const;
  void Flush();
  // Waits for packets and handles them, until `until_ns` at most.
  void Turn(int64_t until_ns);
  void KeepAlive(int64_t now_ns);
  void OnPacket(std::string_view packet);
  void OnReply(const Pending& pending, const wire::ReplyHeader& header, std::string_view body);
  void OnEvent(const wire::ReplyHeader& header, std::string_view body);
  void Finish(size_t place, Line outcome);
  void RecordWatch(const Line& operation, const Line& outcome);
  // The number of the watch to which an event belongs; 0: none.
  int64_t WatchOf(const std::string& path, tree::EventType type);
  void SendSetWatches();
  void Disconnect(const std::string& reason);
  void EndSession(What what);
  void WriteSession(Line line);

  const ClientSettings settings_;
  Recorder* const recorder_;
  simulation::Random random_;

  const std::shared_ptr<const wire::TlsClient> tls_;  // nullptr: without
  wire::Connection connection_;
  wire::Connection silent_;  // the connection of an abandoned session
  bool is_up_ = false;       // whether the history's last line about the connection is kConnected
  std::string server_;
  int64_t not_before_ns_ = 0;  // for the next attempt to connect
  std::string to_send_;
  std::deque<Pending> pending_;
  int32_t last_xid_ = 0;
  int64_t last_sent_ns_ = 0;
  // Since when the client has been waiting for an answer without receiving anything from the
  // server.
  int64_t silent_since_ns_ = 0;
  int64_t ping_sent_ns_ = 0;  // 0: none is under way

  int64_t session_ = 0;
  int64_t sessions_ = 0;
  std::string password_;
  int32_t timeout_ms_ = 0;
  int64_t last_zxid_ = 0;
  int64_t answered_ns_ = 0;
  std::map<std::string, Watch> watches_;  // by path
  int64_t last_watch_ = 0;
  std::vector<Line> events_;

  // The operations of the current Perform call, and their outcomes.
  std::vector<Line> operations_;
  std::vector<Line> outcomes_;
};

}  // namespace quorate::chaos
