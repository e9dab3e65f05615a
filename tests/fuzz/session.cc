// SPDX-License-Identifier: Apache-2.0

// Two sessions with arbitrary requests: any bodies, and watches and writes of one session while the
// other has requests in flight. Replies must come in the order of the requests.
#include <deque>
#include <string>

#include "base/assert.h"
#include "rpc/zookeeper/testing/test_packets.h"
#include "tests/fuzz/front.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

constexpr size_t kClients = 2;
constexpr int32_t kAuthXid = -4;

struct Client {
  uint32_t tag = 0;
  int32_t sent = 0;      // the xid of the last request
  int32_t answered = 0;  // the xid of the last reply
};

// Returns the next xid as clients choose it: pings and logins have special xids, and are answered
// at any time.
int32_t NextXid(Client& client, rpc::zk::OpCode op) {
  if (op == rpc::zk::OpCode::kPing) return rpc::zk::kPingXid;
  if (op == rpc::zk::OpCode::kAuth) return kAuthXid;
  return ++client.sent;
}

void TakeReplies(Front& front, Client& client) {
  std::string frame;
  while (rpc::zk::TakeFrame(&front.sockets().received(client.tag), &frame)) {
    const rpc::zk::Packet packet = rpc::zk::DecodePacket(frame);
    if (packet.xid < 0) continue;
    ASSERT(packet.xid == client.answered + 1, "in the order of the requests");
    client.answered = packet.xid;
  }
}

}  // namespace

// Input: for each request its client, the operation, whether the server runs after it, and the body
// after a byte with its length.
void Run(Input input) {
  Front front;
  Client clients[kClients];
  for (Client& client : clients) {
    client.tag = front.sockets().Connect().value();
    front.sockets().Write(client.tag, rpc::zk::ConnectPacket({.timeout_ms = 10'000}));
    front.Settle();
    front.sockets().received(client.tag).clear();
  }
  while (!input.empty()) {
    const auto choice = input.Take<uint8_t>();
    const auto op = static_cast<rpc::zk::OpCode>(input.Take<int8_t>());
    const std::string body(input.TakePiece());
    Client& client = clients[choice % kClients];
    if (front.sockets().open(client.tag)) {
      front.sockets().Write(client.tag, rpc::zk::RequestPacket(NextXid(client, op), op, body));
    }
    if (choice & 2) continue;
    front.Settle();
    for (Client& each : clients) TakeReplies(front, each);
  }
  front.Settle();
  for (Client& each : clients) {
    TakeReplies(front, each);
    ASSERT(!front.sockets().open(each.tag) || each.answered == each.sent, "all are answered");
  }
}

}  // namespace quorate::fuzz
