// SPDX-License-Identifier: Apache-2.0

// The clients of a StreamLoop, controlled by a test: the messages that either side sends wait until
// the other side takes them.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/assert.h"
#include "rpc/frontend/testing/manual_clients.h"
#include "rpc/grpc/native/stream_loop.h"

namespace quorate::rpc::native {

// A stream as its client sees it.
struct ManualStream : ManualClient {
  std::deque<std::string> to_server;
  std::vector<std::string> to_client;
  bool half_closed = false;
  bool reads = true;
  bool busy = false;
  size_t busy_bytes = 0;  // bytes of the message that is being sent
  bool waited_for = false;
  std::optional<absl::Status> outcome;
};

class ManualTransport final
    : public ManualClients<ManualTransport, Transport, StreamLoop, ManualStream> {
 public:
  static constexpr uint32_t kRefused = 0;  // the tag of a refused stream

  // --- The clients' side -------------------------------------------------------------------------
  // Returns the stream's tag; kRefused, which has an outcome already, if the stream is refused.
  uint32_t Open(Method method, const std::string& address = "10.0.0.1",
                const std::string& subject = "") {
    CallerProof proof;
    proof.principal.address = address;
    proof.principal.subject = subject;
    return Open(method, std::move(proof));
  }
  uint32_t Open(Method method, CallerProof proof) {
    const absl::StatusOr<uint32_t> tag = loop_->Open(method, std::move(proof));
    clients_[tag.ok() ? *tag : kRefused] = {};
    if (tag.ok()) return *tag;
    clients_[kRefused].outcome = tag.status();
    clients_[kRefused].open = false;
    return kRefused;
  }
  // Sends a message, which the server gets as soon as it receives.
  void Write(uint32_t tag, std::string message) {
    clients_.at(tag).to_server.push_back(std::move(message));
  }
  void HalfClose(uint32_t tag) { clients_.at(tag).half_closed = true; }
  void Cancel(uint32_t tag) { loop_->OnClosed(tag); }
  // Returns the messages that the server has sent. The test removes them.
  std::vector<std::string>& received(uint32_t tag) { return clients_.at(tag).to_client; }
  // Returns the status with which the stream ended; nullopt if it has not ended.
  const std::optional<absl::Status>& outcome(uint32_t tag) { return clients_.at(tag).outcome; }
  // Removes a stream that has ended.
  void Forget(uint32_t tag) {
    ASSERT(!clients_.at(tag).open);
    clients_.erase(tag);
  }
  // Sets whether the client reads. A client that does not read accepts one message; the next
  // messages wait.
  void SetReads(uint32_t tag, bool reads) { clients_.at(tag).reads = reads; }
  // Accepts one more message for a client that does not read. Returns false if none waits.
  bool ReadOne(uint32_t tag) {
    ManualStream& stream = clients_.at(tag);
    stream.busy = false;
    stream.busy_bytes = 0;
    if (!std::exchange(stream.waited_for, false)) return false;
    loop_->OnWritable(tag);
    return true;
  }

  // Returns whether RunIteration has work to do.
  bool HasWork() const {
    return wake_ || iteration_end_ ||
           std::any_of(clients_.begin(), clients_.end(),
                       [](const auto& each) { return HasInput(each.second); });
  }

  // Passes the next message of this client, or the end of its messages, to the loop, outside of
  // RunIteration. Returns false if there is none, or if the loop does not receive.
  bool HandIn(uint32_t tag) {
    ManualStream& stream = clients_.at(tag);
    if (!HasInput(stream)) return false;
    stream.receiving = false;
    if (!stream.to_server.empty()) {
      const std::string message = std::move(stream.to_server.front());
      stream.to_server.pop_front();
      loop_->OnMessage(tag, message);
    } else {
      stream.half_closed = false;
      loop_->OnHalfClosed(tag);
    }
    return true;
  }

  // --- The loop's side ---------------------------------------------------------------------------
  bool Send(uint32_t tag, std::string* message) override {
    ManualStream& stream = clients_.at(tag);
    ASSERT(stream.open);
    ASSERT(!stream.waited_for, "the loop waits for OnWritable");
    if (stream.busy) {
      stream.waited_for = true;
      return false;
    }
    stream.busy = !stream.reads;
    stream.busy_bytes = stream.busy ? message->size() : 0;
    stream.to_client.push_back(std::move(*message));
    return true;
  }
  size_t SendingBytes(uint32_t tag) const override { return clients_.at(tag).busy_bytes; }
  void Finish(uint32_t tag, const absl::Status& outcome, bool /*at_once*/) override {
    ManualStream& stream = clients_.at(tag);
    ASSERT(stream.open, "once");
    stream.outcome = outcome;
    stream.open = false;
  }

 private:
  static bool HasInput(const ManualStream& stream) {
    return stream.open && stream.receiving && (!stream.to_server.empty() || stream.half_closed);
  }
};

}  // namespace quorate::rpc::native
