// SPDX-License-Identifier: Apache-2.0

// The keys of ZooKeeper that have no effect, and those that are refused (config_keys.h).

#include <span>
#include <string_view>

#include "rpc/config/config_keys.h"

namespace quorate::rpc {
namespace {

constexpr std::string_view kNoMetricsThreads = "metrics are counted without threads of their own";

// Sorted by name: suggestions name the keys in this order.
constexpr IgnoredKey kIgnoredKeys[] = {
    {"admin.httpVersion", "the HTTP front end speaks HTTP/1.1"},
    {"admin.restore.enabled", "the command restore is always refused; see quorate import"},
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
    {"jmx.log4j.disable", "there is no JMX"},
    {"kerberos.minReLoginTimeMs", "the keytab has the key of this server; no ticket is renewed"},
    {"kinit", "the keytab has the key of this server; no ticket is renewed"},
    {"leaderServes", "the leader always serves clients"},
    {"maxBatchSize", "each sync includes all waiting entries"},
    {"maxGetChildrenResponseCacheSize", "responses are made from memory"},
    {"maxResponseCacheSize", "responses are made from memory"},
    {"maxWriteQueuePollTime", "each sync includes all waiting entries"},
    {"metricsProvider.exportJvmInfo", "there is no JVM; metrics of the process are always there"},
    {"metricsProvider.maxQueueSize", kNoMetricsThreads},
    {"metricsProvider.numWorkerThreads", kNoMetricsThreads},
    {"metricsProvider.workerShutdownTimeoutMs", kNoMetricsThreads},
    {"multiAddress.enabled", "a server line has one address"},
    {"netty.server.earlyDropSecureConnectionHandshakes", "handshakes are served at any time"},
    {"nio.shutdownTimeout", "ioThreads sets the number of threads that serve connections"},
    {"nioNumSelectorThreads", "ioThreads sets the number of threads that serve connections"},
    {"nioNumWorkerThreads", "ioThreads sets the number of threads that serve connections"},
    {"peerType", "the server.N lines determine the observers"},
    {"preAllocSize", "log segments are preallocated in a size of their own"},
    {"requestThrottleLimit", "globalOutstandingLimit bounds requests"},
    {"requireKerberosConfig", "without a default realm, ids keep their realm"},
    {"serverCnxnFactory", "there is one implementation of connections"},
    {"snapSizeLimitInKb", "a checkpoint follows a fixed number of bytes, or snapCount entries"},
    {"snapshot.compression.method", "checkpoints are compressed by RocksDB"},
    {"snapshot.trust.empty", "a member without data never counts as one that has it"},
    {"ssl.quorum.allowReverseDnsLookup", "names of addresses are never looked up"},
    {"ssl.quorum.sslProvider", "TLS is that of OpenSSL"},
    {"ssl.sslProvider", "TLS is that of OpenSSL"},
    {"syncEnabled", "observers always keep a log"},
    {"tcpKeepAlive", "members detect dead connections by heartbeats"},
    {"znode.container.maxNeverUsedIntervalMs",
     "a container is not removed before it has had a child"},
    // Listed with the prefix, in the form in which ZooKeeper documents the key, so that suggestions
    // use that form.
    {"zookeeper.extendedTypesEnabled", "nodes with a TTL can always be created"},
};

constexpr std::string_view kNoMemberSasl =
    "there is no SASL between servers; they authenticate with certificates (sslQuorum, "
    "ssl.quorum.*) or a shared secret (memberSecretFile)";

constexpr ProtectionKey kProtectionKeys[] = {
    {"DigestAuthenticationProvider.digestAlg", "SHA1", "digests in ACLs are of SHA1"},
    {"audit.impl.class", "org.apache.zookeeper.audit.Slf4jAuditLogger",
     "there is one audit log, in the format of Slf4jAuditLogger"},
    {"metricsProvider.httpsPort", "-1",
     "metrics over HTTPS are on admin.serverPort (admin.forceHttps=true)"},
    {"quorum.auth.enableSasl", "false", kNoMemberSasl},
    {"quorum.auth.learnerRequireSasl", "false", kNoMemberSasl},
    {"quorum.auth.serverRequireSasl", "false", kNoMemberSasl},
    {"requireClientAuthScheme", "sasl", "the only scheme that it can require is sasl"},
    {"ssl.allowReverseDnsLookup", "false", "names of clients are not looked up"},
    {"ssl.authProvider", "x509", "there is one way from certificates to identities, x509"},
    {"ssl.context.supplier.class", "", "there are no Java classes"},
    {"ssl.ocsp", "false", "there is no OCSP; ssl.crl checks revocation lists"},
    {"ssl.quorum.context.supplier.class", "", "there are no Java classes"},
    {"ssl.quorum.ocsp", "false", "there is no OCSP; ssl.quorum.crl checks revocation lists"},
};

constexpr ProtectionKey kUnknownTls = {"ssl.*", "",
                                       "it is not a key of TLS that this server knows"};

}  // namespace

std::span<const IgnoredKey> IgnoredKeys() { return kIgnoredKeys; }

std::span<const ProtectionKey> ProtectionKeys() { return kProtectionKeys; }

const ProtectionKey& UnknownTls() { return kUnknownTls; }

}  // namespace quorate::rpc
