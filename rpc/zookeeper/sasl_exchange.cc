// SPDX-License-Identifier: Apache-2.0

#include "rpc/zookeeper/sasl_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rpc/zookeeper/connection.h"
#include "rpc/zookeeper/connection_loop.h"
#include "tree/acl.h"

namespace quorate::rpc::zk {
namespace {

using tree::ErrorCode;

// How much of the reason of a failure is logged; it may have a name that the client sent.
constexpr size_t kReasonBytesShown = 300;

}  // namespace

absl::StatusOr<sasl::Reply> SaslExchange::OnToken(sasl::Authenticator* authenticator,
                                                  std::string_view address,
                                                  std::string_view token) {
  if (has_ended_) {
    return absl::UnauthenticatedError("the authentication of this connection has ended already");
  }
  absl::StatusOr<sasl::Reply> reply = absl::UnauthenticatedError("");
  if (token.size() > sasl::kTokenBytesMax) {
    reply =
        absl::UnauthenticatedError(absl::StrCat("a token of ", token.size(), " bytes is too long"));
  } else if (++rounds_ > sasl::kRoundsMax) {
    reply = absl::UnauthenticatedError("too many tokens");
  } else {
    if (exchange_ == nullptr) exchange_ = authenticator->Begin(address);
    reply = exchange_->OnToken(token);
  }
  if (!reply.ok() || reply->is_done) {
    has_ended_ = true;
    exchange_ = nullptr;
  }
  return reply;
}

absl::Status Connection::OnSasl(int32_t xid, std::string_view body) {
  std::string_view token;
  if (!DecodeSaslRequest(body, &token)) {
    return absl::InvalidArgumentError("a SASL request does not decode");
  }
  sasl::Authenticator* authenticator = loop_->frontend().authenticator();
  if (authenticator == nullptr) {
    // Without SASL, as with ZooKeeper, the client goes on after a reply without a token.
    ReplySasl(xid, ErrorCode::kOk, std::nullopt);
    return absl::OkStatus();
  }
  if (sasl_ == nullptr) sasl_ = std::make_unique<SaslExchange>();
  absl::StatusOr<sasl::Reply> reply = sasl_->OnToken(authenticator, address_, token);
  if (reply.ok() && reply->is_done && !identities_.AddSasl(reply->user)) {
    reply = absl::UnauthenticatedError("the connection has too many identities");
  }
  if (reply.ok()) {
    if (reply->is_done) {
      if (absl::Status s = JoinIdentity(); !s.ok()) return s;
    }
    ReplySasl(xid, ErrorCode::kOk, reply->token);
    return absl::OkStatus();
  }
  return OnSaslFailure(xid, reply.status());
}

absl::Status Connection::OnSaslFailure(int32_t xid, const absl::Status& why) {
  const std::string reason = absl::CHexEscape(why.message().substr(0, kReasonBytesShown));
  loop_->LogFailedSasl(*this, reason);
  RecordFailedAuthentication(absl::StrCat("sasl: ", reason));
  const Config& config = loop_->frontend().config();
  const std::vector<std::string>& required = config.required_auth_schemes;
  const bool is_required = std::ranges::find(required, tree::kSaslScheme) != required.end();
  if (config.admits_clients_that_fail_sasl && !is_required) {
    ReplySasl(xid, ErrorCode::kOk, std::nullopt);
    return absl::OkStatus();
  }
  // A proof that was not looked at may be right. Without an error, Java's and C clients connect again,
  // instead of giving up.
  if (!absl::IsResourceExhausted(why)) {
    ReplySasl(xid, is_required ? kRequiredAuthMissing : ErrorCode::kAuthFailed, std::nullopt);
  }
  return absl::UnauthenticatedError(absl::StrCat("SASL authentication failed: ", reason));
}

void Connection::ReplySasl(int32_t xid, ErrorCode error, const std::optional<std::string>& token) {
  ReplyWriter reply(&out_, xid, tree::Zxid(0), error);
  WriteData(token.has_value(), token.value_or(""), reply.body());
  ++packets_sent_;
}

absl::Status Connection::RefuseUnauthenticated(int32_t xid) {
  RecordFailedAuthentication(identities_.RequiredText());
  { ReplyWriter reply(&out_, xid, tree::Zxid(0), kRequiredAuthMissing); }
  ++packets_sent_;
  return absl::UnauthenticatedError(identities_.RequiredText());
}

}  // namespace quorate::rpc::zk
