// SPDX-License-Identifier: Apache-2.0

// Encodes and decodes the packets of a ZooKeeper client, for tests that choose every byte.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rpc/zookeeper/protocol.h"
#include "tree/types.h"

namespace quorate::rpc::zk {

// A reply or an event.
struct Packet {
  int32_t xid = 0;
  int64_t zxid = 0;
  tree::ErrorCode error = tree::ErrorCode::kOk;
  std::string body;
};
// Decodes `frame`, a packet without its length. REQUIRES: it is not the reply to a connect request.
Packet DecodePacket(const std::string& frame);

// The bytes of a connect request, with the length: for a new session, or to attach to an existing
// one.
struct ConnectPacketOptions {
  int64_t session = 0;
  std::string password = std::string(tree::kPasswordBytes, '\0');
  int64_t last_zxid = 0;
  int32_t timeout_ms = 1000;
  bool with_read_only = true;
  bool read_only = false;
};
std::string ConnectPacket(const ConnectPacketOptions& options);
// Decodes the reply to a connect request, given without its length. Returns false if it does not
// have the right size.
bool DecodeConnectResponse(const std::string& frame, bool with_read_only,
                           ConnectResponse* response);

// Returns the bytes of a request, with the length.
std::string RequestPacket(int32_t xid, OpCode op, const std::string& body);
// These return the bodies of requests.
std::string Create(const std::string& path, const std::string& data, int32_t flags = 0);
std::string SetData(const std::string& path, const std::string& data);
std::string Path(const std::string& path);
std::string PathAndWatch(const std::string& path, bool watch);
// Of a multi or a multiRead, from the opcode and the body of each item.
std::string Multi(const std::vector<std::pair<OpCode, std::string>>& items);

// Returns the data in the reply to getData.
std::string DataOf(const Packet& packet);

// Cuts the first whole packet off `*bytes` into `*frame`, without its length. Returns false if
// there is none.
bool TakeFrame(std::string* bytes, std::string* frame);

}  // namespace quorate::rpc::zk
