// SPDX-License-Identifier: Apache-2.0

#include "rpc/config/config_keys.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/assert.h"
#include "base/similar_names.h"
#include "base/strings.h"

namespace quorate::rpc {
namespace {

constexpr int kHourMs = 3600 * 1000;

constexpr ConfigKey kConfigKeys[] = {
    // --- Cluster and addresses ---
    {.name = kServerKey,
     .value = Unchecked(),
     .section = Section::kCluster,
     .default_text = "none: one server alone",
     .range = "N from 1 to 254",
     .example = "10.0.0.1:2888:3888",
     .meaning = "`host:peerPort[:electionPort][:participant|:observer][;[clientHost:]clientPort]`, "
                "one line for each member. The election port is not used"},
    {.name = "dynamicConfigFile",
     .value = Text{&Config::members_file},
     .section = Section::kCluster,
     .default_text = "none",
     .range = "a path",
     .example = "/etc/quorate/members.cfg",
     .meaning = "a file that has the `server.N` lines instead"},
    {.name = "clientPort",
     .value = Port{&Config::client_port},
     .section = Section::kCluster,
     .is_required = true,
     .default_text = "must be given, here or in the own `server.N` line",
     .example = "2181",
     .meaning = "port for ZooKeeper clients"},
    {.name = "clientPortAddress",
     .value = Text{&Config::client_address},
     .section = Section::kCluster,
     .default_text = "all addresses",
     .range = "an address",
     .example = "0.0.0.0",
     .meaning = "where ZooKeeper clients are served"},
    {.name = "secureClientPort",
     .value = Port{&Config::secure_client_port},
     .section = Section::kCluster,
     .default_text = "0: no TLS",
     .example = "2182",
     .meaning = "port for ZooKeeper clients that use TLS. Without `clientPort`, clients have to"},
    {.name = "secureClientPortAddress",
     .value = Text{&Config::secure_client_address},
     .section = Section::kCluster,
     .default_text = "all addresses",
     .range = "an address",
     .example = "0.0.0.0",
     .meaning = "where ZooKeeper clients are served with TLS"},
    {.name = "client.portUnification",
     .value = Boolean{&Config::client_port_unification},
     .section = Section::kCluster,
     .is_property = true,
     .meaning = "`clientPort` takes clients with and without TLS"},
    {.name = "grpcPort",
     .value = Port{&Config::grpc_port},
     .section = Section::kCluster,
     .default_text = "0: no gRPC",
     .example = "2281",
     .meaning = "port for gRPC clients and for `quorate`"},
    {.name = "grpcPortAddress",
     .value = Text{&Config::grpc_address},
     .section = Section::kCluster,
     .range = "an address",
     .meaning = "where gRPC clients are served. Before others than this machine can reach the "
                "port, set `grpcTls` and an administrator"},
    {.name = "grpcTls",
     .value = Boolean{&Config::grpc_tls},
     .section = Section::kCluster,
     .meaning = "`grpcPort` takes TLS 1.2 and 1.3 only, with the stores of `ssl.*`; "
                "`client.certReload` counts too. `ssl.crl`, `ssl.ciphersuites` and a part of "
                "`ssl.enabledProtocols` are refused with it"},
    {.name = "grpcTlsClientAuth",
     .value = Text{&Config::grpc_tls_client_auth},
     .section = Section::kCluster,
     .default_text = "that of `ssl.clientAuth`",
     .range = "none, want, need",
     .example = "want",
     .meaning =
         "whether gRPC clients need a certificate. `want`: one that is shown has to be valid"},
    {.name = "grpcUnixSocket",
     .value = Text{&Config::grpc_unix_socket},
     .section = Section::kCluster,
     .default_text = "none",
     .range = "a path",
     .example = "/run/quorate/grpc.sock",
     .meaning = "a socket for gRPC that only the server's user can open. Its callers are "
                "administrators"},
    {.name = "administratorTokenFile",
     .value = Text{&Config::administrator_token_file},
     .section = Section::kCluster,
     .default_text = "none",
     .range = "a path",
     .example = "/etc/quorate/administrators",
     .meaning =
         "a file with tokens of administrators, one a line, as `TOKEN` or `NAME:TOKEN`, of 16 "
         "or more characters. It is read again when it changes, and others must not be able "
         "to read it"},
    {.name = "administrator.subjects",
     .value = WordList{&Config::administrator_subjects, ';'},
     .section = Section::kCluster,
     .default_text = "none",
     .range = "subjects of certificates, separated by semicolons",
     .example = "CN=admin,O=Example;CN=backup,O=Example",
     .meaning = "gRPC clients with these certificates are administrators"},
    {.name = "quorumListenOnAllIPs",
     .value = Boolean{&Config::quorum_listen_on_all_ips},
     .section = Section::kCluster,
     .meaning = "listens for members on all addresses, not on that of the own line alone"},

    // --- Data ---
    {.name = "dataDir",
     .value = Text{&Config::data_dir},
     .section = Section::kData,
     .is_required = true,
     .default_text = "must be given",
     .range = "a path",
     .example = "/var/lib/quorate",
     .meaning = "checkpoints and `myid`; the log too, unless `dataLogDir` is given"},
    {.name = "dataLogDir",
     .value = Text{&Config::log_dir},
     .section = Section::kData,
     .default_text = "`dataDir`",
     .range = "a path",
     .example = "/var/lib/quorate",
     .meaning = "the log"},
    {.name = "snapCount",
     .value = Integer{&Config::snap_count, 1, 1 << 30, Unit::kEntries},
     .section = Section::kData,
     .default_text = "200,000 entries",
     .example = "200000",
     .meaning = "a checkpoint is written after so many entries, or after 64 MiB of them"},
    {.name = "logSegmentBytes",
     .value = Integer{&Config::log_segment_bytes, 64 << 10, 1 << 30, Unit::kBytes},
     .section = Section::kData,
     .default_text = "64 MiB",
     .example = "67108864",
     .meaning = "size of a log file. Log files are preallocated: an empty server takes one, a "
                "server with data takes three more as ballast for a full disk"},
    {.name = "diskReserveMb",
     .value = Integer{&Config::disk_reserve_mb, 0, 1 << 20, Unit::kMebibytes},
     .section = Section::kData,
     .default_text = "two log files",
     .example = "128",
     .meaning = "below this much free space, writes that add data are refused with `SystemError`; "
                "deletions, sessions and reads go on (`zk_quorate_disk_low` in `mntr`)"},
    {.name = "eventHistoryBytes",
     .value = Integer{&Config::event_history_bytes, 0, 1 << 30, Unit::kBytes},
     .section = Section::kData,
     .meaning =
         "recent events, from which watches of gRPC clients and persistent watches of ZooKeeper "
         "clients resume"},

    // --- Times ---
    {.name = "tickTime",
     .value = Integer{&Config::tick_time_ms, 1, kHourMs, Unit::kMilliseconds},
     .section = Section::kTimes,
     .meaning = "the unit of session timeouts and of `syncLimit`"},
    {.name = "minSessionTimeout",
     .value = Integer{&Config::min_session_timeout_ms, -1, INT32_MAX, Unit::kMilliseconds},
     .section = Section::kTimes,
     .default_text = "2 ticks",
     .example = "6000",
     .meaning = "the shortest session timeout that a client gets. -1 and 0: the default"},
    {.name = "maxSessionTimeout",
     .value = Integer{&Config::max_session_timeout_ms, -1, INT32_MAX, Unit::kMilliseconds},
     .section = Section::kTimes,
     .default_text = "20 ticks",
     .example = "60000",
     .meaning = "the longest session timeout that a client gets. -1 and 0: the default"},
    {.name = "electionTimeoutMs",
     .value = Integer{&Config::election_timeout_ms, 20, kHourMs, Unit::kMilliseconds},
     .section = Section::kTimes,
     .meaning = "a follower that hears nothing from its leader for so long calls for an election"},
    {.name = "heartbeatMs",
     .value = Integer{&Config::heartbeat_ms, 5, kHourMs, Unit::kMilliseconds},
     .section = Section::kTimes,
     .default_text = "a third of `electionTimeoutMs`, at most 100 ms",
     .range = "5 ms to half of `electionTimeoutMs`",
     .meaning = "how often a leader without other messages sends one"},
    {.name = "syncLimit",
     .value = Integer{&Config::sync_limit, 1, 1'000'000, Unit::kTicks},
     .section = Section::kTimes,
     .default_text = "none",
     .example = "5",
     .meaning = "the default of `staleReadLimitMs`"},
    {.name = "staleReadLimitMs",
     .value = TimeLimit{&Config::stale_read_limit_ms, 24 * kHourMs},
     .section = Section::kTimes,
     .default_text = "`syncLimit` ticks; 5 ticks without a `syncLimit`",
     .example = "15000",
     .meaning =
         "a member that has had no contact with its leader for so long refuses reads and ends "
         "watches of gRPC clients, which go to another member. -1: reads are served at any age"},
    {.name = "znode.container.checkIntervalMs",
     .value = Integer{&Config::container_check_interval_ms, 1, 24 * kHourMs, Unit::kMilliseconds},
     .section = Section::kTimes,
     .is_property = true,
     .meaning = "how often empty containers and expired TTL znodes are looked for"},
    {.name = "znode.container.maxPerMinute",
     .value = Integer{&Config::container_max_per_minute, 1, 1 << 30},
     .section = Section::kTimes,
     .is_property = true,
     .meaning = "how many containers and expired TTL znodes are deleted in a minute at most"},

    // --- Limits ---
    {.name = "memoryLimitMb",
     .value = Integer{&Config::memory_limit_mb, 64, 1 << 24, Unit::kMebibytes},
     .section = Section::kLimits,
     .default_text = "four fifths of the memory of the machine or the control group",
     .example = "4096",
     .meaning = "when it is nearly used up, writes that add data are refused and the connections "
                "that take the most are closed (`zk_quorate_memory_low` in `mntr`)"},
    {.name = "maxClientCnxns",
     .value = Integer{&Config::max_client_connections, -1, 1 << 30},
     .section = Section::kLimits,
     .meaning = "connections from one address. -1 and 0: no limit"},
    {.name = "maxCnxns",
     .value = Integer{&Config::max_connections, 0, 1 << 30},
     .section = Section::kLimits,
     .default_text = "0: no limit",
     .meaning = "connections from all addresses together"},
    {.name = "globalOutstandingLimit",
     .value = Integer{&Config::global_outstanding_limit, 1, 1 << 30, Unit::kRequests},
     .section = Section::kLimits,
     .default_text = "none: a limit in bytes alone",
     .example = "1000",
     .meaning = "received and unanswered requests at which the server stops reading from clients "
                "that wait for answers"},
    {.name = "jute.maxbuffer",
     .value = Integer{&Config::jute_max_buffer_bytes, 1 << 10, 60 << 20, Unit::kBytes,
                      /*hexadecimal=*/true},
     .section = Section::kLimits,
     .is_property = true,
     .meaning =
         "the longest request, except for a multi or multiRead, and the longest data of a znode"},
    {.name = "maxMultiBytes",
     .value = Integer{&Config::max_multi_bytes, 1 << 10, 60 << 20, Unit::kBytes},
     .section = Section::kLimits,
     .meaning = "the longest multi or multiRead; a longer one is answered with `BadArguments`. If "
                "this is not above `jute.maxbuffer`, `jute.maxbuffer` is the limit for them too, "
                "and a longer one ends the connection. ClickHouse sends all rows of an insert into "
                "a KeeperMap table in one multi, about 100 bytes each"},
    {.name = "maxReplyBytes",
     .value = Integer{&Config::max_reply_bytes, 64 << 10, 1 << 30, Unit::kBytes},
     .section = Section::kLimits,
     .range = "64 KiB to 1 GiB, and more than `jute.maxbuffer`",
     .meaning = "the longest reply; a longer one is refused with `MarshallingError`"},
    {.name = "ioThreads",
     .value = Integer{&Config::io_threads, 0, 128, Unit::kThreads},
     .section = Section::kLimits,
     .default_text = "half the processors, 1 to 8",
     .meaning = "threads that serve ZooKeeper connections. 0: the default"},
    {.name = "enforceQuota",
     .value = Boolean{&Config::enforce_quota},
     .section = Section::kLimits,
     .is_property = true,
     .meaning = "writes above the hard limit of a quota are refused"},

    // --- Access ---
    {.name = "4lw.commands.whitelist",
     .value = WordList{&Config::four_letter_words},
     .section = Section::kAccess,
     .default_text = "`srvr`",
     .range = "words, or `*`",
     .example = "srvr",
     .meaning = "the four-letter words that are answered"},
    {.name = "readonlymode.enabled",
     .value = Boolean{&Config::read_only_mode},
     .section = Section::kAccess,
     .is_property = true,
     .meaning = "a server without a quorum serves reads to clients that accept it"},
    {.name = "sendMissedEvents",
     .value = Boolean{&Config::send_missed_events},
     .section = Section::kAccess,
     .meaning = "a ZooKeeper client that connects again gets the events that its persistent and "
                "recursive watches missed, as far as `eventHistoryBytes` reaches back. `false`: "
                "none, as with ZooKeeper"},
    {.name = "linearizableReads",
     .value = Boolean{&Config::linearizable_reads},
     .section = Section::kAccess,
     .meaning =
         "reads of ZooKeeper clients show everything that was committed anywhere before them. "
         "Each waits for the answer of a majority"},
    {.name = "linearizableChroot",
     .value = Boolean{&Config::linearizable_chroot},
     .section = Section::kAccess,
     .meaning =
         "the same for clients whose connect string ends with the chroot `/@linearizable`, or "
         "with one below it, such as `/@linearizable/app` for `/app`"},
    {.name = "keeperExtensions",
     .value = Boolean{&Config::keeper_extensions},
     .section = Section::kAccess,
     .meaning =
         "the operations 500 to 507 of ClickHouse Keeper, and the virtual znodes in `/keeper` that "
         "announce them to ClickHouse"},
    {.name = "DigestAuthenticationProvider.superDigest",
     .value = Text{&Config::super_digest},
     .section = Section::kAccess,
     .is_property = true,
     .default_text = "none",
     .range = "a digest id",
     .example = "super:DIGEST",
     .meaning = "a client with this identity passes every ACL"},
    {.name = "skipACL",
     .value = YesNo{&Config::skip_acl},
     .section = Section::kAccess,
     .is_property = true,
     .meaning = "the clients of this server pass every ACL"},

    // --- TLS of clients ---
    {.name = "ssl.keyStore.location",
     .value = Text{&Config::ssl_key_store},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "must be given for TLS",
     .range = "a path",
     .example = "/etc/quorate/server.pem",
     .meaning = "the server's key and its chain of certificates, as PEM, PKCS12 or JKS"},
    {.name = "ssl.keyStore.password",
     .value = Text{&Config::ssl_key_store_password, /*may_be_empty=*/true},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "none",
     .range = "a password",
     .example = "PASSWORD",
     .meaning = "the password of the store and of the key in it"},
    {.name = "ssl.keyStore.passwordPath",
     .value = Text{&Config::ssl_key_store_password_file},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "none",
     .range = "a path",
     .example = "/etc/quorate/server.password",
     .meaning = "a file with this password; it comes before `ssl.keyStore.password`"},
    {.name = "ssl.keyStore.type",
     .value = Text{&Config::ssl_key_store_type, /*may_be_empty=*/true},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "the content decides",
     .range = "PEM, PKCS12, JKS",
     .example = "PEM",
     .meaning = "the form of the store"},
    {.name = "ssl.trustStore.location",
     .value = Text{&Config::ssl_trust_store},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "must be given unless `ssl.clientAuth` is `none`",
     .range = "a path",
     .example = "/etc/quorate/ca.pem",
     .meaning = "the certificates of the authorities that clients' certificates come from"},
    {.name = "ssl.trustStore.password",
     .value = Text{&Config::ssl_trust_store_password, /*may_be_empty=*/true},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "none",
     .range = "a password",
     .example = "PASSWORD",
     .meaning = "the password of the store"},
    {.name = "ssl.trustStore.passwordPath",
     .value = Text{&Config::ssl_trust_store_password_file},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "none",
     .range = "a path",
     .example = "/etc/quorate/ca.password",
     .meaning = "a file with this password; it comes before `ssl.trustStore.password`"},
    {.name = "ssl.trustStore.type",
     .value = Text{&Config::ssl_trust_store_type, /*may_be_empty=*/true},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "the content decides",
     .range = "PEM, PKCS12, JKS",
     .example = "PEM",
     .meaning = "the form of the store"},
    {.name = "ssl.clientAuth",
     .value = Text{&Config::ssl_client_auth},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "`need`",
     .range = "none, want, need",
     .example = "need",
     .meaning =
         "whether clients need a certificate. `want`: one that is shown has to be valid. The "
         "subject of a certificate is an identity of the scheme x509"},
    {.name = "ssl.enabledProtocols",
     .value = WordList{&Config::ssl_enabled_protocols},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "`ssl.protocol`, else TLSv1.2 and TLSv1.3",
     .range = "TLSv1.2, TLSv1.3",
     .example = "TLSv1.2,TLSv1.3",
     .meaning = "the versions of TLS that clients may use"},
    {.name = "ssl.protocol",
     .value = Text{&Config::ssl_protocol},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "TLSv1.2 and TLSv1.3",
     .range = "TLSv1.2, TLSv1.3",
     .example = "TLSv1.3",
     .meaning = "the only version, if `ssl.enabledProtocols` is not given"},
    {.name = "ssl.ciphersuites",
     .value = WordList{&Config::ssl_cipher_suites},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "those of ZooKeeper",
     .range = "names of IANA",
     .example = "TLS_AES_256_GCM_SHA384",
     .meaning = "the ciphers that clients may use; names that OpenSSL does not know are left out"},
    {.name = "ssl.crl",
     .value = Boolean{&Config::ssl_crl},
     .section = Section::kTls,
     .is_property = true,
     .meaning =
         "clients' certificates have to be on no revocation list; the lists are in the trust "
         "store"},
    {.name = "ssl.handshakeDetectionTimeoutMillis",
     .value =
         Integer{&Config::ssl_handshake_detection_timeout_ms, -1, kHourMs, Unit::kMilliseconds},
     .section = Section::kTls,
     .is_property = true,
     .meaning = "with `client.portUnification`, how long a client may send nothing. Below 1: the "
                "default"},
    {.name = "netty.server.outstandingHandshake.limit",
     .value = Integer{&Config::ssl_handshakes_max, -1, 1'000'000},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "-1: no limit",
     .example = "-1",
     .meaning = "how many clients may be in a handshake of TLS at a time. -1 and 0: no limit"},
    {.name = "client.certReload",
     .value = Boolean{&Config::client_cert_reload},
     .section = Section::kTls,
     .is_property = true,
     .meaning = "the stores are read again when their files change; open connections stay"},
    {.name = "X509AuthenticationProvider.superUser",
     .value = Text{&Config::x509_super_user},
     .section = Section::kTls,
     .is_property = true,
     .default_text = "none",
     .range = "the subject of a certificate",
     .example = "CN=admin,O=Example",
     .meaning = "a client with this certificate passes every ACL"},

    // --- SASL, and required authentication ---
    {.name = "jaasFile",
     .value = Text{&Config::jaas_file},
     .section = Section::kSasl,
     .default_text = "`-Djava.security.auth.login.config` in `JVMFLAGS`, else no SASL",
     .range = "a path",
     .example = "/etc/quorate/jaas.conf",
     .meaning = "the JAAS file with the SASL users and their passwords, or with this server's "
                "Kerberos principal and keytab"},
    {.name = "sasl.serverconfig",
     .value = Text{&Config::sasl_section},
     .section = Section::kSasl,
     .is_property = true,
     .range = "a name",
     .meaning = "the section of the JAAS file"},
    {.name = "SASLAuthenticationProvider.superPassword",
     .value = Text{&Config::sasl_super_password},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "none",
     .range = "a password",
     .example = "PASSWORD",
     .meaning = "the password of the user `super`, in place of that in the JAAS file"},
    {.name = "superUser",
     .value = WordList{&Config::sasl_super_users},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "none",
     .range = "a SASL id",
     .example = "admin",
     .meaning =
         "a client with this id passes every ACL. `superUser.X`, with any X, names another one"},
    {.name = "letAnySaslUserDoX",
     .value = Text{&Config::sasl_any_user_id},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "none",
     .range = "a SASL id",
     .example = "anyone",
     .meaning = "an ACL entry of the scheme sasl with this id applies to every SASL user"},
    {.name = "allowSaslFailedClients",
     .value = Boolean{&Config::admits_clients_that_fail_sasl},
     .section = Section::kSasl,
     .is_property = true,
     .meaning = "a client that fails to authenticate by SASL goes on without that identity, unless "
                "sasl is required"},
    {.name = "kerberos.removeHostFromPrincipal",
     .value = Boolean{&Config::kerberos_removes_host},
     .section = Section::kSasl,
     .is_property = true,
     .meaning = "ids have no host: `app@REALM` for `app/host@REALM`"},
    {.name = "kerberos.removeRealmFromPrincipal",
     .value = Boolean{&Config::kerberos_removes_realm},
     .section = Section::kSasl,
     .is_property = true,
     .meaning = "ids have no realm: `app/host` for `app/host@REALM`"},
    {.name = "security.auth_to_local",
     .value = Text{&Config::auth_to_local_rules},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "`DEFAULT`",
     .range = "rules",
     .example = "DEFAULT",
     .meaning = "how Kerberos names become ids: `DEFAULT`, and rules "
                "`RULE:[N:FORMAT](PATTERN)s/FROM/TO/g`, one after another"},
    {.name = "sessionRequireClientSASLAuth",
     .value = Boolean{nullptr},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "false",
     .example = "false",
     .meaning =
         "clients have to authenticate by SASL: `enforce.auth.enabled` with the scheme sasl"},
    {.name = "enforce.auth.enabled",
     .value = Boolean{nullptr},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "false",
     .example = "false",
     .meaning = "clients have to authenticate with one of `enforce.auth.schemes` before other "
                "requests; this holds for the native clients of gRPC too"},
    {.name = "enforce.auth.schemes",
     .value = WordList{&Config::required_auth_schemes},
     .section = Section::kSasl,
     .is_property = true,
     .default_text = "must be given with `enforce.auth.enabled`",
     .range = "digest, ip, sasl, x509",
     .example = "sasl,x509",
     .meaning = "of which each client has to prove one. sasl needs an `authProvider.N` with the "
                "class `org.apache.zookeeper.server.auth.SASLAuthenticationProvider`, x509 needs "
                "TLS of clients"},
};

// Sorted by name: suggestions name the keys in this order.
constexpr IgnoredKey kIgnoredKeys[] = {
    {"admin.commandURL", "the HTTP front end is not in this version"},
    {"admin.enableServer", "the HTTP front end is not in this version"},
    {"admin.forceHttps", "the HTTP front end is not in this version"},
    {"admin.idleTimeout", "the HTTP front end is not in this version"},
    {"admin.needClientAuth", "the HTTP front end is not in this version"},
    {"admin.portUnification", "the HTTP front end is not in this version"},
    {"admin.restore.enabled", "the HTTP front end is not in this version"},
    {"admin.serverAddress", "the HTTP front end is not in this version"},
    {"admin.serverPort", "the HTTP front end is not in this version", Port{nullptr}},
    {"admin.snapshot.enabled", "the HTTP front end is not in this version"},
    {"advancedFlowControlEnabled", "waiting requests are always limited"},
    {"autopurge.purgeInterval", "old data is removed without a job"},
    {"autopurge.snapRetainCount", "old data is removed without a job"},
    {"clientPortListenBacklog", "the backlog is the maximum that the kernel allows"},
    {"closeSessionTxn.enabled", "the end of a session is always one entry of the log"},
    {"cnxTimeout", "there is no election port"},
    {"commitLogCount", "followers catch up from the log itself"},
    {"commitProcessor.numWorkerThreads",
     "ioThreads sets the number of threads that serve connections"},
    {"connectToLearnerMasterLimit", "there is no time limit for a server that catches up"},
    {"connectionMaxTokens", "connections are not throttled by tokens"},
    {"digest.enabled", "trees are always compared by their digest"},
    {"electionAlg", "elections are Raft's"},
    {"electionPortBindRetry", "there is no election port"},
    {"extendedTypesEnabled", "nodes with a TTL can always be created"},
    {"fips-mode", "there is one implementation of TLS"},
    {"flushDelay", "each sync includes all waiting entries"},
    {"forceSync", "every acknowledged write is synced"},
    {"fsync.warningthresholdms", "mntr shows how long syncs take"},
    {"initLimit", "there is no time limit for a server that catches up",
     Integer{&Config::init_limit, 1, 1000000, Unit::kTicks}},
    {"jmx.log4j.disable", "there is no JMX"},
    {"kerberos.minReLoginTimeMs", "the keytab has the key of this server; no ticket is renewed"},
    {"kinit", "the keytab has the key of this server; no ticket is renewed"},
    {"leaderServes", "the leader always serves clients"},
    {"localSessionsEnabled", "all sessions are global"},
    {"localSessionsUpgradingEnabled", "all sessions are global"},
    {"maxBatchSize", "each sync includes all waiting entries"},
    {"maxGetChildrenResponseCacheSize", "responses are made from memory"},
    {"maxResponseCacheSize", "responses are made from memory"},
    {"maxWriteQueuePollTime", "each sync includes all waiting entries"},
    {"metricsProvider.className", "metrics over HTTP are not in this version"},
    {"metricsProvider.exportJvmInfo", "there is no JVM"},
    {"metricsProvider.httpHost", "metrics over HTTP are not in this version"},
    {"metricsProvider.httpPort", "metrics over HTTP are not in this version"},
    {"multiAddress.enabled", "a server line has one address"},
    {"netty.server.earlyDropSecureConnectionHandshakes", "handshakes are served at any time"},
    {"nio.shutdownTimeout", "ioThreads sets the number of threads that serve connections"},
    {"nioNumSelectorThreads", "ioThreads sets the number of threads that serve connections"},
    {"nioNumWorkerThreads", "ioThreads sets the number of threads that serve connections"},
    {"observerMasterPort", "observers follow the leader"},
    {"peerType", "the server.N lines determine the observers"},
    {"portUnification", "there is no TLS between servers"},
    {"preAllocSize", "log segments are preallocated in a size of their own"},
    {"reconfigEnabled", "the change of members at run time is not in this version"},
    {"requestThrottleLimit", "globalOutstandingLimit bounds requests"},
    {"requireKerberosConfig", "without a default realm, ids keep their realm"},
    {"serverCnxnFactory", "there is one implementation of connections"},
    {"snapSizeLimitInKb", "a checkpoint follows a fixed number of bytes, or snapCount entries"},
    {"snapshot.compression.method", "checkpoints are compressed by RocksDB"},
    {"snapshot.trust.empty", "a member without data never counts as one that has it"},
    {"ssl.hostnameVerification", "it counts for servers that connect to servers"},
    {"ssl.sslProvider", "TLS is that of OpenSSL"},
    {"sslQuorumReloadCertFiles", "there is no TLS between servers"},
    {"standaloneEnabled", "a server with one server line or none is standalone"},
    {"syncEnabled", "observers always keep a log"},
    {"tcpKeepAlive", "members detect dead connections by heartbeats"},
    {"znode.container.maxNeverUsedIntervalMs",
     "a container is not removed before it has had a child"},
    // Listed with the prefix, in the form in which ZooKeeper documents the key, so that suggestions
    // use that form.
    {"zookeeper.extendedTypesEnabled", "nodes with a TTL can always be created"},
};
constexpr IgnoredKey kTlsOfMembers = {"ssl.quorum.*", "there is no TLS between servers"};

constexpr ProtectionKey kProtectionKeys[] = {
    {"DigestAuthenticationProvider.digestAlg", "SHA1", "digests in ACLs are of SHA1"},
    {"audit.enable", "false", "there is no audit log"},
    {"quorum.auth.enableSasl", "false", "there is no SASL between servers"},
    {"quorum.auth.learnerRequireSasl", "false", "there is no SASL between servers"},
    {"quorum.auth.serverRequireSasl", "false", "there is no SASL between servers"},
    {"requireClientAuthScheme", "sasl", "the only scheme that it can require is sasl"},
    {"ssl.allowReverseDnsLookup", "false", "names of clients are not looked up"},
    {"ssl.authProvider", "x509", "there is one way from certificates to identities, x509"},
    {"ssl.clientHostnameVerification", "false", "names of clients are not checked"},
    {"ssl.context.supplier.class", "", "there are no Java classes"},
    {"ssl.ocsp", "false", "there is no OCSP; ssl.crl checks revocation lists"},
    {"sslQuorum", "false", "there is no TLS between servers"},
};

template <typename Key, size_t kCount>
const Key* FindByName(const Key (&keys)[kCount], std::string_view name) {
  const Key* found = std::ranges::find(keys, name, &Key::name);
  return found != std::end(keys) ? found : nullptr;
}

}  // namespace

std::span<const ConfigKey> ConfigKeys() { return kConfigKeys; }

const ConfigKey* FindConfigKey(std::string_view key) {
  const std::string_view name = WithoutPropertyPrefix(key);
  const ConfigKey* found = FindByName(kConfigKeys, name);
  return found != nullptr && (found->is_property || name == key) ? found : nullptr;
}

const IgnoredKey* FindIgnoredKey(std::string_view key) {
  const std::string_view name = WithoutPropertyPrefix(key);
  return name.starts_with("ssl.quorum.") ? &kTlsOfMembers : FindByName(kIgnoredKeys, name);
}

const ProtectionKey* FindProtectionKey(std::string_view key) {
  return FindByName(kProtectionKeys, WithoutPropertyPrefix(key));
}

std::string_view WithoutPropertyPrefix(std::string_view key) {
  constexpr std::string_view kPrefix = "zookeeper.";
  return key.starts_with(kPrefix) ? key.substr(kPrefix.size()) : key;
}

std::vector<std::string> SimilarKeys(const std::string& key) {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>();
    for (const ConfigKey& known : kConfigKeys) {
      if (known.name != kServerKey) all->emplace_back(known.name);
    }
    for (const IgnoredKey& known : kIgnoredKeys) all->emplace_back(known.name);
    for (const ProtectionKey& known : kProtectionKeys) all->emplace_back(known.name);
    return all;
  }();
  return SimilarNames(key, *names);
}

bool IsSecretKey(std::string_view key) {
  const std::string name = absl::AsciiStrToLower(ToAbsl(key));
  for (const char* ending : {"path", "file", "location"}) {
    if (absl::EndsWith(name, ending)) return false;
  }
  for (const char* part : {"password", "passwd", "secret", "superdigest", "credential"}) {
    if (absl::StrContains(name, part)) return true;
  }
  return false;
}

std::string ConfigLine(std::string_view key, const Config& config) {
  const ConfigKey* known = FindByName(kConfigKeys, key);
  const IgnoredKey* ignored = FindByName(kIgnoredKeys, key);
  ASSERT(known != nullptr || ignored != nullptr, "the key is in a table");
  if (IsSecretKey(key)) return absl::StrCat(ToAbsl(key), "=(hidden)\n");
  return absl::StrCat(ToAbsl(key), "=",
                      ValueText(known != nullptr ? known->value : ignored->value, config), "\n");
}

}  // namespace quorate::rpc
