// SPDX-License-Identifier: Apache-2.0

#include "consensus/core/message.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "consensus/core/describe.h"
#include "consensus/core/limits.h"
#include "consensus/core/membership.h"

namespace quorate::consensus {
namespace {

using Body = decltype(Message::body);

// The first byte of a message is the alternative of Message::body, counted from 1 so that zeros are
// not a message. AppendRejected uses the type of AppendAccepted; the byte after the header tells
// them apart.
constexpr uint8_t TypeByte(size_t alternative) { return static_cast<uint8_t>(alternative + 1); }
constexpr size_t kAppendAccepted = 3;
constexpr size_t kAppendRejected = 15;
static_assert(std::is_same_v<std::variant_alternative_t<kAppendAccepted, Body>, AppendAccepted>);
static_assert(std::is_same_v<std::variant_alternative_t<kAppendRejected, Body>, AppendRejected>);

uint8_t TypeByteOf(const Body& body) {
  return TypeByte(body.index() == kAppendRejected ? kAppendAccepted : body.index());
}

// The value of VoteResponse::granted if a membership follows; without one it is 0 or 1.
constexpr uint8_t kGrantedWithMembership = 2;

// The last byte of the header: bits.
constexpr uint8_t kFlagVoting = 1;
constexpr uint8_t kFlagOnBehalf = 2;  // the number of the leader follows
constexpr uint8_t kFlagFeeding = 4;   // the body ends with a list of observers
constexpr uint8_t kFlagsMax = kFlagVoting | kFlagOnBehalf | kFlagFeeding;

bool HasListOfObservers(const Message& message) {
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message.body)) {
    return !heartbeat->observers.empty();
  }
  const auto* response = std::get_if<HeartbeatResponse>(&message.body);
  return response != nullptr && response->fed.has_value();
}

// The header of an entry: index, term, kind, payload length.
constexpr size_t kEntryHeaderBytes = 8 + 8 + 1 + 4;

// --- Text ----------------------------------------------------------------------------------------

struct BodyText {
  std::string operator()(const VoteRequest& body) const {
    return std::string(body.pre_vote ? " PreVoteRequest" : " VoteRequest") +
           (body.leadership_transfer ? " (transfer)" : "") +
           (body.bootstrap ? " (bootstrap)" : "") +
           " last=" + DescribePosition(body.last_index, body.last_term);
  }
  std::string operator()(const VoteResponse& body) const {
    return std::string(body.pre_vote ? " PreVoteResponse" : " VoteResponse") +
           (body.granted ? " granted" : " rejected") +
           (body.configured ? " configured " + ToString(*body.configured) : "");
  }
  std::string operator()(const AppendRequest& body) const {
    return " AppendRequest prev=" + DescribePosition(body.prev_index, body.prev_term) +
           " commit=" + Describe(body.commit) + (body.commit_only ? " commit-only" : "") +
           (body.entries.empty() ? "" : " " + DescribeEntries(body.entries));
  }
  std::string operator()(const AppendAccepted& body) const {
    const bool all_durable = body.received_index == body.match_index;
    return " AppendAccepted match=" + Describe(body.match_index) +
           (all_durable ? "" : " received=" + Describe(body.received_index));
  }
  std::string operator()(const AppendRejected& body) const {
    return " AppendRejected prev=" + Describe(body.prev_index) +
           " candidate=" + DescribePosition(body.candidate_index, body.candidate_term);
  }
  std::string operator()(const Heartbeat& body) const {
    std::string text =
        " Heartbeat commit=" + Describe(body.commit) + " round=" + Describe(body.read_round);
    for (MemberId member : body.observers) text += " feed=" + Describe(member);
    return text;
  }
  std::string operator()(const HeartbeatResponse& body) const {
    std::string text = " HeartbeatResponse round=" + Describe(body.read_round);
    if (!body.fed) return text;
    text += " feeds";
    for (const FedObserver& observer : *body.fed) {
      text += " " + Describe(observer.member) + ":" + Describe(observer.match);
    }
    return text;
  }
  std::string operator()(const ReadIndexRequest& body) const {
    return " ReadIndexRequest id=" + std::to_string(body.request_id) +
           (body.recovering ? " recovering" : "");
  }
  std::string operator()(const ReadIndexResponse& body) const {
    return " ReadIndexResponse id=" + std::to_string(body.request_id) +
           " index=" + Describe(body.index);
  }
  std::string operator()(const TimeoutNow&) const { return " TimeoutNow"; }
  std::string operator()(const SnapshotChunk& body) const {
    return " SnapshotChunk {" + ToString(body.meta) + "} offset=" + std::to_string(body.offset) +
           " bytes=" + std::to_string(body.bytes.size()) + (body.last ? " last" : "");
  }
  std::string operator()(const SnapshotAck& body) const {
    return " SnapshotAck index=" + Describe(body.index) +
           (body.done ? " done" : " next_offset=" + std::to_string(body.next_offset));
  }
  std::string operator()(const DirectoryEpochRequest&) const { return " DirectoryEpochRequest"; }
  std::string operator()(const DirectoryEpochResponse& body) const {
    return " DirectoryEpochResponse directory_epoch=" + std::to_string(body.directory_epoch) +
           " known=" + std::to_string(body.known_directory_epoch);
  }
  std::string operator()(const SnapshotRejected& body) const {
    return " SnapshotRejected index=" + Describe(body.index) + " reason=" + body.reason;
  }
  std::string operator()(const LossNotice& body) const {
    return " LossNotice acknowledged=" + DescribePosition(body.index, body.term);
  }
};

// --- Bytes ---------------------------------------------------------------------------------------

size_t EncodedPayloadBytes(const Message& message) {
  size_t bytes = 0;
  if (const auto* chunk = std::get_if<SnapshotChunk>(&message.body)) bytes = chunk->bytes.size();
  if (const auto* append = std::get_if<AppendRequest>(&message.body)) {
    for (const Entry& entry : append->entries) bytes += kEntryHeaderBytes + entry.payload.size();
  }
  return bytes;
}

struct BodyWriter {
  LittleEndianWriter& out;

  void Bool(bool value) const { out.Int<uint8_t>(value ? 1 : 0); }

  void operator()(const VoteRequest& body) const {
    Bool(body.pre_vote);
    Bool(body.leadership_transfer);
    out.Int(body.last_index.value());
    out.Int(body.last_term.value());
    Bool(body.bootstrap);
  }
  void operator()(const VoteResponse& body) const {
    Bool(body.pre_vote);
    out.Int<uint8_t>(!body.granted ? 0 : body.configured ? kGrantedWithMembership : 1);
    if (body.granted && body.configured) out.String(EncodeMembership(*body.configured));
  }
  void operator()(const AppendRequest& body) const {
    out.Int(body.prev_index.value());
    out.Int(body.prev_term.value());
    out.Int(body.commit.value());
    Bool(body.commit_only);
    out.Int(static_cast<uint32_t>(body.entries.size()));
    for (const Entry& entry : body.entries) {
      out.Int(entry.index.value());
      out.Int(entry.term.value());
      out.Int(static_cast<uint8_t>(entry.kind));
      out.String(entry.payload.view());
    }
  }
  void operator()(const AppendAccepted& body) const {
    Bool(true);
    out.Int(body.match_index.value());
    out.Int<uint64_t>(0);
    out.Int(body.received_index.value());
    out.Int<uint64_t>(0);
  }
  void operator()(const AppendRejected& body) const {
    Bool(false);
    out.Int<uint64_t>(0);
    out.Int(body.prev_index.value());
    out.Int(body.candidate_index.value());
    out.Int(body.candidate_term.value());
  }
  void operator()(const Heartbeat& body) const {
    out.Int(body.commit.value());
    out.Int(body.read_round.value());
    if (body.observers.empty()) return;
    out.Int(static_cast<uint8_t>(body.observers.size()));
    for (MemberId member : body.observers) out.Int(static_cast<uint8_t>(member.value()));
  }
  void operator()(const HeartbeatResponse& body) const {
    out.Int(body.read_round.value());
    if (!body.fed) return;
    out.Int(static_cast<uint8_t>(body.fed->size()));
    for (const FedObserver& observer : *body.fed) {
      out.Int(static_cast<uint8_t>(observer.member.value()));
      out.Int(observer.match.value());
      out.Int(observer.directory_epoch);
    }
  }
  void operator()(const ReadIndexRequest& body) const {
    out.Int(body.request_id);
    Bool(body.recovering);
  }
  void operator()(const ReadIndexResponse& body) const {
    out.Int(body.request_id);
    out.Int(body.index.value());
  }
  void operator()(const TimeoutNow&) const {}
  void operator()(const SnapshotChunk& body) const {
    out.String(EncodeSnapshotMeta(body.meta));
    out.Int(body.offset);
    Bool(body.last);
    out.String(body.bytes.view());
  }
  void operator()(const SnapshotAck& body) const {
    out.Int(body.index.value());
    out.Int(body.next_offset);
    Bool(body.done);
  }
  void operator()(const DirectoryEpochRequest&) const {}
  void operator()(const DirectoryEpochResponse& body) const {
    out.Int(body.directory_epoch);
    out.Int(body.known_directory_epoch);
  }
  void operator()(const SnapshotRejected& body) const {
    out.Int(body.index.value());
    out.String(body.reason);
  }
  void operator()(const LossNotice& body) const {
    out.Int(body.index.value());
    out.Int(body.term.value());
  }
};

class BodyReader {
 public:
  // `has_list` is whether the body ends with a list of observers.
  BodyReader(const Slice::Buffer& buffer, LittleEndianReader* in, bool has_list)
      : buffer_(buffer), in_(*in), has_list_(has_list) {}

  // Returns whether there should have been a list, but the body has none.
  bool lacks_list() const { return has_list_; }

  void Read(VoteRequest* body) {
    body->pre_vote = Bool();
    body->leadership_transfer = Bool();
    Read(&body->last_index);
    Read(&body->last_term);
    body->bootstrap = Bool();
  }
  void Read(VoteResponse* body) {
    body->pre_vote = Bool();
    const auto granted = in_.Int<uint8_t>();
    body->granted = granted != 0;
    if (granted <= 1) return;
    absl::StatusOr<Membership> membership = DecodeMembership(in_.String());
    if (granted != kGrantedWithMembership || !membership.ok() || membership->joint()) {
      return in_.Fail();
    }
    body->configured = *std::move(membership);
  }
  void Read(AppendRequest* body) {
    Read(&body->prev_index);
    Read(&body->prev_term);
    Read(&body->commit);
    body->commit_only = Bool();
    const auto count = in_.Int<uint32_t>();
    // Reserves no more than the remaining bytes can hold, whatever the count is.
    body->entries.reserve(std::min<size_t>(count, in_.rest().size() / kEntryHeaderBytes));
    for (uint32_t i = 0; i < count && in_.ok(); ++i) {
      Entry entry;
      Read(&entry.index);
      Read(&entry.term);
      const auto kind = in_.Int<uint8_t>();
      const std::string_view payload = in_.String();
      const uint64_t expected = body->prev_index.value() + 1 + i;
      // An index that wrapped around does not follow the previous one.
      if (kind > static_cast<uint8_t>(kEntryKindLast) || expected <= body->prev_index.value() ||
          entry.index.value() != expected || payload.size() > kEntryPayloadBytesMax) {
        in_.Fail();
        return;
      }
      entry.kind = static_cast<EntryKind>(kind);
      entry.payload = Share(payload);
      if (IsControl(entry.kind) && !ValidateControl(entry).ok()) in_.Fail();
      body->entries.push_back(std::move(entry));
    }
  }
  // Reads the fields after the byte that tells AppendAccepted from AppendRejected.
  void Read(AppendAccepted* body) {
    Read(&body->match_index);
    Unused();
    Read(&body->received_index);
    Unused();
  }
  void Read(AppendRejected* body) {
    Unused();
    Read(&body->prev_index);
    Read(&body->candidate_index);
    Read(&body->candidate_term);
  }
  void Read(Heartbeat* body) {
    Read(&body->commit);
    Read(&body->read_round);
    if (!std::exchange(has_list_, false)) return;
    const auto count = in_.Int<uint8_t>();
    if (count == 0) in_.Fail();
    for (int i = 0; i < count && in_.ok(); ++i) {
      const MemberId after = body->observers.empty() ? kNoMember : body->observers.back();
      body->observers.push_back(NextMember(after));
    }
  }
  void Read(HeartbeatResponse* body) {
    Read(&body->read_round);
    if (!std::exchange(has_list_, false)) return;
    body->fed.emplace();
    const auto count = in_.Int<uint8_t>();
    for (int i = 0; i < count && in_.ok(); ++i) {
      FedObserver observer;
      observer.member = NextMember(body->fed->empty() ? kNoMember : body->fed->back().member);
      Read(&observer.match);
      observer.directory_epoch = in_.Int<uint64_t>();
      body->fed->push_back(observer);
    }
  }
  void Read(ReadIndexRequest* body) {
    body->request_id = in_.Int<uint64_t>();
    body->recovering = Bool();
  }
  void Read(ReadIndexResponse* body) {
    body->request_id = in_.Int<uint64_t>();
    Read(&body->index);
  }
  void Read(TimeoutNow*) {}
  void Read(SnapshotChunk* body) {
    absl::StatusOr<SnapshotMeta> meta = DecodeSnapshotMeta(in_.String());
    body->offset = in_.Int<uint64_t>();
    body->last = Bool();
    const std::string_view bytes = in_.String();
    if (!meta.ok() || bytes.size() > kEntryPayloadBytesMax ||
        body->offset + bytes.size() < body->offset) {
      in_.Fail();
      return;
    }
    body->meta = *std::move(meta);
    body->bytes = Share(bytes);
  }
  void Read(SnapshotAck* body) {
    Read(&body->index);
    body->next_offset = in_.Int<uint64_t>();
    body->done = Bool();
  }
  void Read(DirectoryEpochRequest*) {}
  void Read(DirectoryEpochResponse* body) {
    body->directory_epoch = in_.Int<uint64_t>();
    body->known_directory_epoch = in_.Int<uint64_t>();
  }
  void Read(SnapshotRejected* body) {
    Read(&body->index);
    body->reason = in_.String();
    if (body->reason.size() > kReasonBytesMax) in_.Fail();
  }
  void Read(LossNotice* body) {
    Read(&body->index);
    Read(&body->term);
  }

  template <class Tag, class Rep>
  void Read(StrongInt<Tag, Rep>* value) {
    *value = StrongInt<Tag, Rep>(in_.Int<Rep>());
  }

  // Reads a field that the message does not use. AppendAccepted and AppendRejected have the same
  // layout, in which each sets the fields of the other to 0.
  void Unused() {
    if (in_.Int<uint64_t>() != 0) in_.Fail();
  }

  bool Bool() {
    const auto value = in_.Int<uint8_t>();
    if (value > 1) in_.Fail();
    return value == 1;
  }

 private:
  // Reads a member of an ascending list, whose previous member is `after`.
  MemberId NextMember(MemberId after) {
    const MemberId member(in_.Int<uint8_t>());
    if (member <= after || member.value() > kMemberIdMax) in_.Fail();
    return member;
  }

  Slice Share(std::string_view bytes) const {
    if (bytes.empty()) return {};
    return Slice(buffer_, static_cast<size_t>(bytes.data() - buffer_->data()), bytes.size());
  }

  const Slice::Buffer& buffer_;
  LittleEndianReader& in_;
  bool has_list_;
};

// Makes `body` the alternative of `type` and reads it. Returns false if there is no such
// alternative.
template <size_t I = 0>
bool ReadBody(uint8_t type, BodyReader* reader, Body* body) {
  if constexpr (I == kAppendRejected) {
    return ReadBody<I + 1>(type, reader, body);
  } else if constexpr (I < std::variant_size_v<Body>) {
    if constexpr (I == kAppendAccepted) {
      if (type == TypeByte(I) && !reader->Bool()) {
        reader->Read(&body->emplace<kAppendRejected>());
        return true;
      }
    }
    if (type != TypeByte(I)) return ReadBody<I + 1>(type, reader, body);
    reader->Read(&body->emplace<I>());
    return true;
  } else {
    return false;
  }
}

}  // namespace

std::string ToString(const Message& message) {
  return Describe(message.from) + "->" + Describe(message.to) + " term=" + Describe(message.term) +
         (message.voting ? "" : " (not voting)") +
         (message.on_behalf_of == kNoMember ? "" : " for=" + Describe(message.on_behalf_of)) +
         std::visit(BodyText{}, message.body);
}

void EncodeMessage(const Message& message, std::string* out) {
  ASSERT(out != nullptr);
  ASSERT(!message.body.valueless_by_exception());
  // Reserves memory: otherwise a long AppendRequest would be copied again each time the string
  // grows.
  const size_t size = out->size() + 64 + EncodedPayloadBytes(message);
  if (size > out->capacity()) out->reserve(std::max(size, 2 * out->capacity()));
  LittleEndianWriter writer(out);
  writer.Int(TypeByteOf(message.body));
  writer.Int(message.from.value());
  writer.Int(message.to.value());
  writer.Int(message.term.value());
  writer.Int(message.directory_epoch);
  writer.Int(message.version);
  const bool on_behalf = message.on_behalf_of != kNoMember;
  writer.Int<uint8_t>((message.voting ? kFlagVoting : 0) | (on_behalf ? kFlagOnBehalf : 0) |
                      (HasListOfObservers(message) ? kFlagFeeding : 0));
  if (on_behalf) writer.Int(message.on_behalf_of.value());
  std::visit(BodyWriter{writer}, message.body);
}

absl::StatusOr<Message> DecodeMessage(const Slice::Buffer& buffer, std::string_view bytes) {
  ASSERT(buffer != nullptr);
  ASSERT(bytes.empty() || (bytes.data() >= buffer->data() &&
                           bytes.data() + bytes.size() <= buffer->data() + buffer->size()));
  LittleEndianReader in(bytes);
  Message message;
  const auto type = in.Int<uint8_t>();
  message.from = MemberId(in.Int<uint32_t>());
  message.to = MemberId(in.Int<uint32_t>());
  message.term = Term(in.Int<uint64_t>());
  message.directory_epoch = in.Int<uint64_t>();
  message.version = in.Int<uint32_t>();
  const auto flags = in.Int<uint8_t>();
  if (flags > kFlagsMax) in.Fail();
  message.voting = (flags & kFlagVoting) != 0;
  if ((flags & kFlagOnBehalf) != 0) {
    message.on_behalf_of = MemberId(in.Int<uint32_t>());
    if (message.on_behalf_of == kNoMember) in.Fail();
  }
  BodyReader reader(buffer, &in, (flags & kFlagFeeding) != 0);
  if (!ReadBody(type, &reader, &message.body)) {
    return absl::InvalidArgumentError("peer message of " + std::to_string(bytes.size()) +
                                      " bytes has the unknown type " + std::to_string(type) +
                                      "; are both members of the same version?");
  }
  if (reader.lacks_list()) in.Fail();
  if (!in.ok() || !in.empty()) {
    return absl::InvalidArgumentError(
        "peer message of type " + std::to_string(type) + " from member " + Describe(message.from) +
        " and of " + std::to_string(bytes.size()) + " bytes is malformed" +
        (in.ok() ? ": " + std::to_string(in.rest().size()) + " bytes are left over" : ""));
  }
  return message;
}

}  // namespace quorate::consensus
