#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The environment of the scripts in this directory, which source this file: the configuration, as
# ZooKeeper's zkEnv.sh finds it, and the programs of Quorate. Takes "--config DIR" from the arguments
# of the script. Sets ZOOCFGDIR, ZOOCFG, ZOO_LOG_DIR, QUORATED and QUORATE.

if [[ ${1:-} == --config && $# -gt 1 ]]; then
  ZOOCFGDIR=$2
  shift 2
fi
ZOOCFGDIR=${ZOOCFGDIR:-/etc/zookeeper/conf}

# Users of ZooKeeper keep options in these files.
# shellcheck source=/dev/null
if [[ -f $ZOOCFGDIR/zookeeper-env.sh ]]; then . "$ZOOCFGDIR/zookeeper-env.sh"; fi
ZOOCFG=${ZOOCFG:-zoo.cfg}
if [[ $ZOOCFG != /* ]]; then ZOOCFG=$ZOOCFGDIR/$ZOOCFG; fi
# shellcheck source=/dev/null
if [[ -f $ZOOCFGDIR/java.env ]]; then . "$ZOOCFGDIR/java.env"; fi
# Debian's package has options in this file, whose other variables are for Java.
if [[ -z ${JAVA_OPTS:-} && -f $ZOOCFGDIR/environment ]]; then
  # shellcheck source=/dev/null
  JAVA_OPTS=$(. "$ZOOCFGDIR/environment" >/dev/null && printf %s "${JAVA_OPTS:-}")
fi
# quorated reads properties ("-Dname=value") from these.
export SERVER_JVMFLAGS JVMFLAGS JAVA_OPTS

# Where the server writes its audit log, unless the configuration names a file.
export ZOO_LOG_DIR=${ZOO_LOG_DIR:-/var/log/quorate}
QUORATED=${QUORATED:-/usr/sbin/quorated}
QUORATE=${QUORATE:-/usr/bin/quorate}

# Returns whether the configuration file can be read or is missing. Otherwise says what to do.
can_read_config() {
  if [[ ! -e $ZOOCFG || -r $ZOOCFG ]]; then return 0; fi
  echo "${0##*/}: cannot read $ZOOCFG; run as root or as a member of group $(stat -L -c %G "$ZOOCFG")" >&2
  return 1
}

# Prints the value of a key in the configuration file $1; of several, the last.
config_value() { # FILE KEY
  sed -nE "s/^[[:space:]]*${2//./\\.}[[:space:]]*[=:][[:space:]]*(.*[^[:space:]])[[:space:]]*\$/\\1/p" "$1" \
    2>/dev/null | tail -n 1
}
