// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/control.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quorate::tools::bench {
namespace {

constexpr size_t kDepth = 1000;
// The servers count as dead after this time without an answer, or after the session timeout if that
// is shorter.
constexpr int64_t kSilenceMaxNs = 10 * kNsInSecond;
constexpr int kWordTimeoutMs = 1000;

// One session whose requests take effect in the order in which they are sent.
class Control : public ConnectionHandler {
 public:
  Control(Engine* engine, const std::vector<Endpoint>& servers)
      : engine_(*engine),
        silence_ns_(std::min(kSilenceMaxNs, engine->session_timeout_ms() * kNsInMs)),
        connections_(engine->Add(1, servers, this)) {}
  ~Control() override { engine_.Remove(connections_); }

  // Works until all requests are answered.
  absl::Status Run() {
    progress_ns_ = NowNs();
    for (;;) {
      const int64_t deadline_ns = progress_ns_ + silence_ns_;
      if (engine_.RunUntil(deadline_ns, [this] { return IsDone() || !status_.ok(); })) {
        return status_;
      }
      if (NowNs() < progress_ns_ + silence_ns_) continue;
      return absl::UnavailableError(
          absl::StrCat("no server answers (",
                       engine_.last_failure().empty() ? "no connection attempt has failed"
                                                      : engine_.last_failure(),
                       "): are the servers running, and are they a majority?"));
    }
  }

  void OnUp(Connection&, int64_t) override {
    progress_ns_ = NowNs();
    Fill();
  }
  void OnReply(Connection&, const Request& request, tree::ErrorCode error, std::string_view body,
               int64_t now_ns) override {
    progress_ns_ = now_ns;
    absl::Status status = Handle(request, error, body);
    if (status_.ok()) status_ = std::move(status);
    Fill();
  }
  void OnLost(Connection&, const Request& request, int64_t) override { Again(request); }

 protected:
  virtual bool IsDone() const = 0;
  // Sends the next request; returns false if there is none, or none yet.
  virtual bool SendNext(Connection& connection) = 0;
  virtual absl::Status Handle(const Request& request, tree::ErrorCode error,
                              std::string_view body) = 0;
  // Called for a lost request, which must be sent again.
  virtual void Again(const Request& request) = 0;
  Engine& engine() { return engine_; }

 private:
  void Fill() {
    Connection& connection = *connections_->front();
    if (!connection.is_up()) return;
    while (status_.ok() && connection.pending() < kDepth && SendNext(connection)) {
    }
  }

  Engine& engine_;
  const int64_t silence_ns_;
  Connections* const connections_;
  int64_t progress_ns_ = 0;
  absl::Status status_;
};

class Maker : public Control {
 public:
  Maker(Engine* engine, const std::vector<Endpoint>& servers, const std::vector<NodeToMake>& nodes)
      : Control(engine, servers), nodes_(nodes) {}

 protected:
  bool IsDone() const override { return made_ == nodes_.size(); }
  bool SendNext(Connection& connection) override {
    if (next_ == nodes_.size()) return false;
    const NodeToMake& node = nodes_[next_];
    wire::RequestWriter to =
        engine().Send(connection, wire::kCreate, 0, static_cast<uint32_t>(next_), NowNs());
    wire::WriteCreate(node.path, node.data, tree::CreateMode::kPersistent, to.body());
    ++next_;
    return true;
  }
  absl::Status Handle(const Request& request, tree::ErrorCode error, std::string_view) override {
    ++made_;
    if (error == tree::ErrorCode::kOk || error == tree::ErrorCode::kNodeExists) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("cannot create ", nodes_[request.key].path, ": ",
                                            std::string(tree::ToString(error))));
  }
  // All requests after the first lost one were lost, too.
  void Again(const Request& request) override {
    next_ = std::min<size_t>(next_, request.key);
    made_ = next_;
  }

 private:
  const std::vector<NodeToMake>& nodes_;
  size_t next_ = 0;
  size_t made_ = 0;
};

// Deletes nodes; the children of a node are deleted first.
class Remover : public Control {
 public:
  Remover(Engine* engine, const std::vector<Endpoint>& servers, const std::string& path)
      : Control(engine, servers) {
    to_delete_.push_back(path);
  }

 protected:
  bool IsDone() const override { return to_delete_.empty() && to_list_.empty() && under_way_ == 0; }
  bool SendNext(Connection& connection) override {
    if (to_delete_.empty() && to_list_.empty()) return false;
    const bool is_list = to_delete_.empty();
    std::vector<std::string>& from = is_list ? to_list_ : to_delete_;
    const uint32_t key = next_key_++;
    std::string& path = paths_[key] = std::move(from.back());
    from.pop_back();
    ++under_way_;
    if (is_list) {
      wire::RequestWriter to = engine().Send(connection, wire::kGetChildren, kList, key, NowNs());
      wire::WriteRead(path, false, to.body());
    } else {
      wire::RequestWriter to = engine().Send(connection, wire::kDelete, kDelete, key, NowNs());
      wire::WriteDelete(path, -1, to.body());
    }
    return true;
  }
  absl::Status Handle(const Request& request, tree::ErrorCode error,
                      std::string_view body) override {
    const std::string path = Take(request);
    if (error == tree::ErrorCode::kNoNode) return absl::OkStatus();
    if (error == tree::ErrorCode::kNotEmpty && request.kind == kDelete) {
      to_list_.push_back(path);
      return absl::OkStatus();
    }
    if (error != tree::ErrorCode::kOk) {
      return absl::InternalError(
          absl::StrCat("cannot remove ", path, ": ", std::string(tree::ToString(error))));
    }
    if (request.kind == kDelete) return absl::OkStatus();
    // Last in, first out: the children are deleted before the node.
    to_delete_.push_back(path);
    BigEndianReader reader(body);
    for (auto left = reader.Int<uint32_t>(); left > 0 && reader.ok(); --left) {
      to_delete_.push_back(absl::StrCat(path, "/", std::string(wire::ReadBuffer(reader))));
    }
    return absl::OkStatus();
  }
  void Again(const Request& request) override {
    std::string path = Take(request);
    (request.kind == kList ? to_list_ : to_delete_).push_back(std::move(path));
  }

 private:
  enum Kind : int32_t { kList, kDelete };

  std::string Take(const Request& request) {
    --under_way_;
    return std::move(paths_.extract(request.key).mapped());
  }

  std::vector<std::string> to_delete_;
  std::vector<std::string> to_list_;
  std::map<uint32_t, std::string> paths_;  // of the outstanding requests
  uint32_t next_key_ = 0;
  size_t under_way_ = 0;
};

// Returns the value of a line "Name: value"; empty if there is no such line.
std::string ValueOf(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + ": ");
  if (at == std::string::npos) return "";
  const size_t begin = at + name.size() + 2;
  return text.substr(begin, text.find('\n', begin) - begin);
}

ssize_t Write(int fd, wire::TlsStream* tls, const std::string& text) {
  if (tls != nullptr) return tls->Send(text.data(), text.size());
  return send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

absl::Status MakeNodes(Engine* engine, const std::vector<Endpoint>& servers,
                       const std::vector<NodeToMake>& nodes) {
  return Maker(engine, servers, nodes).Run();
}

absl::Status RemoveNodes(Engine* engine, const std::vector<Endpoint>& servers,
                         const std::string& path) {
  return Remover(engine, servers, path).Run();
}

std::string AskFourLetterWord(const Endpoint& server, const std::string& word) {
  const int fd = socket(server.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return "";
  std::string answer;
  bool is_asked = false;
  std::unique_ptr<wire::TlsStream> tls;
  const int connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&server.address), server.address_size);
  const int64_t deadline_ns = NowNs() + kWordTimeoutMs * kNsInMs;
  const bool may_come = connected == 0 || errno == EINPROGRESS;
  while (may_come && NowNs() < deadline_ns) {
    // A handshake of TLS waits for the server.
    const bool waits_for_room = !is_asked && (tls == nullptr || tls->waits_for_room());
    pollfd wanted{fd, static_cast<short>(waits_for_room ? POLLOUT : POLLIN), 0};
    if (poll(&wanted, 1, kWordTimeoutMs) <= 0) break;
    if (!is_asked) {
      if (server.tls != nullptr && tls == nullptr) tls = server.tls->Connect(fd, server.host);
      if (server.tls != nullptr && tls == nullptr) break;
      is_asked = Write(fd, tls.get(), word) >= 0;
      if (!is_asked && errno != EAGAIN) break;
      continue;
    }
    char buffer[4096];
    const ssize_t received =
        tls != nullptr ? tls->Receive(buffer, sizeof(buffer)) : recv(fd, buffer, sizeof(buffer), 0);
    if (received < 0 && errno == EAGAIN) continue;
    if (received <= 0) break;
    answer.append(buffer, static_cast<size_t>(received));
  }
  tls.reset();
  close(fd);
  return answer;
}

absl::StatusOr<size_t> FindLeader(const std::vector<Endpoint>& servers) {
  std::string modes;
  for (size_t i = 0; i < servers.size(); ++i) {
    const std::string mode = ValueOf(AskFourLetterWord(servers[i], "srvr"), "Mode");
    if (mode == "leader") return i;
    absl::StrAppend(&modes, modes.empty() ? "" : ", ", servers[i].text, ": ",
                    mode.empty() ? "no answer to srvr" : mode);
  }
  return absl::NotFoundError(absl::StrCat("no server leads (", modes, ")"));
}

std::string VersionOf(const std::vector<Endpoint>& servers) {
  for (const Endpoint& server : servers) {
    const std::string version = ValueOf(AskFourLetterWord(server, "srvr"), "Zookeeper version");
    // Debian's version ends in a variable that was not substituted.
    if (!version.empty()) return version.substr(0, std::min(version.find(','), version.find("-$")));
  }
  return "";
}

}  // namespace quorate::tools::bench
