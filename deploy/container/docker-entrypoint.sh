#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The entry point of the container: takes the variables of the official image of ZooKeeper and those of
# Bitnami's, writes zoo.cfg and myid from them if there are none, and runs the command. As root with a
# command that starts the server, it goes on as the user zookeeper, who gets the directories of data and
# logs.
#
# The environment is Bitnami's if it has a variable that only Bitnami's image has, or ZOO_SERVERS without
# "server.N=". Then Bitnami's defaults count. A setting that has a name in either image is taken from the
# official name if both are there. The directories are Bitnami's, too, under the names of Bitnami's entry
# points, /opt/bitnami/scripts/zookeeper/entrypoint.sh and /entrypoint.sh, and if the environment is
# Bitnami's, a volume is mounted at /bitnami or below, and /data and /conf have nothing.
set -euo pipefail
shopt -s inherit_errexit

say() { echo "docker-entrypoint.sh: $*" >&2; }
die() {
  say "$*"
  exit 1
}

# The variables of the official image.
official="ZOO_CONF_DIR ZOO_DATA_DIR ZOO_DATA_LOG_DIR ZOO_LOG_DIR ZOO_TICK_TIME ZOO_INIT_LIMIT ZOO_SYNC_LIMIT
  ZOO_AUTOPURGE_SNAPRETAINCOUNT ZOO_AUTOPURGE_PURGEINTERVAL ZOO_MAX_CLIENT_CNXNS ZOO_STANDALONE_ENABLED
  ZOO_ADMINSERVER_ENABLED ZOO_SERVERS ZOO_4LW_COMMANDS_WHITELIST ZOO_CFG_EXTRA ZOO_MY_ID"
# Those of Bitnami's that the official one does not have. Each of them, and each one that both have, may
# be given as NAME_FILE, a file with the value.
bitnami="ALLOW_ANONYMOUS_LOGIN ALLOW_EMPTY_PASSWORD ZOO_SERVER_ID ZOO_PORT_NUMBER ZOO_PEER_TYPE ZOO_MAX_CNXNS
  ZOO_AUTOPURGE_INTERVAL ZOO_AUTOPURGE_RETAIN_COUNT ZOO_MAX_SESSION_TIMEOUT ZOO_PRE_ALLOC_SIZE ZOO_SNAPCOUNT
  ZOO_RECONFIG_ENABLED ZOO_LISTEN_ALLIPS_ENABLED ZOO_ENABLE_ADMIN_SERVER ZOO_ADMIN_SERVER_ADDRESS
  ZOO_ADMIN_SERVER_PORT_NUMBER ZOO_ENABLE_PROMETHEUS_METRICS ZOO_PROMETHEUS_METRICS_PORT_NUMBER ZOO_LOG_LEVEL
  ZOO_HEAP_SIZE ZOO_FIPS_MODE ZOO_HC_TIMEOUT ZOO_ENABLE_AUTH ZOO_CLIENT_USER ZOO_CLIENT_PASSWORD
  ZOO_SERVER_USERS ZOO_SERVER_PASSWORDS ZOO_ENABLE_QUORUM_AUTH ZOO_QUORUM_LEARNER_USER
  ZOO_QUORUM_LEARNER_PASSWORD ZOO_QUORUM_SERVER_USERS ZOO_QUORUM_SERVER_PASSWORDS ZOO_TLS_PORT_NUMBER
  ZOO_TLS_CLIENT_ENABLE ZOO_TLS_CLIENT_AUTH ZOO_TLS_CLIENT_KEYSTORE_FILE ZOO_TLS_CLIENT_KEYSTORE_TYPE
  ZOO_TLS_CLIENT_KEYSTORE_PASSWORD ZOO_TLS_CLIENT_TRUSTSTORE_FILE ZOO_TLS_CLIENT_TRUSTSTORE_TYPE
  ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD ZOO_TLS_QUORUM_ENABLE ZOO_TLS_QUORUM_CLIENT_AUTH
  ZOO_TLS_QUORUM_KEYSTORE_FILE ZOO_TLS_QUORUM_KEYSTORE_TYPE ZOO_TLS_QUORUM_KEYSTORE_PASSWORD
  ZOO_TLS_QUORUM_TRUSTSTORE_FILE ZOO_TLS_QUORUM_TRUSTSTORE_TYPE ZOO_TLS_QUORUM_TRUSTSTORE_PASSWORD"
# Those that have no effect here, each with the reason.
declare -A without_effect=(
  [ZOO_HEAP_SIZE]="there is no Java heap; the limit of memory is memoryLimitMb, by default four fifths of the container's"
  [ZOO_LOG4J_PROP]="the log goes to standard output"
  [ZOO_LOG_LEVEL]="the log has one level, and goes to standard output"
  [ZOO_FIPS_MODE]="there is one implementation of TLS"
  [ZOO_PRE_ALLOC_SIZE]="log files are preallocated in a size of their own"
  [ZOO_PEER_TYPE]="the line of ZOO_SERVERS says who is an observer"
  [ZOO_RECONFIG_ENABLED]="quorate member changes the members"
  [ZOO_CLIENT_USER]="set the ACL of / with zkCli.sh, if clients shall need this user"
  [ZOO_CLIENT_PASSWORD]="it belongs to ZOO_CLIENT_USER"
)

# A line of a server in the official form.
readonly SERVER_LINE='(^|[[:space:]])server\.[0-9]+='

is_set() { [[ -n ${!1:-} ]]; } # VARIABLE

# Sets each variable of Bitnami's that is given as a file.
read_files() {
  local name file
  for name in $official $bitnami; do
    file=${name}_FILE
    # ..._KEYSTORE_FILE is a variable itself, and no variable is named without the ending.
    if ! is_set "$file" || is_set "$name"; then continue; fi
    [[ -r ${!file} ]] || die "$file: cannot read ${!file}"
    printf -v "$name" %s "$(<"${!file}")"
  done
}

# Whether the environment is one for Bitnami's image.
is_bitnami() {
  local name
  if $bitnami_paths; then return 0; fi
  for name in $bitnami; do
    if is_set "$name"; then return 0; fi
  done
  [[ -n ${ZOO_SERVERS:-} && ! $ZOO_SERVERS =~ $SERVER_LINE ]]
}

# Whether the data belongs into a volume for Bitnami's image. A compose file for that image names no entry
# point. /data is then a volume that the container engine has made, and that nobody would find again. What
# is in /data or /conf already, though, is used.
has_bitnami_volume() {
  local place
  if [[ ${ZOO_DATA_DIR:-/data} != /data || ${ZOO_CONF_DIR:-/conf} != /conf || -e /conf/zoo.cfg ]]; then return 1; fi
  if [[ -d /data && -n $(ls -A --ignore=lost+found /data) ]]; then return 1; fi
  for place in /bitnami /bitnami/zookeeper /bitnami/zookeeper/data; do
    if mountpoint -q "$place"; then return 0; fi
  done
  return 1
}

# Says once, for each variable that changes nothing, that it does not.
report_variables() {
  local name
  for name in $(compgen -v ZOO_); do
    if [[ -n ${without_effect[$name]:-} ]]; then
      say "$name has no effect: ${without_effect[$name]}"
    elif [[ $name == ZOO_SERVICE_* || $name =~ ^ZOO_PORT(_[0-9]+_.*)?$ ]]; then
      # What Kubernetes says about a service with the name zoo.
      continue
    elif $bitnami_environment && [[ $name == ZOO_CFG_* ]]; then # a key of the configuration
      continue
    elif [[ " ${official//$'\n'/ } ${bitnami//$'\n'/ } " != *" ${name%_FILE} "* &&
      " ${bitnami//$'\n'/ } " != *" $name "* ]]; then
      say "$name is no variable of the image, and is ignored"
    fi
  done
}

# Prints true or false for a truth value as Bitnami's image takes it. $2: the default.
truth() { # VARIABLE DEFAULT
  case "${!1:-$2}" in
    yes | true | 1 | YES | TRUE | Yes | True) echo true ;;
    no | false | 0 | NO | FALSE | No | False) echo false ;;
    *) die "$1=${!1} is neither yes nor no" ;;
  esac
}

is_true() { [[ $(truth "$1" no) == true ]]; } # VARIABLE

# Prints the value of the first name, or that of the second, or the default.
either() { # OFFICIAL BITNAMI DEFAULT
  if is_set "$1" && is_set "$2" && [[ ${!1} != "${!2}" ]]; then say "$1=${!1} counts, and not $2=${!2}"; fi
  if is_set "$1"; then echo "${!1}"; else echo "${!2:-$3}"; fi
}

# Prints `KEY=VALUE` if the variable is set.
optional() { # KEY VARIABLE
  if is_set "$2"; then echo "$1=${!2}"; fi
}

# Makes an array of a list of Bitnami's: separated by commas, semicolons, spaces or line breaks.
split() { # ARRAY LIST
  # With NUL as the delimiter, `read` goes on after the first line. Its status is then that of an end of file.
  IFS=$',; \t\n' read -rd '' -a "$1" <<<"$2" || true
}

# Prints the server lines for ZOO_SERVERS in Bitnami's form: "host:2888:3888[:observer][::id]", separated by
# commas, semicolons, spaces or line breaks. One server runs alone, without such a line.
bitnami_servers() {
  local entries entry id place=0
  local -A seen=()
  split entries "${ZOO_SERVERS:-}"
  if [[ ${#entries[@]} -lt 2 ]]; then return 0; fi
  for entry in "${entries[@]}"; do
    [[ -n $entry ]] || continue
    place=$((place + 1))
    id=$place
    if [[ $entry =~ ^(.*)::([0-9]+)$ ]]; then
      entry=${BASH_REMATCH[1]}
      id=${BASH_REMATCH[2]}
    fi
    [[ $entry =~ :[0-9]+:[0-9]+(:observer|:participant)?$ ]] ||
      die "ZOO_SERVERS has $entry, which is not host:2888:3888[:observer][::id]"
    [[ -z ${seen[$id]:-} ]] || die "ZOO_SERVERS has two servers with the number $id"
    seen[$id]=$entry
    echo "server.$id=$entry"
  done
}

# Prints the lines for one kind of TLS connections: the stores and whether the other side needs a
# certificate.
bitnami_stores() { # PREFIX-OF-KEYS PREFIX-OF-VARIABLES VARIABLE-OF-CLIENT-AUTH
  optional "$1.keyStore.location" "$2_KEYSTORE_FILE"
  optional "$1.keyStore.type" "$2_KEYSTORE_TYPE"
  optional "$1.keyStore.password" "$2_KEYSTORE_PASSWORD"
  optional "$1.trustStore.location" "$2_TRUSTSTORE_FILE"
  optional "$1.trustStore.type" "$2_TRUSTSTORE_TYPE"
  optional "$1.trustStore.password" "$2_TRUSTSTORE_PASSWORD"
  echo "$1.clientAuth=${!3:-need}"
}

# Prints the JAAS file with the users that clients authenticate as.
jaas_file() {
  local users passwords i password
  split users "${ZOO_SERVER_USERS:-}"
  split passwords "${ZOO_SERVER_PASSWORDS:-}"
  [[ ${#users[@]} -gt 0 ]] || die "ZOO_ENABLE_AUTH needs ZOO_SERVER_USERS and ZOO_SERVER_PASSWORDS"
  [[ ${#users[@]} -eq ${#passwords[@]} ]] ||
    die "ZOO_SERVER_USERS has ${#users[@]} users, and ZOO_SERVER_PASSWORDS ${#passwords[@]} passwords"
  echo "Server {"
  echo "  org.apache.zookeeper.server.auth.DigestLoginModule required"
  for i in "${!users[@]}"; do
    [[ ${users[i]} =~ ^[A-Za-z0-9._-]+$ ]] || die "ZOO_SERVER_USERS: ${users[i]} has characters other than letters, digits, . _ -"
    password=${passwords[i]//\\/\\\\}
    echo "  user_${users[i]}=\"${password//\"/\\\"}\""
  done
  echo "  ;"
  echo "};"
}

# Prints the server lines of the configuration. A line that names the client port takes the place of clientPort.
server_lines() {
  local lines=()
  if [[ ${ZOO_SERVERS:-} =~ $SERVER_LINE ]]; then
    # The variable is a list of lines, separated by spaces or line breaks.
    read -rd '' -a lines <<<"$ZOO_SERVERS" || true
  elif $bitnami_environment; then
    local text
    text=$(bitnami_servers)
    [[ -z $text ]] || mapfile -t lines <<<"$text"
  else
    echo "server.1=localhost:2888:3888;2181" # whatever this server's number is, it runs alone
  fi
  if [[ ${#lines[@]} -eq 0 ]]; then return 0; fi
  # Otherwise a single line of another server would make this one a server that runs alone.
  [[ " ${lines[*]}" == *" server.$number="* ]] ||
    die "ZOO_SERVERS has no server with the number $number, which is this server's:" \
      "correct ZOO_SERVERS, or the number (ZOO_MY_ID, ZOO_SERVER_ID or $data/myid)"
  printf '%s\n' "${lines[@]}"
}

# Prints the part of the configuration that only Bitnami's variables describe.
bitnami_configuration() {
  if is_true ZOO_TLS_CLIENT_ENABLE; then
    echo "secureClientPort=${ZOO_TLS_PORT_NUMBER:-3181}"
    bitnami_stores ssl ZOO_TLS_CLIENT ZOO_TLS_CLIENT_AUTH
  else
    echo "clientPort=${ZOO_PORT_NUMBER:-2181}"
  fi
  if is_true ZOO_TLS_QUORUM_ENABLE; then
    echo "sslQuorum=true"
    bitnami_stores ssl.quorum ZOO_TLS_QUORUM ZOO_TLS_QUORUM_CLIENT_AUTH
  fi
  if is_true ZOO_ENABLE_AUTH; then
    echo "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    echo "sessionRequireClientSASLAuth=true"
    echo "jaasFile=$conf/zoo_jaas.conf"
  fi
  echo "admin.serverAddress=${ZOO_ADMIN_SERVER_ADDRESS:-127.0.0.1}"
  echo "admin.serverPort=${ZOO_ADMIN_SERVER_PORT_NUMBER:-8080}"
  if is_true ZOO_ENABLE_PROMETHEUS_METRICS; then
    echo "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
    echo "metricsProvider.httpPort=${ZOO_PROMETHEUS_METRICS_PORT_NUMBER:-7000}"
  fi
  optional maxCnxns ZOO_MAX_CNXNS
  optional maxSessionTimeout ZOO_MAX_SESSION_TIMEOUT
  optional snapCount ZOO_SNAPCOUNT
  if is_set ZOO_LISTEN_ALLIPS_ENABLED; then echo "quorumListenOnAllIPs=$(truth ZOO_LISTEN_ALLIPS_ENABLED no)"; fi
  local name
  for name in $(compgen -v ZOO_CFG_); do
    if [[ $name == ZOO_CFG_EXTRA ]]; then continue; fi
    name=${name#ZOO_CFG_}
    optional "${name//_/.}" "ZOO_CFG_$name"
  done
}

# Ends the container if the variables ask for what the server cannot do, or do not say that anybody may
# connect.
check_bitnami() {
  local name
  for name in ZOO_ENABLE_QUORUM_AUTH ZOO_ENABLE_AUTH ALLOW_ANONYMOUS_LOGIN ALLOW_EMPTY_PASSWORD ZOO_TLS_CLIENT_ENABLE \
    ZOO_TLS_QUORUM_ENABLE ZOO_ENABLE_ADMIN_SERVER ZOO_ENABLE_PROMETHEUS_METRICS ZOO_LISTEN_ALLIPS_ENABLED; do
    truth "$name" no >/dev/null
  done
  if is_true ZOO_ENABLE_QUORUM_AUTH; then
    die "ZOO_ENABLE_QUORUM_AUTH is not possible, as members do not use SASL with each other: use" \
      "ZOO_TLS_QUORUM_ENABLE, or ZOO_CFG_memberSecretFile with a file that all members have"
  fi
  if ! is_true ZOO_ENABLE_AUTH && ! is_true ALLOW_ANONYMOUS_LOGIN && ! is_true ALLOW_EMPTY_PASSWORD; then
    die "clients need no password: set ZOO_ENABLE_AUTH=yes with ZOO_SERVER_USERS and ZOO_SERVER_PASSWORDS, or" \
      "ALLOW_ANONYMOUS_LOGIN=yes to run the server like that"
  fi
}

# Prints the configuration that the variables describe.
configuration() {
  local init_limit=5 sync_limit=2 words=() admin=true
  if $bitnami_environment; then init_limit=10 sync_limit=5 words=("srvr, mntr") admin=false; fi
  if is_set ZOO_4LW_COMMANDS_WHITELIST; then words=("$ZOO_4LW_COMMANDS_WHITELIST"); fi
  if is_set ZOO_ADMINSERVER_ENABLED || ! is_set ZOO_ENABLE_ADMIN_SERVER; then
    admin=${ZOO_ADMINSERVER_ENABLED:-$admin}
  else
    admin=$(truth ZOO_ENABLE_ADMIN_SERVER no)
  fi
  echo "dataDir=$data"
  if [[ -n $log ]]; then echo "dataLogDir=$log"; fi
  echo "tickTime=${ZOO_TICK_TIME:-2000}"
  echo "initLimit=${ZOO_INIT_LIMIT:-$init_limit}"
  echo "syncLimit=${ZOO_SYNC_LIMIT:-$sync_limit}"
  echo "autopurge.snapRetainCount=$(either ZOO_AUTOPURGE_SNAPRETAINCOUNT ZOO_AUTOPURGE_RETAIN_COUNT 3)"
  echo "autopurge.purgeInterval=$(either ZOO_AUTOPURGE_PURGEINTERVAL ZOO_AUTOPURGE_INTERVAL 0)"
  echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
  echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
  echo "admin.enableServer=$admin"
  # zkCli.sh and quorate connect to this port, which only the container itself reaches.
  echo "grpcPort=2281"
  if $bitnami_environment; then bitnami_configuration; fi
  server_lines
  if [[ ${#words[@]} -gt 0 ]]; then echo "4lw.commands.whitelist=${words[0]}"; fi
  # shellcheck disable=SC2086
  if [[ -n ${ZOO_CFG_EXTRA:-} ]]; then printf '%s\n' $ZOO_CFG_EXTRA; fi
}

read_files
bitnami_paths=false
if [[ $0 == /opt/bitnami/* || $0 == /entrypoint.sh ]]; then bitnami_paths=true; fi
bitnami_environment=false
if is_bitnami; then bitnami_environment=true; fi
if $bitnami_environment && has_bitnami_volume; then bitnami_paths=true; fi
if $bitnami_paths; then
  export ZOOCFGDIR=/opt/bitnami/zookeeper/conf ZOO_LOG_DIR=/opt/bitnami/zookeeper/logs
  conf=$ZOOCFGDIR
  data=/bitnami/zookeeper/data
  # The image has this variable for the official entry point.
  log=${ZOO_DATA_LOG_DIR:-}
  if [[ $log == /datalog ]]; then log=""; fi
else
  conf=${ZOO_CONF_DIR:-/conf}
  data=${ZOO_DATA_DIR:-/data}
  log=${ZOO_DATA_LOG_DIR:-/datalog}
fi
logs=${ZOO_LOG_DIR:-/logs}

if [[ ${1:-} == zkServer.sh || ${1:-} == */run.sh ]] && [[ $(id -u) -eq 0 ]]; then
  mkdir -p "$data"
  chown -R zookeeper "$data" ${log:+"$log"} "$logs"
  exec setpriv --reuid=zookeeper --regid=zookeeper --init-groups "$0" "$@"
fi

# Writes a file at once or not at all, so that a container that ended here does not leave a part of it.
# It may have passwords.
write() { # FILE COMMAND...
  local text
  text=$("${@:2}")
  (umask 077 && echo "$text" >"$1.new" && mv "$1.new" "$1")
}

if [[ -s $data/myid ]]; then number=$(<"$data/myid"); else number=$(either ZOO_MY_ID ZOO_SERVER_ID 1); fi
# A configuration that the user has mounted counts alone.
if [[ ! -f $conf/zoo.cfg ]]; then
  report_variables
  if $bitnami_environment; then
    check_bitnami
    if is_true ZOO_ENABLE_AUTH; then write "$conf/zoo_jaas.conf" jaas_file; fi
  fi
  write "$conf/zoo.cfg" configuration
fi
# An empty file is what a machine that lost power may leave of a file that was not synced.
if [[ ! -s $data/myid ]]; then
  mkdir -p "$data"
  echo "$number" >"$data/myid.new"
  sync "$data/myid.new"
  mv "$data/myid.new" "$data/myid"
  sync "$data"
fi

exec "$@"
