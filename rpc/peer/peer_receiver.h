// SPDX-License-Identifier: Apache-2.0

// A connection that another server opened to this one: makes the handshake of TLS, reads the hello,
// has the other server prove the secret, answers the hello, and then reads batches.
//
// Before a hello was accepted, the other end may be anybody. Until then nothing is decoded but the
// frames of a greeting (rpc/peer/frame.h), and with TLS not even these before the handshake is done.
//
// Thread-safety: all functions are called on the event loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "consensus/core/types.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/frame.h"
#include "rpc/peer/member_secret.h"
#include "rpc/peer/peer_links.h"
#include "rpc/peer/peer_security.h"
#include "rpc/peer/peer_stream.h"
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
    // Returns whether the thread has time for a step of a handshake, or of a greeting over TLS, in
    // which the other end can cost as much time. If not, the owner calls ContinueHandshake later.
    virtual bool MayHandshake() = 0;
    // Called after each such step.
    virtual void OnHandshakeTime(Clock::duration time) = 0;
    // Returns why `certificate` is not that of the server that sent `hello`; empty if it is.
    virtual std::string CertificateProblem(const Hello& hello, const X509* certificate) = 0;
    // Returns the answer to `hello`, which came from the address `host`, and whose sender has proved
    // the secret if that is required.
    virtual HelloAnswer OnHello(const Hello& hello, const std::string& host) = 0;
    // Called when the connection has been accepted as that of `receiver->from()`.
    virtual void OnAccepted(PeerReceiver* receiver) = 0;
    // Called before this server closes a connection because of the bytes received on it, also if
    // the peer has not sent a hello.
    virtual void OnRefused(const std::string& where, const std::string& why) = 0;
    // Called after OnAccepted if the server has not proved the secret and need not.
    virtual void OnUnproved(consensus::MemberId from, const std::string& why) = 0;
    // Called when the connection has ended; the owner drops its reference.
    virtual void OnEnd(PeerReceiver* receiver) = 0;
  };

  // `poller`, `security`, `owner` and `handler` must outlive the object; the socket is configured
  // and does not block. `host` is the other end's address, `where` has its port as well.
  PeerReceiver(Poller* poller, Descriptor socket, std::string host, std::string where,
               const PeerSecurity* security, Owner* owner, PeerHandler* handler);
  PeerReceiver(const PeerReceiver&) = delete;
  PeerReceiver& operator=(const PeerReceiver&) = delete;

  void Start();
  void Close();
  // Makes a step of the handshake, or of the greeting over TLS, and calls Owner::OnHandshakeTime.
  // REQUIRES: the connection is not accepted yet, and Owner::MayHandshake has just returned true.
  void ContinueHandshake();
  // Closes the connection if its time for what it does has passed.
  void CheckTime(Clock::time_point now);

  // Returns the member that opened the connection; none before it was accepted.
  const std::optional<consensus::MemberId>& from() const { return from_; }
  Clock::time_point opened_at() const { return opened_at_; }
  const std::string& host() const { return host_; }
  const std::string& where() const { return where_; }
  // Returns whether a step of the handshake or the greeting waits because Owner::MayHandshake returned false.
  bool waits_for_time() const { return waits_for_time_; }

 private:
  enum class Stage : uint8_t {
    kFirstByte,  // which tells whether the other end uses TLS
    kHandshake,
    kHello,
    kProof,    // a challenge was sent
    kOpen,     // the hello was accepted
    kRefused,  // waits for the other end to read why; what it sends is dropped
  };

  void OnReady(Poller::Readiness ready) override;
  // Begins or refuses TLS. Returns false if the connection goes on as it is, without TLS.
  bool BeginTls();
  // Makes a step of the handshake or the greeting now, or waits until there is time for it.
  void TryHandshake();
  // REQUIRES: stage kHandshake.
  void StepHandshake();
  void EnterStage(Stage stage);
  void Read();
  void TakeBatches();
  // A returned error closes the connection.
  absl::Status OnBatch(std::shared_ptr<std::string> bytes);
  absl::Status OnGreeting(PeerBatch batch);
  absl::Status OnHello(Hello hello);
  // REQUIRES: a challenge was sent.
  absl::Status OnProof(const Proof& proof);
  void Decide(const Hello& hello);
  absl::Status CheckSender(const PeerBatch& batch) const;
  void Answer(HelloAnswer answer);
  void SendFrames(std::string frames);
  // Logs `why`, and ends the connection without another word: nothing is known of the other end.
  void RefuseSilently(const std::string& why);

  Poller* const poller_;
  PeerStream stream_;
  std::optional<Poller::Id> registration_;
  const std::string host_;
  const std::string where_;
  const PeerSecurity& security_;
  Owner* const owner_;
  PeerHandler* const handler_;
  const Clock::time_point opened_at_ = Clock::now();
  Stage stage_ = Stage::kHello;
  Clock::time_point stage_began_ = opened_at_;
  bool waits_for_time_ = false;
  Greeting greeting_;  // complete from stage kProof on; emptied in stage kOpen
  bool has_proved_ = false;
  BatchReader reader_;
  FrameDecoder decoder_;
  std::optional<consensus::MemberId> from_;
  bool is_closed_ = false;
};

}  // namespace quorate::rpc
