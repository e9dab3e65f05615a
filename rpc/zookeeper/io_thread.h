// SPDX-License-Identifier: Apache-2.0

// One I/O thread of the ZooKeeper front end: it drives a ConnectionLoop from sockets. A socket with
// TLS gets a connection in the loop when its handshake is done, so that the loop sees plain bytes
// and clients whose certificate was checked.
//
// Thread-safety: Start and Stop from one thread; Adopt and Wake may be called from any thread;
// everything else runs on the thread itself.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "rpc/poller/descriptor.h"
#include "rpc/poller/poller.h"
#include "rpc/tls/current_context.h"
#include "rpc/zookeeper/connection_loop.h"
#include "rpc/zookeeper/frontend.h"

namespace quorate::rpc::zk {

class IoThread : private Sockets {
 public:
  // What a client speaks on the port where it connected.
  enum class Encryption : uint8_t {
    kNone,
    kTls,
    kEither,  // the first byte that the client sends tells
  };

  // `frontend` must outlive the thread.
  explicit IoThread(ZkFrontend* frontend);
  ~IoThread() override;
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // `tls` must outlive the thread; it is null if no client uses TLS.
  void Start(const tls::CurrentContext* tls);
  // Ends the thread and closes its sockets. The service is not used afterwards.
  void Stop();
  // Returns the poller in which the thread waits. Used on the thread itself, or before Start.
  Poller& poller() { return poller_; }

  // Takes an accepted socket of the client at `remote`. REQUIRES: the encryption is kNone if there is
  // no TLS.
  void Adopt(Descriptor socket, const boost::asio::ip::tcp::endpoint& remote,
             Encryption encryption);

 private:
  struct Socket;

  // Sockets
  void Wake() override;
  void EndIterationSoon() override { iteration_ends_ = true; }
  void Receive(uint32_t tag) override;
  size_t WaitingBytes(uint32_t tag) override;
  bool HasHungUp(uint32_t tag) override;
  std::optional<size_t> Send(uint32_t tag, std::string_view bytes) override;
  void Close(uint32_t tag) override;

  void Run();
  void Open(Descriptor descriptor, const boost::asio::ip::tcp::endpoint& remote,
            Encryption encryption);
  // Makes the poller wait for the socket. If the system does not allow that, counts a refusal and
  // returns false.
  bool Register(Socket& socket, const std::string& address);
  // Returns how many clients of this thread may have asked for nothing.
  size_t NewcomersMax() const;
  // Returns whether the limit of open files allows one more client, for which an older client may be
  // closed that has asked for nothing yet. If not, counts a refusal. Clients that have asked for
  // nothing take at most a part of the limit. `takes_reserve`: whether the
  // connections of all kinds take descriptors that are reserved.
  bool MakeRoomFor(const std::string& address, bool takes_reserve);
  // Closes the oldest connection whose client has asked for nothing yet. Returns false if there is
  // none.
  bool CloseOldestNewcomer();
  // Removes sockets from newcomers_ that do not belong there any longer, if they are many.
  void ForgetFormerNewcomers();
  size_t newcomer_count() const { return waiting_.size() + handshakes_.size() + loop_.newcomers(); }
  void OnReady(Socket& socket, Poller::Readiness ready);
  void OnReadable(Socket& socket);

  // --- Handshakes: of sockets that have no connection in the loop yet ---
  // Returns how many handshakes this thread may have, because of the memory that they take.
  size_t HandshakesMax() const;
  // Begins handshakes of waiting_ in their order, as many as there may be.
  void BeginWaitingHandshakes();
  // Returns whether there may be another handshake now, for which the oldest one is ended if it has had
  // its time. REQUIRES: one waits.
  bool HasRoomForHandshake();
  // Begins the handshake of a socket that is registered.
  void BeginHandshake(const std::shared_ptr<Socket>& socket);
  // Reads the first byte of a client that may use TLS or not.
  void Detect(Socket& socket);
  void StartTls(Socket& socket);
  void ContinueHandshake(Socket& socket);
  void OpenConnection(Socket& socket);
  // Why a socket is closed before its connection is opened.
  enum class DropReason : uint8_t {
    kFailed,    // the client did not do what TLS requires
    kExpired,   // it took too long
    kReplaced,  // newer connections need its place
  };
  // Closes a socket whose handshake has ended without a connection, and logs why, unless that is empty.
  // One that has sent nothing yet does not count as failed: its client may not have wanted TLS. Only
  // kFailed counts as a failed authentication and is recorded as one.
  void Drop(Socket& socket, std::string_view why, DropReason reason = DropReason::kFailed);

  // --- Bytes of sockets with TLS ---
  void OnReadableTls(Socket& socket);
  std::optional<size_t> SendTls(Socket& socket, std::string_view bytes);

  ZkFrontend* const frontend_;
  const tls::CurrentContext* tls_ = nullptr;
  Poller poller_;
  std::thread thread_;
  std::atomic<bool> stops_{false};
  std::atomic<bool> is_woken_{false};  // OnWake is to be called
  bool iteration_ends_ = false;        // EndIteration is to be called
  uint64_t iteration_ = 0;             // of Run: one wait, and all that follows from it
  std::vector<char> receive_buffer_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Socket>> sockets_;  // by tag
  absl::flat_hash_set<std::shared_ptr<Socket>> handshakes_;         // only for lookups
  // In the order in which their connections were opened or their handshakes began: sockets whose
  // clients have asked for nothing yet, and some that have left that state.
  std::deque<std::weak_ptr<Socket>> newcomers_;
  // In the order in which they began: handshakes, and some that are over.
  std::deque<std::weak_ptr<Socket>> handshake_order_;
  // Sockets whose handshakes have not begun, because there are too many. They are admitted, count as
  // newcomers, and nothing is read from them. If there are any, there are handshakes.
  std::deque<std::shared_ptr<Socket>> waiting_;
  std::chrono::steady_clock::time_point waits_until_;  // there is a timer for this time
  std::chrono::steady_clock::time_point drop_logged_;
  std::chrono::steady_clock::time_point failure_recorded_;  // in the audit log
  ConnectionLoop loop_;
};

}  // namespace quorate::rpc::zk
