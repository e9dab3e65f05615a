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
  std::string members_file;                // the file with the server.N lines; empty: not given

  std::string client_address;  // empty: all of this machine, of IPv6 and IPv4
  uint16_t client_port = 0;
  uint16_t grpc_port = 0;  // 0: there is no gRPC front end
  // The address of the gRPC front end. This machine only, unless configured: the port serves
  // administrators' calls, and does not authenticate callers.
  std::string grpc_address = "127.0.0.1";

  int tick_time_ms = 3000;
  // In ticks. 0: not given. init_limit is shown and not used.
  int init_limit = 0;
  int sync_limit = 0;
  // The longest time without contact with a leader, in milliseconds, during which this server
  // answers gRPC reads that are not linearizable. -1: no limit. 0: not given.
  int stale_read_limit_ms = 0;
  int min_session_timeout_ms = 0;  // after Parse: the default if not given
  int max_session_timeout_ms = 0;
  int max_client_connections = 60;  // from one address; 0: no limit
  int max_connections = 0;          // 0: no limit but that of open files
  // When this many requests of all clients are received and not answered, clients that wait for
  // answers are not read from. 0: only the bytes of the waiting requests are limited.
  int global_outstanding_limit = 0;
  bool read_only_mode = false;  // without a quorum, serve reads to clients that accept that
  int jute_max_buffer_bytes = 1048575;
  // The limit of one reply. A read that would exceed it is refused: a client accepts no reply above
  // its own jute.maxbuffer, and the server has to hold each reply in memory.
  int max_reply_bytes = 64 << 20;
  int election_timeout_ms = 300;
  // If not given, the shorter of this and a third of the election timeout: more frequent heartbeats
  // would cost processor time on idle servers, and would not detect a dead leader sooner.
  int heartbeat_ms = 100;
  int io_threads = 0;                        // after Parse: chosen by the machine if not given
  int snap_count = 0;                        // entries between checkpoints; 0: not given
  int log_segment_bytes = 0;                 // size of a log file; 0: not given
  int memory_limit_mb = 0;                   // MiB; 0: chosen from the machine's memory
  int disk_reserve_mb = -1;                  // MiB; -1: chosen from the size of the log's files
  bool enforce_quota = false;                // hard limits of quotas are enforced
  int container_check_interval_ms = 60'000;  // how often empty containers are looked for
  int container_max_per_minute = 10'000;     // the most that are removed
  bool quorum_listen_on_all_ips = false;
  // The digest id of the super user, which passes every access control list; empty: there is none.
  std::string super_digest;
  bool skip_acl = false;  // clients of this server pass every access control list
  // The bytes of recent events that are kept, so that watches of gRPC clients can resume after a
  // broken stream.
  int event_history_bytes = 8 << 20;
  std::vector<std::string> four_letter_words;  // "*": all; after Parse: always has srvr

  std::vector<std::string> warnings;  // about keys that are not implemented or not known

  bool standalone() const { return servers.empty(); }
  bool ListensForClientsEverywhere() const;
  // Returns where the server listens for clients, as host:port; the host is * if client_address is
  // empty.
  std::string ClientEndpoint() const;
  // Returns how often touches are sent to the leader: often enough for the shortest session
  // timeout, and at most twice per tick (tickTime).
  int touch_period_ms() const { return std::min(tick_time_ms / 2, min_session_timeout_ms / 6); }
  // Returns after how long without contact with a leader this server ends the watches of gRPC
  // clients, so that they go to another server.
  int64_t ContactLimitMs() const {
    constexpr int kSyncLimitDefault = 5;  // as ZooKeeper's sample
    if (stale_read_limit_ms > 0) return stale_read_limit_ms;
    return int64_t{tick_time_ms} * (sync_limit > 0 ? sync_limit : kSyncLimitDefault);
  }
  // Returns stale_read_limit_ms, or its default if it is not given; never 0.
  int64_t StaleReadLimitMs() const { return stale_read_limit_ms < 0 ? -1 : ContactLimitMs(); }
  // Returns the members as /zookeeper/config shows them, in ZooKeeper's format; empty if
  // standalone.
  std::string MembersText() const;
  bool AllowsFourLetterWord(std::string_view word) const;
};

// Reads and checks a configuration file, the file of its dynamicConfigFile if it has one, and
// dataDir/myid if there are server lines. Lines are those of Java's Properties: key=value,
// key:value or key value; a line that ends with a backslash continues in the next, and a backslash
// escapes the character after it. Errors name the file, the line, the key and the allowed values.
// Keys that ask for protection that this server does not have (authentication, TLS between servers)
// or for another kind of quorum (weights, groups) are errors; other keys without effect are
// warnings.
absl::StatusOr<Config> LoadConfig(const std::string& file);

// Does the same for `text`, the contents of `file`. Other files are read through `read_file`, which
// returns NotFound if there is no such file; its error messages say the reason, without the path.
using ReadFile = absl::StatusOr<std::string> (*)(const std::string& path);
absl::StatusOr<Config> ParseConfig(const std::string& file, std::string_view text,
                                   ReadFile read_file);

}  // namespace quorate::rpc
