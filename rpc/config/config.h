// SPDX-License-Identifier: Apache-2.0

// A server's configuration: a ZooKeeper zoo.cfg (key=value lines, '#' comments) and dataDir/myid.
//
// Thread-safety: plain values and functions without state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/config/server_line.h"

namespace quorate::rpc {

struct Config {
  std::string file;
  std::string data_dir;  // checkpoints and myid
  std::string log_dir;   // the log; after ParseConfig: dataDir if dataLogDir is not given
  uint32_t my_id = 1;
  ServerLines servers;       // empty: standalone
  std::string members_file;  // the file with the server.N lines; empty: not given

  std::string client_address;            // empty: all addresses of this machine, IPv6 and IPv4
  uint16_t client_port = 0;              // 0: only the port with TLS
  uint16_t secure_client_port = 0;       // with TLS; 0: there is none
  std::string secure_client_address;     // empty: all addresses
  bool client_port_unification = false;  // client_port takes clients with and without TLS
  bool client_cert_reload = false;       // stores of TLS are read again when they change
  // The stores and settings of TLS for clients (rpc/tls/options.h).
  std::string ssl_key_store;
  std::string ssl_key_store_password;
  std::string ssl_key_store_password_file;
  std::string ssl_key_store_type;
  std::string ssl_trust_store;
  std::string ssl_trust_store_password;
  std::string ssl_trust_store_password_file;
  std::string ssl_trust_store_type;
  std::string ssl_client_auth;  // after ParseConfig: "none", "want" or "need"
  std::string ssl_protocol;
  std::vector<std::string> ssl_enabled_protocols;
  std::vector<std::string> ssl_cipher_suites;
  bool ssl_crl = false;
  // The certificate of a client has to be for its address, if both are set.
  bool ssl_hostname_verification = true;
  bool ssl_client_hostname_verification = false;
  int ssl_handshake_detection_timeout_ms = 5000;
  int ssl_handshakes_max = -1;  // under way at a time; -1 and 0: no limit
  // The subject of the certificate whose client passes every access control list; empty: none.
  std::string x509_super_user;
  // TLS between servers: the server connects to others with TLS, and takes connections with TLS
  // only, unless peer_port_unification lets it take both.
  bool ssl_quorum = false;
  bool peer_port_unification = false;
  bool quorum_cert_reload = false;  // stores of TLS are read again when they change
  // The stores and settings of TLS between servers (rpc/tls/options.h).
  std::string quorum_ssl_key_store;
  std::string quorum_ssl_key_store_password;
  std::string quorum_ssl_key_store_password_file;
  std::string quorum_ssl_key_store_type;
  std::string quorum_ssl_trust_store;
  std::string quorum_ssl_trust_store_password;
  std::string quorum_ssl_trust_store_password_file;
  std::string quorum_ssl_trust_store_type;
  std::string quorum_ssl_client_auth;  // after ParseConfig: "none", "want" or "need"
  std::string quorum_ssl_protocol;
  std::vector<std::string> quorum_ssl_enabled_protocols;
  std::vector<std::string> quorum_ssl_cipher_suites;
  bool quorum_ssl_crl = false;
  // The certificate of the other server must name the host in its server.N line: of the server
  // connected to, and of the server that connects.
  bool quorum_ssl_hostname_verification = true;
  bool quorum_ssl_client_hostname_verification = true;
  int quorum_ssl_handshake_detection_timeout_ms = 5000;
  // A file with a secret that all servers share, and that each proves to know on each connection
  // between them; empty: there is none.
  std::string member_secret_file;
  // Refuses servers that do not prove it. false: for the time until all servers have the file.
  bool member_secret_required = true;

  // SASL (rpc/sasl).
  std::string jaas_file;  // with the users' passwords, or the Kerberos principal; empty: no SASL
  std::string sasl_section = "Server";        // the section of jaas_file
  std::string sasl_super_password;            // of the user super; empty: as in jaas_file
  std::vector<std::string> sasl_super_users;  // names that pass every access control list
  std::string sasl_any_user_id;               // an id in ACLs that stands for every SASL user
  bool sasl_acl_scheme = false;               // access control lists may have the scheme sasl
  bool kerberos_removes_host = false;         // of a principal, for its id
  bool kerberos_removes_realm = false;
  std::string auth_to_local_rules;  // empty: DEFAULT
  bool admits_clients_that_fail_sasl = false;
  // Clients must prove an identity of one of these schemes before other requests; empty: they need
  // not.
  std::vector<std::string> required_auth_schemes;

  // The audit log.
  bool audit = false;
  std::string audit_file;  // after ParseConfig: the default if not given
  int audit_file_bytes = 10 << 20;
  int audit_files = 10;              // kept beside the one that is written
  bool audit_failures_only = false;  // zookeeper.auditlog.threshold

  // Limits of one client identity or address (rpc/frontend/tenant_limits.h); 0: no limit. That of
  // requests_per_second_max is above what a server can do, because one fast client may well need all
  // of it (docs/guides/limits.md).
  int connections_per_identity_max = 10'000;
  int new_sessions_per_second_max = 10'000;
  int requests_per_second_max = 1'000'000;
  int outstanding_requests_max = 100'000;
  int outstanding_bytes_max = 256 << 20;
  int watches_max = 2'000'000;
  int ephemerals_max = 1'000'000;
  int first_request_timeout_ms = 10'000;  // of a connection without a session

  // TLS and administrators of gRPC.
  bool grpc_tls = false;             // with the stores of TLS for clients
  std::string grpc_tls_client_auth;  // after ParseConfig: "none", "want" or "need"
  std::string grpc_unix_socket;      // a path; empty: there is none
  std::string administrator_token_file;
  std::vector<std::string> administrator_subjects;  // of certificates

  uint16_t grpc_port = 0;  // 0: there is no gRPC front end
  // The address of the gRPC front end. By default only this machine can connect, because callers are
  // authenticated only as far as TLS and administrators are configured.
  std::string grpc_address = "127.0.0.1";

  // HTTP: commands, metrics and health.
  bool admin_server = true;
  std::string admin_address = "0.0.0.0";
  uint16_t admin_port = 8080;
  std::string admin_command_url = "/commands";
  int admin_idle_timeout_ms = 30'000;
  bool admin_port_unification = false;  // admin_port takes HTTPS too
  bool admin_force_https = false;       // admin_port takes HTTPS only
  bool admin_need_client_auth = false;  // of HTTPS
  bool admin_snapshot = true;           // the command snapshot is on
  // The time from the begin of one snapshot until the next may begin.
  int admin_snapshot_interval_ms = 300'000;
  bool admin_console = true;  // the web console is on
  // Who makes changes by the web console: "none", "administrators", "proven" (those and who has a
  // certificate or calls from this machine) or "users" (everyone who gives a user and a password, too).
  std::string admin_console_changes = "proven";
  std::string metrics_provider;  // a class of ZooKeeper; empty: none is named
  bool metrics_server = false;   // after ParseConfig: metrics_port is served
  std::string metrics_address = "0.0.0.0";
  uint16_t metrics_port = 7000;

  int tick_time_ms = 3000;
  // In ticks; 0: not given.
  int init_limit = 0;
  int sync_limit = 0;
  // The longest time without contact with a leader, in milliseconds, during which this server
  // answers gRPC reads that are not linearizable. -1: no limit. 0: not given.
  int stale_read_limit_ms = 0;
  // Requests that take so long are recorded; 0: none are.
  int slow_request_threshold_ms = 100;
  int min_session_timeout_ms = 0;  // after ParseConfig: the default if not given
  int max_session_timeout_ms = 0;
  int max_client_connections = 60;  // from one address; 0: no limit
  int max_connections = 0;          // 0: only the limit of open files
  // If this many requests of all clients are received and not answered, the server does not read
  // from clients that wait for responses. 0: only the bytes of the waiting requests are limited.
  int global_outstanding_limit = 0;
  bool read_only_mode = false;  // without a quorum, serve reads to clients that accept that
  int jute_max_buffer_bytes = 1048575;
  int max_multi_bytes = 4 << 20;  // the longest multi; has no effect up to jute_max_buffer_bytes
  // The maximum size of a reply in bytes. A read that would exceed it is refused, because a client
  // accepts no reply above its own jute.maxbuffer, and the server has to hold each reply in memory.
  int max_reply_bytes = 64 << 20;
  int election_timeout_ms = 300;
  // The heartbeat interval. If it is not given, it is the shorter of this and a third of the
  // election timeout. More frequent heartbeats would cost processor time on idle servers, and would
  // not detect a dead leader sooner.
  int heartbeat_ms = 100;
  int io_threads = 0;                        // 0: not given; ParseConfig then chooses it
  int snap_count = 0;                        // entries between checkpoints; 0: not given
  int log_segment_bytes = 0;                 // size of a log file; 0: not given
  int memory_limit_mb = 0;                   // MiB; 0: chosen from the machine's memory
  int disk_reserve_mb = -1;                  // MiB; -1: chosen from the size of the log's files
  bool enforce_quota = false;                // hard limits of quotas are enforced
  bool linearizable_reads = false;           // of ZooKeeper clients
  bool linearizable_chroot = true;           // the chroot /@linearizable
  bool local_sessions = false;               // new sessions of ZooKeeper clients are local
  bool local_sessions_upgrading = false;     // those that create an ephemeral are made global
  bool send_missed_events = true;            // to persistent watches of ZooKeeper clients
  bool keeper_extensions = true;             // the operations 500 to 507 of ClickHouse Keeper
  int container_check_interval_ms = 60'000;  // interval of the search for empty containers
  int container_max_per_minute = 10'000;     // maximum number removed in a minute
  bool quorum_listen_on_all_ips = false;
  // The digest id of the super user, whom every access control list permits everything; empty:
  // there is none.
  std::string super_digest;
  uint16_t observer_master_port = 0;  // not 0: feeds observers while it follows
  int cluster_version_max = 0;        // the newest cluster version to take part in; 0: not given
  bool reconfig_enabled = false;      // if this server leads, clients may change the members
  bool standalone_enabled = true;     // reconfig leaves two participants at least
  bool skip_acl = false;  // access control lists are not checked for clients of this server
  // The bytes of recent events that are kept, so that a watch can resume after its client's
  // connection broke.
  int event_history_bytes = 8 << 20;
  std::vector<std::string> four_letter_words;  // "*": all; after ParseConfig: always has srvr

  std::vector<std::string> warnings;  // about keys that are not implemented or not known

  bool standalone() const { return servers.empty(); }
  // Returns whether clients may use TLS, so that the stores are needed.
  bool has_client_tls() const { return secure_client_port != 0 || client_port_unification; }
  // Returns whether the certificate of a client has to be for the address of the client.
  bool checks_client_addresses() const {
    return ssl_hostname_verification && ssl_client_hostname_verification;
  }
  bool has_admin_tls() const {
    return admin_server && (admin_force_https || admin_port_unification);
  }
  bool ListensForClientsEverywhere() const;
  // Returns the address at which the server listens for clients, as host:port; that with TLS if
  // there is no other. The host is * if its address is empty.
  std::string ClientEndpoint() const;
  // Returns all addresses at which the server listens for ZooKeeper clients, for the log.
  std::string ClientEndpoints() const;
  // Returns the interval at which touches are sent to the leader: short enough for the shortest
  // session timeout, and at most half a tick (tickTime).
  int touch_period_ms() const { return std::min(tick_time_ms / 2, min_session_timeout_ms / 6); }
  // Returns the time without contact with a leader, in milliseconds, after which this server ends
  // the watches of gRPC clients, so that these go to another server.
  int64_t ContactLimitMs() const {
    constexpr int kSyncLimitDefault = 5;  // as ZooKeeper's sample
    if (stale_read_limit_ms > 0) return stale_read_limit_ms;
    return int64_t{tick_time_ms} * (sync_limit > 0 ? sync_limit : kSyncLimitDefault);
  }
  // Returns stale_read_limit_ms, or its default if it is not given; never 0.
  int64_t StaleReadLimitMs() const { return stale_read_limit_ms < 0 ? -1 : ContactLimitMs(); }
  // Returns the members as /zookeeper/config shows them, in ZooKeeper's format; empty for a
  // standalone server.
  std::string MembersText() const;
  bool AllowsFourLetterWord(std::string_view word) const;
};

// Reads and validates a configuration file, the file that its dynamicConfigFile names, if any, and
// dataDir/myid if there are server lines. Lines are those of Java's Properties: key=value,
// key:value or key value. A line that ends with a backslash continues in the next line, and a
// backslash escapes the character after it. Errors name the file, the line, the key and the allowed
// values. A key that requests protection that this server does not have (OCSP, SASL between
// servers), or another kind of quorum (weights, groups), is an error. Any other key without
// effect is a warning. Properties are also taken from the environment, from the options for a Java
// machine in JVMFLAGS, SERVER_JVMFLAGS and JAVA_OPTS.
absl::StatusOr<Config> LoadConfig(const std::string& file);

// Does the two parts of LoadConfig: returns the contents of a configuration file, and
// validates `text`, the contents of `file`. For a caller that needs the contents, because a pipe can be
// read only once.
absl::StatusOr<std::string> ReadConfigFile(const std::string& file);
absl::StatusOr<Config> LoadConfig(const std::string& file, std::string_view text);

// Does the same for `text`, the contents of `file`. Reads other files through `read_file`, which
// returns NotFound if there is no such file. Its error messages have the reason, without the path.
using ReadFile = absl::StatusOr<std::string> (*)(const std::string& path);
// `java_options` are options for a Java machine, in which users of ZooKeeper set properties:
// "-Dzookeeper.key=value", for keys that are properties. Keys in the file take precedence.
absl::StatusOr<Config> ParseConfig(const std::string& file, std::string_view text,
                                   ReadFile read_file, std::string_view java_options = {});

}  // namespace quorate::rpc
