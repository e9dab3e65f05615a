// The requests and replies of clients of tests in the ZooKeeper protocol.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rpc/zk/wire/wire.h"
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

// A whole packet, with its length prefix.
std::string EncodeRequest(int32_t xid, const Request& request);

// Each takes what follows a reply's header; false if it is not exactly what it has to be.
bool DecodeReply(const ReplyHeader& header, std::string_view body, const Request& request,
                 Reply* reply);
bool DecodeWatchEvent(const ReplyHeader& header, std::string_view body, WatchEvent* event);

}  // namespace quorate::simulation
