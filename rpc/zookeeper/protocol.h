// SPDX-License-Identifier: Apache-2.0

// The ZooKeeper wire protocol: the contents of packets, without the length prefix. Jute encoding:
// big-endian integers; strings and buffers with an int32 length, where -1 is null.
//
// Thread-safety: functions and values without shared state.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "rpc/frontend/list_details.h"
#include "rpc/membership/reconfiguration.h"
#include "rpc/zookeeper/opcodes.h"
#include "tree/command.h"
#include "tree/tree.h"
#include "tree/types.h"

namespace quorate::rpc::zk {

// The error of a request whose reply would be longer than maxReplyBytes. It is the error of a
// request that cannot be decoded: all clients know it, keep their connection and do not retry.
inline constexpr tree::ErrorCode kReplyTooLarge = tree::ErrorCode::kMarshallingError;

// The error of a client that has not authenticated as it has to, SessionClosedRequireSaslAuth. No
// operation of the tree has it.
inline constexpr auto kRequiredAuthMissing = tree::ErrorCode{-124};

inline constexpr int32_t kNotificationXid = -1;
inline constexpr int32_t kPingXid = -2;
inline constexpr int32_t kAuthXid = -4;

struct ConnectRequest {
  int32_t protocol_version = 0;
  int64_t last_zxid_seen = 0;
  int32_t timeout_ms = 0;
  int64_t session_id = 0;  // 0: a new session
  std::string password;
  bool has_read_only = false;  // clients before 3.4 do not send the flag, and do not expect it back
  bool read_only = false;
};

// Returns InvalidArgument if the packet does not decode.
absl::StatusOr<ConnectRequest> DecodeConnectRequest(std::string_view packet);

// A refused session has timeout 0, id 0 and a password of zeros.
struct ConnectResponse {
  int32_t timeout_ms = 0;
  int64_t session_id = 0;
  std::string password = std::string(tree::kPasswordBytes, '\0');
  bool has_read_only = true;
  bool read_only = false;  // the server serves reads only
};
// Appends the packet with its length prefix.
void AppendConnectResponse(const ConnectResponse& response, std::string* out);

struct RequestHeader {
  int32_t xid = 0;
  OpCode op = OpCode::kPing;
};

// The body of exists, getData, getChildren and getChildren2; without the watch flag, also that of
// getACL, sync, getEphemerals and getAllChildrenNumber.
struct ReadRequest {
  bool has_path = false;  // the path is not null
  std::string_view path;
  bool watch = false;
};
// This and the following Decode functions return false if the body does not decode.
bool DecodeReadRequest(std::string_view body, bool has_watch_flag, ReadRequest* request);

struct AuthRequest {
  std::string_view scheme;
  bool has_credentials = false;  // the credentials are not null
  std::string_view credentials;
};
bool DecodeAuthRequest(std::string_view body, AuthRequest* request);

struct SetWatchesRequest {
  int64_t relative_zxid = 0;
  std::vector<std::string_view> data_watches;
  std::vector<std::string_view> exist_watches;
  std::vector<std::string_view> child_watches;
  // setWatches2 only.
  std::vector<std::string_view> persistent_watches;
  std::vector<std::string_view> persistent_recursive_watches;

  using Lists = std::array<std::vector<std::string_view>*, 5>;
  Lists lists() {
    return {&data_watches, &exist_watches, &child_watches, &persistent_watches,
            &persistent_recursive_watches};
  }
};
bool DecodeSetWatches(OpCode op, std::string_view body, SetWatchesRequest* request);

// The body of addWatch (with a mode), checkWatches and removeWatches (with a type of watcher).
struct WatchRequest {
  bool has_path = false;  // the path is not null
  std::string_view path;
  int32_t mode_or_type = 0;
};
bool DecodeWatchRequest(std::string_view body, WatchRequest* request);

// The body of filteredList and filteredListWithStatsAndData.
struct FilteredListRequest {
  std::string_view path;  // never null
  bool watch = false;
  ListDetails details;
};
bool DecodeFilteredList(OpCode op, std::string_view body, FilteredListRequest* request);

struct ListRecursiveRequest {
  std::string_view path;  // never null
  uint32_t max = 0;       // the most paths in the reply
};
bool DecodeListRecursive(std::string_view body, ListRecursiveRequest* request);

// One read of a multiRead: getData or getChildren, and, with the extensions of ClickHouse Keeper,
// also exists, getChildren2 and the filtered lists. Their watch flags are ignored.
struct MultiReadItem {
  OpCode op = OpCode::kGetData;
  std::string_view path;
  ListDetails details;    // of the filtered lists
  size_t result_end = 0;  // for the encoder of the results: the end of this item's result
};
// Returns false if the body does not decode or holds another operation. `serves_keeper` is whether
// the extensions of ClickHouse Keeper are served.
bool DecodeMultiRead(std::string_view body, bool serves_keeper, std::vector<MultiReadItem>* items);
// A multi or multiRead result list has a header before each successful result, an error in the
// place of each failed one, and an end.
void WriteMultiResultHeader(OpCode shape, BigEndianWriter& to);
void WriteMultiError(tree::ErrorCode error, BigEndianWriter& to);
// Writes the error of one read of a multiRead as ClickHouse Keeper does: the header has the opcode
// of the read, and there is no body. With ZooKeeper's form, ClickHouse ends the query with
// std::bad_cast.
void WriteMultiReadErrorOfKeeper(OpCode op, tree::ErrorCode error, BigEndianWriter& to);
void WriteMultiEnd(BigEndianWriter& to);

// Returns false if the body does not decode. Does not set request->identities.
bool DecodeReconfig(std::string_view body, Reconfiguration* request);
// A null token counts as an empty one.
bool DecodeSaslRequest(std::string_view body, std::string_view* token);

// Decodes a write into the tree's request. For a multi, sets `*shapes` to one opcode per operation,
// which determines the encoding of its result. Returns kOk; kMarshallingError if the body does not
// decode or a multi holds an operation that is not allowed in it; kBadArguments for an operation
// that only servers may do.
tree::ErrorCode DecodeWrite(OpCode op, std::string_view body, tree::Request* request,
                            std::vector<OpCode>* shapes);

// Writes one reply packet: length prefix, header, and everything written to body() until the writer
// is destroyed.
class ReplyWriter {
 public:
  ReplyWriter(std::string* out, int32_t xid, tree::Zxid zxid, tree::ErrorCode error);
  ~ReplyWriter();
  ReplyWriter(const ReplyWriter&) = delete;
  ReplyWriter& operator=(const ReplyWriter&) = delete;

  BigEndianWriter& body() { return body_; }

 private:
  std::string& out_;
  const size_t start_;
  BigEndianWriter body_;
};

inline constexpr size_t kStatBytes = 68;
// Writes kStatBytes bytes.
void WriteStat(const tree::Stat& stat, BigEndianWriter& to);
void WriteAcl(const std::vector<tree::Acl>& acl, BigEndianWriter& to);
// Writes a buffer; null data has length -1.
void WriteData(bool has_data, std::string_view data, BigEndianWriter& to);

// Writes the result of one operation outside a multi; nothing if it failed.
void WriteOpResult(OpCode shape, const tree::OpResult& result, BigEndianWriter& to);
// Writes the body of a multi's reply, of success or failure.
void WriteMultiResult(const std::vector<OpCode>& shapes, const std::vector<tree::OpResult>& results,
                      BigEndianWriter& to);

// Appends a watch event as a whole packet.
void AppendNotification(tree::EventType type, std::string_view path, tree::Zxid zxid,
                        std::string* out);

}  // namespace quorate::rpc::zk
