// SPDX-License-Identifier: Apache-2.0

// The connection that this server opened to one other server, and the frames that wait to be sent
// on it. The other server sends only its part of the greeting (rpc/peer/frame.h) on this connection,
// and everything else on the connection that it opened itself (rpc/peer/peer_receiver.h). Until the
// other server has shown that it is the right one, as far as PeerSecurity asks for that, nothing is
// sent to it but the hello and a proof, and nothing is decoded but its part of the greeting.
//
// A thread that calls Write sends its frames itself, without a hand-over. If another thread is
// sending, that thread sends them, too. Bytes that the kernel does not take are sent later by the
// event loop's thread. rpc/peer/send_queue.h describes which frames leave first and in which order
// they arrive.
//
// Thread-safety: Write, IsSending, ConnectedTo, DownForMs, ReceiverVersion, Problem and SetClusterId
// may be called from any thread, the other functions from the event loop's.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "consensus/core/types.h"
#include "rpc/peer/batch_reader.h"
#include "rpc/peer/frame.h"
#include "rpc/peer/member_secret.h"
#include "rpc/peer/peer_address.h"
#include "rpc/peer/peer_links.h"
#include "rpc/peer/peer_security.h"
#include "rpc/peer/peer_socket.h"
#include "rpc/peer/peer_stream.h"
#include "rpc/peer/send_queue.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"

namespace quorate::rpc {

class PeerLink : public std::enable_shared_from_this<PeerLink> {
 public:
  using Clock = std::chrono::steady_clock;

  // The other end of a connection.
  struct End {
    std::string host;      // its address
    uint64_t process = 0;  // HelloAnswer::process
  };

  // `poller`, `security` and `handler` must outlive the object. `process` is Hello::process.
  PeerLink(Poller* poller, consensus::MemberId self, uint64_t process, consensus::MemberId peer,
           PeerAddress address, const PeerSecurity* security, PeerHandler* handler);
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  // Sets the id that the hello of each connection from now on carries.
  void SetClusterId(const std::string& cluster_id);

  // Adds frames by `add(SendQueue*)`, and sends them now if no other thread is sending. Drops them
  // if there is no connection that the peer has accepted.
  template <class Add>
  void Write(Add add) {
    std::shared_ptr<Connection> connection;
    {
      MutexLock lock(&mutex_);
      if (connection_ == nullptr) return;
      add(&connection_->queue);
      const bool gives_up =
          connection_->queue.overflowed() && !std::exchange(connection_->is_given_up, true);
      if (gives_up) CloseLater(connection_, "it does not take what is sent");
      if (std::exchange(connection_->is_sending, true)) return;
      connection = connection_;
    }
    SendPending(connection);
  }

  // Opens the connection if there is none and the time of the next attempt has come; gives up an
  // attempt that takes too long.
  void Tick(Clock::time_point now);
  // Returns whether bytes wait in this link, because the kernel has not taken them yet.
  bool IsSending() const;
  // Returns the other end of the connection; none if there is no connection that the peer accepted.
  std::optional<End> ConnectedTo() const;
  // Returns how long there has been no connection that the peer accepted.
  int64_t DownForMs(Clock::time_point now) const;
  // Returns the newest version (kPeerProtocol...) that the other server understands; 0 if there is no
  // connection.
  uint32_t ReceiverVersion() const;
  // Returns why there is no connection, with the address; empty if there is one, or no attempt has
  // ended yet.
  std::string Problem() const;
  // Returns whether the other server's host has the address `host`, as far as is known. Called on
  // the event loop's thread.
  bool IsAt(const std::string& host) const;
  // Closes the connection. The link opens no other afterwards.
  void Stop();
  const PeerAddress& address() const { return address_; }

 private:
  enum class Stage : uint8_t { kConnecting, kHandshake, kGreeting, kOpen };

  struct Connection : Poller::Handler, std::enable_shared_from_this<Connection> {
    Connection(PeerLink* the_link, Descriptor the_socket)
        : link(the_link), stream(std::move(the_socket)) {}
    void OnReady(Poller::Readiness ready) override { link->OnReady(shared_from_this(), ready); }

    PeerLink* const link;
    // Closed only by the destructor, because another thread may be about to send. The event loop's
    // thread receives, and the thread that set `is_sending` sends.
    PeerStream stream;
    // Used only by the event loop's thread.
    Poller::Id registration{};
    bool is_registered = false;
    Stage stage = Stage::kConnecting;
    Greeting greeting;  // as far as it has come
    BatchReader answers{kAnswerBytesMax};
    bool is_closed = false;

    // Guarded by the link's mutex_.
    SendQueue queue;
    bool is_sending = false;
    bool is_given_up = false;  // the queue has overflowed
    // Used by the thread that set `is_sending`.
    BatchWriter writer;
  };
  static constexpr size_t kAnswerBytesMax = 64u << 10;

  // A look-up of the host name. It may take long, so it runs on a detached thread.
  struct Lookup {
    std::atomic<bool> is_done{false};
    // Valid once is_done is true.
    std::vector<boost::asio::ip::tcp::endpoint> found;
    std::string problem;
  };

  // Called only on the event loop's thread.
  void LookUp();
  void TakeFound();
  void ConnectTo(const boost::asio::ip::tcp::endpoint& endpoint);
  void OnReady(const std::shared_ptr<Connection>& connection, Poller::Readiness ready);
  void OnConnected(const std::shared_ptr<Connection>& connection);
  void ContinueHandshake(const std::shared_ptr<Connection>& connection);
  void SendHello(const std::shared_ptr<Connection>& connection);
  // Sends control frames before the connection is open, which `add(SendQueue*)` adds.
  template <class Add>
  void SendGreeting(const std::shared_ptr<Connection>& connection, Add add);
  void ReadAnswer(const std::shared_ptr<Connection>& connection);
  void OnAnswers(const std::shared_ptr<Connection>& connection);
  void OnChallenge(const std::shared_ptr<Connection>& connection, const Challenge& challenge);
  void OnAnswer(const std::shared_ptr<Connection>& connection, const HelloAnswer& answer);
  void OnAccepted(const std::shared_ptr<Connection>& connection, const HelloAnswer& answer);
  // Returns why the answer does not prove that the other server knows the secret; empty if it does,
  // or if there is none.
  std::string ProblemOfProof(const Connection& connection, const HelloAnswer& answer) const;
  // Logs a problem of an attempt, unless it was the last one that was logged.
  void LogProblem(const std::string& problem);
  void AwaitWritable(const std::shared_ptr<Connection>& connection);
  // `connection` is passed by value because it may be `attempt_`, which this function resets.
  void Close(std::shared_ptr<Connection> connection, const std::string& why);
  // May be called from any thread.
  void CloseLater(std::shared_ptr<Connection> connection, const std::string& why);
  // Schedules the next attempt, after an attempt or a connection has ended.
  void BeginAgainLater();

  // REQUIRES: the caller has set `is_sending`.
  void SendPending(const std::shared_ptr<Connection>& connection);
  // Makes the next batch of the pending frames. Returns false if there are none, and clears
  // `is_sending` then.
  bool MakeBatch(Connection* connection);
  static PeerStream::Progress SendBatch(Connection* connection);

  Poller& poller_;
  const consensus::MemberId self_;
  const uint64_t process_;
  const consensus::MemberId peer_;
  const PeerAddress address_;
  const PeerSecurity& security_;
  PeerHandler* const handler_;

  // Used only by the event loop's thread.
  std::shared_ptr<Lookup> lookup_;
  // The result of the last successful look-up, which stays in use while the name server is down.
  // One endpoint is tried at a time.
  std::vector<boost::asio::ip::tcp::endpoint> endpoints_;
  size_t next_endpoint_ = 0;
  std::shared_ptr<Connection> attempt_;  // connects, or waits for the answer to its hello
  bool is_busy_ = false;                 // there is an attempt or a connection
  bool is_stopped_ = false;
  Clock::time_point next_attempt_;
  Clock::time_point attempt_ends_;
  std::string logged_problem_;  // the last one logged since a connection was accepted
  // The last one logged of a server that is not refused for lack of a proof.
  std::string logged_unproved_;

  mutable Mutex mutex_;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mutex_);  // if the peer has accepted one
  uint32_t receiver_version_ ABSL_GUARDED_BY(mutex_) = 0;           // of connection_
  End connected_to_ ABSL_GUARDED_BY(mutex_);                        // of connection_
  std::string problem_ ABSL_GUARDED_BY(mutex_);                     // of the last attempt
  Clock::time_point down_since_ ABSL_GUARDED_BY(mutex_) = Clock::now();
  std::string cluster_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quorate::rpc
