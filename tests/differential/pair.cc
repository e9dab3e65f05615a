// SPDX-License-Identifier: Apache-2.0

#include "tests/differential/pair.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/zookeeper/wire/wire.h"
#include "tests/differential/generator.h"
#include "tests/differential/requests.h"

namespace quorate::differential {
namespace {

constexpr int32_t kTimeoutMs = 60'000;
constexpr int64_t kRaisesMax = 2000;

Operation Connecting(int slot, ConnectKind kind) {
  Operation operation;
  operation.kind = OperationKind::kConnect;
  operation.slot = slot;
  operation.connect = kind;
  operation.timeout_ms = kTimeoutMs;
  return operation;
}

Operation Asking(int slot, Request request) {
  Operation operation;
  operation.slot = slot;
  request.xid = 1;
  operation.requests.push_back(std::move(request));
  return operation;
}

bool ConcernsOthers(const Operation& operation) {
  return std::any_of(operation.requests.begin(), operation.requests.end(),
                     [](const Request& r) { return IsMutation(r.op); });
}

const std::vector<std::string>& SystemPaths() {
  static const auto* paths = new std::vector<std::string>{"/zookeeper/quota", "/zookeeper", "/"};
  return *paths;
}

bool IsSystemPath(const std::string& path) {
  return path == "/zookeeper/config" ||
         std::find(SystemPaths().begin(), SystemPaths().end(), path) != SystemPaths().end();
}

std::string Child(const std::string& parent, const std::string& name) {
  return parent == "/" ? "/" + name : parent + "/" + name;
}

int64_t NumberOf(const Answer& answer, std::string_view name) {
  for (const Field& field : answer.fields) {
    if (field.name == name) return field.number;
  }
  return -1;
}

AclEntries Open() { return std::vector<AclEntry>{{}}; }

}  // namespace

Pair::Pair(const Addresses& addresses, Comparison* comparison, Spoiler* spoiler)
    : comparison_(*comparison), spoiler_(*spoiler) {
  for (size_t server : kBoth) {
    const auto& hosts = server == kReference ? addresses.reference : addresses.ours;
    const bool alone = hosts.size() == 1;
    for (size_t i = 0; i < kClients; ++i) {
      clients_[server].emplace_back(hosts[i % hosts.size()], alone, &newest_zxids_[server]);
    }
    admins_[server] = std::make_unique<Client>(hosts[0], alone, &newest_zxids_[server]);
  }
}

std::vector<Difference> Pair::Do(const Operation& operation) {
  const size_t slot = static_cast<size_t>(operation.slot);
  std::vector<Difference> differences;
  if (operation.kind == OperationKind::kRequests && !clients_[kReference][slot].connected()) {
    differences = DoConnected(Connecting(operation.slot, ConnectKind::kOwnSession));
    if (!clients_[kReference][slot].connected()) return differences;
  }
  Operation allowed = operation;
  // A session that is not closed would expire at a different time at each server.
  if (operation.kind == OperationKind::kConnect && operation.connect == ConnectKind::kNewSession &&
      clients_[kReference][slot].has_session()) {
    allowed.connect = ConnectKind::kOwnSession;
  }
  std::vector<Difference> more = DoConnected(allowed);
  differences.insert(differences.end(), more.begin(), more.end());
  return differences;
}

std::vector<Difference> Pair::DoConnected(const Operation& operation) {
  const size_t slot = static_cast<size_t>(operation.slot);
  Client& reference = clients_[kReference][slot];
  Client& ours = clients_[kOurs][slot];
  const Operation spoiled = spoiler_.Spoiled(operation);
  reference.Begin(operation);
  ours.Begin(spoiled);
  std::vector<Answer> there = reference.End(operation);
  std::vector<Answer> here = ours.End(spoiled);
  spoiler_.Spoil(&here);
  std::vector<Difference> differences =
      comparison_.Compare(operation, /*asked=*/true, std::move(there), std::move(here));
  if (reference.HasOldConnection() && ours.HasOldConnection()) {
    reference.BeginOldBarrier();
    ours.BeginOldBarrier();
    there = reference.EndOldBarrier();
    here = ours.EndOldBarrier();
    for (Difference& difference :
         comparison_.Compare(operation, /*asked=*/false, std::move(there), std::move(here))) {
      difference.kind += " (the replaced connection)";
      differences.push_back(std::move(difference));
    }
  }
  if (ConcernsOthers(operation)) Observe(operation, operation.slot, &differences);
  Settle(operation.slot);
  return differences;
}

void Pair::Observe(const Operation& operation, int asked, std::vector<Difference>* differences) {
  std::vector<size_t> observers;
  for (size_t slot = 0; slot < kClients; ++slot) {
    if (static_cast<int>(slot) == asked || !clients_[kReference][slot].connected()) continue;
    observers.push_back(slot);
    for (size_t server : kBoth) clients_[server][slot].BeginBarrier();
  }
  for (size_t slot : observers) {
    std::vector<Answer> there = clients_[kReference][slot].EndBarrier();
    std::vector<Answer> here = clients_[kOurs][slot].EndBarrier();
    spoiler_.Spoil(&here);
    std::vector<Difference> more =
        comparison_.Compare(operation, /*asked=*/false, std::move(there), std::move(here));
    differences->insert(differences->end(), more.begin(), more.end());
    Settle(static_cast<int>(slot));
  }
}

// After a difference one server may have kept a connection or a session that the other has ended.
void Pair::Settle(int slot) {
  Client& reference = clients_[kReference][static_cast<size_t>(slot)];
  Client& ours = clients_[kOurs][static_cast<size_t>(slot)];
  if (reference.connected() != ours.connected()) {
    reference.Drop();
    ours.Drop();
  }
  if (reference.has_session() != ours.has_session()) {
    for (size_t server : kBoth) EndSession(server, slot);
  }
}

void Pair::EndSession(size_t server, int slot) {
  Client& client = clients_[server][static_cast<size_t>(slot)];
  if (client.has_session() && !client.connected()) {
    const Operation connect = Connecting(slot, ConnectKind::kOwnSession);
    client.Begin(connect);
    client.End(connect);
  }
  if (client.connected()) {
    const Operation end = Asking(slot, MakeEmpty(wire::kCloseSession));
    client.Begin(end);
    client.End(end);
  }
  client.Forget();
}

void Pair::DropConnections() {
  for (size_t slot = 0; slot < kClients; ++slot) {
    for (size_t server : kBoth) clients_[server][slot].Drop();
  }
}

bool Pair::ConnectAdmin() {
  for (size_t server : kBoth) {
    Client& admin = *admins_[server];
    if (admin.connected()) continue;
    const Operation connect = Connecting(0, ConnectKind::kOwnSession);
    admin.Begin(connect);
    admin.End(connect);
    for (const char* who : {"super:secret", "alice:one", "bob:two"}) {
      if (!admin.connected()) return false;
      const Operation auth = Asking(0, MakeAuth(Text("digest"), Text(who)));
      admin.Begin(auth);
      admin.End(auth);
    }
    if (!admin.connected()) return false;
  }
  return true;
}

Answer Pair::Ask(size_t server, Request request) {
  const Operation operation = Asking(0, std::move(request));
  admins_[server]->Begin(operation);
  std::vector<Answer> answers = admins_[server]->End(operation);
  return answers.empty() ? Answer{} : answers[0];
}

std::vector<Difference> Pair::CompareTrees() {
  if (!ConnectAdmin()) return {{"tree: cannot be read", "", ""}};
  std::vector<Difference> differences;
  std::deque<std::string> paths{"/"};
  while (!paths.empty()) {
    const std::string path = paths.front();
    paths.pop_front();
    Operation reading = Asking(0, MakeRead(wire::kGetChildren2, Text(path), false));
    reading.requests.push_back(MakeRead(wire::kGetData, Text(path), false));
    reading.requests.push_back(MakePathOnly(wire::kGetAcl, Text(path)));
    for (auto& admin : admins_) admin->Begin(reading);
    std::vector<Answer> there = admins_[kReference]->End(reading);
    for (const Field& field : there.empty() ? std::vector<Field>() : there[0].fields) {
      if (field.name == "child") paths.push_back(Child(path, field.text));
    }
    for (Difference& difference :
         comparison_.Compare(reading, true, std::move(there), admins_[kOurs]->End(reading))) {
      differences.push_back({absl::StrCat("tree: ", difference.kind),
                             absl::StrCat(path, ": ", difference.reference),
                             absl::StrCat(path, ": ", difference.ours), difference.is_stall});
    }
    if (!admins_[kReference]->connected() || !admins_[kOurs]->connected()) break;
  }
  return differences;
}

bool Pair::Reset() {
  for (size_t server : kBoth) {
    for (int slot = 0; slot < kClients; ++slot) EndSession(server, slot);
  }
  if (!ConnectAdmin()) return false;
  for (size_t server : kBoth) RemoveTree(server, "/", /*itself=*/false);
  if (CompareTrees().empty()) return true;
  for (const std::string& path : SystemPaths()) {
    if (!Equalize(path)) return false;
  }
  comparison_.relation().ForgetChanges();
  for (const std::string& path : SystemPaths()) {
    for (size_t server : kBoth) {
      Ask(server, MakeSetData(Text(path), Text(""), -1));
      Ask(server, MakeCreate(wire::kCreate, Text(Child(path, "x")), Text(""), Open(), 0));
      Ask(server, MakeVersioned(wire::kDelete, Text(Child(path, "x")), -1));
    }
  }
  return CompareTrees().empty();
}

void Pair::RemoveTree(size_t server, const std::string& path, bool itself) {
  const Answer children = Ask(server, MakeRead(wire::kGetChildren, Text(path), false));
  for (const Field& field : children.fields) {
    if (field.name == "child") RemoveTree(server, Child(path, field.text), /*itself=*/true);
  }
  if (itself && !IsSystemPath(path)) Ask(server, MakeVersioned(wire::kDelete, Text(path), -1));
}

// Raises the versions at the server where they are lower. Returns false on failure.
bool Pair::Equalize(const std::string& path) {
  std::array<int64_t, 2> version{}, aversion{}, creates{};
  for (size_t server : kBoth) {
    Ask(server, MakeSetAcl(Text(path), Open(), -1));
    const Answer stat = Ask(server, MakeRead(wire::kExists, Text(path), false));
    version[server] = NumberOf(stat, "version");
    aversion[server] = NumberOf(stat, "aversion");
    // The sequence number of the next child.
    creates[server] = (NumberOf(stat, "cversion") + NumberOf(stat, "numChildren")) / 2;
  }
  for (size_t server : kBoth) {
    const size_t other = kBoth.size() - 1 - server;
    const int64_t raises[] = {version[other] - version[server], aversion[other] - aversion[server],
                              creates[other] - creates[server]};
    if (*std::max_element(std::begin(raises), std::end(raises)) > kRaisesMax) return false;
    RaiseVersions(server, path, raises[0], raises[1], raises[2]);
  }
  return true;
}

void Pair::RaiseVersions(size_t server, const std::string& path, int64_t version, int64_t aversion,
                         int64_t creates) {
  for (; version > 0; --version) Ask(server, MakeSetData(Text(path), Text(""), -1));
  for (; aversion > 0; --aversion) Ask(server, MakeSetAcl(Text(path), Open(), -1));
  for (; creates > 0; --creates) {
    Ask(server, MakeCreate(wire::kCreate, Text(Child(path, "x")), Text(""), Open(), 0));
    Ask(server, MakeVersioned(wire::kDelete, Text(Child(path, "x")), -1));
  }
}

}  // namespace quorate::differential
