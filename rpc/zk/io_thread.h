// One I/O thread of the ZooKeeper door: an event loop, its connections and its inbox.
//
// Thread-safety: Push and Adopt may be called from any thread; everything else runs on the thread
// itself.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "rpc/zk/connection.h"
#include "rpc/zk/door.h"

namespace quorate::rpc::zk {

class IoThread {
 public:
  IoThread(ZkDoor* door, size_t number);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  void Start();
  void Stop();
  boost::asio::io_context& context() { return context_; }

  // --- Any thread --------------------------------------------------------------------------------
  struct WatchEvent {
    uint32_t tag;
    tree::EventType type;
    std::string path;
    tree::Zxid zxid;
  };
  struct SessionClosed {
    uint32_t tag;
  };
  struct SessionAttached {
    uint32_t tag;
    tree::Zxid attach_zxid;
  };
  struct SyncDone {
    uint32_t tag;
    uint64_t sync_id;
    tree::Zxid zxid;
  };
  using Item =
      std::variant<tree::ApplyResult, WatchEvent, SessionClosed, SessionAttached, SyncDone>;
  // Queues without waking the thread.
  void Push(Item item);
  // Wakes the thread if something is queued and it does not know.
  void Wake();
  // Takes over an accepted socket.
  void Adopt(boost::asio::ip::tcp::socket socket);

  // --- For connections, on this thread -----------------------------------------------------------
  ZkDoor& door() { return *door_; }
  // The tree, locked for reading until the end of this turn; everything that was applied before has
  // been put into the out() of its connections.
  const tree::Tree& LockTree();
  // The newest zxid that a reply may show: all events up to it are in out() of their connections.
  tree::Zxid seen_zxid() const { return seen_zxid_; }
  // The batch that goes to the log at the end of this turn. Call AddedCommand after each one
  // appended to its bytes.
  std::string& command_bytes() { return *batch_.bytes; }
  void AddedCommand(size_t offset);
  std::chrono::steady_clock::time_point now() const { return now_; }

 private:
  struct Socket;

  void Run();
  void Receive(const std::shared_ptr<Socket>& socket);
  void OnReadable(const std::shared_ptr<Socket>& socket);
  void Flush(Socket& socket);
  void OnWritable(const std::shared_ptr<Socket>& socket);
  void Finish(Socket& socket, const absl::Status& why);
  void LogClosing(const Connection& connection, const absl::Status& why);
  void Close(Socket& socket);
  void MarkDirty(Socket& socket);
  void BeginTurn();
  void ScheduleTurnEnd();
  void EndTurn();
  void ContinueConnections();
  void UnlockTree();
  void DrainInbox();
  void HandleItem(Item& item);
  void OnTimer();
  void StartTimer();
  void SendTouches();

  ZkDoor* const door_;
  const size_t number_;
  boost::asio::io_context context_{1};
  boost::asio::steady_timer timer_{context_};
  std::thread thread_;
  std::vector<char> receive_buffer_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Socket>> sockets_;

  CommandBatch batch_;
  std::vector<std::shared_ptr<Socket>> dirty_;
  bool turn_end_scheduled_ = false;
  bool tree_locked_ = false;
  tree::Zxid seen_zxid_;
  std::chrono::steady_clock::time_point now_;
  std::chrono::steady_clock::time_point touches_sent_;
  std::chrono::steady_clock::time_point refusal_logged_;
  int refusals_not_logged_ = 0;

  Mutex inbox_mutex_;
  std::vector<Item> inbox_ ABSL_GUARDED_BY(inbox_mutex_);
  std::vector<Item> draining_;
  std::atomic<bool> inbox_filled_{false};
  std::atomic<bool> wake_pending_{false};
};

}  // namespace quorate::rpc::zk
