// SPDX-License-Identifier: Apache-2.0

// Encodes the requests and decodes the replies of test clients in the ZooKeeper protocol.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/zookeeper/wire/wire.h"
#include "tests/simulation/clients/operation.h"

namespace quorate::simulation {

using wire::DecodeHandshakeReply;
using wire::DecodeReplyHeader;
using wire::EncodeAuth;
using wire::EncodeHandshake;
using wire::EncodePing;
using wire::Handshake;
using wire::HandshakeReply;
using wire::kAuthXid;
using wire::kNotificationXid;
using wire::kPingXid;
using wire::kSetWatchesXid;
using wire::PacketReader;
using wire::ReplyHeader;

// Returns a whole packet, with its length prefix.
std::string EncodeRequest(int32_t xid, const Request& request);

// Each decodes what follows a reply's header; returns false if that is not exactly as required.
bool DecodeReply(const ReplyHeader& header, std::string_view body, const Request& request,
                 Reply* reply);
bool DecodeWatchEvent(const ReplyHeader& header, std::string_view body, WatchEvent* event);

}  // namespace quorate::simulation
