// SPDX-License-Identifier: Apache-2.0

#include "client/testing/session_end.h"

#include <grpcpp/grpcpp.h>

#include <chrono>

#include "client/session_loss.h"
#include "rpc/proto/errors.h"
#include "rpc/proto/quorate/v1/session.grpc.pb.h"
#include "rpc/proto/times.h"

namespace quorate::testing {
namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr int kTimeoutMs = 10'000;

}  // namespace

absl::Status EndSessionOf(Client* client, const std::string& address) {
  const auto [id, password] = internal::SessionKeyOf(client);
  if (id == 0) return absl::FailedPreconditionError("the client has no session now");
  const auto stub =
      v1::SessionService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto stream = stub->Session(&context);
  v1::SessionRequest message;
  message.mutable_open()->set_session_id(id);
  message.mutable_open()->set_password(password);
  *message.mutable_open()->mutable_timeout() = v1::DurationOfMs(kTimeoutMs);
  v1::Request* close = message.add_requests();
  close->set_id(1);
  close->mutable_close();
  bool is_closed = false;
  v1::SessionResponse response;
  if (stream->Write(message)) {
    while (!is_closed && stream->Read(&response)) {
      for (const v1::SessionItem& item : response.items()) is_closed |= item.has_response();
    }
  }
  stream->WritesDone();
  if (is_closed) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (is_closed) return absl::OkStatus();
  return status.ok() ? absl::UnavailableError("the server ended the stream") : v1::FromGrpc(status);
}

}  // namespace quorate::testing
