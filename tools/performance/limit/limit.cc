// SPDX-License-Identifier: Apache-2.0

// Measures the least cost of replicated durable writes, and of reads, on this machine:
// single-threaded processes do only the input and output which no system can avoid, with one
// request at a time from each client. There is no Raft, no tree and no session. The cost of Quorate
// is compared with this limit.
//
//   write: a leader and two followers. The leader has all its input and output in one io_uring: it
//          receives requests of 200 bytes, sends them to the followers, writes and syncs them as
//          one batch at a time, and answers with 8 bytes what a majority of the three has synced.
//          A follower reads, writes, syncs and acknowledges.
//   read:  three servers, each with a third of the clients, that answer each request of 40 bytes
//          with 120 bytes from one io_uring.
//   read-epoll: as `read`, but each server waits with epoll, receives, and sends, as Quorate does.
//          The difference is what io_uring saves at most (docs/decisions/io-uring.md).
//
// All clients are in one process, as in `quorate bench`.
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace quorate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kServers = 3;
constexpr size_t kWriteBytes = 200;
constexpr size_t kAcknowledgementBytes = sizeof(uint64_t);
constexpr size_t kReadRequestBytes = 40;
constexpr size_t kReadReplyBytes = 120;
// The size of the file of a log, which is written once, and then overwritten from its beginning.
constexpr off_t kFileBytes = 64 << 20;
constexpr unsigned kRingEntries = 16'384;

struct Options {
  std::string workload;
  std::string directory;
  size_t clients = 1;
  double seconds = 5;
};

// --- System calls, none of which may fail --------------------------------------------------------

int Checked(int result, const char* call) {
  if (result < 0) {
    std::fprintf(stderr, "limit: %s: %s\n", call, std::strerror(errno));
    std::_Exit(1);
  }
  return result;
}

void SendAtOnce(int socket) {
  const int one = 1;
  Checked(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "setsockopt");
}

// Returns a socket that listens on a free port of the loopback interface.
int Listen() {
  const int socket = Checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Checked(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  Checked(listen(socket, SOMAXCONN), "listen");
  return socket;
}

int ConnectTo(int listener) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  Checked(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes), "getsockname");
  const int socket = Checked(::socket(AF_INET, SOCK_STREAM, 0), "socket");
  Checked(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
  SendAtOnce(socket);
  return socket;
}

int Accept(int listener) {
  const int socket = Checked(accept(listener, nullptr, nullptr), "accept");
  SendAtOnce(socket);
  return socket;
}

std::vector<int> AcceptAll(int listener, size_t count) {
  std::vector<int> sockets(count);
  for (int& socket : sockets) socket = Accept(listener);
  return sockets;
}

int OpenLog(const std::string& path) {
  const int file = Checked(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600), "open");
  const std::vector<char> zeros(kFileBytes);
  Checked(static_cast<int>(write(file, zeros.data(), zeros.size())), "write");
  Checked(fsync(file), "fsync");
  return file;
}

double CpuSeconds() {
  rusage usage{};
  Checked(getrusage(RUSAGE_SELF, &usage), "getrusage");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// --- Servers -------------------------------------------------------------------------------------

// A process that serves until its clients disconnect. It writes a byte to the pipe `ready` when it
// begins to serve. At its end it writes the processor time that it has used in between to the pipe
// `report`.
class Server {
 public:
  Server(int ready, int report) : ready_(ready), report_(report) {}

  void Begin() {
    Checked(static_cast<int>(write(ready_, "", 1)), "write");
    before_ = CpuSeconds();
  }
  [[noreturn]] void End() {
    const double spent = CpuSeconds() - before_;
    Checked(static_cast<int>(write(report_, &spent, sizeof spent)), "write");
    std::_Exit(0);
  }

 private:
  const int ready_;
  const int report_;
  double before_ = 0;
};

[[noreturn]] void RunFollower(Server server, const std::string& path, int listener) {
  const int file = OpenLog(path);
  const int leader = Accept(listener);
  server.Begin();
  std::vector<char> buffer(1 << 20);
  off_t at = 0;
  uint64_t synced_bytes = 0;
  for (;;) {
    const ssize_t bytes = read(leader, buffer.data(), buffer.size());
    if (bytes <= 0) server.End();
    if (at + bytes > kFileBytes) at = 0;
    const auto count = static_cast<size_t>(bytes);
    Checked(static_cast<int>(pwrite(file, buffer.data(), count, at)), "pwrite");
    Checked(fdatasync(file), "fdatasync");
    at += bytes;
    synced_bytes += count;
    if (write(leader, &synced_bytes, sizeof synced_bytes) < 0) server.End();
  }
}

// An io_uring whose completions carry a kind and a number.
class Ring {
 public:
  Ring() {
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    const int result = io_uring_queue_init(kRingEntries, &ring_, flags);
    if (result < 0) {
      std::fprintf(stderr, "limit: io_uring is not available: %s\n", std::strerror(-result));
      std::_Exit(1);
    }
  }

  // Returns an entry, which the caller prepares and then passes to Tag.
  io_uring_sqe* Next() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // the queue is full
      io_uring_submit(&ring_);
      entry = io_uring_get_sqe(&ring_);
      ASSERT(entry != nullptr, "a submission empties the queue");
    }
    return entry;
  }
  // Sets the kind and the number with which Turn passes the completion of the prepared entry to its
  // handler.
  static void Tag(io_uring_sqe* entry, uint32_t kind, size_t number) {
    io_uring_sqe_set_data64(entry, (uint64_t{number} << 8) | kind);
  }

  // Submits the prepared entries, waits, and calls `handle(kind, number, result)` for all
  // completions.
  template <class Handle>
  void Turn(const Handle& handle) {
    io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* completion = nullptr;
    unsigned head = 0;
    unsigned count = 0;
    io_uring_for_each_cqe(&ring_, head, completion) {
      ++count;
      handle(static_cast<uint32_t>(completion->user_data & 0xff),
             static_cast<size_t>(completion->user_data >> 8), completion->res);
    }
    io_uring_cq_advance(&ring_, count);
  }

 private:
  io_uring ring_{};
};

class Leader {
 public:
  Leader(Server server, const std::string& path, int listener, std::array<int, 2> followers,
         size_t clients)
      : server_(server), file_(OpenLog(path)), clients_(AcceptAll(listener, clients)) {
    for (size_t i = 0; i < followers.size(); ++i) followers_[i].socket = followers[i];
    requests_.resize(clients * kWriteBytes);
    server_.Begin();
  }

  [[noreturn]] void Run() {
    for (size_t i = 0; i < clients_.size(); ++i) ReceiveRequest(i);
    for (size_t i = 0; i < followers_.size(); ++i) ReceiveAcknowledgement(i);
    for (;;) {
      received_.clear();
      ring_.Turn([this](uint32_t kind, size_t number, int result) {
        Handle(static_cast<Kind>(kind), number, result);
      });
      for (size_t i = 0; i < followers_.size(); ++i) Replicate(i);
      WriteLog();
      Answer();
    }
  }

 private:
  enum Kind : uint32_t { kRequest, kAcknowledgement, kReplicated, kWritten, kSynced, kAnswered };
  struct Follower {
    int socket = -1;
    uint64_t received = 0;  // bytes of the acknowledgement that is being received
    uint64_t synced = 0;    // bytes that the follower has acknowledged
    std::vector<char> sending;
    std::vector<char> queued;
    bool is_sending = false;
  };

  void ReceiveRequest(size_t client) {
    io_uring_sqe* entry = ring_.Next();
    io_uring_prep_recv(entry, clients_[client], &requests_[client * kWriteBytes], kWriteBytes,
                       MSG_WAITALL);
    Ring::Tag(entry, kRequest, client);
  }

  void ReceiveAcknowledgement(size_t number) {
    io_uring_sqe* entry = ring_.Next();
    Follower& follower = followers_[number];
    io_uring_prep_recv(entry, follower.socket, &follower.received, kAcknowledgementBytes,
                       MSG_WAITALL);
    Ring::Tag(entry, kAcknowledgement, number);
  }

  void Handle(Kind kind, size_t number, int result) {
    switch (kind) {
      case kRequest: {
        if (result <= 0) server_.End();
        const char* request = &requests_[number * kWriteBytes];
        received_.insert(received_.end(), request, request + kWriteBytes);
        waiting_.push_back(number);
        received_bytes_ += kWriteBytes;
        return;
      }
      case kAcknowledgement:
        if (result <= 0) server_.End();
        followers_[number].synced = followers_[number].received;
        ReceiveAcknowledgement(number);
        return;
      case kReplicated:
        followers_[number].is_sending = false;
        return;
      case kSynced:
        synced_ = writing_until_;
        is_writing_ = false;
        return;
      case kWritten:
      case kAnswered:
        return;
    }
  }

  void Replicate(size_t number) {
    Follower& follower = followers_[number];
    follower.queued.insert(follower.queued.end(), received_.begin(), received_.end());
    if (follower.is_sending || follower.queued.empty()) return;
    follower.sending.swap(follower.queued);
    follower.queued.clear();
    follower.is_sending = true;
    io_uring_sqe* entry = ring_.Next();
    io_uring_prep_send(entry, follower.socket, follower.sending.data(), follower.sending.size(),
                       MSG_WAITALL);
    Ring::Tag(entry, kReplicated, number);
  }

  void WriteLog() {
    queued_.insert(queued_.end(), received_.begin(), received_.end());
    if (is_writing_ || queued_.empty()) return;
    writing_.swap(queued_);
    queued_.clear();
    const auto bytes = static_cast<off_t>(writing_.size());
    if (at_ + bytes > kFileBytes) at_ = 0;
    io_uring_sqe* write = ring_.Next();
    io_uring_prep_write(write, file_, writing_.data(), static_cast<unsigned>(writing_.size()),
                        static_cast<uint64_t>(at_));
    Ring::Tag(write, kWritten, 0);
    write->flags |= IOSQE_IO_LINK;  // the sync begins after the write
    io_uring_sqe* sync = ring_.Next();
    io_uring_prep_fsync(sync, file_, IORING_FSYNC_DATASYNC);
    Ring::Tag(sync, kSynced, 0);
    at_ += bytes;
    writing_until_ = received_bytes_;
    is_writing_ = true;
  }

  // Answers the requests that two of the three servers have synced.
  void Answer() {
    std::array<uint64_t, kServers> synced = {synced_, followers_[0].synced, followers_[1].synced};
    std::sort(synced.begin(), synced.end());
    for (; answered_ + kWriteBytes <= synced[1]; answered_ += kWriteBytes) {
      const size_t client = waiting_.front();
      waiting_.pop_front();
      io_uring_sqe* entry = ring_.Next();
      io_uring_prep_send(entry, clients_[client], &answer_, sizeof answer_, 0);
      Ring::Tag(entry, kAnswered, client);
      ReceiveRequest(client);
    }
  }

  Server server_;
  const int file_;
  const std::vector<int> clients_;
  std::array<Follower, 2> followers_;
  Ring ring_;
  std::vector<char> requests_;  // one request of each client
  const uint64_t answer_ = 0;
  std::deque<size_t> waiting_;  // clients in the order of their requests
  // The requests of this loop iteration, those received since the write began, and those being
  // written.
  std::vector<char> received_;
  std::vector<char> queued_;
  std::vector<char> writing_;
  bool is_writing_ = false;
  off_t at_ = 0;  // where the next write begins
  // The numbers of bytes since the beginning.
  uint64_t received_bytes_ = 0;
  uint64_t writing_until_ = 0;
  uint64_t synced_ = 0;
  uint64_t answered_ = 0;
};

[[noreturn]] void RunReadServer(Server server, int listener, size_t clients) {
  enum Kind : uint32_t { kRequest, kAnswered };
  const std::vector<int> sockets = AcceptAll(listener, clients);
  std::vector<char> requests(clients * kReadRequestBytes);
  const std::vector<char> reply(kReadReplyBytes);
  Ring ring;
  server.Begin();
  const auto receive = [&](size_t client) {
    io_uring_sqe* entry = ring.Next();
    io_uring_prep_recv(entry, sockets[client], &requests[client * kReadRequestBytes],
                       kReadRequestBytes, MSG_WAITALL);
    Ring::Tag(entry, kRequest, client);
  };
  for (size_t i = 0; i < clients; ++i) receive(i);
  for (;;) {
    ring.Turn([&](uint32_t kind, size_t client, int result) {
      if (kind == kAnswered) return;
      if (result <= 0) server.End();
      io_uring_sqe* entry = ring.Next();
      io_uring_prep_send(entry, sockets[client], reply.data(), reply.size(), 0);
      Ring::Tag(entry, kAnswered, client);
      receive(client);
    });
  }
}

[[noreturn]] void RunEpollReadServer(Server server, int listener, size_t clients) {
  const std::vector<int> sockets = AcceptAll(listener, clients);
  const int poller = Checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  for (const int socket : sockets) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = socket;
    Checked(epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event), "epoll_ctl");
  }
  std::array<char, kReadRequestBytes> request{};
  const std::array<char, kReadReplyBytes> reply{};
  std::vector<epoll_event> events(sockets.size());
  server.Begin();
  for (;;) {
    const int ready = epoll_wait(poller, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int socket = events[static_cast<size_t>(i)].data.fd;
      const ssize_t bytes = recv(socket, request.data(), request.size(), MSG_WAITALL);
      if (bytes <= 0) server.End();
      if (send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) server.End();
    }
  }
}

// --- Clients -------------------------------------------------------------------------------------

struct Load {
  size_t request_bytes;
  size_t reply_bytes;
};

// Sends one request after the other on each socket for `seconds`. Returns the latencies in
// microseconds.
std::vector<double> RunClients(const std::vector<int>& sockets, const Load& load, double seconds) {
  const std::vector<char> request(load.request_bytes);
  std::vector<char> reply(load.reply_bytes);
  std::vector<Clock::time_point> sent_at(sockets.size());
  std::vector<double> latencies;
  latencies.reserve(static_cast<size_t>(seconds * 150'000));
  const int poll = Checked(epoll_create1(0), "epoll_create1");
  const auto send = [&](size_t i) {
    sent_at[i] = Clock::now();
    Checked(static_cast<int>(write(sockets[i], request.data(), request.size())), "write");
  };
  for (size_t i = 0; i < sockets.size(); ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    Checked(epoll_ctl(poll, EPOLL_CTL_ADD, sockets[i], &event), "epoll_ctl");
  }
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(seconds));
  for (size_t i = 0; i < sockets.size(); ++i) send(i);
  std::vector<epoll_event> events(sockets.size());
  while (Clock::now() < end) {
    const int ready = Checked(epoll_wait(poll, events.data(), static_cast<int>(events.size()), 100),
                              "epoll_wait");
    for (size_t k = 0; k < static_cast<size_t>(ready); ++k) {
      const size_t i = events[k].data.u64;
      const ssize_t bytes = recv(sockets[i], reply.data(), reply.size(), MSG_WAITALL);
      if (bytes != static_cast<ssize_t>(reply.size())) {
        std::fprintf(stderr, "limit: a server has ended\n");
        std::_Exit(1);
      }
      const std::chrono::duration<double, std::micro> latency = Clock::now() - sent_at[i];
      latencies.push_back(latency.count());
      send(i);
    }
  }
  for (const int socket : sockets) close(socket);
  close(poll);
  return latencies;
}

void RaiseFileLimit() {
  rlimit limit{};
  Checked(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  Checked(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
}

// Runs server `number` of the three, in a separate process.
[[noreturn]] void RunServer(const Options& options, size_t number, Server server,
                            const std::array<int, kServers>& listeners) {
  Checked(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");  // no server outlives the clients
  // Of the reads, client i connects to server i % 3.
  const size_t clients = (options.clients + kServers - 1 - number) / kServers;
  if (options.workload == "read") RunReadServer(server, listeners[number], clients);
  if (options.workload == "read-epoll") RunEpollReadServer(server, listeners[number], clients);
  const std::string path = options.directory + "/limit-" + std::to_string(number);
  if (number > 0) RunFollower(server, path, listeners[number]);
  Leader leader(server, path, listeners[0], {ConnectTo(listeners[1]), ConnectTo(listeners[2])},
                options.clients);
  leader.Run();
}

double Percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void Run(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  // Ends this program if a server ends before all servers are ready. That server has printed the
  // reason.
  std::signal(SIGCHLD, [](int) { std::_Exit(1); });
  RaiseFileLimit();
  std::array<int, 2> ready{};
  std::array<int, 2> report{};
  Checked(pipe(ready.data()), "pipe");
  Checked(pipe(report.data()), "pipe");
  std::array<int, kServers> listeners{};
  for (int& listener : listeners) listener = Listen();
  for (size_t i = 0; i < kServers; ++i) {
    if (Checked(fork(), "fork") == 0) {
      RunServer(options, i, Server(ready[1], report[1]), listeners);
    }
  }
  close(ready[1]);
  close(report[1]);
  const bool reads = options.workload != "write";
  std::vector<int> sockets(options.clients);
  for (size_t i = 0; i < sockets.size(); ++i) {
    sockets[i] = ConnectTo(listeners[reads ? i % kServers : 0]);
  }
  for (size_t i = 0; i < kServers; ++i) {
    char byte = 0;
    Checked(static_cast<int>(read(ready[0], &byte, 1)), "read");
  }
  std::signal(SIGCHLD, SIG_DFL);
  const Load load =
      reads ? Load{kReadRequestBytes, kReadReplyBytes} : Load{kWriteBytes, kAcknowledgementBytes};
  std::vector<double> latencies = RunClients(sockets, load, options.seconds);
  double cpu_seconds = 0;
  double spent = 0;
  while (read(report[0], &spent, sizeof spent) == sizeof spent) cpu_seconds += spent;
  while (wait(nullptr) > 0) {
  }
  if (latencies.empty()) {
    std::fprintf(stderr, "limit: no request was answered in %g s\n", options.seconds);
    std::_Exit(1);
  }
  std::sort(latencies.begin(), latencies.end());
  const auto count = static_cast<double>(latencies.size());
  const nlohmann::ordered_json result = {{"workload", options.workload},
                                         {"clients", options.clients},
                                         {"operations_per_second", count / options.seconds},
                                         {"p50_us", Percentile(latencies, 0.5)},
                                         {"p99_us", Percentile(latencies, 0.99)},
                                         {"p99.9_us", Percentile(latencies, 0.999)},
                                         {"server_cpu_us", cpu_seconds * 1e6 / count}};
  std::printf("%s\n", result.dump().c_str());
}

}  // namespace
}  // namespace quorate

int main(int argc, char** argv) {
  quorate::Options options;
  CLI::App app(
      "Measures the least that writes or reads cost on this machine, and prints it as JSON.");
  app.add_option("workload", options.workload, "write, read or read-epoll")
      ->required()
      ->check(CLI::IsMember({"write", "read", "read-epoll"}));
  app.add_option("directory", options.directory, "directory of the logs of the workload write")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--clients", options.clients,
                 "number of connections, each with one request at a time")
      ->check(CLI::Range(1, 20'000));
  app.add_option("--seconds", options.seconds, "duration in seconds")
      ->check(CLI::Range(0.05, 3600.0));
  CLI11_PARSE(app, argc, argv);
  quorate::Run(options);
}
