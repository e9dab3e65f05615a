#include "rpc/server/config_keys.h"

#include "absl/strings/match.h"
#include "base/similar_names.h"

namespace quorate::rpc {
namespace {

const std::map<std::string, std::string>& IgnoredKeys() {
  static const auto* keys = new std::map<std::string, std::string>{
      {"electionAlg", "elections are Raft's"},
      {"electionPortBindRetry", "there is no election port"},
      {"cnxTimeout", "there is no election port"},
      {"initLimit", "a server catches up in its own time"},
      {"admin.serverPort", "the HTTP front end is not in this version"},
      {"leaderServes", "the leader always serves clients"},
      {"preAllocSize", "log segments are preallocated in a size of their own"},
      {"snapSizeLimitInKb", "a checkpoint follows a fixed number of bytes, or snapCount entries"},
      {"autopurge.snapRetainCount", "old data is removed without a job"},
      {"autopurge.purgeInterval", "old data is removed without a job"},
      {"forceSync", "every acknowledged write is synced"},
      {"syncEnabled", "observers always keep a log"},
      {"standaloneEnabled", "one server line or none is standalone"},
      {"admin.enableServer", "the HTTP front end is not in this version"},
      {"admin.serverAddress", "the HTTP front end is not in this version"},
      {"admin.commandURL", "the HTTP front end is not in this version"},
      {"admin.idleTimeout", "the HTTP front end is not in this version"},
      {"reconfigEnabled", "the change of members at run time is not in this version"},
      {"extendedTypesEnabled", "nodes with a TTL can always be created"},
      {"zookeeper.extendedTypesEnabled", "nodes with a TTL can always be created"},
      {"znode.container.maxNeverUsedIntervalMs", "containers stay until they were used"},
      {"secureClientPort", "TLS is not in this version; nobody listens there"},
      {"localSessionsEnabled", "all sessions are global"},
      {"metricsProvider.className", "metrics over HTTP are not in this version"},
      {"metricsProvider.httpPort", "metrics over HTTP are not in this version"},
      {"fsync.warningthresholdms", "mntr shows how long syncs take"},
      {"commitLogCount", "the log itself is what followers catch up from"},
      {"snapshot.compression.method", "checkpoints are compressed by RocksDB"},
      {"snapshot.trust.empty", "a member without data never counts as one that has it"},
      {"maxResponseCacheSize", "answers are made from memory"},
      {"maxGetChildrenResponseCacheSize", "answers are made from memory"},
      {"nioNumSelectorThreads", "ioThreads says how many threads serve connections"},
      {"nioNumWorkerThreads", "ioThreads says how many threads serve connections"},
      {"commitProcessor.numWorkerThreads", "ioThreads says how many threads serve connections"},
      {"nio.shutdownTimeout", "ioThreads says how many threads serve connections"},
      {"serverCnxnFactory", "there is one implementation of connections"},
      {"clientPortListenBacklog", "the backlog is what the kernel allows"},
      {"portUnification", "TLS is not in this version"},
      {"client.portUnification", "TLS is not in this version"},
      {"secureClientPortAddress", "TLS is not in this version"},
      {"sslQuorumReloadCertFiles", "TLS is not in this version"},
      {"fips-mode", "TLS is not in this version"},
      {"localSessionsUpgradingEnabled", "all sessions are global"},
      {"multiAddress.enabled", "a server line has one address"},
      {"peerType", "the server.N line says which are observers"},
      {"observerMasterPort", "observers follow the leader"},
      {"connectToLearnerMasterLimit", "a server catches up in its own time"},
      {"tcpKeepAlive", "members notice by heartbeats that a connection is dead"},
      {"closeSessionTxn.enabled", "the end of a session is always one entry of the log"},
      {"digest.enabled", "trees are always compared by their digest"},
      {"flushDelay", "each sync takes all that waits"},
      {"maxWriteQueuePollTime", "each sync takes all that waits"},
      {"maxBatchSize", "each sync takes all that waits"},
      {"advancedFlowControlEnabled", "what waits is always bounded"},
      {"requestThrottleLimit", "globalOutstandingLimit bounds requests"},
      {"connectionMaxTokens", "connections are not throttled by tokens"},
      {"admin.portUnification", "the HTTP front end is not in this version"},
      {"admin.forceHttps", "the HTTP front end is not in this version"},
      {"admin.needClientAuth", "the HTTP front end is not in this version"},
      {"admin.snapshot.enabled", "the HTTP front end is not in this version"},
      {"admin.restore.enabled", "the HTTP front end is not in this version"},
      {"metricsProvider.httpHost", "metrics over HTTP are not in this version"},
      {"metricsProvider.exportJvmInfo", "there is no JVM"},
      {"jmx.log4j.disable", "there is no JMX"},
  };
  return *keys;
}

// The keys that have an effect, as they are written without the prefix "zookeeper.".
constexpr const char* kSettings[] = {"clientPort",
                                     "clientPortAddress",
                                     "dataDir",
                                     "dataLogDir",
                                     "dynamicConfigFile",
                                     "grpcPort",
                                     "grpcPortAddress",
                                     "tickTime",
                                     "minSessionTimeout",
                                     "maxSessionTimeout",
                                     "maxClientCnxns",
                                     "maxCnxns",
                                     "globalOutstandingLimit",
                                     "jute.maxbuffer",
                                     "readonlymode.enabled",
                                     "electionTimeoutMs",
                                     "heartbeatMs",
                                     "ioThreads",
                                     "snapCount",
                                     "logSegmentBytes",
                                     "eventHistoryBytes",
                                     "staleReadLimitMs",
                                     "syncLimit",
                                     "maxReplyBytes",
                                     "memoryLimitMb",
                                     "diskReserveMb",
                                     "enforceQuota",
                                     "znode.container.checkIntervalMs",
                                     "znode.container.maxPerMinute",
                                     "DigestAuthenticationProvider.superDigest",
                                     "skipACL",
                                     "quorumListenOnAllIPs",
                                     "4lw.commands.whitelist"};

}  // namespace

const std::map<std::string, Protection>& Protections() {
  static const auto* keys = new std::map<std::string, Protection>{
      {"enforce.auth.enabled",
       {"false", "clients that have not authenticated are not turned away"}},
      {"sessionRequireClientSASLAuth", {"false", "there is no SASL"}},
      {"requireClientAuthScheme", {"", "there is no SASL"}},
      {"quorum.auth.enableSasl", {"false", "there is no SASL between servers"}},
      {"quorum.auth.learnerRequireSasl", {"false", "there is no SASL between servers"}},
      {"quorum.auth.serverRequireSasl", {"false", "there is no SASL between servers"}},
      {"sslQuorum", {"false", "there is no TLS between servers"}},
      {"DigestAuthenticationProvider.digestAlg", {"SHA1", "digests in ACLs are of SHA1"}},
      {"audit.enable", {"false", "there is no audit log"}},
  };
  return *keys;
}

std::string WhyIgnored(std::string_view key) {
  constexpr std::string_view kPrefix = "zookeeper.";
  if (key.substr(0, kPrefix.size()) == kPrefix) key.remove_prefix(kPrefix.size());
  const auto found = IgnoredKeys().find(std::string(key));
  if (found != IgnoredKeys().end()) return found->second;
  return key.substr(0, 4) == "ssl." ? "TLS is not in this version" : "";
}

std::vector<std::string> SimilarKeys(const std::string& key) {
  static const auto* names = [] {
    auto* all = new std::vector<std::string>(std::begin(kSettings), std::end(kSettings));
    for (const auto& [name, why] : IgnoredKeys()) all->push_back(name);
    for (const auto& [name, protection] : Protections()) all->push_back(name);
    return all;
  }();
  return SimilarNames(key, *names);
}

}  // namespace quorate::rpc
