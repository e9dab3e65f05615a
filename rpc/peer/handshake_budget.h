// SPDX-License-Identifier: Apache-2.0

// Limits the time that the event loop's thread spends on handshakes of connections that others
// open. Anybody who reaches the port can demand one, at a cost of a few milliseconds (an operation
// with a private key of RSA), and the thread is that of Raft: without a limit, strangers could hold
// up heartbeats. After the handshake, before its hello, a client can send other costly messages of
// TLS, so that this time counts as well. Handshakes get a tenth of the time; the others wait.
//
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <chrono>

namespace quorate::rpc {

class HandshakeBudget {
 public:
  using Clock = std::chrono::steady_clock;

  // One handshake may begin while some of the budget is left. So the budget can be overdrawn by the
  // time of one step of a handshake, and no other begins before that is made up for.
  static constexpr int kShare = 10;  // one part in this many
  static constexpr Clock::duration kMax = std::chrono::milliseconds(30);

  bool IsLeft(Clock::time_point now) {
    left_ = std::min<Clock::duration>(kMax, left_ + (now - refilled_at_) / kShare);
    refilled_at_ = now;
    return left_ > Clock::duration::zero();
  }
  // What is overdrawn is limited: if the process was stopped during a step, the time of that step is
  // long, and handshakes would wait for many times as long.
  void Spend(Clock::duration time) { left_ = std::max<Clock::duration>(left_ - time, -kMax); }

 private:
  Clock::duration left_ = kMax;
  Clock::time_point refilled_at_ = Clock::now();
};

}  // namespace quorate::rpc
