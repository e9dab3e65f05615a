// What servers say to each other on a stream: each gRPC message is a CRC-32C of the rest followed
// by frames (u8 type, u32 length, payload), little-endian, all that was waiting when the stream was
// free. Everything a frame carries is encoded once by our own codecs; there is no protobuf on this
// way.
//
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::rpc {

// Raised when frames change in a way that an older server cannot read.
inline constexpr uint32_t kPeerProtocolVersion = 1;

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

// The first frame of a stream.
struct Hello {
  uint32_t protocol_version = kPeerProtocolVersion;
  consensus::MemberId from;
  consensus::MemberId to;
  std::string cluster_id;  // empty as long as the sender belongs to none
};

// What one gRPC message held.
struct PeerBatch {
  bool has_hello = false;
  Hello hello;
  std::vector<consensus::Message> messages;
  // Writes that the sender accepted from its clients, for the leader to propose.
  std::vector<CommandBatch> forwards;
  // Sessions heard from since the last such frame.
  std::vector<int64_t> touched_sessions;
};

// Each appends one frame. `*out` starts empty or holds what an earlier call made of it.
void AppendHelloFrame(const Hello& hello, std::string* out);
void AppendMessageFrame(const consensus::Message& message, std::string* out);
void AppendForwardFrame(const std::vector<std::string_view>& commands, std::string* out);
void AppendTouchFrame(const std::vector<int64_t>& sessions, std::string* out);
// Writes the checksum in front of the frames. REQUIRES: at least one frame was appended.
void SealFrames(std::string* out);

// Reads a whole gRPC message; messages and commands point into `buffer`. Errors: DataLoss if the
// checksum is wrong, InvalidArgument if a frame does not decode.
absl::StatusOr<PeerBatch> DecodeFrames(std::shared_ptr<std::string> buffer);

}  // namespace quorate::rpc
