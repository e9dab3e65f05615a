#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whether the server of this container serves: the exit status is 0 or 1. The configuration is where the entry
# point has written it.
if [[ -f /opt/bitnami/zookeeper/conf/zoo.cfg && ! -f $ZOOCFGDIR/zoo.cfg ]]; then
  export ZOOCFGDIR=/opt/bitnami/zookeeper/conf
fi
exec zkServer.sh status
