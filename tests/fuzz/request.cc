// SPDX-License-Identifier: Apache-2.0

// The bodies of clients' requests: requests that decode can go through the log.
#include <cstdint>
#include <string>
#include <vector>

#include "base/assert.h"
#include "rpc/zookeeper/protocol.h"
#include "tests/fuzz/fuzz.h"
#include "tree/command.h"

namespace quorate::fuzz {

using rpc::zk::OpCode;

void Run(Input input) {
  // The lowest numbers of a signed byte stand for the operations of ClickHouse Keeper.
  constexpr int kKeeperFirst = static_cast<int>(OpCode::kFilteredList);
  constexpr int kByteMin = INT8_MIN, kKeeperOperations = 8;
  const int number = (input.Take<uint8_t>() ^ 0x80) + kByteMin;
  const bool is_keeper = number < kByteMin + kKeeperOperations;
  const auto op = static_cast<OpCode>(is_keeper ? number - kByteMin + kKeeperFirst : number);
  const std::string_view body = input.rest();
  rpc::zk::DecodeConnectRequest(body).status().IgnoreError();
  rpc::zk::ReadRequest read;
  rpc::zk::DecodeReadRequest(body, input.Take<uint8_t>() % 2 == 1, &read);
  rpc::zk::AuthRequest auth;
  rpc::zk::DecodeAuthRequest(body, &auth);
  rpc::zk::SetWatchesRequest watches;
  for (const OpCode kind : {OpCode::kSetWatches, OpCode::kSetWatches2}) {
    rpc::zk::DecodeSetWatches(kind, body, &watches);
  }
  rpc::zk::WatchRequest watch;
  rpc::zk::DecodeWatchRequest(body, &watch);
  std::vector<rpc::zk::MultiReadItem> items;
  rpc::zk::DecodeMultiRead(body, /*serves_keeper=*/true, &items);
  rpc::zk::FilteredListRequest filtered;
  for (const OpCode kind : {OpCode::kFilteredList, OpCode::kFilteredListDetailed}) {
    rpc::zk::DecodeFilteredList(kind, body, &filtered);
  }
  rpc::zk::ListRecursiveRequest recursive;
  rpc::zk::DecodeListRecursive(body, &recursive);
  rpc::Reconfiguration reconfiguration;
  rpc::zk::DecodeReconfig(body, &reconfiguration);
  if (!rpc::zk::IsWrite(op)) return;
  tree::Request request;
  std::vector<OpCode> shapes;
  if (rpc::zk::DecodeWrite(op, body, &request, &shapes) != tree::ErrorCode::kOk) return;
  ASSERT(shapes.size() == (request.multi ? request.ops.size() : 0));
  std::string command;
  tree::AppendRequest({}, request, &command);
  const auto decoded = tree::DecodeRequest(command);
  ASSERT(decoded.ok());
  ASSERT(decoded->multi == request.multi);
  ASSERT(decoded->ops.size() == request.ops.size());
  for (size_t i = 0; i < request.ops.size(); ++i) {
    ASSERT(decoded->ops[i].kind == request.ops[i].kind);
    ASSERT(decoded->ops[i].path == request.ops[i].path);
    ASSERT(decoded->ops[i].data == request.ops[i].data);
    ASSERT(decoded->ops[i].acl == request.ops[i].acl);
    ASSERT(decoded->ops[i].version == request.ops[i].version);
    ASSERT(decoded->ops[i].limit == request.ops[i].limit);
    ASSERT(decoded->ops[i].expected == request.ops[i].expected);
    if (request.ops[i].kind != tree::OpKind::kCreateTtl) continue;
    ASSERT(decoded->ops[i].ttl_ms == request.ops[i].ttl_ms);
  }
}

}  // namespace quorate::fuzz
