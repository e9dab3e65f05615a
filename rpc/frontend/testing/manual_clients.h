// SPDX-License-Identifier: Apache-2.0

// The clients of a loop, driven by hand in a test: what either side sends waits until the other
// side takes it.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/assert.h"

namespace quorate::rpc {

// The part of a client's connection that is the same for every protocol.
struct ManualClient {
  bool receiving = true;  // the loop has asked for the next input
  bool open = true;       // the loop has not closed it
};

// `Derived` implements the rest of `Transport`, and has HandIn(tag), which gives the next input of
// a client to the loop if the loop receives it, and returns whether it did. `Client` derives from
// ManualClient.
template <class Derived, class Transport, class Loop, class Client>
class ManualClients : public Transport {
 public:
  // Sets the loop. Called before all other functions. The loop must outlive the last call.
  void SetLoop(Loop* loop) { loop_ = loop; }

  bool receiving(uint32_t tag) const { return clients_.at(tag).receiving; }

  // Runs iterations of the loop until nothing is left to do.
  void RunIterations() {
    while (RunIteration()) {
    }
  }
  // Runs one iteration: first the inputs, then its end. Returns false if there was nothing to do.
  bool RunIteration() {
    bool moved = std::exchange(wake_, false);
    if (moved) loop_->OnWake();
    for (const auto& [tag, client] : clients_) moved |= static_cast<Derived*>(this)->HandIn(tag);
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
    Client& client = clients_.at(tag);
    ASSERT(client.open);
    ASSERT(!client.receiving, "asked for once");
    client.receiving = true;
  }

 protected:
  Loop* loop_ = nullptr;
  std::map<uint32_t, Client> clients_;  // by tag, also closed ones
  bool wake_ = false;
  bool iteration_end_ = false;
};

}  // namespace quorate::rpc
