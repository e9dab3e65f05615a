// SPDX-License-Identifier: Apache-2.0

#include "client/stream.h"

#include <limits>
#include <utility>

#include "rpc/proto/credentials.h"

namespace quorate::internal {
namespace {

std::shared_ptr<grpc::Channel> NewChannel(const ChannelFactory& channels,
                                          const std::string& address) {
  grpc::ChannelArguments arguments;
  // A new connection for each stream: gRPC's back-off after earlier attempts must not delay it.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The servers' limit of data can be configured to any size.
  arguments.SetMaxReceiveMessageSize(-1);
  return channels.NewChannel(address, arguments);
}

}  // namespace

Stream::Stream(const Access& access, const std::vector<std::string>& credentials,
               const std::string& address, grpc::CompletionQueue* queue, Owner* owner)
    : address_(address),
      owner_(owner),
      stub_(v1::SessionService::NewStub(NewChannel(access.channels(), address))) {
  access.Authorize(&context_);
  for (const std::string& text : credentials) context_.AddMetadata(v1::kCredentialKey, text);
  call_ = stub_->PrepareAsyncSession(&context_, queue);
  call_->StartCall(&started_);
}

void Stream::Send(const v1::SessionRequest& message) {
  is_sending_ = true;
  call_->Write(message, &sent_);
}

void Stream::OnStarted(bool ok) {
  if (!ok) return Finish();
  is_started_ = true;
  call_->Read(&incoming_, &received_);
  owner_->OnSent(this);
}

void Stream::OnSent(bool ok) {
  is_sending_ = false;
  if (is_finished_) return TellIfEnded();
  // If the write failed, the pending read fails, too, and ends the stream.
  if (ok && !is_ending_) owner_->OnSent(this);
}

void Stream::OnReceived(bool ok) {
  if (!ok) return Finish();
  v1::SessionResponse message;
  message.Swap(&incoming_);
  call_->Read(&incoming_, &received_);
  owner_->OnMessage(this, std::move(message));
}

void Stream::Finish() {
  is_ending_ = true;
  call_->Finish(&status_, &finished_);
}

void Stream::OnFinished(bool /*ok*/) {
  is_finished_ = true;
  TellIfEnded();
}

void Stream::TellIfEnded() {
  if (is_finished_ && !is_sending_) owner_->OnEnded(this, status_);
}

}  // namespace quorate::internal
