// What servers say to each other on a connection: batches, each a CRC-32C of the rest followed by
// frames (u8 type, u32 length, payload), little-endian, all that was waiting when the connection
// was free. Everything a frame carries is encoded once by our own codecs.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::rpc {

// Raised when frames change in a way that an older server cannot read.
inline constexpr uint32_t kPeerProtocolVersion = 2;

// The version (consensus/core/types.h) of a member that knows DigestNote: others are never sent
// one.
inline constexpr uint32_t kVersionDigests = 3;

// Commands in one buffer. The buffer may be written to (sequence numbers, time) as long as nobody
// else has been given it; each command is a range of it.
struct CommandBatch {
  struct Range {
    size_t offset = 0;
    size_t size = 0;
  };
  std::shared_ptr<std::string> bytes = std::make_shared<std::string>();
  std::vector<Range> commands;

  bool empty() const { return commands.empty(); }
  std::string_view view(const Range& range) const {
    return std::string_view(*bytes).substr(range.offset, range.size);
  }
};

// The first frame on a connection, from the server that opened it.
struct Hello {
  uint32_t protocol_version = kPeerProtocolVersion;
  consensus::MemberId from;
  consensus::MemberId to;
  std::string cluster_id;  // empty as long as the sender belongs to none
};

// All that the server which took a connection says on it: that it is accepted, or why it is closed.
struct HelloAnswer {
  bool accepted = false;
  std::string reason;      // for the administrator; empty if it is accepted
  std::string cluster_id;  // where the other server belongs to another cluster: ours
};

// What members say about the digests of their trees (rpc/server/digest_comparison.h).
struct DigestNote {
  enum class Kind : uint8_t {
    kQuestion = 1,      // what is the digest of your tree at `zxid`?
    kAnswer = 2,        // `digest`, if it is known (any more)
    kVerdict = 3,       // a majority's trees have `digest` there
    kConfirmation = 4,  // a verdict was heard; `digest` as in an answer
  };
  Kind kind = Kind::kQuestion;
  int64_t zxid = 0;
  std::optional<uint64_t> digest = std::nullopt;
  friend bool operator==(const DigestNote&, const DigestNote&) = default;
};

// What a member says about disks (rpc/server/disk_guard.h), as long as there is something to say:
// a server that does not know this frame closes the connection.
struct DiskReport {
  bool disk_low = false;      // the sender's
  bool data_refused = false;  // by a leader: writes that add data are refused everywhere
  friend bool operator==(const DiskReport&, const DiskReport&) = default;
};

// What one batch held.
struct PeerBatch {
  std::optional<Hello> hello;
  std::optional<HelloAnswer> answer;
  std::vector<consensus::Message> messages;
  // Writes that the sender accepted from its clients, for the leader to propose.
  std::vector<CommandBatch> forwards;
  // Sessions heard from since the last such frame.
  std::vector<int64_t> touched_sessions;
  std::vector<DigestNote> digests;
  std::optional<DiskReport> disk_report;
};

// Each appends one frame. `*out` starts empty or holds what an earlier call made of it.
void AppendHelloFrame(const Hello& hello, std::string* out);
void AppendAnswerFrame(const HelloAnswer& answer, std::string* out);
void AppendMessageFrame(const consensus::Message& message, std::string* out);
void AppendForwardFrame(const std::vector<std::string_view>& commands, std::string* out);
void AppendTouchFrame(const std::vector<int64_t>& sessions, std::string* out);
void AppendDigestFrame(const DigestNote& note, std::string* out);
void AppendDiskFrame(const DiskReport& report, std::string* out);
// Writes the checksum in front of the frames. REQUIRES: at least one frame was appended.
void SealFrames(std::string* out);

// Reads a whole batch; messages and commands point into `buffer`. Errors: DataLoss if the
// checksum is wrong, InvalidArgument if a frame does not decode.
absl::StatusOr<PeerBatch> DecodeFrames(std::shared_ptr<std::string> buffer);

}  // namespace quorate::rpc
