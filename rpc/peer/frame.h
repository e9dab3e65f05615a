// SPDX-License-Identifier: Apache-2.0

// The format of the bytes between servers: batches, each a CRC-32C of the rest followed by frames
// (u8 type, u32 length, payload), little-endian. rpc/peer/send_queue.h decides which frames go into
// a batch. The payload of a frame is encoded once, by codecs of this project.
//
// A frame that is larger than a batch is sent as fragments, in consecutive data frames: each is a
// frame of its own with the payload (u8 type, u32 length: those of the whole frame; u32 offset of
// the bytes in the payload of the whole; bytes). Other frames may come between two fragments, but
// not a fragment of another frame.
//
// A connection begins with a greeting: the hello of the server that opened it, and the answer to it.
// Servers with a shared secret prove in between that they know it (rpc/peer/member_secret.h): the
// hello has a nonce, the accepting side sends a Challenge, the other side a Proof, and the answer
// has a proof too. Servers without a secret send exactly the bytes of earlier releases.
//
// Thread-safety: none; the functions have no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consensus/core/limits.h"
#include "consensus/core/message.h"
#include "consensus/core/types.h"

namespace quorate::rpc {

// The version of the handshake, and of every frame that is sent before the sender knows what the
// receiver understands. Servers with different values do not accept each other.
inline constexpr uint32_t kPeerProtocolVersion = 2;
// The hello and its answer also carry the newest version that their sender understands. A server of
// the previous release does not send that field, ignores it, and understands kPeerProtocolVersion.
// A connection uses only what its receiver understands.
inline constexpr uint32_t kPeerProtocolFragments = 3;
// Receivers of this version understand ReconfigNote.
inline constexpr uint32_t kPeerProtocolReconfig = 4;
inline constexpr uint32_t kPeerProtocolNewest = kPeerProtocolReconfig;

// The header of a frame: type and length.
inline constexpr size_t kFrameHeaderBytes = 5;
// Header of a fragment: frame header, then type and length of the whole frame, then the offset.
inline constexpr size_t kFragmentHeaderBytes = kFrameHeaderBytes + kFrameHeaderBytes + 4;
// The largest frame that fragments may assemble to: the largest entry, and the other entries in the
// same message.
inline constexpr size_t kFrameBytesMax = consensus::kEntryPayloadBytesMax + (16u << 20);

// The lowest version (consensus/core/types.h) of a member that understands DigestNote. Members of a
// lower version are never sent one.
inline constexpr uint32_t kVersionDigests = 3;

// Commands in one buffer, each a range of it. The buffer may be written to (sequence numbers, time)
// until it is handed to other code.
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

// The first frame on a connection, from the server that opened it. Receivers ignore what follows
// the fields that they know.
struct Hello {
  uint32_t protocol_version = kPeerProtocolVersion;
  consensus::MemberId from;
  consensus::MemberId to;
  std::string cluster_id;                         // empty if the sender belongs to none yet
  uint32_t newest_version = kPeerProtocolNewest;  // that the sender understands
  // A random number that identifies the sender's process; 0: not sent (by a server of the previous
  // release).
  uint64_t process = 0;
  // Random, of kNonceBytes, if the sender has a secret; otherwise empty, and not sent.
  std::string nonce = {};
};

// The frame by which the accepting side of a connection ends the greeting: whether it accepts the
// connection, or why it closes it. Later, it sends another only before it closes the connection.
struct HelloAnswer {
  bool accepted = false;
  std::string reason;      // for the administrator; empty if it is accepted
  std::string cluster_id;  // the sender's, if the receiver belongs to another one
  uint32_t newest_version = kPeerProtocolNewest;  // that the sender understands
  uint64_t process = 0;                           // as in the hello, of the process that answers
  // Of kProofBytes, if the sender has a secret and got a Proof that is right; otherwise empty, and
  // not sent.
  std::string proof = {};
};

// The frame with which an accepting side that has a secret answers a hello with a nonce.
struct Challenge {
  std::string nonce;  // random, of kNonceBytes
};

// The answer to a Challenge.
struct Proof {
  std::string proof;  // of kProofBytes
};

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kProofBytes = 32;

// A message about the digests of the members' trees (rpc/member/checkpoints/digest_comparison.h).
struct DigestNote {
  enum class Kind : uint8_t {
    kQuestion = 1,      // what is the digest of your tree at `zxid`?
    kAnswer = 2,        // `digest` at `zxid`; none if the sender does not have it (any more)
    kVerdict = 3,       // the trees of a majority have `digest` at `zxid`
    kConfirmation = 4,  // a verdict was received; `digest` as in an answer
  };
  Kind kind = Kind::kQuestion;
  int64_t zxid = 0;
  std::optional<uint64_t> digest = std::nullopt;
  friend bool operator==(const DigestNote&, const DigestNote&) = default;
};

// A member's report about disks (rpc/member/disk/disk_guard.h). Sent only if a field is true,
// because a server that does not know this frame closes the connection.
struct DiskReport {
  bool disk_low = false;      // the sender's disk is low
  bool data_refused = false;  // set by a leader: all members refuse writes that add data
  friend bool operator==(const DiskReport&, const DiskReport&) = default;
};

// A client's request to change the members, on its way to the leader, or the answer to it.
struct ReconfigNote {
  bool is_answer = false;
  uint64_t id = 0;   // chosen by the member that asks; the answer has the same
  std::string body;  // rpc/membership/reconfiguration.h
  friend bool operator==(const ReconfigNote&, const ReconfigNote&) = default;
};

// The decoded contents of one batch.
struct PeerBatch {
  std::optional<Hello> hello;
  std::optional<HelloAnswer> answer;
  std::optional<Challenge> challenge;
  std::optional<Proof> proof;
  std::vector<consensus::Message> messages;
  // Writes that the sender accepted from its clients, for the leader to propose.
  std::vector<CommandBatch> forwards;
  // Sessions whose clients were heard from since the last such frame.
  std::vector<int64_t> touched_sessions;
  std::vector<DigestNote> digests;
  std::optional<DiskReport> disk_report;
  std::vector<ReconfigNote> reconfigs;
};

// Each appends one frame to `*out`.
void AppendHelloFrame(const Hello& hello, std::string* out);
void AppendAnswerFrame(const HelloAnswer& answer, std::string* out);
void AppendChallengeFrame(const Challenge& challenge, std::string* out);
void AppendProofFrame(const Proof& proof, std::string* out);
void AppendMessageFrame(const consensus::Message& message, std::string* out);
void AppendForwardFrame(const std::vector<std::string_view>& commands, std::string* out);
void AppendTouchFrame(const std::vector<int64_t>& sessions, std::string* out);
void AppendDigestFrame(const DigestNote& note, std::string* out);
void AppendDiskFrame(const DiskReport& report, std::string* out);
void AppendReconfigFrame(const ReconfigNote& note, std::string* out);
// Makes a batch of `*frames`: inserts their checksum in front of them. REQUIRES: there is a frame.
void SealFrames(std::string* frames);

// Returns the size of the first of `frames`, header included. REQUIRES: `frames` begins with a
// frame.
size_t FirstFrameBytes(std::string_view frames);
// Writes the header of a fragment. The fragment holds `count` bytes, from `offset` on, of the
// payload of the frame that begins with `frame_header` (kFrameHeaderBytes); the caller sends them
// after the header.
void WriteFragmentHeader(std::string_view frame_header, size_t offset, size_t count,
                         char (&to)[kFragmentHeaderBytes]);

// Decodes the batches of one connection, and assembles fragments.
class FrameDecoder {
 public:
  // Decodes a batch of a greeting in the same way. Frames of other kinds are an error, and are not
  // decoded: their sender may be anybody.
  static absl::StatusOr<PeerBatch> DecodeGreeting(std::shared_ptr<std::string> buffer);

  // Returns the contents of a whole batch; messages and commands point into `buffer`, or into the
  // buffer of a frame that was assembled. A frame whose fragments are not complete is returned with
  // the batch that completes it. Errors, after which nothing more can be decoded: DataLoss if the
  // checksum is wrong, InvalidArgument if a frame does not decode, or a fragment does not continue
  // the one before it.
  absl::StatusOr<PeerBatch> Decode(std::shared_ptr<std::string> buffer);

 private:
  absl::Status AddFragment(std::string_view payload, PeerBatch* batch);

  // The part that was received of the payload of the frame that is being assembled; null: no frame
  // is being assembled.
  std::shared_ptr<std::string> partial_;
  uint8_t partial_type_ = 0;
  size_t partial_bytes_ = 0;  // of the whole payload
};

}  // namespace quorate::rpc
