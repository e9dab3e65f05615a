// A server's configuration: a ZooKeeper zoo.cfg (key=value lines, '#' comments) and dataDir/myid.
//
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace quorate::rpc {

// One server.N=host:peerPort[:electionPort][:participant|observer][;[clientHost:]clientPort] line.
struct ServerLine {
  std::string host;
  uint16_t peer_port = 0;
  uint16_t election_port = 0;  // shown and not used; 0: not given
  bool observer = false;
  std::string client_host;
  uint16_t client_port = 0;  // 0: not given in this line
};

struct Config {
  std::string file;
  std::string data_dir;  // checkpoints and myid
  std::string log_dir;   // the log; after Parse: dataDir if dataLogDir is not given
  uint32_t my_id = 1;
  std::map<uint32_t, ServerLine> servers;  // empty: standalone
  std::string members_file;                // which has the server.N lines; empty: not given

  std::string client_address;  // empty: all of this machine, of IPv6 and IPv4
  uint16_t client_port = 0;
  uint16_t grpc_port = 0;  // 0: there is no gRPC front end
  // Where gRPC clients and administrators are listened for. This machine only, unless configured:
  // the port has administrators' calls, and does not authenticate who makes them.
  std::string grpc_address = "127.0.0.1";

  int tick_time_ms = 3000;
  // In ticks. 0: not given. The first is shown and not used.
  int init_limit = 0;
  int sync_limit = 0;
  // The longest time without contact to a leader, in milliseconds, during which this server answers
  // gRPC reads that are not linearizable. -1: no limit. 0: not given.
  int stale_read_limit_ms = 0;
  int min_session_timeout_ms = 0;  // after Parse: the default if not given
  int max_session_timeout_ms = 0;
  int max_client_connections = 60;  // from one address; 0: no limit
  int max_connections = 0;          // 0: no limit but that of open files
  // Requests of all clients that were received and not answered, at which clients that wait for
  // answers are not read from; 0: what waits is bounded in bytes alone.
  int global_outstanding_limit = 0;
  bool read_only_mode = false;  // without a quorum, serve reads to clients that accept that
  int jute_max_buffer_bytes = 1048575;
  // Of one reply. A read that would exceed it is refused: a client reads no reply above the
  // jute.maxbuffer of its own, and the server has to hold each reply in memory.
  int max_reply_bytes = 64 << 20;
  int election_timeout_ms = 300;
  // If not given, this or a third of the election timeout if that is shorter: more of them would
  // cost idle servers, and find a dead leader no sooner.
  int heartbeat_ms = 100;
  int io_threads = 0;                        // after Parse: chosen by the machine if not given
  int snap_count = 0;                        // entries between checkpoints; 0: not given
  int log_segment_bytes = 0;                 // of a file of the log; 0: not given
  int memory_limit_mb = 0;                   // MiB; 0: chosen by the machine's memory
  int disk_reserve_mb = -1;                  // MiB; -1: chosen by the size of the log's files
  bool enforce_quota = false;                // hard limits of quotas are kept to
  int container_check_interval_ms = 60'000;  // how often empty containers are looked for
  int container_max_per_minute = 10'000;     // removed at most
  bool quorum_listen_on_all_ips = false;
  // The digest id of whoever passes every access control list; empty: nobody does.
  std::string super_digest;
  bool skip_acl = false;  // clients of this server pass every access control list
  // Of recent events, which watches of gRPC clients go on from when a stream breaks.
  int event_history_bytes = 8 << 20;
  std::vector<std::string> four_letter_words;  // "*": all; after Parse: always has srvr

  std::vector<std::string> warnings;  // about keys that are not implemented or not known

  bool standalone() const { return servers.empty(); }
  bool ListensForClientsEverywhere() const;
  // Where clients are listened for, as host:port; the host is * if client_address is empty.
  std::string ClientEndpoint() const;
  // How often the leader is told which sessions were heard from: often enough for the shortest
  // session, and at most twice in a tick.
  int touch_period_ms() const { return std::min(tick_time_ms / 2, min_session_timeout_ms / 6); }
  // After how long without a leader clients that wait for changes are sent elsewhere.
  int64_t ContactLimitMs() const {
    constexpr int kSyncLimitDefault = 5;  // as ZooKeeper's sample
    if (stale_read_limit_ms > 0) return stale_read_limit_ms;
    return int64_t{tick_time_ms} * (sync_limit > 0 ? sync_limit : kSyncLimitDefault);
  }
  // As stale_read_limit_ms, and never 0.
  int64_t StaleReadLimitMs() const { return stale_read_limit_ms < 0 ? -1 : ContactLimitMs(); }
  // The members as /zookeeper/config shows them, in ZooKeeper's form; empty if standalone.
  std::string MembersText() const;
  bool AllowsFourLetterWord(std::string_view word) const;
};

// Reads and checks a configuration file, the file of its dynamicConfigFile if it has one, and
// dataDir/myid if there are server lines. Lines are those of Java's Properties: key=value,
// key:value or key value; one that ends with a backslash goes on in the next, and a backslash
// takes the meaning of the character behind it away. Errors name the file, the line, the key and
// what is allowed. What asks for protection that this server does not have (authentication, TLS
// between servers) or for another quorum (weights, groups) is an error; other keys without effect
// are warnings.
absl::StatusOr<Config> LoadConfig(const std::string& file);

// The same for text already read; the other files are read through `read_file` (NotFound if there
// is no such file; the message of an error says why, without the path).
using ReadFile = absl::StatusOr<std::string> (*)(const std::string& path);
absl::StatusOr<Config> ParseConfig(const std::string& file, std::string_view text,
                                   ReadFile read_file);

}  // namespace quorate::rpc
