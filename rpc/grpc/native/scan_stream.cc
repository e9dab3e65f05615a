// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/scan_stream.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "rpc/frontend/config_node.h"
#include "rpc/frontend/listing.h"
#include "rpc/grpc/native/message_parts.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/grpc/native/translation.h"
#include "rpc/grpc/native/writes.h"
#include "rpc/proto/errors.h"
#include "tree/path.h"

namespace quorate::rpc::native {
namespace {

constexpr int kKindsMax = 16;
// The interval at which a page without znodes is sent if none are found.
constexpr auto kProgressPeriod = std::chrono::seconds(5);
// A scan that keeps at most this size in bytes goes on even if replies take too much memory.
constexpr size_t kSmallScanBytes = 1u << 20;
// The most bytes that a page has besides its znodes and the path in its token.
constexpr size_t kPageRestBytes = 64;

// The first byte of a token.
constexpr uint8_t kTokenVersion = 1;

std::optional<tree::NodeKind> FromProto(int kind) {
  switch (kind) {
    case v1::ZNODE_KIND_PERSISTENT:
      return tree::NodeKind::kPersistent;
    case v1::ZNODE_KIND_EPHEMERAL:
      return tree::NodeKind::kEphemeral;
    case v1::ZNODE_KIND_CONTAINER:
      return tree::NodeKind::kContainer;
    case v1::ZNODE_KIND_TTL:
      return tree::NodeKind::kTtl;
    default:
      return std::nullopt;
  }
}

v1::ZnodeKind ToProto(tree::NodeKind kind) {
  switch (kind) {
    case tree::NodeKind::kPersistent:
      return v1::ZNODE_KIND_PERSISTENT;
    case tree::NodeKind::kEphemeral:
      return v1::ZNODE_KIND_EPHEMERAL;
    case tree::NodeKind::kContainer:
      return v1::ZNODE_KIND_CONTAINER;
    case tree::NodeKind::kTtl:
      return v1::ZNODE_KIND_TTL;
  }
  return v1::ZNODE_KIND_UNSPECIFIED;
}

absl::Status BadRequest(std::string_view reason) {
  return ToStatus(v1::ERROR_CODE_BAD_ARGUMENTS, reason);
}

}  // namespace

ScanStream::ScanStream(StreamLoop* loop, uint32_t tag, std::string client_address)
    : Stream(loop, tag, std::move(client_address), /*is_call=*/false),
      opened_(loop->now()),
      kept_(&loop->frontend().service().memory(), MemoryUse::kReads),
      sent_(loop->now()) {}

// --- The request ---------------------------------------------------------------------------------

absl::Status ScanStream::OnMessage(std::string_view bytes) {
  if (state_ != State::kNew) return BadRequest("a scan has one request");
  if (absl::Status s = CheckParts(*v1::ScanRequest::descriptor(), bytes); !s.ok()) return s;
  if (!request_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return BadRequest("the message is not a quorate.v1.ScanRequest");
  }
  request_.DiscardUnknownFields();
  if (absl::Status s = Authenticate(); !s.ok()) return s;
  if (!tenants().TakeRequest(loop_->now())) return OnLimit(Limit::kRequests);
  if (tenants().IsAtBytes()) return OnLimit(Limit::kOutstandingBytes);
  if (tenants().IsAtOutstanding(0)) return OnLimit(Limit::kOutstandingRequests);
  tenants().SetOutstanding(outstanding(), 0);
  if (absl::Status s = SetQuery(); !s.ok()) return s;
  CountKept();
  wants_to_continue_ = true;
  state_ = State::kReady;
  const v1::ReadOptions& options = request_.options();
  if (!options.linearizable()) {
    return options.any_state() ? absl::OkStatus()
                               : CheckFresh(loop_->status(), loop_->frontend().config());
  }
  if (!loop_->frontend().service().status().in_touch) return OutOfTouch();
  state_ = State::kWaiting;
  loop_->JoinBarrier(tag());
  return absl::OkStatus();
}

absl::Status ScanStream::SetQuery() {
  if (!tree::IsValidPath(request_.path(), /*sequential=*/false))
    return Fail(v1::ERROR_CODE_BAD_ARGUMENTS);
  const size_t path_bytes_max = PathBytesMax(loop_->frontend().config());
  if (request_.path().size() > path_bytes_max || request_.prefix().size() > path_bytes_max) {
    return BadRequest("the path or the prefix is longer than any path can be");
  }
  query_.top = request_.path();
  switch (request_.order()) {
    case v1::SCAN_ORDER_UNSPECIFIED:
    case v1::SCAN_ORDER_PATHS:
      query_.order = tree::SubtreeOrder::kPaths;
      break;
    case v1::SCAN_ORDER_LEVELS:
      query_.order = tree::SubtreeOrder::kLevels;
      break;
    default:
      return BadRequest("this member does not know the order");
  }
  query_.prefix = std::move(*request_.mutable_prefix());
  if (request_.kinds_size() > kKindsMax) return BadRequest("the request has more than 16 kinds");
  for (const int requested : request_.kinds()) {
    const std::optional<tree::NodeKind> kind = FromProto(requested);
    if (!kind.has_value()) return BadRequest("this member does not know one of the kinds");
    query_.kinds |= 1u << static_cast<uint32_t>(*kind);
  }
  if (request_.has_depth_max()) {
    if (request_.depth_max() == 0) return BadRequest("depth_max is 0; leave it out for everything");
    query_.depth_max = request_.depth_max();
  }
  query_.with_data = request_.with_data();
  last_zxid_ = request_.options().min_zxid();
  const std::string token = std::move(*request_.mutable_token());
  return token.empty() ? absl::OkStatus() : SetPlace(token);
}

absl::Status ScanStream::SetPlace(std::string_view token) {
  BigEndianReader reader(token);
  const auto version = reader.Int<uint8_t>();
  const auto order = reader.Int<uint8_t>();
  const auto first_zxid = reader.Int<int64_t>();
  const auto last_zxid = reader.Int<int64_t>();
  if (!reader.ok() || version != kTokenVersion || order != static_cast<uint8_t>(query_.order) ||
      first_zxid <= 0 || last_zxid < first_zxid) {
    return BadRequest("the token is not one of this scan; use the token of its last page");
  }
  first_zxid_ = first_zxid;
  last_zxid_ = std::max(last_zxid_, last_zxid);
  if (reader.empty()) return absl::OkStatus();
  std::optional<tree::SubtreePlace> place;
  if (reader.rest().size() <= PathBytesMax(loop_->frontend().config())) {
    place = tree::SubtreePlace::Behind(query_, reader.rest());
  }
  if (!place.has_value()) {
    return BadRequest("the token is not one of this scan; use the token of its last page");
  }
  place_ = *std::move(place);
  return absl::OkStatus();
}

std::string ScanStream::Token() const {
  std::string token;
  BigEndianWriter writer(&token);
  writer.Int(kTokenVersion);
  writer.Int(static_cast<uint8_t>(query_.order));
  writer.Int(first_zxid_);
  writer.Int(last_zxid_);
  writer.Raw(place_.last());
  return token;
}

absl::Status ScanStream::OnResult(tree::ApplyResult) { ASSERT(false, "a scan submits no command"); }

void ScanStream::OnBarrierDone(uint64_t) {
  state_ = State::kReady;
  wants_to_continue_ = true;
}

// --- The pages -----------------------------------------------------------------------------------

absl::Status ScanStream::Continue() {
  wants_to_continue_ = false;
  if (state_ != State::kReady || !outbox().empty()) return absl::OkStatus();
  const tree::Zxid wanted(last_zxid_);
  if (wanted > loop_->seen_zxid()) {
    if (loop_->now() - opened_ < kCatchUpTimeout) return absl::OkStatus();
    return IsBehind(wanted, loop_->seen_zxid());
  }
  if (absl::Status s = CheckMemory(); !s.ok()) return s;
  wants_to_continue_ = true;
  absl::Status status;
  if (place_.has_names_to_sort()) {
    loop_->UnlockTree();
    place_.SortNames(query_);
  } else {
    status = ReadPage();
  }
  CountKept();
  return status;
}

void ScanStream::CountKept() {
  kept_.Set(place_.bytes() + query_.top.capacity() + query_.prefix.capacity() +
            request_.SpaceUsedLong());
}

absl::Status ScanStream::CheckMemory() const {
  MemoryBudget& memory = loop_->frontend().service().memory();
  if (kept_.bytes() <= kSmallScanBytes || !memory.replies_exceed()) return absl::OkStatus();
  memory.CountRefused();
  return ToStatus(v1::ERROR_CODE_UNAVAILABLE,
                  "replies that clients do not fetch take too much of this member's memory "
                  "(memoryLimitMb); go on with the token of the last page, here or at another "
                  "member");
}

bool ScanStream::Add(const tree::SubtreeEntry& entry, std::string* page) {
  if (request_.limit() != 0 && shown_ == request_.limit()) return false;
  v1::ScanEntry shown;
  std::string* path = shown.mutable_path();
  if (query_.top != "/") *path = query_.top;
  path->append("/").append(entry.path);
  tree::Stat stat = entry.stat;
  std::string_view data = entry.data;
  CompleteConfigNode(loop_->frontend().members_text(), *path, &stat, &data);
  shown.set_kind(ToProto(entry.kind));
  if (request_.with_stats()) native::ToProto(stat, shown.mutable_stat());
  if (query_.with_data && !entry.may_read) {
    shown.set_no_auth(true);
  } else if (query_.with_data) {
    shown.set_data(data.data(), data.size());
  }
  // The token will have the path too.
  const size_t added = shown.ByteSizeLong() + entry.path.size() + kPageRestBytes;
  if (!page->empty() && page->size() + added > kPageBytesMax) return false;
  AppendField(v1::ScanResponse::kEntriesFieldNumber, shown, page);
  ++shown_;
  return true;
}

absl::Status ScanStream::ReadPage() {
  last_zxid_ = loop_->seen_zxid().value();
  if (first_zxid_ == 0) first_zxid_ = last_zxid_;
  std::string page;
  size_t steps = 0;
  const tree::ErrorCode error = loop_->tree().ReadSubtree(
      query_, identities().all(), kNodesPerHold,
      [&](const tree::SubtreeEntry& entry) { return Add(entry, &page); }, &place_, &steps);
  loop_->Spend(1 + steps);
  if (error != tree::ErrorCode::kOk) return Fail(native::ToProto(error));
  if (place_.is_too_deep()) {
    return ToStatus(
        v1::ERROR_CODE_TOO_LARGE,
        absl::StrCat("there are znodes deeper than ", tree::SubtreeDepthMax(query_.order),
                     " below ", query_.top, "; give a depth_max, or scan the subtrees"));
  }
  const bool ends = place_.done() || (request_.limit() != 0 && shown_ == request_.limit());
  if (page.empty() && !ends && loop_->now() - sent_ < kProgressPeriod) return absl::OkStatus();
  v1::ScanResponse rest;
  rest.set_zxid(last_zxid_);
  rest.set_token(Token());
  rest.set_complete(place_.done());
  rest.set_watch_after_zxid(first_zxid_);
  rest.AppendToString(&page);
  outbox().Open()->append(page);
  outbox().Close();
  sent_ = loop_->now();
  if (ends) Finish(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status ScanStream::Fail(v1::ErrorCode code) const {
  v1::ErrorDetail detail;
  detail.set_path(request_.path());
  detail.set_zxid(loop_->seen_zxid().value());
  return ToStatus(code, {}, std::move(detail));
}

absl::Status ScanStream::CheckTime(std::chrono::steady_clock::time_point now,
                                   int64_t leader_contact_age_ms) {
  switch (state_) {
    case State::kNew:
      if (now - opened_ <= kOpenTimeout) return absl::OkStatus();
      return ToStatus(v1::ERROR_CODE_NO_REQUEST, "no request was received");
    case State::kWaiting:
      return leader_contact_age_ms > kLeaderlessCallMs ? OutOfTouch() : absl::OkStatus();
    case State::kReady:
      break;
  }
  wants_to_continue_ = true;
  if (request_.options().any_state() && !request_.options().linearizable()) return absl::OkStatus();
  return CheckFresh(loop_->status(), loop_->frontend().config());
}

}  // namespace quorate::rpc::native
