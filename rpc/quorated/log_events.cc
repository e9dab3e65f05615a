// SPDX-License-Identifier: Apache-2.0

#include "rpc/quorated/log_events.h"

#include <iterator>

namespace quorate::rpc {
namespace {

constexpr LogEvent kEvents[] = {
    {"listening_http", "listening protocol=http address={} port={}"},
    {"listening_metrics", "listening protocol=metrics address={} port={}"},
    {"grpc_accept_failed", "a connection to the gRPC port could not be accepted: {}"},
    {"grpc_connection_refused", "connection refused protocol=grpc address={} reason=\"{}\""},
    {"http_accept_failed", "a connection to the HTTP port could not be accepted: {}"},
    {"audit_log_not_reopened", "{}; the audit log is still written to the file before"},
    {"audit_log_write_failed",
     "{}. Its lines are kept in memory, up to {} MiB, and are lost beyond that. It is tried again "
     "until it succeeds: free some space, or correct auditFile and restart the server"},
    {"audit_log_recovered", "the audit log is written again path={}"},
    {"audit_lines_lost", "lines of the audit log are lost path={} lines={} since_start={}"},
    {"audit_log_not_rotated", "the audit log grows beyond auditFileBytes: {}"},
    {"audit_last_lines_lost", "the last lines of the audit log are lost path={} bytes={}"},
    {"administrator_tokens_not_reloaded",
     "the changed tokens of administrators cannot be used, and those before stay: {}"},
    {"administrator_tokens_reloaded", "administrators' tokens have changed file={} tokens={}"},
    {"event_history_lost",
     "watches cannot resume from before the checkpoint: {}; gRPC clients are told that events were "
     "lost, and mntr counts ZooKeeper clients that may miss some; nothing has to be done here"},
    {"client_reached_limit",
     "a client has reached a limit: key={} max={} tenant=\"{}\" not_logged_before={}"},
    {"snapshot_export_failed", "a snapshot for ZooKeeper could not be sent: {}"},
    {"snapshot_export_started", "sending a snapshot for ZooKeeper of zxid 0x{:x}, bytes={}"},
    {"backup_sent", "the backup of zxid 0x{:x} was sent"},
    {"backup_started", "sending a backup of zxid 0x{:x} to {}"},
    {"backup_resumed", "resuming the backup of zxid 0x{:x}"},
    {"backup_stream_broken", "the stream of the backup of zxid 0x{:x} broke"},
    {"backup_failed", "a backup could not be sent: {}"},
    {"tls_warning", "TLS: {}"},
    {"listening_grpc", "listening for gRPC clients address={} tls={}"},
    {"listening_grpc_socket", "listening for gRPC clients socket={}"},
    {"grpc_not_encrypted",
     "gRPC clients of other machines send data, passwords and tokens unencrypted; set "
     "grpcTls=true"},
    {"grpc_not_encrypted_no_administrator",
     "gRPC clients of other machines send data and passwords unencrypted, and no administrator is "
     "configured; set grpcTls=true, and administratorTokenFile or administrator.subjects"},
    {"grpc_message", "gRPC: {} not_logged={}"},
    {"stream_ended", "ending the stream of {}, session 0x{:x}: {}"},
    {"grpc_tls_stores_not_reloaded",
     "the changed stores of TLS cannot be used for gRPC, and new connections get the certificate "
     "from before: {}"},
    {"grpc_tls_stores_reloaded",
     "the stores of TLS have changed: new connections of gRPC use them"},
    {"start_waits_for_resolver",
     "the start waits for the address of {} ({}): the resolver has not answered for {} s. Check "
     "the name servers (/etc/resolv.conf), add the name to /etc/hosts, or configure an IP address"},
    {"quota_exceeded", "quota exceeded: {} would have {} {}, its {} limit is {}"},
    {"time_leap",
     "time leaps: seconds={} from_ms={} to_ms={}: the clock of a leader is wrong or was, unless "
     "nothing was written for so long; znodes with a TTL stay for {} s more; check the clocks"},
    {"progress", "{}: {} of {} {}, {} %, {} a second"},
    {"log_read", "reading the log: {} segments in {} ms"},
    {"log_replay_started", "log replay from entry {} to {}"},
    {"log_replay_done", "log replay: {} entries, applied in {} ms"},
    {"checkpoint_loaded", "checkpoint of zxid 0x{:x}: {} znodes and {} sessions, loaded in {} ms"},
    {"checkpoint_failed", "no checkpoint could be written: {}; it is tried again"},
    {"checkpoint_ballast_removed",
     "the ballast file of the checkpoints is removed for that, and made again when there is free "
     "space"},
    {"checkpoint_written",
     "checkpoint of zxid 0x{:x}: {} records changed, {} KiB, written in {} ms"},
    {"snapshot_not_kept",
     "snapshot could not be kept zxid=0x{:x} reason=\"{}\"; it is sent again later"},
    {"snapshot_given_up", "snapshot is given up before it was whole zxid=0x{:x} bytes={}"},
    {"snapshot_received", "snapshot of zxid 0x{:x} from the leader: {} znodes and {} sessions"},
    {"own_certificate_does_not_match",
     "other servers will refuse this one: {}, as the line server.{} says; make a certificate with "
     "that name or address in its subjectAltName, or set ssl.quorum.hostnameVerification=false on "
     "all servers"},
    {"quorum_client_auth_not_needed",
     "ssl.quorum.clientAuth={}: who reaches the port for servers can act as a server of this "
     "cluster without a certificate; set need, or memberSecretFile"},
    {"leadership_handover", "handing leadership over before the stop"},
    {"caught_up_with_leader", "this server has caught up with its leader, at zxid 0x{:x}"},
    {"leadership_transfer", "transferring leadership, as requested"},
    {"members_changed", "members: {}"},
    {"session_expiry_failed",
     "cannot expire sessions: {}; they are tried again after another timeout"},
    {"containers_removed", "{} containers or nodes with a TTL are removed, {} first"},
    {"containers_not_removed", "containers could not be removed now: {}"},
    {"memory_low",
     "memory is almost used up: resident={} MiB limit={} MiB tree={} MiB: writes that add data are "
     "refused; if clients have a part in it, beside the tree, no new sessions are admitted and the "
     "connections that take the most are closed; delete znodes, or give the server more memory "
     "(memoryLimitMb)"},
    {"memory_enough", "memory is enough again: resident={} MiB limit={} MiB"},
    {"cluster_id", "this is cluster {}"},
    {"tree_digest_differs",
     "server {} has another tree than a majority: at zxid 0x{:x} its digest is {:016x}, theirs "
     "{:016x}. It stops, and has to be rebuilt"},
    {"tree_digests_undecided",
     "the servers' trees differ at zxid 0x{:x}, and none is that of a majority, so that nobody can "
     "say which is wrong: digests are {}. Find out whose data is right, and rebuild the others "
     "(quorate rebuild)"},
    {"disk_low",
     "the disk of {} is almost full: {} MiB are free, less than diskReserveMb ({}). Free some "
     "space; until then this server does not lead if another one can, and if that goes for a "
     "majority, writes that add data are refused"},
    {"disk_enough", "the disk of {} has enough free space again: {} MiB"},
    {"log_continues", "the log goes on"},
    {"log_file_not_opened",
     "the log cannot open a file, and takes no entries: {}. Nothing is lost, and the server goes "
     "on by itself as soon as a file can be opened"},
    {"log_disk_full",
     "the disk is full, and the log cannot go on: {}. Free some space; nothing is lost, and the "
     "server goes on by itself"},
    {"log_space_available", "there is free space for a file of the log again"},
    {"log_ballast_used",
     "the disk of {} is full, and the log goes on in the ballast file that was kept for that. Free "
     "some space on the disk, or delete znodes"},
    {"data_writes_refused",
     "writes that add data are refused: too few servers have enough free space on their disks"},
    {"data_writes_taken", "writes that add data are taken again"},
    {"members_change_requested", "members shall be: {}"},
    {"members_change_taken_back", "the members stay: {}; {}"},
    {"member_address_unknown",
     "no address of server {} is known: neither the log nor the configuration of this server has "
     "one; add its server.N line"},
    {"reconfig_refused", "a reconfig is refused: {}"},
    {"reconfig_started", "a client reconfigures the members to: {}"},
    {"reconfig_members_not_caught_up",
     "the members that did not catch up stay observers; remove them"},
    {"reconfig_given_up", "a reconfig is given up: {}"},
    {"leading", "leading in term {}"},
    {"following", "following server {} in term {}"},
    {"no_longer_leading", "no longer leading (term {})"},
    {"leader_connection_lost",
     "no leader (term {}): the connection to server {}, which led, is lost: {}"},
    {"leader_silent", "no leader (term {}): server {}, which led, was silent for {} ms"},
    {"leader_challenged", "no leader (term {}): another server wants to lead instead of server {}"},
    {"member_number_in_use",
     "server {} rejected the data directory {}: server {} is alive with another one; two servers "
     "have the same number. Correct the number of this server (in the file myid), or stop the "
     "other one: then this one takes its place"},
    {"member_lists_differ",
     "server {} was started with other members ({}) than this server ({}), and no log holds the "
     "membership yet: this server does not become leader until the server lines of their "
     "configurations agree"},
    {"data_directory_new",
     "this server's data directory is new to a cluster that exists: it catches up, and neither "
     "votes nor counts until it has"},
    {"member_again", "this server has caught up, and counts as a member again"},
    {"removed_from_cluster", "this server was removed from the cluster"},
    {"server_ends_removed", "the server ends, because it was removed from the cluster: {}"},
    {"log_entries_lost",
     "the log in {} has lost the entries {} to {}, which this server had acknowledged: the disk "
     "forgot what it had reported as written (a write cache without power protection?). They come "
     "again from the leader; until then this server votes only for those who have them"},
    {"log_entries_recovered", "the entries that the log had lost were received again"},
    {"not_serving", "this server does not serve, for {} s now: it waits for {}"},
    {"clock_differs_from_leader",
     "this server's clock is {} ms {} that of the leader, server {}; check both clocks (NTP): "
     "times of znodes and TTLs follow the leader's"},
    {"snapshot_rejected",
     "snapshot rejected member={} zxid=0x{:x} reason=\"{}\"; it is sent again later, from a newer "
     "checkpoint if there is one"},
    {"forwarded_write_refused",
     "server {} forwards a write that cannot be applied, and is refused: {}"},
    {"forwarded_command_too_new",
     "server {} forwards command number {}, which needs version {}; the cluster version is {}"},
    {"checkpoint_disk_full_at_start",
     "the disk of {} is full: the server starts, but its checkpoints wait for free space. Free "
     "some space; nothing is lost, and it goes on by itself"},
    {"server_starting", "server {} of {}, data in {}, log in {} up to entry {}"},
    {"log_tail_removed",
     "{}: {} bytes at offset {} were no whole record, as a power failure leaves what was not "
     "written to the end; they were removed, and the log goes on with entry {}. If the power did "
     "not fail, look at the disk: it may have damaged what was written"},
    {"listening_zookeeper", "listening for ZooKeeper clients on {}"},
    {"stopped", "stopped"},
    {"dynamic_file_not_written",
     "{} does not show the members of version 0x{:x}: {}. The membership in the log counts, here "
     "and after a restart; make the file and its directory writable, or change its lines by hand"},
    {"server_failed", "the server ends: {}"},
    {"restart_reason_not_kept", "the next start will not know of it: {}"},
    {"session_opened", "session opened session=0x{:x} timeout_ms={}"},
    {"session_moved", "session moved to this server session=0x{:x} timeout_ms={}"},
    {"session_expired",
     "session expires: nothing was received from its client within the timeout session=0x{:x}"},
    {"sessions_not_logged", "more sessions in the last {} s opened={} moved={} expired={}"},
    {"member_host_not_found", "the host {} of server {} is not found: {}"},
    {"member_connection_lost", "connection to server {} at {} lost: {}"},
    {"member_connection_failed", "cannot connect to server {} at {}: {}"},
    {"member_unproved", "server {} at {} is connected to without a proof: {}"},
    {"member_rejected_connection", "server {} at {} rejected the connection: {}"},
    {"member_connected", "connected to server {} at {}"},
    {"member_connected_without_secret",
     "server {} has connected without a proof of the secret of this one: {}"},
    {"quorum_tls_on", "Using TLS encrypted quorum communication"},
    {"quorum_tls_off", "Using insecure (non-TLS) quorum communication"},
    {"port_unification", "Port unification {}"},
    {"member_port_open_to_all",
     "who reaches {} can act as a server of this cluster: servers need neither a certificate "
     "(sslQuorum without portUnification) nor a secret (memberSecretFile, with "
     "memberSecretRequired)"},
    {"member_port_connection_closed", "a connection from {} to the port for servers is closed: {}"},
    {"log_messages_dropped",
     "messages of this log were dropped, for what was before them was not taken: {}"},
    {"open_files_limit_low",
     "the limit of open files is {} (ulimit -n), of which each client takes one; raise it to {} or "
     "more"},
    {"sighup_log_not_reopened", "SIGHUP: {}; the log is still written to the file before"},
    {"sighup_config_valid", "SIGHUP: {} is valid; its changes take effect at the next start"},
    {"sighup_config_not_read", "SIGHUP: {} is no regular file, and is not read again"},
    {"sighup_config_invalid", "SIGHUP: the next start will fail: {}"},
    {"signal_ignored", "signal {} ({}) has no effect; SIGTERM stops the server"},
    {"stopped_during_start", "stopped while the data was read"},
    {"program_started", "quorated version={} pid={}"},
    {"program_restarting", "starting again: {}"},
    {"path_open_to_others",
     "other users of this machine can reach {} (mode {:03o}), which has {}; run {}"},
    {"tls_stores_not_reloaded",
     "the changed stores of TLS cannot be used, and new connections get the certificate from "
     "before: {}"},
    {"tls_stores_reloaded", "the stores of TLS have changed: new connections use them"},
    {"jaas_file_readable_by_all",
     "every user of this machine can read {}, which has passwords; chmod o-r"},
    {"jaas_file_reloaded", "the JAAS file has changed: new exchanges of SASL use it jaas_file={}"},
    {"jaas_file_not_reloaded",
     "the changed JAAS file cannot be used, and the users from before stay jaas_file={}: {}"},
    {"sasl_enabled", "clients can authenticate by SASL jaas_file={} section={}"},
    {"connection_closed", "closing the connection of {}, session 0x{:x}: {}"},
    {"session_refused", "turning away {}{}: {}"},
    {"multi_refused", "refusing a multi of {} bytes from {}, session 0x{:x}: {}"},
    {"sasl_failed", "SASL authentication failed address={} session=0x{:x}: {}"},
    {"persistent_watches_missed_events",
     "session 0x{:x} connects again after zxid {}, and the history of events begins after zxid {} "
     "(eventHistoryBytes): its persistent watches may have missed events"},
    {"local_sessions_not_yet",
     "new sessions are global in spite of localSessionsEnabled until every member understands "
     "local sessions: cluster_version={} needed={}"},
    {"local_sessions_expired", "local sessions without a connection have expired: count={}"},
    {"connection_refused", "refusing a connection of {}{}: {}"},
    {"tls_handshake_failed", "the TLS handshake with {} failed: {}"},
    {"accept_failed", "a connection could not be accepted: {}"},
};

}  // namespace

std::span<const LogEvent> LogEvents() { return kEvents; }

}  // namespace quorate::rpc
