// SPDX-License-Identifier: Apache-2.0

#include "rpc/peer/peer_network.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "rpc/listen/listen.h"
#include "rpc/listen/lookup.h"
#include "rpc/tls/names.h"

namespace quorate::rpc {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using consensus::MemberId;

// The limit for connections on which no hello was accepted; PeerReceiver limits the time of each.
constexpr size_t kUnauthenticatedMax = 64;
// How long handshakes wait before it is seen whether there is time for them.
constexpr auto kHandshakePause = std::chrono::milliseconds(5);
// How long a member that was removed is still reached.
constexpr auto kRemovalTime = std::chrono::seconds(5);
constexpr auto kRefusalLogInterval = std::chrono::seconds(10);
constexpr Poller::Readiness kAwaitsServers = {.readable = true, .writable = false};
// No session has this id.
constexpr int64_t kNoSession = 0;

// Returns a random number that is not 0.
uint64_t RandomProcessNumber() {
  const std::string bytes = RandomBytes::System()->Make(sizeof(uint64_t));
  return LoadInt<std::endian::little, uint64_t>(bytes.data()) | 1;
}

}  // namespace

PeerNetwork::PeerNetwork(PeerNetworkOptions options, PeerHandler* handler)
    : options_(std::move(options)), process_(RandomProcessNumber()), handler_(handler) {
  Links links;
  for (const auto& [peer, address] : options_.addresses) links[peer] = MakeLink(peer, address);
  Publish(std::move(links));
}

PeerNetwork::~PeerNetwork() { End(); }

absl::Status PeerNetwork::Start(const std::string& cluster_id) {
  SetClusterId(cluster_id);
  // A server without server.N lines runs alone, and nobody can join it.
  const bool runs_alone = options_.addresses.empty() && options_.listen_address.port == 0;
  if (runs_alone) return absl::OkStatus();
  if (absl::Status s = Listen(); !s.ok()) return s;
  LogSecurity();
  Tick();
  return absl::OkStatus();
}

void PeerNetwork::End() {
  if (std::exchange(is_ended_, true)) return;
  for (const auto& listener : listeners_) poller_.Remove(listener->registration);
  listeners_.clear();
  for (const auto& set : all_links_) {
    for (const auto& [peer, link] : *set) link->Stop();
  }
  while (!receivers_.empty()) receivers_.begin()->second->Close();
}

// --- Event loop ----------------------------------------------------------------------------------

void PeerNetwork::HandleEvents(Clock::time_point deadline) {
  loop_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  poller_.Poll(deadline);
  // Outside of this call the thread may wait for something else, and another one may take its place.
  loop_thread_.store({}, std::memory_order_relaxed);
}

void PeerNetwork::Wake() {
  // A handler that runs on the loop's thread need not wake it.
  if (loop_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  poller_.Wake();
}

void PeerNetwork::Tick() {
  const Clock::time_point now = Clock::now();
  EndRemoved(now);
  for (const auto& [peer, link] : links()) link->Tick(now);
  for (const auto& listener : listeners_) {
    if (std::exchange(listener->is_accepting, true)) continue;
    poller_.SetInterest(listener->registration, kAwaitsServers);
  }
  std::vector<std::shared_ptr<PeerReceiver>> unauthenticated;
  for (const auto& [key, receiver] : receivers_) {
    if (!receiver->from().has_value()) unauthenticated.push_back(receiver);
  }
  for (const auto& receiver : unauthenticated) receiver->CheckTime(now);
}

// --- The listening side --------------------------------------------------------------------------

error_code PeerNetwork::AddListener(const std::function<error_code(tcp::acceptor*)>& listen) {
  boost::asio::io_context unused;  // nothing is awaited in it
  tcp::acceptor acceptor(unused);
  error_code error = listen(&acceptor);
  if (!error) acceptor.native_non_blocking(true, error);
  if (error) return error;
  auto listener = std::make_unique<Listener>(this, Descriptor(acceptor.release(error)));
  if (error) return error;
  const auto id = poller_.Add(listener->socket.number(), kAwaitsServers, listener.get());
  if (!id.has_value()) return LastError();
  listener->registration = *id;
  listeners_.push_back(std::move(listener));
  return {};
}

absl::Status PeerNetwork::Listen() {
  const PeerAddress& address = options_.listen_address;
  error_code problem;
  if (address.host.empty()) {
    problem = AddListener([&](tcp::acceptor* to) { return ListenOnAll(address.port, to); });
  } else {
    const auto endpoints = LookUpOwnName(absl::StrCat("server.", options_.self.value()),
                                         address.host, address.port, &problem);
    for (const tcp::endpoint& endpoint : endpoints) {
      const error_code error =
          AddListener([&](tcp::acceptor* to) { return ListenOn(endpoint, Families::kOwn, to); });
      // A taken address is reported, whatever the others have.
      if (error && problem != boost::system::errc::address_in_use) problem = error;
    }
  }
  // This machine may lack some of the addresses of a name: listening on one of them is enough.
  const bool is_taken = problem == boost::system::errc::address_in_use;
  if (!listeners_.empty() && !is_taken) return absl::OkStatus();
  for (const auto& listener : listeners_) poller_.Remove(listener->registration);
  listeners_.clear();
  return absl::UnavailableError(absl::StrCat("cannot listen for the other servers on ",
                                             address.ToString(), ": ", problem.message()));
}

void PeerNetwork::Accept(Listener* listener) {
  tcp::endpoint remote;
  auto bytes = static_cast<socklen_t>(remote.capacity());
  Descriptor socket(
      ::accept4(listener->socket.number(), remote.data(), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) {
    remote.resize(bytes);
    return Adopt(std::move(socket), remote);
  }
  if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
  // Most likely the process has no free descriptor; the next tick tries again.
  OnRefused("another server", absl::StrCat("it cannot be accepted: ", LastError().message()));
  poller_.SetInterest(listener->registration, {});
  listener->is_accepting = false;
}

void PeerNetwork::Adopt(Descriptor socket, const tcp::endpoint& remote) {
  if (ConfigurePeerSocket(socket.number())) return;  // the peer is gone already
  const std::string host = HostText(remote.address());
  const std::string where = PeerAddress{host, remote.port()}.ToString();
  MakeRoomForUnauthenticated();
  auto receiver =
      std::make_shared<PeerReceiver>(&poller_, std::move(socket), host, where, &options_.security,
                                     static_cast<PeerReceiver::Owner*>(this), handler_);
  receivers_[receiver.get()] = receiver;
  receiver->Start();
}

void PeerNetwork::MakeRoomForUnauthenticated() {
  std::shared_ptr<PeerReceiver> oldest;
  bool is_from_member = false;
  size_t count = 0;
  for (const auto& [key, receiver] : receivers_) {
    if (receiver->from().has_value()) continue;
    ++count;
    const bool is_known = IsFromMember(*receiver);
    const bool goes_first =
        oldest == nullptr || (is_from_member && !is_known) ||
        (is_from_member == is_known && receiver->opened_at() < oldest->opened_at());
    if (!goes_first) continue;
    oldest = receiver;
    is_from_member = is_known;
  }
  if (count < kUnauthenticatedMax) return;
  // Closes the oldest one rather than the new one: a server goes on with its handshake and its hello
  // as soon as it can, so that the oldest one is most likely of somebody else.
  OnRefused(oldest->where(), "too many connections on which no server has said hello");
  oldest->Close();
}

bool PeerNetwork::IsFromMember(const PeerReceiver& receiver) const {
  return std::ranges::any_of(
      links(), [&](const auto& entry) { return entry.second->IsAt(receiver.host()); });
}

bool PeerNetwork::MayHandshake() {
  const Clock::time_point now = Clock::now();
  // While somebody waits, everybody does: ContinueHandshakes then takes members first, and new
  // connections cannot take the time of those that wait.
  if (!will_continue_handshakes_ && handshake_budget_.IsLeft(now)) return true;
  if (!std::exchange(will_continue_handshakes_, true)) {
    poller_.RunAt(now + kHandshakePause, [this] {
      will_continue_handshakes_ = false;
      ContinueHandshakes();
    });
  }
  return false;
}

void PeerNetwork::OnHandshakeTime(Clock::duration time) { handshake_budget_.Spend(time); }

void PeerNetwork::ContinueHandshakes() {
  std::vector<std::shared_ptr<PeerReceiver>> waiting;
  for (const auto& [key, receiver] : receivers_) {
    if (receiver->waits_for_time()) waiting.push_back(receiver);
  }
  std::ranges::sort(waiting, {}, [this](const auto& receiver) {
    return std::pair(!IsFromMember(*receiver), receiver->opened_at());
  });
  for (const auto& receiver : waiting) {
    if (!MayHandshake()) return;
    receiver->ContinueHandshake();
  }
}

std::string PeerNetwork::CertificateProblem(const Hello& hello, const X509* certificate) {
  const PeerAddress* member = AddressOf(hello.from);
  // OnHello refuses servers that are not known.
  if (!options_.security.checks_names || !options_.security.checks_names_of_connecting ||
      member == nullptr) {
    return "";
  }
  const std::string problem = tls::NameProblem(certificate, member->host);
  return problem.empty() ? ""
                         : absl::StrCat(problem, ", which server ", options_.self.value(),
                                        " has in its line server.", hello.from.value(),
                                        " (ssl.quorum.clientHostnameVerification)");
}

void PeerNetwork::OnUnproved(MemberId from, const std::string& why) {
  const Clock::time_point now = Clock::now();
  if (unproved_logged_at_.has_value() && now - *unproved_logged_at_ < kRefusalLogInterval) return;
  unproved_logged_at_ = now;
  spdlog::warn("server {} has connected without a proof of the secret of this one: {}",
               from.value(), why);
}

void PeerNetwork::LogSecurity() const {
  const PeerSecurity& security = options_.security;
  // These are the words of ZooKeeper, which administrators look for.
  spdlog::info(security.connects_with_tls ? "Using TLS encrypted quorum communication"
                                          : "Using insecure (non-TLS) quorum communication");
  spdlog::info("Port unification {}",
               security.accepts_tls && security.accepts_plain ? "enabled" : "disabled");
  const bool admits_anybody = security.accepts_plain && !security.requires_proof();
  const auto is_elsewhere = [](const auto& entry) {
    error_code is_name;
    const auto address = boost::asio::ip::make_address(entry.second.host, is_name);
    return is_name ? entry.second.host != "localhost" : !address.is_loopback();
  };
  if (!admits_anybody || std::ranges::none_of(options_.addresses, is_elsewhere)) return;
  spdlog::warn(
      "who reaches {} can act as a server of this cluster: servers need neither a certificate "
      "(sslQuorum without portUnification) nor a secret (memberSecretFile, with "
      "memberSecretRequired)",
      options_.listen_address.ToString());
}

bool PeerNetwork::IsAliveElsewhere(const Hello& hello, const std::string& host) const {
  const PeerLink* link = LinkTo(hello.from);
  const std::optional<PeerLink::End> end = link == nullptr ? std::nullopt : link->ConnectedTo();
  if (!end.has_value()) return false;
  if (hello.process != 0 && end->process != 0) return hello.process != end->process;
  // A server of the previous release sends no process number: it is alive elsewhere if it is
  // connected to this server from another address.
  if (end->host == host) return false;
  return std::any_of(receivers_.begin(), receivers_.end(), [&](const auto& entry) {
    return entry.second->from() == hello.from && entry.second->host() != host;
  });
}

HelloAnswer PeerNetwork::OnHello(const Hello& hello, const std::string& host) {
  MutexLock lock(&mutex_);
  const uint32_t self = options_.self.value();
  const uint32_t from = hello.from.value();
  if (hello.protocol_version != kPeerProtocolVersion) {
    return Reject(absl::StrCat("server ", self, " speaks version ", kPeerProtocolVersion,
                               " of the protocol between servers, server ", from, " speaks ",
                               hello.protocol_version));
  }
  if (hello.to != options_.self) {
    return Reject(absl::StrCat("server ", self, " answers at the address of server ",
                               hello.to.value(), ": the server.N lines of server ", from,
                               " name wrong addresses (are two swapped?), or the "
                               "file myid of server ",
                               self, " holds a wrong number"));
  }
  // Before the question whether it is a member: a server that was left behind by a recovery must
  // not be told how to be admitted, because its data is that of another cluster.
  if (!hello.cluster_id.empty() && !cluster_id_.empty() && hello.cluster_id != cluster_id_) {
    HelloAnswer answer =
        Reject(absl::StrCat("server ", self, " belongs to cluster ",
                            absl::BytesToHexString(cluster_id_), ", the data directory of server ",
                            from, " to cluster ", absl::BytesToHexString(hello.cluster_id),
                            "; a server that is to join this cluster needs an empty data directory "
                            "(`quorate rebuild` puts the data aside)"));
    answer.cluster_id = cluster_id_;
    return answer;
  }
  if (AddressOf(hello.from) == nullptr) {
    return Reject(
        absl::StrCat("the configuration of server ", self, " has no other server ", from,
                     ": the server.N lines of all configurations must agree. `quorate member "
                     "add ",
                     from, "` admits a new server; if server ", self,
                     " was away while the members changed, add the lines of the new ones "
                     "to its configuration"));
  }
  if (IsAliveElsewhere(hello, host)) {
    // If the network was down, the old process may be gone although this server has not noticed it.
    // Then the machine of that process answers any frame (here, a touch of no session) with a TCP
    // reset, and the next hello is accepted.
    LinkTo(hello.from)->Write([](SendQueue* queue) { queue->AddTouches({kNoSession}); });
    return Reject(absl::StrCat(
        "server ", from, " is alive at ", AddressOf(hello.from)->ToString(),
        "; two servers have the same number: correct the number of one (in its file myid), or stop "
        "the other"));
  }
  return {true, "", "", kPeerProtocolNewest, process_};
}

HelloAnswer PeerNetwork::Reject(std::string reason) const {
  return {false, std::move(reason), "", kPeerProtocolNewest, process_};
}

void PeerNetwork::OnAccepted(PeerReceiver* accepted) {
  // Closes the older connections of this member, so that nothing more is read from them.
  std::vector<std::shared_ptr<PeerReceiver>> older;
  for (const auto& [key, receiver] : receivers_) {
    if (key != accepted && receiver->from() == accepted->from()) older.push_back(receiver);
  }
  for (const auto& receiver : older) receiver->Close();
}

void PeerNetwork::OnRefused(const std::string& where, const std::string& why) {
  const Clock::time_point now = Clock::now();
  if (refusal_logged_at_.has_value() && now - *refusal_logged_at_ < kRefusalLogInterval) return;
  refusal_logged_at_ = now;
  spdlog::warn("a connection from {} to the port for servers is closed: {}", where, why);
}

void PeerNetwork::OnEnd(PeerReceiver* receiver) { receivers_.erase(receiver); }

// --- PeerLinks -----------------------------------------------------------------------------------

PeerLink* PeerNetwork::LinkTo(MemberId member) const {
  const auto link = links().find(member);
  return link == links().end() ? nullptr : link->second.get();
}

const PeerAddress* PeerNetwork::AddressOf(MemberId member) const {
  const PeerLink* link = LinkTo(member);
  return link == nullptr ? nullptr : &link->address();
}

std::shared_ptr<PeerLink> PeerNetwork::MakeLink(MemberId member, const PeerAddress& address) {
  ASSERT(member != options_.self);
  auto link = std::make_shared<PeerLink>(&poller_, options_.self, process_, member, address,
                                         &options_.security, handler_);
  MutexLock lock(&mutex_);
  link->SetClusterId(cluster_id_);
  return link;
}

void PeerNetwork::Publish(Links links) {
  all_links_.push_back(std::make_unique<const Links>(std::move(links)));
  links_.store(all_links_.back().get(), std::memory_order_release);
}

void PeerNetwork::SetMembers(const PeerAddresses& others) {
  Links changed = links();
  bool is_changed = false;
  for (const auto& [member, address] : others) {
    removed_.erase(member);
    std::shared_ptr<PeerLink>& link = changed[member];
    if (link != nullptr && link->address() == address) continue;
    if (link != nullptr) replaced_.push_back(link);
    link = MakeLink(member, address);
    is_changed = true;
  }
  for (const auto& [member, link] : links()) {
    if (!others.contains(member)) removed_.try_emplace(member, Clock::now() + kRemovalTime);
  }
  if (is_changed) Publish(std::move(changed));
}

void PeerNetwork::EndRemoved(Clock::time_point now) {
  for (const auto& link : std::exchange(replaced_, {})) link->Stop();
  if (std::ranges::none_of(removed_, [&](const auto& entry) { return entry.second <= now; }))
    return;
  Links remaining = links();
  std::vector<std::shared_ptr<PeerReceiver>> ending;
  for (const auto& [member, ends_at] : std::map(removed_)) {
    if (ends_at > now) continue;
    removed_.erase(member);
    remaining.at(member)->Stop();
    remaining.erase(member);
    for (const auto& [key, receiver] : receivers_) {
      if (receiver->from() == member) ending.push_back(receiver);
    }
  }
  Publish(std::move(remaining));
  for (const auto& receiver : ending) receiver->Close();
}

void PeerNetwork::SetClusterId(const std::string& cluster_id) {
  {
    MutexLock lock(&mutex_);
    cluster_id_ = cluster_id;
  }
  for (const auto& [peer, link] : links()) link->SetClusterId(cluster_id);
}

void PeerNetwork::Send(std::vector<consensus::Message> messages) {
  for (const auto& [member, link] : links()) {  // all messages for one member at once
    const auto is_for_peer = [peer = member](const consensus::Message& message) {
      return message.to == peer;
    };
    if (std::none_of(messages.begin(), messages.end(), is_for_peer)) continue;
    link->Write([&](SendQueue* queue) {
      for (const consensus::Message& message : messages) {
        if (is_for_peer(message)) queue->AddMessage(message);
      }
    });
  }
}

void PeerNetwork::Forward(MemberId to, const std::vector<std::string_view>& commands) {
  PeerLink* link = LinkTo(to);
  if (link == nullptr) return;
  link->Write([&](SendQueue* queue) { queue->AddForward(commands); });
}

void PeerNetwork::SendTouches(MemberId to, const std::vector<int64_t>& sessions) {
  PeerLink* link = LinkTo(to);
  if (link == nullptr) return;
  link->Write([&](SendQueue* queue) { queue->AddTouches(sessions); });
}

void PeerNetwork::SendDigest(MemberId to, const DigestNote& note) {
  PeerLink* link = LinkTo(to);
  if (link == nullptr) return;
  link->Write([&](SendQueue* queue) { queue->AddDigest(note); });
}

void PeerNetwork::SendDiskReport(MemberId to, const DiskReport& report) {
  PeerLink* link = LinkTo(to);
  if (link == nullptr) return;
  link->Write([&](SendQueue* queue) { queue->AddDiskReport(report); });
}

PeerLinks::SendResult PeerNetwork::SendReconfig(MemberId to, const ReconfigNote& note) {
  PeerLink* link = LinkTo(to);
  // The version of a receiver is known while the link is up.
  if (link == nullptr || DownForMs(to) > 0) return SendResult::kNotSent;
  if (link->ReceiverVersion() < kPeerProtocolReconfig) return SendResult::kNotUnderstood;
  bool is_added = false;
  link->Write([&](SendQueue* queue) { is_added = queue->AddReconfig(note); });
  return is_added ? SendResult::kSent : SendResult::kNotSent;
}

bool PeerNetwork::IsSending(MemberId member) const {
  const PeerLink* link = LinkTo(member);
  return link != nullptr && link->IsSending();
}

int64_t PeerNetwork::DownForMs(MemberId member) const {
  const PeerLink* link = LinkTo(member);
  return link == nullptr ? 0 : link->DownForMs(Clock::now());
}

std::string PeerNetwork::ProblemOf(MemberId member) const {
  const PeerLink* link = LinkTo(member);
  return link == nullptr ? "" : link->Problem();
}

}  // namespace quorate::rpc
