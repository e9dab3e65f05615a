// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/frame.h"

#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/crc32c.h"

namespace quorate::rpc {
namespace {

enum class FrameType : uint8_t {
  kHello = 1,
  kMessage = 2,
  kForward = 3,
  kTouch = 4,
  kDigest = 5,
  kDisk = 6,
  kAnswer = 7,
  kFragment = 8,
  kChallenge = 9,
  kProof = 10,
  kReconfig = 11
};

constexpr size_t kChecksumBytes = 4;

// Bits of a disk frame.
constexpr uint8_t kDiskLow = 1;
constexpr uint8_t kDataRefused = 2;

// Appends the type and a place for the length; returns the offset of the payload.
size_t BeginFrame(FrameType type, std::string* out) {
  LittleEndianWriter writer(out);
  writer.Int(static_cast<uint8_t>(type));
  writer.Int<uint32_t>(0);
  return out->size();
}

void EndFrame(size_t payload, std::string* out) {
  StoreInt<std::endian::little>(out->data() + payload - 4,
                                static_cast<uint32_t>(out->size() - payload));
}

absl::Status DecodeForward(const std::shared_ptr<std::string>& buffer, std::string_view payload,
                           PeerBatch* batch) {
  CommandBatch& forward = batch->forwards.emplace_back();
  forward.bytes = buffer;
  LittleEndianReader reader(payload);
  const uint32_t count = reader.Int<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    std::string_view command = reader.String();
    forward.commands.push_back(
        {static_cast<size_t>(command.data() - buffer->data()), command.size()});
  }
  if (!reader.ok() || !reader.empty()) {
    return absl::InvalidArgumentError("a frame of forwarded writes does not decode");
  }
  return absl::OkStatus();
}

absl::Status DecodeDigest(std::string_view payload, PeerBatch* batch) {
  LittleEndianReader reader(payload);
  DigestNote note;
  const uint8_t kind = reader.Int<uint8_t>();
  note.kind = static_cast<DigestNote::Kind>(kind);
  note.zxid = reader.Int<int64_t>();
  const uint8_t is_known = reader.Int<uint8_t>();
  const uint64_t digest = reader.Int<uint64_t>();
  if (is_known == 1) note.digest = digest;
  const bool is_kind = kind >= static_cast<uint8_t>(DigestNote::Kind::kQuestion) &&
                       kind <= static_cast<uint8_t>(DigestNote::Kind::kConfirmation);
  const bool may_lack =
      note.kind == DigestNote::Kind::kAnswer || note.kind == DigestNote::Kind::kConfirmation;
  const uint8_t needed = note.kind == DigestNote::Kind::kVerdict ? 1 : 0;
  const bool has_digest = may_lack ? is_known <= 1 : is_known == needed;
  if (!reader.ok() || !reader.empty() || !is_kind || !has_digest || note.zxid <= 0) {
    return absl::InvalidArgumentError("a frame about digests does not decode");
  }
  batch->digests.push_back(note);
  return absl::OkStatus();
}

absl::Status DecodeReconfigNote(LittleEndianReader reader, PeerBatch* batch) {
  ReconfigNote& note = batch->reconfigs.emplace_back();
  const uint8_t is_answer = reader.Int<uint8_t>();
  note.is_answer = is_answer == 1;
  note.id = reader.Int<uint64_t>();
  note.body = std::string(reader.String());
  return reader.ok() && reader.empty() && is_answer <= 1
             ? absl::OkStatus()
             : absl::InvalidArgumentError("a frame about a reconfig does not decode");
}

// Reads the last fields of a hello or of its answer, which servers of earlier releases do not send.
// The last of all is sent only by a server with a secret; it has `secret_bytes` bytes.
template <class T>
bool ReadLastFields(LittleEndianReader* reader, size_t secret_bytes, T* to, std::string* last) {
  to->newest_version = reader->empty() ? kPeerProtocolVersion : reader->Int<uint32_t>();
  to->process = reader->empty() ? 0 : reader->Int<uint64_t>();
  if (!reader->empty()) *last = std::string(reader->String());
  return reader->ok() && (last->empty() || last->size() == secret_bytes);
}

absl::Status DecodeHello(LittleEndianReader reader, PeerBatch* batch) {
  Hello& hello = batch->hello.emplace();
  hello.protocol_version = reader.Int<uint32_t>();
  hello.from = consensus::MemberId(reader.Int<uint32_t>());
  hello.to = consensus::MemberId(reader.Int<uint32_t>());
  hello.cluster_id = std::string(reader.String());
  return ReadLastFields(&reader, kNonceBytes, &hello, &hello.nonce)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("a hello frame does not decode");
}

absl::Status DecodeAnswer(LittleEndianReader reader, PeerBatch* batch) {
  HelloAnswer& answer = batch->answer.emplace();
  answer.accepted = reader.Int<uint8_t>() != 0;
  answer.reason = std::string(reader.String());
  answer.cluster_id = std::string(reader.String());
  return ReadLastFields(&reader, kProofBytes, &answer, &answer.proof)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("an answer to a hello does not decode");
}

absl::Status DecodeFrame(const std::shared_ptr<std::string>& buffer, FrameType type,
                         std::string_view payload, PeerBatch* batch) {
  LittleEndianReader reader(payload);
  switch (type) {
    case FrameType::kHello:
      return DecodeHello(reader, batch);
    case FrameType::kAnswer:
      return DecodeAnswer(reader, batch);
    case FrameType::kChallenge:
      batch->challenge = Challenge{std::string(payload)};
      return payload.size() == kNonceBytes
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError("a challenge does not decode");
    case FrameType::kProof:
      batch->proof = Proof{std::string(payload)};
      return payload.size() == kProofBytes ? absl::OkStatus()
                                           : absl::InvalidArgumentError("a proof does not decode");
    case FrameType::kMessage: {
      absl::StatusOr<consensus::Message> message = consensus::DecodeMessage(buffer, payload);
      if (!message.ok()) return message.status();
      batch->messages.push_back(*std::move(message));
      return absl::OkStatus();
    }
    case FrameType::kForward:
      return DecodeForward(buffer, payload, batch);
    case FrameType::kTouch:
      if (payload.size() % sizeof(int64_t) != 0) {
        return absl::InvalidArgumentError("a frame of session touches does not decode");
      }
      while (!reader.empty()) batch->touched_sessions.push_back(reader.Int<int64_t>());
      return absl::OkStatus();
    case FrameType::kDigest:
      return DecodeDigest(payload, batch);
    case FrameType::kDisk: {
      const uint8_t bits = reader.Int<uint8_t>();
      if (!reader.ok()) return absl::InvalidArgumentError("a frame about disks does not decode");
      batch->disk_report = DiskReport{(bits & kDiskLow) != 0, (bits & kDataRefused) != 0};
      return absl::OkStatus();
    }
    case FrameType::kReconfig:
      return DecodeReconfigNote(reader, batch);
    case FrameType::kFragment:
      break;  // a fragment cannot be a fragment's content
  }
  return absl::InvalidArgumentError("a frame between servers has an unknown type " +
                                    std::to_string(static_cast<int>(type)));
}

// Checks the checksum of a batch, and calls `handle` for each of its frames.
template <class Handle>
absl::Status ForEachFrame(std::string_view bytes, Handle handle) {
  LittleEndianReader reader(bytes);
  const uint32_t checksum = reader.Int<uint32_t>();
  if (!reader.ok() || Crc32c(reader.rest()) != checksum) {
    return absl::DataLossError("the checksum of a message between servers does not match");
  }
  while (!reader.empty()) {
    const auto type = static_cast<FrameType>(reader.Int<uint8_t>());
    std::string_view payload = reader.String();
    if (!reader.ok()) return absl::InvalidArgumentError("a frame between servers is cut short");
    if (absl::Status status = handle(type, payload); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

void AppendHelloFrame(const Hello& hello, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kHello, out);
  LittleEndianWriter writer(out);
  writer.Int(hello.protocol_version);
  writer.Int(hello.from.value());
  writer.Int(hello.to.value());
  writer.String(hello.cluster_id);
  writer.Int(hello.newest_version);
  writer.Int(hello.process);
  if (!hello.nonce.empty()) writer.String(hello.nonce);
  EndFrame(payload, out);
}

void AppendAnswerFrame(const HelloAnswer& answer, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kAnswer, out);
  LittleEndianWriter writer(out);
  writer.Int(static_cast<uint8_t>(answer.accepted));
  writer.String(answer.reason);
  writer.String(answer.cluster_id);
  writer.Int(answer.newest_version);
  writer.Int(answer.process);
  if (!answer.proof.empty()) writer.String(answer.proof);
  EndFrame(payload, out);
}

void AppendChallengeFrame(const Challenge& challenge, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kChallenge, out);
  *out += challenge.nonce;
  EndFrame(payload, out);
}

void AppendProofFrame(const Proof& proof, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kProof, out);
  *out += proof.proof;
  EndFrame(payload, out);
}

void AppendMessageFrame(const consensus::Message& message, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kMessage, out);
  consensus::EncodeMessage(message, out);
  EndFrame(payload, out);
}

void AppendForwardFrame(const std::vector<std::string_view>& commands, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kForward, out);
  LittleEndianWriter writer(out);
  writer.Int(static_cast<uint32_t>(commands.size()));
  for (std::string_view command : commands) writer.String(command);
  EndFrame(payload, out);
}

void AppendTouchFrame(const std::vector<int64_t>& sessions, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kTouch, out);
  LittleEndianWriter writer(out);
  for (int64_t session : sessions) writer.Int(session);
  EndFrame(payload, out);
}

void AppendReconfigFrame(const ReconfigNote& note, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kReconfig, out);
  LittleEndianWriter writer(out);
  writer.Int(static_cast<uint8_t>(note.is_answer));
  writer.Int(note.id);
  writer.String(note.body);
  EndFrame(payload, out);
}

void AppendDigestFrame(const DigestNote& note, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kDigest, out);
  LittleEndianWriter writer(out);
  writer.Int(static_cast<uint8_t>(note.kind));
  writer.Int(note.zxid);
  writer.Int(static_cast<uint8_t>(note.digest.has_value()));
  writer.Int(note.digest.value_or(0));
  EndFrame(payload, out);
}

void AppendDiskFrame(const DiskReport& report, std::string* out) {
  const size_t payload = BeginFrame(FrameType::kDisk, out);
  LittleEndianWriter(out).Int(static_cast<uint8_t>((report.disk_low ? kDiskLow : 0) |
                                                   (report.data_refused ? kDataRefused : 0)));
  EndFrame(payload, out);
}

void SealFrames(std::string* frames) {
  ASSERT(!frames->empty());
  char checksum[kChecksumBytes];
  StoreInt<std::endian::little>(checksum, Crc32c(*frames));
  frames->insert(0, checksum, kChecksumBytes);
}

size_t FirstFrameBytes(std::string_view frames) {
  ASSERT(frames.size() >= kFrameHeaderBytes);
  return kFrameHeaderBytes + LoadInt<std::endian::little, uint32_t>(frames.data() + 1);
}

void WriteFragmentHeader(std::string_view frame_header, size_t offset, size_t count,
                         char (&to)[kFragmentHeaderBytes]) {
  ASSERT(frame_header.size() == kFrameHeaderBytes);
  to[0] = static_cast<char>(FrameType::kFragment);
  StoreInt<std::endian::little>(
      to + 1, static_cast<uint32_t>(kFragmentHeaderBytes - kFrameHeaderBytes + count));
  frame_header.copy(to + kFrameHeaderBytes, kFrameHeaderBytes);
  StoreInt<std::endian::little>(to + 2 * kFrameHeaderBytes, static_cast<uint32_t>(offset));
}

absl::StatusOr<PeerBatch> FrameDecoder::Decode(std::shared_ptr<std::string> buffer) {
  PeerBatch batch;
  const absl::Status status = ForEachFrame(*buffer, [&](FrameType type, std::string_view payload) {
    return type == FrameType::kFragment ? AddFragment(payload, &batch)
                                        : DecodeFrame(buffer, type, payload, &batch);
  });
  if (!status.ok()) return status;
  return batch;
}

absl::StatusOr<PeerBatch> FrameDecoder::DecodeGreeting(std::shared_ptr<std::string> buffer) {
  PeerBatch batch;
  const absl::Status status =
      ForEachFrame(*buffer, [&](FrameType type, std::string_view payload) -> absl::Status {
        const bool is_greeting = type == FrameType::kHello || type == FrameType::kAnswer ||
                                 type == FrameType::kChallenge || type == FrameType::kProof;
        if (is_greeting) return DecodeFrame(buffer, type, payload, &batch);
        return absl::InvalidArgumentError("a connection between servers has to begin with a hello");
      });
  if (!status.ok()) return status;
  return batch;
}

absl::Status FrameDecoder::AddFragment(std::string_view payload, PeerBatch* batch) {
  LittleEndianReader reader(payload);
  const uint8_t type = reader.Int<uint8_t>();
  const size_t whole = reader.Int<uint32_t>();
  const size_t offset = reader.Int<uint32_t>();
  if (!reader.ok() || reader.empty()) {
    return absl::InvalidArgumentError("a fragment of a frame does not decode");
  }
  if (whole > kFrameBytesMax) {
    return absl::InvalidArgumentError("a frame of " + std::to_string(whole) +
                                      " bytes is sent in fragments; at most " +
                                      std::to_string(kFrameBytesMax) + " are allowed");
  }
  if (partial_ == nullptr && offset == 0) {
    partial_ = std::make_shared<std::string>();
    partial_->reserve(whole);
    partial_type_ = type;
    partial_bytes_ = whole;
  }
  const bool continues = partial_ != nullptr && type == partial_type_ && whole == partial_bytes_ &&
                         offset == partial_->size();
  if (!continues || reader.rest().size() > whole - offset) {
    return absl::InvalidArgumentError("a fragment does not continue the one before it");
  }
  partial_->append(reader.rest());
  if (partial_->size() < whole) return absl::OkStatus();
  const std::shared_ptr<std::string> frame = std::exchange(partial_, nullptr);
  return DecodeFrame(frame, static_cast<FrameType>(type), *frame, batch);
}

}  // namespace quorate::rpc
