#include "rpc/zk/io_thread.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/assert.h"

namespace quorate::rpc::zk {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kReceiveBytes = 256u << 10;
// Unsent bytes of a connection (events, which nothing holds back) at which it is given up.
constexpr size_t kUnsentBytesMax = 256u << 20;
constexpr auto kTimerPeriod = std::chrono::milliseconds(50);
constexpr auto kRefusalLogPeriod = std::chrono::seconds(5);
// How long a connection that is to be closed may take to accept the last bytes.
constexpr int kTimersToSendTheRest = 40;

}  // namespace

struct IoThread::Socket {
  Socket(tcp::socket s, IoThread* io, uint32_t tag, std::string address)
      : socket(std::move(s)), connection(io, tag, std::move(address)) {}

  tcp::socket socket;
  Connection connection;
  bool open = true;
  bool reading = false;  // a wait for readable is pending
  bool writing = false;  // a wait for writable is pending
  bool dirty = false;    // in dirty_
  size_t sent = 0;       // of connection.out()
  int timers_finished = 0;
};

IoThread::IoThread(ZkDoor* door, size_t number)
    : door_(door), number_(number), receive_buffer_(kReceiveBytes) {
  now_ = touches_sent_ = std::chrono::steady_clock::now();
}

IoThread::~IoThread() { Stop(); }

void IoThread::Start() {
  StartTimer();
  thread_ = std::thread([this] { Run(); });
}

void IoThread::Stop() {
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

void IoThread::Run() {
  context_.run();
  UnlockTree();
  for (auto& [tag, socket] : sockets_) {
    boost::system::error_code ignored;
    socket->socket.close(ignored);
  }
}

// --- From other threads --------------------------------------------------------------------------

void IoThread::Push(Item item) {
  MutexLock lock(&inbox_mutex_);
  inbox_.push_back(std::move(item));
  inbox_filled_.store(true, std::memory_order_release);
}

void IoThread::Wake() {
  if (!inbox_filled_.load(std::memory_order_acquire)) return;
  if (wake_pending_.exchange(true)) return;
  boost::asio::post(context_, [this] {
    wake_pending_.store(false);
    BeginTurn();
    DrainInbox();
  });
}

void IoThread::Adopt(tcp::socket accepted) {
  // The descriptor changes its event loop with its thread.
  const tcp::endpoint::protocol_type protocol = accepted.local_endpoint().protocol();
  boost::system::error_code error;
  const int descriptor = accepted.release(error);
  if (error) return;
  boost::asio::post(context_, [this, descriptor, protocol] {
    tcp::socket socket(context_);
    boost::system::error_code problem;
    socket.assign(protocol, descriptor, problem);
    if (problem) {
      ::close(descriptor);
      return;
    }
    const tcp::endpoint remote = socket.remote_endpoint(problem);
    if (!problem) socket.set_option(tcp::no_delay(true), problem);
    if (!problem) socket.non_blocking(true, problem);
    if (problem) return;  // the client is gone already
    const std::string address = remote.address().to_string();
    if (!door_->AdmitAddress(address)) return;
    const uint32_t tag = door_->NewTag(number_);
    auto adopted = std::make_shared<Socket>(std::move(socket), this, tag, address);
    sockets_[tag] = adopted;
    door_->AddConnection(tag, absl::StrCat(address, ":", remote.port()));
    Receive(adopted);
  });
}

// --- Sockets -------------------------------------------------------------------------------------

void IoThread::Receive(const std::shared_ptr<Socket>& socket) {
  if (!socket->open || socket->reading || socket->connection.IsFull()) return;
  // Congestion is made by writes: clients that wait for none are still heard.
  if (socket->connection.queued() > 0 && door_->service().congested()) return;
  socket->reading = true;
  socket->socket.async_wait(tcp::socket::wait_read,
                            [this, socket](const boost::system::error_code& error) {
                              socket->reading = false;
                              if (!error && socket->open) OnReadable(socket);
                            });
}

void IoThread::OnReadable(const std::shared_ptr<Socket>& socket) {
  BeginTurn();
  const ssize_t received = ::recv(socket->socket.native_handle(), receive_buffer_.data(),
                                  receive_buffer_.size(), MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
    Receive(socket);
    return;
  }
  if (received <= 0) {
    Close(*socket);
    return;
  }
  const absl::Status status = socket->connection.OnBytes(
      std::string_view(receive_buffer_.data(), static_cast<size_t>(received)));
  UnlockTree();
  MarkDirty(*socket);
  if (!status.ok()) Finish(*socket, status);
}

void IoThread::Flush(Socket& socket) {
  std::string& out = socket.connection.out();
  while (socket.open && !socket.writing && socket.sent < out.size()) {
    const ssize_t sent = ::send(socket.socket.native_handle(), out.data() + socket.sent,
                                out.size() - socket.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      socket.sent += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      socket.writing = true;
      auto self = sockets_.at(socket.connection.tag());
      socket.socket.async_wait(tcp::socket::wait_write,
                               [this, self](const boost::system::error_code& error) {
                                 self->writing = false;
                                 if (!error && self->open) OnWritable(self);
                               });
    } else if (errno != EINTR) {
      Close(socket);
      return;
    }
  }
  if (socket.sent == out.size()) {
    out.clear();
    if (out.capacity() > kReceiveBytes) out.shrink_to_fit();
    socket.sent = 0;
    if (socket.connection.finished()) Close(socket);
  } else if (out.size() - socket.sent > kUnsentBytesMax) {
    Finish(socket, absl::ResourceExhaustedError("the client does not read what it is sent"));
    Close(socket);
  }
}

void IoThread::OnWritable(const std::shared_ptr<Socket>& socket) {
  BeginTurn();
  // It makes room by reading. That bytes could be sent, to a buffer, would not show that it lives.
  socket->connection.SetTouched();
  // Not at each turn: moving the rest costs as much as sending it.
  std::string& out = socket->connection.out();
  if (socket->sent > out.size() / 2) {
    out.erase(0, socket->sent);
    socket->sent = 0;
  }
  MarkDirty(*socket);
}

void IoThread::Finish(Socket& socket, const absl::Status& why) {
  if (!socket.open) return;
  LogClosing(socket.connection, why);
  socket.connection.SetFinished();
  MarkDirty(socket);  // what it was told before is sent, then it is closed
}

void IoThread::LogClosing(const Connection& connection, const absl::Status& why) {
  const std::string reason(why.message());
  if (connection.has_session()) {
    spdlog::info("closing the connection of {}, session 0x{:x}: {}", connection.address(),
                 connection.session().value(), reason);
    return;
  }
  // Clients that are turned away come back at once, many times a second.
  if (now_ - refusal_logged_ < kRefusalLogPeriod) {
    ++refusals_not_logged_;
    return;
  }
  refusal_logged_ = now_;
  spdlog::info(
      "turning away {}{}: {}", connection.address(),
      refusals_not_logged_ > 0 ? fmt::format(" (and {} before)", refusals_not_logged_) : "",
      reason);
  refusals_not_logged_ = 0;
}

void IoThread::Close(Socket& socket) {
  if (!socket.open) return;
  socket.open = false;
  const uint32_t tag = socket.connection.tag();
  {
    LockTree();  // watches may be touched only while nothing is applied
    MutexLock lock(&door_->watches().mutex);
    door_->watches().table.RemoveWatcher(tag);
  }
  UnlockTree();
  door_->ForgetSession(socket.connection.session(), tag);
  door_->RemoveConnection(tag);
  door_->ReleaseAddress(socket.connection.address());
  boost::system::error_code ignored;
  socket.socket.close(ignored);
  sockets_.erase(tag);  // handlers and dirty_ may still hold it
}

// --- Turns ---------------------------------------------------------------------------------------

void IoThread::BeginTurn() { now_ = std::chrono::steady_clock::now(); }

void IoThread::MarkDirty(Socket& socket) {
  if (socket.dirty || !socket.open) return;
  socket.dirty = true;
  dirty_.push_back(sockets_.at(socket.connection.tag()));
  ScheduleTurnEnd();
}

// The end of a turn comes after the handlers of all sockets that were ready together, so that their
// writes go to the log as one batch.
void IoThread::ScheduleTurnEnd() {
  if (turn_end_scheduled_) return;
  turn_end_scheduled_ = true;
  boost::asio::post(context_, [this] { EndTurn(); });
}

void IoThread::EndTurn() {
  turn_end_scheduled_ = false;
  ContinueConnections();
  if (!batch_.empty()) {
    const size_t bytes = batch_.bytes->size();
    door_->service().Submit(std::exchange(batch_, CommandBatch{}));
    batch_.bytes->reserve(bytes);
  }
  std::vector<std::shared_ptr<Socket>> dirty;
  dirty.swap(dirty_);
  // Closing one of them empties the inbox, which may have something for any of the others.
  for (const std::shared_ptr<Socket>& socket : dirty) socket->dirty = false;
  for (const std::shared_ptr<Socket>& socket : dirty) {
    if (!socket->open) continue;
    Flush(*socket);
    if (!socket->open) continue;
    door_->UpdateConnection(socket->connection);
    if (socket->connection.CanContinue()) MarkDirty(*socket);
    Receive(socket);
  }
}

// Only here, when the tree is locked and the inbox empty: a request that is answered while results
// are being handed out could overtake an event.
void IoThread::ContinueConnections() {
  const auto can_continue = [](const std::shared_ptr<Socket>& socket) {
    return socket->open && socket->connection.CanContinue();
  };
  if (std::none_of(dirty_.begin(), dirty_.end(), can_continue)) return;
  LockTree();  // may add to dirty_
  for (size_t i = 0; i < dirty_.size(); ++i) {
    if (!can_continue(dirty_[i])) continue;
    if (absl::Status status = dirty_[i]->connection.Continue(); !status.ok()) {
      Finish(*dirty_[i], status);
    }
  }
  UnlockTree();
}

void IoThread::AddedCommand(size_t offset) {
  ASSERT(offset < batch_.bytes->size());
  batch_.commands.push_back({offset, batch_.bytes->size() - offset});
  ScheduleTurnEnd();
}

const tree::Tree& IoThread::LockTree() {
  const tree::Tree& tree = door_->service().tree();
  if (tree_locked_) return tree;
  door_->service().tree_mutex().ReaderLock();
  tree_locked_ = true;
  DrainInbox();
  seen_zxid_ = tree.last_zxid();
  return tree;
}

void IoThread::UnlockTree() {
  if (!tree_locked_) return;
  tree_locked_ = false;
  door_->service().tree_mutex().ReaderUnlock();
}

// --- Inbox ---------------------------------------------------------------------------------------

void IoThread::DrainInbox() {
  if (!inbox_filled_.load(std::memory_order_acquire)) return;
  ASSERT(draining_.empty());
  {
    MutexLock lock(&inbox_mutex_);
    draining_.swap(inbox_);
    inbox_filled_.store(false, std::memory_order_release);
  }
  for (Item& item : draining_) HandleItem(item);
  draining_.clear();
}

void IoThread::HandleItem(Item& item) {
  const auto find = [this](uint32_t tag) -> Socket* {
    auto it = sockets_.find(tag);
    return it == sockets_.end() ? nullptr : it->second.get();
  };
  absl::Status status;
  Socket* socket = nullptr;
  if (auto* result = std::get_if<tree::ApplyResult>(&item)) {
    seen_zxid_ = std::max(seen_zxid_, result->zxid);
    socket = find(result->header.origin_tag);
    if (socket != nullptr) status = socket->connection.OnResult(std::move(*result));
  } else if (auto* event = std::get_if<WatchEvent>(&item)) {
    socket = find(event->tag);
    if (socket != nullptr) {
      socket->connection.OnWatchEvent(event->type, event->path, event->zxid);
    }
  } else if (auto* sync = std::get_if<SyncDone>(&item)) {
    seen_zxid_ = std::max(seen_zxid_, sync->zxid);
    socket = find(sync->tag);
    if (socket != nullptr) socket->connection.OnSyncDone(sync->sync_id);
  } else if (auto* attached = std::get_if<SessionAttached>(&item)) {
    socket = find(attached->tag);
    if (socket != nullptr && socket->connection.IsOvertaken(attached->attach_zxid)) {
      status = absl::AbortedError("the session has moved to another connection");
    }
  } else {
    socket = find(std::get<SessionClosed>(item).tag);
    if (socket != nullptr && socket->connection.OnSessionClosed()) {
      status = absl::AbortedError("the session has expired or was closed elsewhere");
    }
  }
  if (socket == nullptr) return;
  MarkDirty(*socket);
  if (!status.ok()) Finish(*socket, status);
}

// --- From time to time ---------------------------------------------------------------------------

void IoThread::StartTimer() {
  timer_.expires_after(kTimerPeriod);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    OnTimer();
    StartTimer();
  });
}

void IoThread::OnTimer() {
  BeginTurn();
  const ServerStatus status = door_->service().status();
  std::vector<std::shared_ptr<Socket>> sockets;
  sockets.reserve(sockets_.size());
  for (auto& [tag, socket] : sockets_) sockets.push_back(socket);
  for (const std::shared_ptr<Socket>& socket : sockets) {
    absl::Status problem = socket->connection.CheckTime(now_, status.leader_contact_age_ms);
    if (problem.ok() && socket->connection.waits_for_catch_up()) {
      problem = socket->connection.RetryHandshake();
      MarkDirty(*socket);
    }
    if (!problem.ok()) Finish(*socket, problem);
    if (socket->connection.finished() && ++socket->timers_finished > kTimersToSendTheRest) {
      Close(*socket);
    }
    Receive(socket);  // in case it was paused
  }
  UnlockTree();
  SendTouches();
}

void IoThread::SendTouches() {
  // Often enough for the shortest session, and at most twice in a tick.
  const Config& config = door_->config();
  const auto period = std::chrono::milliseconds(
      std::min(config.tick_time_ms / 2, config.min_session_timeout_ms / 6));
  if (now_ - touches_sent_ < period) return;
  touches_sent_ = now_;
  std::vector<int64_t> touched;
  for (auto& [tag, socket] : sockets_) {
    if (socket->connection.TakeTouched() && socket->connection.has_session()) {
      touched.push_back(socket->connection.session().value());
    }
  }
  if (!touched.empty()) door_->service().Touch(std::move(touched));
}

}  // namespace quorate::rpc::zk
