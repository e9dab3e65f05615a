// SPDX-License-Identifier: Apache-2.0

#include "rpc/grpc/native/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/strings.h"
#include "rpc/audit/request_audit.h"
#include "rpc/grpc/native/stream_loop.h"
#include "rpc/proto/errors.h"

namespace quorate::rpc::native {
namespace {

// From this number of bytes on, no part is added to a message. With one more response of usual
// size, the message stays below the 4 MB that gRPC clients accept by default.
constexpr size_t kMessageBytes = 1u << 20;

absl::Status TooMany(Limit limit) {
  return ToStatus(
      v1::ERROR_CODE_TOO_MANY_STREAMS,
      absl::StrCat("the client's address or identity has reached a limit of this member (",
                   ToAbsl(KeyOf(limit)), "); try later"));
}

}  // namespace

std::string* Outbox::Open(size_t part_bytes) {
  const bool begins =
      messages_.empty() || messages_.back().counted >= kMessageBytes ||
      (messages_.back().counted > 0 && messages_.back().counted + part_bytes > kMessageBytes);
  if (begins) messages_.emplace_back();
  return &messages_.back().bytes;
}

void Outbox::Close() {
  ASSERT(!messages_.empty());
  Message& last = messages_.back();
  bytes_ += last.bytes.size() - std::exchange(last.counted, last.bytes.size());
}

void Outbox::Pop() {
  bytes_ -= messages_.front().counted;
  messages_.pop_front();
}

bool EventFeed::Takes(uint64_t number, size_t unsent_bytes) {
  if (lagging_) return false;
  if (unsent_bytes >= kUnsentBytesMax) GoBackTo(number);
  return !lagging_;
}

void EventFeed::GoBackTo(uint64_t number) {
  lagging_ = true;
  next_ = number;
}

absl::Status EventFeed::Lost() { return ToStatus(v1::ERROR_CODE_TOO_SLOW, {}); }

Stream::Stream(StreamLoop* loop, uint32_t tag, std::string address, bool is_call)
    : loop_(loop),
      tag_(tag),
      address_(std::move(address)),
      identities_(loop->frontend().config(), address_),
      tenants_(&loop->frontend().service().tenants(), address_, /*is_connection=*/!is_call,
               loop->now()) {}

absl::Status Stream::SetProof(CallerProof proof) {
  if (!proof.refused.ok()) {
    RecordFailedAuthentication(proof.refused_key);
    return proof.refused;
  }
  const Principal& principal = proof.principal;
  if (!principal.subject.empty() && !identities_.AddCertificate(principal.subject)) {
    return ToStatus(v1::ERROR_CODE_AUTH_FAILED, "the subject of the certificate is too long");
  }
  if (principal.is_super && !identities_.AddSuper()) {
    return ToStatus(v1::ERROR_CODE_AUTH_FAILED, {});
  }
  token_ = principal.token;
  credentials_ = std::move(proof.credentials);
  return absl::OkStatus();
}

absl::Status Stream::AddCredential(const v1::Credential& credential) {
  absl::Status added = absl::UnauthenticatedError("");
  if (credential.scheme() == "digest") {
    added =
        identities_.AddDigest(credential.secret(), loop_->frontend().service().super_failures());
  }
  if (added.ok()) return added;
  RecordFailedAuthentication(credential.scheme());
  // The client may try again: the credential was not looked at.
  if (absl::IsUnavailable(added)) {
    return ToStatus(v1::ERROR_CODE_UNAVAILABLE, ToStd(added.message()));
  }
  return ToStatus(v1::ERROR_CODE_AUTH_FAILED, {});
}

absl::Status Stream::Authenticate() {
  for (const v1::Credential& credential : std::exchange(credentials_, {})) {
    if (absl::Status s = AddCredential(credential); !s.ok()) return s;
  }
  if (identities_.lacks_required()) {
    RecordFailedAuthentication(identities_.RequiredText());
    return ToStatus(v1::ERROR_CODE_AUTH_FAILED, identities_.RequiredText());
  }
  return JoinIdentity();
}

void Stream::RecordFailedAuthentication(std::string_view reason) {
  loop_->frontend().service().CountFailedAuthentication();
  if (RequestAudit* audit = loop_->frontend().request_audit()) {
    audit->OnFailedAuthentication(session(), identities_.shown(), reason);
  }
}

absl::Status Stream::JoinIdentity() {
  if (!tenants_.SetIdentity(identities_.shown(), loop_->now())) {
    return TooMany(Limit::kConnections);
  }
  if (tenants_.shown() != nullptr) ShowSession(tenants_.shown()->attach_zxid);
  return absl::OkStatus();
}

void Stream::ShowSession(tree::Zxid attach_zxid) {
  std::vector<tree::Identity> shown(identities_.shown().begin(), identities_.shown().end());
  if (!token_.empty()) shown.push_back({"token", token_});
  loop_->frontend().ShowSession(session(), attach_zxid, tag_, ClientProtocol::kGrpc, address_,
                                shown, &tenants_);
}

absl::Status Stream::OnLimit(Limit limit) {
  tenants_.OnReached(limit, loop_->now());
  return TooMany(limit);
}

void Stream::OnEvent(uint64_t, const Event&) {}

absl::Status Stream::OnSessionAttached(tree::Zxid) { return absl::OkStatus(); }

void Stream::Finish(absl::Status outcome) {
  if (std::exchange(finished_, true)) return;
  outcome_ = std::move(outcome);
  OnFinish();
}

}  // namespace quorate::rpc::native
