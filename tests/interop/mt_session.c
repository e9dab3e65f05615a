// SPDX-License-Identifier: Apache-2.0

/* Tests a session of the multithreaded C client that moves from member to member: it keeps its
 * login, its rights, its ephemeral node and its transactions. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "scenario.h"

#define MAX_ADDRESS 128
#define POLL_PAUSE_MS 5
#define FD_LIMIT 256 /* more than a process with one connection has open */

static const char* const kRoot = "/session";
static const char* const kSecret = "/session/secret";
static const char* const kEphemeral = "/session/ephemeral";
static const char* const kPair[] = {"/session/pair-a", "/session/pair-b"};

static zhandle_t* handle;
static long long session_id;
static long losses;
static atomic_int connections;     /* how many were made */
static atomic_int auth_results[2]; /* how many logins went well, and how many did not */

static void session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  (void)zh;
  (void)path;
  (void)context;
  if (type != ZOO_SESSION_EVENT) return;
  if (state == ZOO_EXPIRED_SESSION_STATE) fail("the session expired");
  if (state == ZOO_CONNECTED_STATE) atomic_fetch_add(&connections, 1);
}

static void sleep_ms(int milliseconds) {
  const struct timespec pause = {0, milliseconds * 1000000L};
  nanosleep(&pause, NULL);
}

static void wait_until(int (*ready)(const void*), const void* context, const char* what) {
  const long long end_ms = now_ms() + PATIENCE_MS;
  while (!ready(context)) {
    if (now_ms() > end_ms) fail("%s: not within %d ms", what, PATIENCE_MS);
    sleep_ms(POLL_PAUSE_MS);
  }
}

/* Returns whether a call has to be repeated because its answer was lost. */
static int is_lost(int result) {
  if (result != ZCONNECTIONLOSS && result != ZOPERATIONTIMEOUT) return 0;
  ++losses;
  sleep_ms(POLL_PAUSE_MS);
  return 1;
}

static int create(const char* path, const char* value, const struct ACL_vector* acl, int flags) {
  int result, was_lost = 0;
  while (is_lost(result = zoo_create(handle, path, value, (int)strlen(value), acl, flags, NULL, 0)))
    was_lost = 1;
  return result == ZNODEEXISTS && was_lost ? ZOK : result;
}

static void remove_if_there(const char* path) {
  int result;
  while (is_lost(result = zoo_delete(handle, path, -1)))
    ;
  if (result != ZNONODE) expect_code(path, result, ZOK);
}

static int get(const char* path, struct node* node) {
  int result;
  do {
    node->length = sizeof(node->value);
  } while (is_lost(result = zoo_get(handle, path, 0, node->value, &node->length, &node->stat)));
  return result;
}

static int has_connected_since(const void* count) {
  return atomic_load(&connections) > *(const int*)count;
}

/* Cuts every connection of this process, as a network would: the library goes to its next server
 * only when it loses the one it has. */
static void cut_connections(void) {
  for (int fd = 3; fd < FD_LIMIT; ++fd) {
    struct sockaddr_in peer;
    socklen_t length = sizeof(peer);
    if (getpeername(fd, (struct sockaddr*)&peer, &length) == 0 && peer.sin_family == AF_INET) {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

/* Moves to another member with the same session, if another one is up. Returns whether it did. */
static int move(void) {
  char before[MAX_ADDRESS];
  snprintf(before, sizeof(before), "%s", zoo_get_current_server(handle));
  const int count = atomic_load(&connections);
  cut_connections();
  wait_until(has_connected_since, &count, "a new connection");
  if (zoo_client_id(handle)->client_id != session_id) fail("the session is another one");
  const char* after = zoo_get_current_server(handle);
  return after != NULL && strcmp(before, after) != 0;
}

static zhandle_t* connect_session(void) {
  const int count = atomic_load(&connections);
  zhandle_t* made =
      zookeeper_init(hosts_argument(), session_watcher, SESSION_TIMEOUT_MS, NULL, NULL, 0);
  if (made == NULL) fail("zookeeper_init refused %s", hosts_argument());
  wait_until(has_connected_since, &count, "a connection");
  return made;
}

static void on_auth(int result, const void* context) {
  (void)context;
  atomic_fetch_add(&auth_results[result != ZOK], 1);
}

static int has_logged_in(const void* context) {
  (void)context;
  return atomic_load(&auth_results[0]) > 0;
}

/* Checks that alice may read and change the node, and that all others may read its ACL. */
static void check_secret(void) {
  struct node node;
  expect_code("get as alice", get(kSecret, &node), ZOK);
  struct ACL_vector acl;
  struct Stat stat;
  int result;
  while (is_lost(result = zoo_get_acl(handle, kSecret, &acl, &stat)))
    ;
  expect_code("zoo_get_acl", result, ZOK);
  if (acl.count != 1 || acl.data[0].perms != ZOO_PERM_ALL ||
      strcmp(acl.data[0].id.scheme, "digest") != 0 ||
      strncmp(acl.data[0].id.id, "alice:", strlen("alice:")) != 0) {
    fail("the ACL is not the one that was set");
  }
  deallocate_ACL_vector(&acl);
}

/* Checks that a second session, which has not logged in, is refused. */
static void check_stranger(void) {
  zhandle_t* own = handle;
  handle = connect_session();
  struct node node;
  expect_code("get as a stranger", get(kSecret, &node), ZNOAUTH);
  int result;
  while (is_lost(result = zoo_set(handle, kSecret, "x", 1, -1)))
    ;
  expect_code("set as a stranger", result, ZNOAUTH);
  while (is_lost(result = zoo_set_acl(handle, kSecret, -1, &ZOO_OPEN_ACL_UNSAFE)))
    ;
  expect_code("set_acl as a stranger", result, ZNOAUTH);
  /* If the server ends at this moment, the session expires by itself. */
  zookeeper_close(handle);
  handle = own;
}

static void check_ephemeral(void) {
  struct node node;
  expect_code("get of the ephemeral node", get(kEphemeral, &node), ZOK);
  if (node.stat.ephemeralOwner != session_id) fail("the ephemeral node belongs to another session");
  expect_code("create below it", create("/session/ephemeral/child", "", &ZOO_OPEN_ACL_UNSAFE, 0),
              ZNOCHILDRENFOREPHEMERALS);
}

/* Sends a transaction of two creates, a set and a check with `version`. */
static int pair(int32_t version, zoo_op_result_t* results) {
  zoo_op_t ops[4];
  char created[2][64];
  struct Stat stat;
  for (int i = 0; i < 2; ++i) {
    zoo_create_op_init(&ops[i], kPair[i], "new", 3, &ZOO_OPEN_ACL_UNSAFE, 0, created[i],
                       sizeof(created[i]));
  }
  zoo_set_op_init(&ops[2], kPair[0], "changed", 7, 0, &stat);
  zoo_check_op_init(&ops[3], kPair[1], version);
  const int result = zoo_multi(handle, 4, ops, results);
  if (result == ZOK && (strcmp(created[1], kPair[1]) != 0 || stat.version != 1)) {
    fail("a transaction gave %s and version %d", created[1], stat.version);
  }
  return result;
}

static void check_transactions(void) {
  zoo_op_result_t results[4];
  int result, was_lost = 0;
  struct node node;
  while (is_lost(result = pair(5, results)))
    ;
  expect_code("a transaction with a wrong version", result, ZBADVERSION);
  expect_code("its last step", results[3].err, ZBADVERSION);
  expect_code("its first node", get(kPair[0], &node), ZNONODE);
  while (is_lost(result = pair(0, results))) was_lost = 1;
  if (!(was_lost && result == ZNODEEXISTS)) expect_code("a transaction", result, ZOK);
  expect_code("its first node", get(kPair[0], &node), ZOK);
  if (node.length != 7 || node.stat.version != 1) fail("a part of a transaction was applied");
  for (int i = 0; i < 2; ++i) remove_if_there(kPair[i]);
}

static void start(void) {
  /* A node of an earlier run can be deleted, because its parent lets everybody delete it. */
  remove_if_there(kSecret);
  for (int i = 0; i < 2; ++i) remove_if_there(kPair[i]);
  const int result = create(kRoot, "", &ZOO_OPEN_ACL_UNSAFE, 0);
  if (result != ZNODEEXISTS) expect_code("create", result, ZOK);
  const char login[] = "alice:secret";
  expect_code("zoo_add_auth",
              zoo_add_auth(handle, "digest", login, sizeof(login) - 1, on_auth, NULL), ZOK);
  wait_until(has_logged_in, NULL, "the login");
  expect_code("create of the secret node", create(kSecret, "s", &ZOO_CREATOR_ALL_ACL, 0), ZOK);
  remove_if_there(kEphemeral);
  expect_code("create of the ephemeral node",
              create(kEphemeral, "", &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL), ZOK);
}

int main(int argc, char** argv) {
  parse_arguments(argc, argv);
  handle = connect_session();
  session_id = zoo_client_id(handle)->client_id;
  start();
  long rounds = 0, moves = 0;
  while (wants_more(rounds)) {
    ++rounds;
    moves += move();
    check_secret();
    check_ephemeral();
    check_transactions();
    check_stranger();
  }
  if (moves == 0) fail("the session never moved to another member");
  if (atomic_load(&auth_results[1]) != 0) fail("a login was refused");
  expect_code("zookeeper_close", zookeeper_close(handle), ZOK);
  printf("mt_session: %ld rounds, %ld moves, %ld calls lost and made again\n", rounds, moves,
         losses);
  return 0;
}
