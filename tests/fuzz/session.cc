// Two sessions whose requests are made up: any bodies, watches and writes of the one while the
// other has requests under way. Replies come in the order of the requests.
#include <deque>
#include <string>

#include "base/assert.h"
#include "rpc/zk/test_packets.h"
#include "tests/fuzz/front.h"
#include "tests/fuzz/fuzz.h"

namespace quorate::fuzz {
namespace {

constexpr size_t kClients = 2;
constexpr int32_t kAuthXid = -4;

struct Client {
  uint32_t tag = 0;
  int32_t sent = 0;      // the xid of the last request
  int32_t answered = 0;  // and that of the last reply
};

// As clients do it: pings and logins have xids of their own, and are answered at any time.
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

// Each request: who sends it, the operation, whether it is the last before the server works, and
// the body, which a byte counts.
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
