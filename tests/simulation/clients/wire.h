// The client's side of the ZooKeeper protocol: writes requests, reads replies. Written from the
// protocol's description, not from the server's codec, so that the two can disagree.
//
// Thread-safety: functions without state; a PacketReader belongs to one connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/simulation/clients/operation.h"

namespace quorate::simulation {

inline constexpr int32_t kNotificationXid = -1;
inline constexpr int32_t kPingXid = -2;
inline constexpr int32_t kAuthXid = -4;
inline constexpr int32_t kSetWatchesXid = -8;

struct Handshake {
  int64_t last_zxid_seen = 0;
  int32_t timeout_ms = 0;
  int64_t session = 0;  // 0: a new one
  std::string password = std::string(tree::kPasswordBytes, '\0');
  bool with_read_only = true;  // clients before 3.4 do not send this flag
};

struct HandshakeReply {
  int32_t timeout_ms = 0;
  int64_t session = 0;  // 0: refused
  std::string password;
};

struct ReplyHeader {
  int32_t xid = 0;
  int64_t zxid = 0;
  tree::ErrorCode error = tree::ErrorCode::kOk;
};

// Each returns whole packets, with their length prefix.
std::string EncodeHandshake(const Handshake& handshake);
std::string EncodeRequest(int32_t xid, const Request& request);
std::string EncodePing();
std::string EncodeAuth(std::string_view scheme, std::string_view credentials);

// Each takes a packet without its length prefix; false if it is not exactly what it has to be.
bool DecodeHandshakeReply(std::string_view packet, bool with_read_only, HandshakeReply* reply);
// `*body` is what follows the header.
bool DecodeReplyHeader(std::string_view packet, ReplyHeader* header, std::string_view* body);
bool DecodeReply(const ReplyHeader& header, std::string_view body, const Request& request,
                 Reply* reply);
bool DecodeWatchEvent(const ReplyHeader& header, std::string_view body, WatchEvent* event);

// Cuts a stream of bytes into packets.
class PacketReader {
 public:
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // The next whole packet, without its length prefix; false if there is none yet. Fails for good
  // (bad() is true) at a length that no reply has.
  bool Next(std::string* packet);
  bool bad() const { return bad_; }

 private:
  std::string bytes_;
  bool bad_ = false;
};

}  // namespace quorate::simulation
