// SPDX-License-Identifier: Apache-2.0

// The client's side of the ZooKeeper protocol: handshakes, headers, packets. Written from the
// protocol's description and not from the server's codec, so that tests find mistakes of either.
// They share only the numbers of the opcodes.
//
// Thread-safety: functions without state; a PacketReader and a RequestWriter belong to one
// connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "rpc/zookeeper/opcodes.h"
#include "tree/types.h"

namespace quorate::wire {

inline constexpr int32_t kNotificationXid = -1;
inline constexpr int32_t kPingXid = -2;
inline constexpr int32_t kAuthXid = -4;
inline constexpr int32_t kSetWatchesXid = -8;

using rpc::zk::OpCode;
using enum rpc::zk::OpCode;  // wire::kCreate, ...

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

// Returns the packet with its length prefix.
std::string Framed(std::string_view packet);

// Each returns whole packets, with their length prefix.
std::string EncodeHandshake(const Handshake& handshake);
std::string EncodePing();
std::string EncodeAuth(std::string_view scheme, std::string_view credentials);

// Appends one request with its length prefix to a buffer: the header at once, then everything
// written to body() until the writer is destroyed.
class RequestWriter {
 public:
  // `*out` must outlive the writer, and must not be changed otherwise meanwhile.
  RequestWriter(std::string* out, int32_t xid, OpCode op);
  ~RequestWriter();
  RequestWriter(const RequestWriter&) = delete;
  RequestWriter& operator=(const RequestWriter&) = delete;

  BigEndianWriter& body() { return body_; }

 private:
  std::string& out_;
  const size_t start_;
  BigEndianWriter body_;
};

// Write bodies of requests, which are the same outside and inside a multi. The ACL is world:anyone
// with all permissions; a version of -1 matches any.
void WriteCreate(std::string_view path, std::string_view data, tree::CreateMode mode,
                 BigEndianWriter& to);
void WriteDelete(std::string_view path, int32_t version, BigEndianWriter& to);
void WriteSetData(std::string_view path, std::string_view data, int32_t version,
                  BigEndianWriter& to);
// Writes the body of exists, getData or getChildren.
void WriteRead(std::string_view path, bool watch, BigEndianWriter& to);
// These write what is before each operation of a multi, and what is after the last one.
void WriteMultiHeader(OpCode op, BigEndianWriter& to);
void WriteMultiEnd(BigEndianWriter& to);

// Decode a packet without its length prefix. Return false if it is malformed.
bool DecodeHandshakeReply(std::string_view packet, bool with_read_only, HandshakeReply* reply);
// Decodes the header of a reply. Sets `*body` to what follows the header.
bool DecodeReplyHeader(std::string_view packet, ReplyHeader* header, std::string_view* body);

// Reads a buffer or string. Null (length -1) reads as empty, and sets `*has` to false if it is
// given. A length below -1 makes the reader fail.
std::string_view ReadBuffer(BigEndianReader& reader, bool* has = nullptr);
tree::Stat ReadStat(BigEndianReader& reader);

enum class Cut { kPacket, kIncomplete, kBad };
// Takes the next packet off the front of `*bytes`, without its length prefix. kBad: no reply may
// have this length. With kBad and kIncomplete nothing is taken.
Cut CutPacket(std::string_view* bytes, std::string_view* packet);

// Cuts a stream of bytes into packets.
class PacketReader {
 public:
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // Takes the next whole packet, without its length prefix. Returns false if there is none yet.
  // After a length that no reply has, always fails (bad() is true).
  bool Next(std::string* packet);
  bool bad() const { return bad_; }

 private:
  std::string bytes_;
  bool bad_ = false;
};

}  // namespace quorate::wire
