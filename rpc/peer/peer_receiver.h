// SPDX-License-Identifier: Apache-2.0

// A connection that another server opened to this one: reads its hello, answers it, and then reads
// batches.
//
// Thread-safety: all functions are called on the event loop's thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "consensus/core/types.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/frame.h"
#include "rpc/peer/peer_links.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"

namespace quorate::rpc {

class PeerReceiver : public std::enable_shared_from_this<PeerReceiver>, private Poller::Handler {
 public:
  using Clock = std::chrono::steady_clock;

  // The owner of the connections, which decides about them; implemented by PeerNetwork.
  class Owner {
   public:
    virtual ~Owner() = default;
    // Returns the answer to `hello`, which came from the address `host`.
    virtual HelloAnswer OnHello(const Hello& hello, const std::string& host) = 0;
    // Called when the connection has been accepted as that of `receiver->from()`.
    virtual void OnAccepted(PeerReceiver* receiver) = 0;
    // Called before this server closes a connection because of the bytes received on it, also if
    // the peer has not sent a hello.
    virtual void OnRefused(const std::string& where, const std::string& why) = 0;
    // Called when the connection has ended; the owner drops its reference.
    virtual void OnEnd(PeerReceiver* receiver) = 0;
  };

  // `poller`, `owner` and `handler` must outlive the object; the socket is configured and does not
  // block. `host` is the other end's address, `where` has its port as well.
  PeerReceiver(Poller* poller, Descriptor socket, std::string host, std::string where, Owner* owner,
               PeerHandler* handler);
  PeerReceiver(const PeerReceiver&) = delete;
  PeerReceiver& operator=(const PeerReceiver&) = delete;

  void Start();
  void Close();

  // Returns the member that opened the connection; none before it was accepted.
  const std::optional<consensus::MemberId>& from() const { return from_; }
  Clock::time_point opened_at() const { return opened_at_; }
  const std::string& host() const { return host_; }
  const std::string& where() const { return where_; }

 private:
  void OnReady(Poller::Readiness ready) override;
  void TakeBatches();
  // A returned error closes the connection.
  absl::Status OnBatch(std::shared_ptr<std::string> bytes);
  absl::Status OnHello(const Hello& hello);
  void Answer(const HelloAnswer& answer);

  Poller* const poller_;
  Descriptor socket_;
  std::optional<Poller::Id> registration_;
  const std::string host_;
  const std::string where_;
  Owner* const owner_;
  PeerHandler* const handler_;
  const Clock::time_point opened_at_ = Clock::now();
  BatchReader reader_;
  FrameDecoder decoder_;
  std::optional<consensus::MemberId> from_;
  bool is_closed_ = false;
};

}  // namespace quorate::rpc
