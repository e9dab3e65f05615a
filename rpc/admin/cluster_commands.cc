// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rpc/admin/command_functions.h"

namespace quorate::rpc::admin {
namespace {

std::string Address(const std::string& host, uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return absl::StrCat(is_v6 ? "[" : "", host, is_v6 ? "]" : "", ":", port);
}

// Returns the address at which a member listens for clients; empty if it is not known.
std::string ClientAddress(const Config& config, uint32_t id, const ServerLine& line) {
  if (id == config.my_id) return config.ClientEndpoint();
  if (line.client_port == 0) return "";
  return Address(line.client_host.empty() ? "0.0.0.0" : line.client_host, line.client_port);
}

// Returns an address in the form of ZooKeeper's class of several addresses.
Json AddressList(const std::string& host, uint16_t port) {
  const std::string address = Address(host, port);
  return {{"empty", false},
          {"all_addresses", Json::array({address})},
          {"one", address},
          {"all_ports", Json::array({port})},
          {"all_host_strings", Json::array({host})}};
}

// Returns the members as the server knows them: those of the log, or those of its configuration before
// the first change.
ServerLines MembersOf(const CommandContext& context, const ClusterView& view) {
  if (view.members.empty()) return context.config.servers;
  ServerLines lines;
  for (const ClusterView::Member& member : view.members) {
    if (member.addresses.has_value()) lines[member.id.value()] = *member.addresses;
  }
  return lines;
}

}  // namespace

void ReportLeader(const CommandContext& context, Json* fields) {
  if (context.config.standalone()) {
    (*fields)["error"] = "server is not initialized";
    return;
  }
  const ClusterView view = context.administration.cluster_view();
  const ServerLines members = MembersOf(context, view);
  const auto leader = members.find(view.leader.value());
  (*fields)["is_leader"] = view.is_leader;
  (*fields)["leader_id"] = view.leader.value();
  (*fields)["leader_ip"] = leader == members.end() ? "" : leader->second.host;
}

void ReportObservers(const CommandContext& context, Json* fields) {
  (*fields)["synced_observers"] = context.service().metrics().observers_in_sync;
  Json observers = Json::array();
  const ClusterView view = context.administration.cluster_view();
  const ServerLines members = MembersOf(context, view);
  for (const ClusterView::Member& member : view.members) {
    const auto line = members.find(member.id.value());
    if (!context.status.is_leader || !member.observer || !member.reachable ||
        line == members.end()) {
      continue;
    }
    observers.push_back(
        {{"remote_socket_address", Address(line->second.host, line->second.peer_port)},
         {"sid", member.id.value()},
         {"last_zxid", member.match_index.value()}});
  }
  (*fields)["observers"] = std::move(observers);
}

void ReportVotingView(const CommandContext& context, Json* fields) {
  Json members = Json::object();
  for (const auto& [id, line] : MembersOf(context, context.administration.cluster_view())) {
    if (line.observer || context.config.standalone()) continue;
    members[absl::StrCat(id)] = {
        {"server_addresses", Json::array({Address(line.host, line.peer_port)})},
        {"election_addresses", Json::array({Address(line.host, line.election_port)})},
        {"client_address", ClientAddress(context.config, id, line)},
        {"learner_type", "participant"}};
  }
  (*fields)["current_config"] = std::move(members);
}

void ReportZabState(const CommandContext& context, Json* fields) {
  Json& f = *fields;
  const auto own = context.config.servers.find(context.config.my_id);
  if (own == context.config.servers.end()) {
    f["voting"] = false;
    f["zabstate"] = "";
    return;
  }
  const ClusterView view = context.administration.cluster_view();
  const int64_t zxid = context.service().ReadTree()->last_zxid().value();
  f["myid"] = context.config.my_id;
  f["is_leader"] = view.is_leader;
  f["quorum_address"] = AddressList(own->second.host, own->second.peer_port);
  f["election_address"] = AddressList(own->second.host, own->second.election_port);
  f["client_address"] = context.config.ClientEndpoint();
  f["voting"] = !context.status.observer;
  f["last_zxid"] = absl::StrFormat("0x%x", zxid);
  // A zxid is an index of the log and has no epoch; the term of Raft takes its place.
  f["zab_epoch"] = view.term.value();
  f["zab_counter"] = zxid;
  f["zabstate"] = !context.status.leader_known ? "election"
                  : context.status.caught_up   ? "broadcast"
                                               : "synchronization";
}

}  // namespace quorate::rpc::admin
