// The clients of a StreamLoop, which a test drives by hand: the messages that either side sends
// wait until the other side takes them.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/assert.h"
#include "rpc/grpc/native/stream_loop.h"

namespace quorate::rpc::native {

class ManualTransport final : public Transport {
 public:
  static constexpr uint32_t kRefused = 0;  // the tag of a refused stream

  // Called before everything else. The loop must outlive the object's use.
  void SetLoop(StreamLoop* loop) { loop_ = loop; }

  // --- The clients' side -------------------------------------------------------------------------
  // Returns the stream's tag; kRefused, which has an outcome already, if the stream is refused.
  uint32_t Open(Method method, const std::string& address = "10.0.0.1") {
    const absl::StatusOr<uint32_t> tag = loop_->Open(method, address);
    channels_[tag.ok() ? *tag : kRefused] = {};
    if (tag.ok()) return *tag;
    channels_[kRefused].outcome = tag.status();
    return kRefused;
  }
  // The server gets the message as soon as it receives.
  void Write(uint32_t tag, std::string message) {
    channels_.at(tag).to_server.push_back(std::move(message));
  }
  void HalfClose(uint32_t tag) { channels_.at(tag).half_closed = true; }
  void Cancel(uint32_t tag) { loop_->OnClosed(tag); }
  // The messages that the server has sent; the test removes them.
  std::vector<std::string>& received(uint32_t tag) { return channels_.at(tag).to_client; }
  // The status with which the stream ended, if it did.
  const std::optional<absl::Status>& outcome(uint32_t tag) { return channels_.at(tag).outcome; }
  bool receiving(uint32_t tag) { return channels_.at(tag).receiving; }
  // Removes a stream that has ended.
  void Forget(uint32_t tag) {
    ASSERT(channels_.at(tag).outcome.has_value());
    channels_.erase(tag);
  }
  // A client that does not read accepts one message; the next ones wait.
  void SetReads(uint32_t tag, bool reads) { channels_.at(tag).reads = reads; }
  // Accepts one more message for a client that does not read. Returns false if none waits.
  bool ReadOne(uint32_t tag) {
    Channel& channel = channels_.at(tag);
    channel.busy = false;
    channel.busy_bytes = 0;
    if (!std::exchange(channel.waited_for, false)) return false;
    loop_->OnWritable(tag);
    return true;
  }

  // Runs iterations until nothing is left to do.
  void RunIterations() {
    while (RunIteration()) {
    }
  }

  // Whether RunIteration has work to do.
  bool HasWork() const {
    return wake_ || iteration_end_ ||
           std::any_of(channels_.begin(), channels_.end(), [](const auto& each) {
             const Channel& channel = each.second;
             return !channel.outcome.has_value() && channel.receiving &&
                    (!channel.to_server.empty() || channel.half_closed);
           });
  }

  // Runs one iteration. Returns false if there was nothing to do.
  bool RunIteration() {
    bool moved = false;
    if (std::exchange(wake_, false)) {
      loop_->OnWake();
      moved = true;
    }
    for (auto& [tag, channel] : channels_) {
      if (channel.outcome.has_value() || !channel.receiving) continue;
      if (!channel.to_server.empty()) {
        const std::string message = std::move(channel.to_server.front());
        channel.to_server.pop_front();
        channel.receiving = false;
        loop_->OnMessage(tag, message);
      } else if (std::exchange(channel.half_closed, false)) {
        channel.receiving = false;
        loop_->OnHalfClosed(tag);
      } else {
        continue;
      }
      moved = true;
    }
    if (std::exchange(iteration_end_, false)) {
      loop_->EndIteration();
      moved = true;
    }
    return moved;
  }

  // --- The loop's side ---------------------------------------------------------------------------
  void Wake() override { wake_ = true; }
  void EndIterationSoon() override {
    ASSERT(!iteration_end_, "asked for once an iteration");
    iteration_end_ = true;
  }
  void Receive(uint32_t tag) override {
    Channel& channel = channels_.at(tag);
    ASSERT(!channel.outcome.has_value());
    ASSERT(!channel.receiving, "asked for once");
    channel.receiving = true;
  }
  bool Send(uint32_t tag, std::string* message) override {
    Channel& channel = channels_.at(tag);
    ASSERT(!channel.outcome.has_value());
    ASSERT(!channel.waited_for, "it has to wait for OnWritable");
    if (channel.busy) {
      channel.waited_for = true;
      return false;
    }
    channel.busy = !channel.reads;
    channel.busy_bytes = channel.busy ? message->size() : 0;
    channel.to_client.push_back(std::move(*message));
    return true;
  }
  size_t SendingBytes(uint32_t tag) const override { return channels_.at(tag).busy_bytes; }
  void Finish(uint32_t tag, const absl::Status& outcome, bool /*at_once*/) override {
    Channel& channel = channels_.at(tag);
    ASSERT(!channel.outcome.has_value(), "once");
    channel.outcome = outcome;
  }

 private:
  struct Channel {
    std::deque<std::string> to_server;
    std::vector<std::string> to_client;
    bool half_closed = false;
    bool receiving = true;
    bool reads = true;
    bool busy = false;
    size_t busy_bytes = 0;  // of the message that is being sent
    bool waited_for = false;
    std::optional<absl::Status> outcome;
  };

  StreamLoop* loop_ = nullptr;
  std::map<uint32_t, Channel> channels_;  // by tag, also those that have ended
  bool wake_ = false;
  bool iteration_end_ = false;
};

}  // namespace quorate::rpc::native
