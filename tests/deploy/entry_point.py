# SPDX-License-Identifier: Apache-2.0
"""The entry point of the container with the variables of both images, and the compose file. The configuration that it
writes is read by a real server. tests/packages runs the entry point in the image itself."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile

import yaml

import harness
import image
import zkwire as zk

ENTRY_POINT = os.path.join(harness.ROOT, "deploy/container/docker-entrypoint.sh")
COMPOSE = os.path.join(harness.ROOT, "deploy/container/compose.yml")
SERVERS = "a.example:2888:3888,zkserver.b:2888:3888::7;c.example:2888:3888:observer::9 [fd00::1]:2888:3888"


class Volumes:
    """The directories of a container. Use as a context manager."""

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="quorate-entry-point-")
        self.path = self.temporary.name
        for name in ("conf", "data", "datalog", "logs"):
            os.mkdir(os.path.join(self.path, name))
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def run(self, check=True, **variables):
        """Runs the entry point. Returns the subprocess.CompletedProcess, of a command that prints "started"."""
        environment = {"PATH": os.environ["PATH"], "ZOO_CONF_DIR": f"{self.path}/conf", "ZOO_DATA_DIR": f"{self.path}/data",
                       "ZOO_DATA_LOG_DIR": f"{self.path}/datalog", "ZOO_LOG_DIR": f"{self.path}/logs", **variables}
        result = subprocess.run([ENTRY_POINT, "echo", "started"], env=environment, capture_output=True, text=True,
                                timeout=30, check=False)
        assert not check or (result.returncode == 0 and result.stdout == "started\n"), result.stdout + result.stderr
        return result

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()

    def lines(self):
        return self.read("conf/zoo.cfg").splitlines()

    def keys(self):
        return dict(line.split("=", 1) for line in self.lines())

    def refused(self, **variables):
        """Returns what the entry point says when it does not start the command."""
        result = self.run(check=False, **variables)
        assert result.returncode == 1 and result.stdout == "", result.stdout + result.stderr
        assert not os.path.exists(f"{self.path}/conf/zoo.cfg"), self.lines()
        return result.stderr


@contextlib.contextmanager
def _server(volumes):
    """Runs a server with the configuration."""
    command = [harness.SERVERS["quorate"], f"{volumes.path}/conf/zoo.cfg"]
    log = os.path.join(volumes.path, "server.log")
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield lambda: process.poll() is None or harness.end_of(volumes.read("server.log"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, volumes.read("server.log")
    finally:
        process.kill()
        process.wait()


def _serves(address, runs):
    state = runs()
    assert state is True, state
    with contextlib.suppress(zk.Closed, OSError):
        return "Mode: " in zk.four_letter(address, "srvr")
    return False


def the_official_variables_have_the_official_defaults(volumes):
    result = volumes.run(ZOO_MY_ID="4")
    assert result.stderr == "", result.stderr
    keys = volumes.keys()
    assert (keys["initLimit"], keys["syncLimit"], keys["admin.enableServer"]) == ("5", "2", "true"), keys
    assert keys["server.1"] == "localhost:2888:3888;2181" and "clientPort" not in keys, keys
    assert volumes.read("data/myid") == "4\n"


def a_configuration_and_a_number_that_are_there_stay(volumes):
    for name in ("conf/zoo.cfg", "data/myid"):
        with open(os.path.join(volumes.path, name), "w", encoding="utf-8") as file:
            file.write("mine\n")
    volumes.run(ZOO_MY_ID="4", ZOO_SERVER_ID="5", ZOO_TICK_TIME="9")
    assert volumes.read("conf/zoo.cfg") == "mine\n" and volumes.read("data/myid") == "mine\n"


def bitnamis_variables_have_bitnamis_defaults(volumes):
    result = volumes.run(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_SERVER_ID="9", ZOO_SERVERS=SERVERS, ZOO_PORT_NUMBER="2191",
                         ZOO_SNAPCOUNT="777", ZOO_MAX_SESSION_TIMEOUT="30000", ZOO_MAX_CNXNS="5", ZOO_AUTOPURGE_INTERVAL="2",
                         ZOO_AUTOPURGE_RETAIN_COUNT="8", ZOO_LISTEN_ALLIPS_ENABLED="true", ZOO_HEAP_SIZE="1024",
                         ZOO_CFG_ssl_enabledProtocols="TLSv1.3", ZOO_CFG_EXTRA="logSegmentBytes=1048576 snapCount=778")
    keys = volumes.keys()
    expected = {"initLimit": "10", "syncLimit": "5", "clientPort": "2191", "admin.enableServer": "false", "snapCount": "778",
                "4lw.commands.whitelist": "srvr, mntr", "maxSessionTimeout": "30000", "maxCnxns": "5",
                "dataLogDir": f"{volumes.path}/datalog",
                "autopurge.purgeInterval": "2", "autopurge.snapRetainCount": "8", "quorumListenOnAllIPs": "true",
                "ssl.enabledProtocols": "TLSv1.3", "logSegmentBytes": "1048576", "server.1": "a.example:2888:3888",
                "server.7": "zkserver.b:2888:3888", "server.9": "c.example:2888:3888:observer", "server.4": "[fd00::1]:2888:3888"}
    assert {key: keys.get(key) for key in expected} == expected, keys
    assert len([key for key in keys if key.startswith("server.")]) == 4, keys
    assert volumes.read("data/myid") == "9\n"
    assert [line for line in result.stderr.splitlines() if "ZOO_HEAP_SIZE has no effect: " in line] == result.stderr.splitlines()


def lists_may_have_line_breaks(volumes):
    servers = "server.1=a:2888:3888;2181\n  server.2=b:2888:3888;2181\n\tserver.3=c:2888:3888;2181\n"
    for ending, variables in (("", {"ZOO_SERVERS": "a:2888:3888,\nb:2888:3888\nc:2888:3888\n", "ALLOW_ANONYMOUS_LOGIN": "yes"}),
                              (";2181", {"ZOO_SERVERS": servers})):
        volumes.run(**variables)
        found = [line for line in volumes.lines() if line.startswith("server.")]
        assert found == [f"server.{i}={host}:2888:3888{ending}" for i, host in ((1, "a"), (2, "b"), (3, "c"))], found
        assert "" not in volumes.lines(), volumes.lines()
        os.unlink(f"{volumes.path}/conf/zoo.cfg")
    volumes.run(ZOO_ENABLE_AUTH="yes", ZOO_SERVER_USERS="alice\nbob\n", ZOO_SERVER_PASSWORDS="secret\nhidden\n")
    jaas = volumes.read("conf/zoo_jaas.conf")
    assert 'user_alice="secret"\n' in jaas and 'user_bob="hidden"\n' in jaas, jaas


def a_server_that_no_line_names_is_refused(volumes):
    two = "server.1=a:2888:3888;2181 server.12=b:2888:3888;2181"
    assert "no server with the number 2," in volumes.refused(ZOO_MY_ID="2", ZOO_SERVERS=two)
    assert "no server with the number 2," in volumes.refused(ZOO_MY_ID="2", ZOO_SERVERS="server.1=a:2888:3888;2181")
    assert "no server with the number 3," in volumes.refused(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_SERVER_ID="3",
                                                             ZOO_SERVERS="a:2888:3888,b:2888:3888")
    with open(f"{volumes.path}/data/myid", "w", encoding="utf-8") as file:
        file.write("7\n")
    assert "no server with the number 7," in volumes.refused(ZOO_MY_ID="1", ZOO_SERVERS=two)


def an_empty_number_is_written_again(volumes):
    with open(f"{volumes.path}/data/myid", "w", encoding="utf-8"):
        pass
    volumes.run(ZOO_MY_ID="4")
    assert volumes.read("data/myid") == "4\n"
    assert os.listdir(f"{volumes.path}/data") == ["myid"]


# Makes the directories of the image below $1, mounts a volume at each further argument, and runs the entry point there. Needs
# a mount namespace of its own.
CONTAINER = """
set -e
root=$1; shift
for name in usr etc proc dev; do mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"; done
for name in bin lib lib64; do ln -s "usr/$name" "$root/$name"; done
mkdir -p "$root"/conf "$root"/data "$root"/datalog "$root"/logs "$root"/opt/bitnami/zookeeper/conf "$root"/bitnami/zookeeper/data
cp "$ENTRY_POINT" "$root/docker-entrypoint.sh"
for volume in "$@"; do mount -t tmpfs volume "$root$volume"; done
if [ -n "$FILE" ]; then echo mine >"$root$FILE"; fi
chroot "$root" /docker-entrypoint.sh cat /conf/zoo.cfg /opt/bitnami/zookeeper/conf/zoo.cfg || true
"""


def a_volume_for_bitnamis_image_gets_the_data(volumes):
    def data_directory(*mounted, file="", **variables):
        with tempfile.TemporaryDirectory(dir=volumes.path) as root:
            # As deploy/image sets them.
            environment = {"PATH": os.environ["PATH"], "ZOO_CONF_DIR": "/conf", "ZOO_DATA_DIR": "/data", "ZOO_LOG_DIR": "/logs",
                           "ZOO_DATA_LOG_DIR": "/datalog", "ENTRY_POINT": ENTRY_POINT, "FILE": file, **variables}
            result = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", CONTAINER, "-", root,
                                     *mounted], env=environment, capture_output=True, text=True, timeout=30, check=False)
            if result.stderr.startswith("unshare: "):
                raise harness.Skipped(f"NOT RUN, for there are no namespaces: {result.stderr}")
            assert result.returncode == 0, result.stderr
            return re.findall("^(?:dataDir|dataLogDir)=(.*)|^(mine)$", result.stdout, re.MULTILINE)

    bitnami, official = [("/bitnami/zookeeper/data", "")], [("/data", ""), ("/datalog", "")]
    usual = {"ALLOW_ANONYMOUS_LOGIN": "yes"}
    for place in ("/bitnami", "/bitnami/zookeeper", "/bitnami/zookeeper/data"):
        found = data_directory("/data", place, **usual)
        assert found == bitnami, f"{place}: {found}"
    assert data_directory("/data", **usual) == official
    assert data_directory("/data", "/bitnami/zookeeper") == official, "the variables are not Bitnami's"
    assert data_directory("/data", "/bitnami/zookeeper", file="/data/myid", **usual) == official, "there is data in /data"
    assert data_directory("/bitnami/zookeeper", file="/conf/zoo.cfg", **usual) == [("", "mine")]


def the_official_name_of_a_setting_counts_if_both_are_given(volumes):
    result = volumes.run(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_SERVER_ID="5", ZOO_MY_ID="4", ZOO_ADMINSERVER_ENABLED="true",
                         ZOO_ENABLE_ADMIN_SERVER="no", ZOO_AUTOPURGE_INTERVAL="2", ZOO_AUTOPURGE_PURGEINTERVAL="3",
                         ZOO_SERVERS="server.4=a:2888:3888;2181 server.5=b:2888:3888;2181")
    keys = volumes.keys()
    assert (keys["admin.enableServer"], keys["autopurge.purgeInterval"]) == ("true", "3"), keys
    assert (keys["server.4"], keys["server.5"]) == ("a:2888:3888;2181", "b:2888:3888;2181"), keys
    assert volumes.read("data/myid") == "4\n"
    assert "ZOO_MY_ID=4 counts, and not ZOO_SERVER_ID=5" in result.stderr, result.stderr


def each_unknown_variable_is_named_once(volumes):
    result = volumes.run(ZOO_TICKTIME="1", ZOO_SERVICE_HOST="10.0.0.1", ZOO_PORT_2181_TCP="tcp://10.0.0.1:2181",
                         ZOO_CFG_snapCount="5")  # for Bitnami's image only
    assert result.stderr == "".join(f"docker-entrypoint.sh: {name} is no variable of the image, and is ignored\n"
                                    for name in ("ZOO_CFG_snapCount", "ZOO_TICKTIME")), result.stderr


def a_server_without_passwords_has_to_be_asked_for(volumes):
    assert "ALLOW_ANONYMOUS_LOGIN=yes" in volumes.refused(ZOO_SERVER_ID="1")
    assert "ALLOW_ANONYMOUS_LOGIN=yes" in volumes.refused(ZOO_SERVERS="a:2888:3888")
    assert "neither yes nor no" in volumes.refused(ALLOW_ANONYMOUS_LOGIN="maybe")


def what_cannot_be_done_is_refused(volumes):
    assert "memberSecretFile" in volumes.refused(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_ENABLE_QUORUM_AUTH="yes")
    assert "ZOO_SERVERS has b:2888, " in volumes.refused(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_SERVERS="a:2888:3888,b:2888")
    assert "two servers with the number 2" in volumes.refused(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_SERVERS="a:1:2::2,b:1:2")
    assert "2 users" in volumes.refused(ZOO_ENABLE_AUTH="yes", ZOO_SERVER_USERS="a,b", ZOO_SERVER_PASSWORDS="x")
    assert "needs ZOO_SERVER_USERS" in volumes.refused(ZOO_ENABLE_AUTH="yes")
    assert "cannot read /nowhere" in volumes.refused(ZOO_ENABLE_AUTH="yes", ZOO_SERVER_PASSWORDS_FILE="/nowhere")


def a_server_with_users_serves(volumes):
    ports = harness.Reservation(1)
    with contextlib.closing(ports.holder):
        port = ports.base + 1
        secret = os.path.join(volumes.path, "passwords")
        with open(secret, "w", encoding="utf-8") as file:
            file.write('al"i\\ce,secret\n')
        volumes.run(ZOO_ENABLE_AUTH="yes", ZOO_SERVER_USERS="alice,bob", ZOO_SERVER_PASSWORDS_FILE=secret,
                    ZOO_PORT_NUMBER=str(port), ZOO_ENABLE_PROMETHEUS_METRICS="yes",
                    ZOO_PROMETHEUS_METRICS_PORT_NUMBER=str(port + 100), ZOO_CFG_EXTRA="grpcPort=0")
        jaas = volumes.read("conf/zoo_jaas.conf")
        assert 'user_alice="al\\"i\\\\ce"\n' in jaas and 'user_bob="secret"\n' in jaas, jaas
        for name in ("zoo.cfg", "zoo_jaas.conf"):
            assert os.stat(f"{volumes.path}/conf/{name}").st_mode & 0o777 == 0o600, name
        with _server(volumes) as runs:
            harness.wait_for("the server serves", lambda: _serves(f"{harness.HOST}:{port}", runs), harness.WAIT_SECONDS)
            with zk.Connection(f"{harness.HOST}:{port}") as connection:
                try:
                    path = connection.create("/x")
                except (zk.ZkError, zk.Closed):
                    return
                raise AssertionError(f"a client without a password has created {path}")


def a_server_with_tls_has_no_plain_port(volumes):
    volumes.run(ALLOW_ANONYMOUS_LOGIN="yes", ZOO_TLS_CLIENT_ENABLE="true", ZOO_TLS_CLIENT_KEYSTORE_FILE="/k.pem",
                ZOO_TLS_CLIENT_TRUSTSTORE_FILE="/t.p12", ZOO_TLS_CLIENT_TRUSTSTORE_PASSWORD="pw", ZOO_TLS_CLIENT_AUTH="want",
                ZOO_TLS_CLIENT_TRUSTSTORE_TYPE="PKCS12", ZOO_TLS_QUORUM_ENABLE="true", ZOO_TLS_QUORUM_KEYSTORE_FILE="/q.pem",
                ZOO_TLS_QUORUM_TRUSTSTORE_FILE="/q.pem")
    keys = volumes.keys()
    expected = {"clientPort": None, "secureClientPort": "3181", "ssl.keyStore.location": "/k.pem", "ssl.keyStore.type": None,
                "ssl.trustStore.location": "/t.p12", "ssl.trustStore.password": "pw", "ssl.trustStore.type": "PKCS12",
                "ssl.clientAuth": "want", "sslQuorum": "true", "ssl.quorum.keyStore.location": "/q.pem",
                "ssl.quorum.trustStore.location": "/q.pem", "ssl.quorum.clientAuth": "need"}
    assert {key: keys.get(key) for key in expected} == expected, keys


def the_compose_file_fits_the_image(volumes):
    with open(COMPOSE, encoding="utf-8") as file:
        compose = yaml.safe_load(file)
    os.mkdir(f"{volumes.path}/tree")
    config = image.pack(f"{volumes.path}/tree", f"{volumes.path}/image.tar").config
    exposed, places = {port.removesuffix("/tcp") for port in config["ExposedPorts"]}, config["Volumes"]
    published, numbers = [], []
    for name, service in compose["services"].items():
        volumes.run(**{key: str(value) for key, value in service["environment"].items()})
        server = volumes.keys()[f"server.{volumes.read('data/myid').strip()}"]
        assert server == f"{name}:2888:3888;2181" and service["hostname"] == name, (name, server)
        assert len([key for key in volumes.keys() if key.startswith("server.")]) == len(compose["services"])
        numbers.append(volumes.read("data/myid"))
        for port in service["ports"]:
            address, outside, inside = port.split(":")
            assert address == "127.0.0.1" and inside in exposed, (port, exposed)
            published.append(outside)
        for volume in service["volumes"]:
            volume, place = volume.split(":")
            assert volume in compose["volumes"] and place in places, (volume, place, places)
            published.append(volume)
        assert service["healthcheck"]["test"][-1] == "http://localhost:8080/health/ready"
        os.unlink(f"{volumes.path}/conf/zoo.cfg")
        os.unlink(f"{volumes.path}/data/myid")
    assert len(set(published)) == len(published) and sorted(set(numbers)) == sorted(numbers), (published, numbers)
    assert set(compose["volumes"]) < set(published)


TESTS = (lists_may_have_line_breaks, a_server_that_no_line_names_is_refused, an_empty_number_is_written_again,
         a_volume_for_bitnamis_image_gets_the_data, the_official_variables_have_the_official_defaults,
         a_configuration_and_a_number_that_are_there_stay, bitnamis_variables_have_bitnamis_defaults,
         the_official_name_of_a_setting_counts_if_both_are_given, each_unknown_variable_is_named_once,
         a_server_without_passwords_has_to_be_asked_for, what_cannot_be_done_is_refused, a_server_with_users_serves,
         a_server_with_tls_has_no_plain_port, the_compose_file_fits_the_image)


def run(runner):
    def with_volumes(test):
        with Volumes() as volumes:
            return test(volumes)

    for test in TESTS:
        runner.run(f"deploy entry point: {test.__name__.replace('_', ' ')}", with_volumes, test)
