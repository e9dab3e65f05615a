// SPDX-License-Identifier: Apache-2.0

/* Changes the members by the multithreaded C client: takes in those of JOINING, moves its session to them, and takes out
 * those of LEAVING. Usage: mt_reconfig HOSTS NEW_HOSTS CREDENTIALS JOINING LEAVING */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "scenario.h"

#define MAX_CONFIG_BYTES 4096
#define SESSION_MS 20000
#define POLL_PAUSE_MS 5
#define FD_LIMIT 256 /* more than a process with one connection has open */

struct config {
  char text[MAX_CONFIG_BYTES];
  int length;
  struct Stat stat;
};

static zhandle_t* handle;
static atomic_int connections;   /* how many were made */
static atomic_int logins;        /* how many were accepted */
static atomic_int config_events; /* of the watch of the configuration */
static atomic_int wrong_events;

static void session_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  (void)zh;
  (void)path;
  (void)context;
  if (type != ZOO_SESSION_EVENT) return;
  if (state == ZOO_EXPIRED_SESSION_STATE) fail("the session expired");
  if (state == ZOO_CONNECTED_STATE) atomic_fetch_add(&connections, 1);
}

static void config_watcher(zhandle_t* zh, int type, int state, const char* path, void* context) {
  (void)zh;
  (void)state;
  (void)context;
  if (type == ZOO_SESSION_EVENT) return;
  if (type != ZOO_CHANGED_EVENT || strcmp(path, ZOO_CONFIG_NODE) != 0) {
    atomic_fetch_add(&wrong_events, 1);
  }
  atomic_fetch_add(&config_events, 1);
}

static void on_login(int result, const void* context) {
  (void)context;
  if (result == ZOK) atomic_fetch_add(&logins, 1);
}

/* Waits until `count` is greater than `before`. */
static void wait_for_more(atomic_int* count, int before, const char* what) {
  const long long end_ms = now_ms() + PATIENCE_MS;
  while (atomic_load(count) <= before) {
    if (now_ms() > end_ms) fail("%s: not within %d ms", what, PATIENCE_MS);
    const struct timespec pause = {0, POLL_PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
  }
}

static int count_of(const char* text, const char* part) {
  int count = 0;
  for (const char* at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) ++count;
  return count;
}

static int reconfig(const char* joining, const char* leaving, int64_t version,
                    struct config* config) {
  config->length = sizeof(config->text) - 1;
  const int result = zoo_reconfig(handle, joining, leaving, NULL, version, config->text,
                                  &config->length, &config->stat);
  if (result == ZOK) config->text[config->length] = '\0';
  return result;
}

/* Checks that the configuration has `members` servers, and that its version is its zxid. Returns it. */
static int64_t check_config(const struct config* config, int members) {
  const char* version = strstr(config->text, "\nversion=");
  if (version == NULL) fail("no version in %s", config->text);
  const long long value = strtoll(version + strlen("\nversion="), NULL, 16);
  if (value != config->stat.mzxid) fail("the version %s is not the zxid", version);
  if (count_of(config->text, "server.") != members) {
    fail("there are not %d members: %s", members, config->text);
  }
  return value;
}

static int is_at_one_of(const char* hosts) {
  const char* server = zoo_get_current_server(handle);
  return server != NULL && strstr(hosts, server) != NULL;
}

/* Cuts the connection of this process, as a network would. */
static void cut_connection(void) {
  for (int fd = 3; fd < FD_LIMIT; ++fd) {
    struct sockaddr_in peer;
    socklen_t length = sizeof(peer);
    if (getpeername(fd, (struct sockaddr*)&peer, &length) == 0 && peer.sin_family == AF_INET) {
      shutdown(fd, SHUT_RDWR);
    }
  }
}

/* Moves the session to the servers of `hosts`, to which it was not connected. ZooKeeper 3.8's library
 * keeps a connection to a server that is not among the new ones; it uses these for the next connection. */
static void move_to(const char* hosts) {
  if (is_at_one_of(hosts)) fail("it is at a new server already");
  const int before = atomic_load(&connections);
  expect_code("zoo_set_servers", zoo_set_servers(handle, hosts), ZOK);
  cut_connection();
  wait_for_more(&connections, before, "a connection to a new server");
  if (!is_at_one_of(hosts)) fail("it did not move to %s", hosts);
}

int main(int argc, char** argv) {
  if (argc != 6) {
    fputs("usage: mt_reconfig HOSTS NEW_HOSTS CREDENTIALS JOINING LEAVING\n", stderr);
    return 2;
  }
  const char *new_hosts = argv[2], *credentials = argv[3], *joining = argv[4], *leaving = argv[5];
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
  handle = zookeeper_init(argv[1], session_watcher, SESSION_MS, NULL, NULL, 0);
  if (handle == NULL) fail("zookeeper_init refused %s", argv[1]);
  wait_for_more(&connections, 0, "a connection");
  const int64_t session = zoo_client_id(handle)->client_id;
  expect_code("zoo_create",
              zoo_create(handle, "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0), ZOK);

  struct config before, after;
  before.length = sizeof(before.text) - 1;
  expect_code(
      "zoo_wgetconfig",
      zoo_wgetconfig(handle, config_watcher, NULL, before.text, &before.length, &before.stat), ZOK);
  before.text[before.length] = '\0';
  const int count = count_of(before.text, "server.");
  expect_code("zoo_reconfig without rights", reconfig(joining, NULL, -1, &after), ZNOAUTH);
  expect_code("zoo_add_auth",
              zoo_add_auth(handle, "digest", credentials, (int)strlen(credentials), on_login, NULL),
              ZOK);
  wait_for_more(&logins, 0, "the login");
  expect_code("zoo_reconfig of another version", reconfig(joining, NULL, 12345, &after),
              ZBADVERSION);
  if (atomic_load(&config_events) != 0) fail("a refused change fires the watch");

  expect_code("zoo_reconfig that takes in", reconfig(joining, NULL, -1, &after), ZOK);
  const int joined = count_of(joining, "server.");
  const int64_t version = check_config(&after, count + joined);
  wait_for_more(&config_events, 0, "the event of the configuration");
  before.length = sizeof(before.text) - 1;
  expect_code("zoo_getconfig", zoo_getconfig(handle, 0, before.text, &before.length, &before.stat),
              ZOK);
  before.text[before.length] = '\0';
  if (strcmp(before.text, after.text) != 0) fail("zoo_getconfig differs from zoo_reconfig");

  move_to(new_hosts);
  expect_code("zoo_reconfig that takes out", reconfig(NULL, leaving, version, &after), ZOK);
  check_config(&after, joined);
  struct Stat stat;
  expect_code("zoo_exists", zoo_exists(handle, "/c", 0, &stat), ZOK);
  if (stat.ephemeralOwner != session || zoo_client_id(handle)->client_id != session) {
    fail("the session is another one");
  }
  if (atomic_load(&config_events) != 1 || atomic_load(&wrong_events) != 0) {
    fail("the watch of the configuration gave %d events, %d of them wrong",
         atomic_load(&config_events), atomic_load(&wrong_events));
  }
  expect_code("zookeeper_close", zookeeper_close(handle), ZOK);
  printf("members changed by the C library\n");
  return 0;
}
