// SPDX-License-Identifier: Apache-2.0

#include "tests/simulation/native_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "rpc/proto/errors.h"
#include "tests/simulation/client_connection.h"

namespace quorate::simulation {
namespace {

using rpc::native::ManualTransport;
using rpc::native::StreamLoop;

std::string StatusFrame(const absl::Status& status) {
  const std::optional<v1::ErrorDetail> detail = v1::DetailOf(status);
  std::string payload;
  payload.push_back(static_cast<char>(detail        ? detail->code()
                                      : status.ok() ? v1::ERROR_CODE_UNSPECIFIED
                                                    : v1::ERROR_CODE_UNAVAILABLE));
  payload.append(std::string(status.message()));
  std::string frame;
  AppendNativeFrame(NativeFrame::kStatus, payload, &frame);
  return frame;
}

}  // namespace

NativeServer::NativeServer(const rpc::Config& config, rpc::Service* service, const Clock* clock,
                           RandomBytes* random, ClientNetwork* network, size_t member,
                           std::shared_ptr<ProcessLifetime> lifetime,
                           const rpc::EventHistory* history)
    : network_(*network),
      simulation_(network->network().simulation()),
      random_(simulation_.random("native streams")),
      member_(member),
      lifetime_(std::move(lifetime)),
      frontend_(config, service, clock, random, history),
      loop_(&frontend_, &transport_) {
  transport_.SetLoop(&loop_);
}

NativeServer::~NativeServer() {
  ASSERT(network_.host(member_).port(Port::kNative) != this, "closed before");
}

void NativeServer::Start(Scheduler::Task after_call) {
  after_call_ = std::move(after_call);
  network_.host(member_).port(Port::kNative) = this;
}

void NativeServer::CloseAll(bool silent) {
  ServerPort*& port = network_.host(member_).port(Port::kNative);
  if (port == this) port = nullptr;
  for (const auto& [tag, channel] : std::exchange(channels_, {})) {
    channel.connection->CloseServer(silent);
  }
}

void NativeServer::Soon(Scheduler::Task task) {
  lifetime_->After(random_.Between(0, simulation_.options().member.work_us),
                   [this, task = std::move(task)] {
                     task();
                     after_call_();
                   });
}

void NativeServer::Poke() {
  if (iteration_scheduled_ || !transport_.HasWork()) return;
  iteration_scheduled_ = true;
  Soon([this] { RunIteration(); });
}

void NativeServer::RunIteration() {
  iteration_scheduled_ = false;
  transport_.RunIteration();
  Flush();
}

void NativeServer::ScheduleTimer() {
  timer_scheduled_ = true;
  lifetime_->After(std::chrono::microseconds(StreamLoop::kTimerPeriod).count(), [this] {
    timer_scheduled_ = false;
    loop_.OnTimer();
    Flush();
    if (loop_.client_count() > 0) ScheduleTimer();
    after_call_();
  });
}

std::optional<uint32_t> NativeServer::Open(const std::shared_ptr<ClientConnection>& connection,
                                           const std::string& address, uint16_t) {
  const uint32_t tag = transport_.Open(rpc::native::Method::kSession, address);
  if (tag == ManualTransport::kRefused) {
    transport_.Forget(tag);
    return std::nullopt;
  }
  channels_[tag].connection = connection;
  if (!timer_scheduled_) ScheduleTimer();
  return tag;
}

void NativeServer::DeliverSoon(uint32_t tag) {
  Soon([this, tag] { Deliver(tag); });
}

void NativeServer::Deliver(uint32_t tag) {
  const auto found = channels_.find(tag);
  if (found == channels_.end()) return;
  Channel& channel = found->second;
  const bool was_full = channel.connection->is_full();
  channel.in.Add(std::exchange(channel.connection->in, {}));
  if (was_full) network_.network().Wake();
  NativeFrame kind;
  std::string message;
  while (channel.in.Next(&kind, &message)) transport_.Write(tag, std::move(message));
  if (!channel.connection->ended) return;
  transport_.Cancel(tag);
  Flush();
}

void NativeServer::OnWritable(uint32_t tag) {
  if (!channels_.contains(tag)) return;
  transport_.SetReads(tag, true);
  transport_.ReadOne(tag);
}

void NativeServer::Flush() {
  for (auto next = channels_.begin(); next != channels_.end();) {
    const uint32_t tag = next->first;
    const std::shared_ptr<ClientConnection> connection = next->second.connection;
    for (const std::string& message : std::exchange(transport_.received(tag), {})) {
      std::string frame;
      AppendNativeFrame(NativeFrame::kMessage, message, &frame);
      simulation_.trace().Mix(frame);
      connection->down().Send(std::move(frame));
    }
    // A slow client gets this one message more; then the loop reads no more from it until it
    // catches up.
    if (connection->is_congested()) {
      transport_.SetReads(tag, false);
      connection->blocked = true;
    }
    const std::optional<absl::Status>& outcome = transport_.outcome(tag);
    if (!outcome.has_value()) {
      ++next;
      continue;
    }
    connection->down().Send(StatusFrame(*outcome));
    connection->CloseServer(/*silent=*/false);
    transport_.Forget(tag);
    next = channels_.erase(next);
  }
}

}  // namespace quorate::simulation
