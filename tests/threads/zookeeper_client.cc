// SPDX-License-Identifier: Apache-2.0

// A client of the ZooKeeper front end.
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rpc/zookeeper/wire/connection.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/threads/clients.h"

namespace quorate::threads {
namespace {

constexpr int kTimeoutMs = 10'000;
constexpr int kSessionTimeoutMs = 10'000;
constexpr int kBatchesPerConnectionMax = 60;

class ZooKeeperClient {
 public:
  ZooKeeperClient(Load* load, uint64_t seed, bool only_reads)
      : load_(*load), random_(seed), only_reads_(only_reads) {}

  void Run() {
    while (!load_.ends) {
      if (!Connect()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      const int batches = Draw(kBatchesPerConnectionMax);
      for (int i = 0; i < batches && connection_.open() && !load_.ends; ++i) {
        if (Draw(10) == 0 ? !AskWord() : !DoBatch()) break;
      }
      // Half of the time, closes the connection with requests in flight.
      if (connection_.open() && Draw(2) == 0) SendBatch();
      connection_.Close();
    }
  }

 private:
  struct Asked {
    wire::OpCode op = wire::kPing;
    std::string path;
    bool watch = false;
  };

  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }

  bool Connect() {
    const uint16_t port = load_.cluster->zookeeper_port(1 + static_cast<uint32_t>(Draw(kMembers)));
    if (port == 0) return false;
    connection_ = wire::Connection::To("127.0.0.1:" + std::to_string(port), kTimeoutMs);
    wire::Handshake handshake;
    handshake.timeout_ms = kSessionTimeoutMs;
    handshake.last_zxid_seen = zxid_;
    handshake.session = session_;
    if (session_ != 0) handshake.password = password_;
    connection_.Send(wire::EncodeHandshake(handshake), kTimeoutMs);
    std::string packet;
    if (connection_.Receive(&packet, kTimeoutMs) != wire::Connection::Received::kPacket) {
      return false;
    }
    wire::HandshakeReply reply;
    if (!wire::DecodeHandshakeReply(packet, /*with_read_only=*/true, &reply)) {
      load_.Wrong("the answer to a handshake does not decode");
      return false;
    }
    if (reply.session == 0) {  // the session has expired
      session_ = 0;
      watched_.clear();
      return false;
    }
    session_ = reply.session;
    password_ = reply.password;
    load_.connections.fetch_add(1);
    asked_.clear();
    return watched_.empty() || SetWatches();
  }

  // Sets again the watches that did not fire, as every ZooKeeper client does after a reconnect.
  bool SetWatches() {
    std::string bytes;
    {
      wire::RequestWriter request(&bytes, wire::kSetWatchesXid, wire::kSetWatches);
      request.body().Int<int64_t>(zxid_);
      request.body().Int(static_cast<int32_t>(watched_.size()));
      for (const auto& [path, mzxid] : watched_) request.body().String(path);
      request.body().Int<int32_t>(0);
      request.body().Int<int32_t>(0);
    }
    connection_.Send(bytes, kTimeoutMs);
    for (;;) {
      std::string packet;
      if (connection_.Receive(&packet, kTimeoutMs) != wire::Connection::Received::kPacket) {
        return false;
      }
      wire::ReplyHeader header;
      std::string_view body;
      if (!Take(packet, &header, &body)) return false;
      if (header.xid == wire::kSetWatchesXid) return true;
    }
  }

  void SendBatch() {
    std::string bytes;
    for (int count = 1 + Draw(8); count > 0; --count) {
      Asked asked;
      asked.path = NodePath(Draw(kNodes));
      const int32_t xid = ++xid_;
      switch (only_reads_ ? 2 + 3 * Draw(2) : Draw(8)) {
        case 0: {
          asked.op = wire::kSetData;
          wire::RequestWriter request(&bytes, xid, asked.op);
          wire::WriteSetData(asked.path, std::to_string(random_()), -1, request.body());
          break;
        }
        case 1: {
          asked.op = wire::kCreate;
          wire::RequestWriter request(&bytes, xid, asked.op);
          wire::WriteCreate(asked.path + "/c", "", tree::CreateMode::kEphemeralSequential,
                            request.body());
          break;
        }
        case 2:
        case 3: {
          asked.op = wire::kGetChildren2;
          wire::RequestWriter request(&bytes, xid, asked.op);
          wire::WriteRead(asked.path, Draw(2) == 0, request.body());
          break;
        }
        case 4: {
          asked.op = wire::kSync;
          wire::RequestWriter request(&bytes, xid, asked.op);
          request.body().String(asked.path);
          break;
        }
        default: {
          asked.op = wire::kGetData;
          asked.watch = Draw(2) == 0;
          wire::RequestWriter request(&bytes, xid, asked.op);
          wire::WriteRead(asked.path, asked.watch, request.body());
        }
      }
      asked_[xid] = asked;
    }
    connection_.Send(bytes, kTimeoutMs);
  }

  // Sends some requests together, and waits for their answers.
  bool DoBatch() {
    SendBatch();
    while (!asked_.empty()) {
      std::string packet;
      if (connection_.Receive(&packet, kTimeoutMs) != wire::Connection::Received::kPacket) {
        return false;
      }
      wire::ReplyHeader header;
      std::string_view body;
      if (!Take(packet, &header, &body)) return false;
    }
    return true;
  }

  // Decodes a packet, and checks it.
  bool Take(const std::string& packet, wire::ReplyHeader* header, std::string_view* body) {
    if (!wire::DecodeReplyHeader(packet, header, body)) {
      load_.Wrong("a reply does not decode");
      return false;
    }
    BigEndianReader reader(*body);
    if (header->xid == wire::kNotificationXid) {
      load_.events.fetch_add(1);
      const auto type = reader.Int<int32_t>();
      reader.Int<int32_t>();
      constexpr int32_t kChildrenChanged = 4;
      if (type != kChildrenChanged) watched_.erase(std::string(reader.String()));
      zxid_ = std::max(zxid_, header->zxid);
      return true;
    }
    if (header->zxid > 0 && header->zxid < zxid_) load_.Wrong("a session's zxid goes back");
    zxid_ = std::max(zxid_, header->zxid);
    const auto found = asked_.find(header->xid);
    if (found == asked_.end()) return header->xid == wire::kSetWatchesXid;
    const Asked asked = found->second;
    asked_.erase(found);
    if (header->error != tree::ErrorCode::kOk) return true;
    (asked.op == wire::kSetData || asked.op == wire::kCreate ? load_.writes : load_.reads)
        .fetch_add(1);
    if (asked.op != wire::kGetData) return true;
    wire::ReadBuffer(reader);
    CheckRead(asked, wire::ReadStat(reader).mzxid.value());
    return true;
  }

  void CheckRead(const Asked& asked, int64_t mzxid) {
    int64_t& read = read_[asked.path];
    if (mzxid < read) load_.Wrong("a session reads an older state of " + asked.path);
    read = mzxid;
    const auto watched = watched_.find(asked.path);
    if (watched != watched_.end() && watched->second != mzxid) {
      load_.Wrong("a change of " + asked.path + " is read before its event is received");
      watched_.erase(watched);
    }
    if (asked.watch) watched_[asked.path] = mzxid;
  }

  bool AskWord() {
    static constexpr const char* kWords[] = {"mntr", "stat", "dump", "cons", "wchp", "srvr"};
    const uint16_t port = load_.cluster->zookeeper_port(1 + static_cast<uint32_t>(Draw(kMembers)));
    if (port == 0) return true;
    wire::Connection words = wire::Connection::To("127.0.0.1:" + std::to_string(port), kTimeoutMs);
    words.Send(kWords[Draw(std::size(kWords))], kTimeoutMs);
    words.CloseAndWait(kTimeoutMs);
    return true;
  }

  Load& load_;
  std::mt19937_64 random_;
  const bool only_reads_;
  wire::Connection connection_;
  int64_t session_ = 0;
  std::string password_;
  int64_t zxid_ = 0;  // the newest zxid that was seen
  int32_t xid_ = 0;
  std::map<int32_t, Asked> asked_;
  std::map<std::string, int64_t> watched_;  // data watches, with the mzxid that was read when each
                                            // was set
  std::map<std::string, int64_t> read_;
};

}  // namespace

void RunZooKeeperClient(Load* load, uint64_t seed) {
  ZooKeeperClient(load, seed, /*only_reads=*/false).Run();
}

void RunZooKeeperReader(Load* load, uint64_t seed) {
  ZooKeeperClient(load, seed, /*only_reads=*/true).Run();
}

}  // namespace quorate::threads
