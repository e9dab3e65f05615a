// SPDX-License-Identifier: Apache-2.0

// A fake cluster in one object, for tests of the client: it has sessions, a few znodes and events,
// and misbehaves as its script says. A transaction that fails is not rolled back.
//
// Thread-safety: all functions may be called from any thread; `script` is set before there are
// clients.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rpc/proto/quorate/v1/session.grpc.pb.h"

namespace quorate {

class ScriptedServer final : public v1::SessionService::Service {
 public:
  // Where a stream can be broken: after a message was received, after its requests were executed,
  // and after a message was sent.
  enum class Moment { kReceived, kDone, kSent };
  struct Script {
    // Called at each moment, with the moment's number since the start of the server. If it returns
    // an error, the stream ends with that.
    std::function<grpc::Status(int number, Moment moment)> at_moment{};
    // Called with the first message of each stream. If it returns an error, the stream ends with that.
    std::function<grpc::Status(const v1::OpenSession& open)> at_open{};
    // Changes an answer before it is sent; not called when a repeated write is answered again.
    std::function<void(const v1::Request& request, v1::Response* response)> at_answer{};
    // Unless this returns OK, the write is refused with the returned code.
    std::function<v1::ErrorCode(const v1::Request::Write& write)> refuses{};
    // The most answers of a session that are not acknowledged. The server refuses one more write with
    // TOO_MANY_UNACKNOWLEDGED, and all later ones until the client has repeated that write.
    size_t unacknowledged_max = std::numeric_limits<size_t>::max();
    // Called by each ClusterService/Version before it is answered.
    std::function<void()> at_version{};
    // While this returns true, the server does not answer.
    std::function<bool()> is_silent{};
    // Whether each item is sent in a separate message.
    bool sends_single_items = false;
  };

  explicit ScriptedServer(Script script);
  ~ScriptedServer() override;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Returns the changes made to the znodes, in order: "create /a", "set /a=x", "delete /a".
  std::vector<std::string> changes();
  // Returns the values of the metadata `quorate-credential` of the last stream.
  std::vector<std::string> shown_credentials();
  // Returns the values of the metadata `authorization` of the last stream.
  std::vector<std::string> shown_authorizations();
  // Returns how many calls of ClusterService/Version had the metadata `authorization`.
  int authorized_versions() const { return authorized_versions_; }
  uint64_t acknowledged();
  int streams();
  // Returns the most answers of a session that were not acknowledged, since the last call.
  size_t TakeMostUnacknowledged();
  // Ends all sessions; their streams report it at the next message.
  void ExpireSessions();
  // Drops all events so far, so that a watch after an earlier zxid gets EVENTS_LOST.
  void ForgetEvents();

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) override;

 private:
  using ServerStream = grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>;
  struct SessionState {
    std::string password;
    uint64_t last_sequence = 0;
    std::map<uint64_t, v1::Response> answers;
  };
  struct Node {
    std::string data;
    v1::Stat stat;  // only the zxids, the session and the version are set
  };
  // The state of one stream.
  struct Attached {
    int64_t session = 0;
    size_t next_event = 0;
    std::map<uint64_t, v1::Request::Watch> watches;
    std::vector<v1::SessionItem> items;
  };

  grpc::Status At(Moment moment);
  grpc::Status Open(const v1::OpenSession& open, Attached* attached, v1::SessionResponse* response);
  grpc::Status Answer(const v1::SessionRequest& message, Attached* attached);
  v1::Response Do(const v1::Request& request, Attached* attached);
  // Names, in the order of their bytes.
  std::vector<std::string> ChildrenOf(const std::string& path) const;
  v1::Stat StatOf(const std::pair<const std::string, Node>& node) const;
  v1::Response DoWrite(const v1::Request::Write& write, int64_t session_id);
  v1::ErrorCode Apply(const v1::Operation& operation, int64_t session_id,
                      v1::OperationResult* result);
  v1::ErrorCode Create(const v1::Operation::Create& create, int64_t session_id,
                       v1::OperationResult* result);
  void SendEvents(size_t from, size_t to, const v1::Request::Watch* only, Attached* attached);
  grpc::Status Send(Attached* attached, v1::SessionResponse first, ServerStream* stream);

  class Cluster;

  const Script script_;
  std::atomic<int> authorized_versions_{0};
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;

  std::mutex mutex_;
  int moments_ = 0;
  int streams_ = 0;
  size_t most_unacknowledged_ = 0;
  int64_t zxid_ = 100;
  int64_t last_session_ = 0;
  int64_t oldest_ = 0;
  int next_number_ = 0;  // of a sequential znode
  uint64_t acknowledged_ = 0;
  std::map<int64_t, SessionState> sessions_;
  std::map<std::string, Node> nodes_;
  std::vector<v1::Event> events_;
  std::vector<std::string> changes_;
  std::vector<std::string> credentials_;
  std::vector<std::string> authorizations_;
};

}  // namespace quorate
