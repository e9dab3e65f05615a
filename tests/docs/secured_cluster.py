# SPDX-License-Identifier: Apache-2.0
"""The configurations of docs/guides/secured-cluster.md are tried: five servers on this machine with the page's zoo.cfg, in which
only addresses, ports and directories are others, the administrator's configuration, those of Prometheus and of its Alertmanager,
and the backup of each night, which docs/operations/administration.md has."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness
import quorate_cli

ROOT = pathlib.Path(harness.ROOT)
PAGE = ROOT / "docs/guides/secured-cluster.md"
BACKUPS = ROOT / "docs/operations/administration.md"
SERVER = os.environ.get("QUORATED", harness.SERVERS["quorate"])
MEMBERS = range(1, 6)
PORTS = {"2182": 0, "2281": 100, "2888": 200, "8080": 300, "3888": 400}  # what is added to a member's port


def blocks(language, page=PAGE):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def on_this_machine(text, base, member=None):
    """Returns a configuration with the ports of this test: those behind an address are of that member, others of `member`."""
    text = re.sub(r"10\.0\.0\.(\d):(\d+)(?::(\d+))?",
                  lambda found: ":".join([harness.HOST, *(str(base + PORTS[port] + int(found.group(1)))
                                                          for port in found.groups()[1:] if port)]), text)
    if member is not None:
        text = re.sub(r"^(\w+Port)=(\d+)$", lambda found: f"{found.group(1)}={base + PORTS[found.group(2)] + member}", text,
                      flags=re.MULTILINE)
    return text


@contextlib.contextmanager
def servers(directory, base):
    """Runs the five servers."""
    tls = directory / "tls"
    tls.mkdir()
    shutil.copy(directory / "certs/ca.pem", tls)
    shutil.copy(directory / f"certs/{harness.HOST}.pem", tls / "server.pem")
    running = []
    try:
        for member in MEMBERS:
            data, logs = directory / str(member), directory / f"{member}-logs"
            data.mkdir()
            logs.mkdir()
            (data / "myid").write_text(f"{member}\n", encoding="utf-8")
            text = on_this_machine(blocks("properties")[0], base, member)
            for place, here in (("/var/lib/quorate", data), ("/etc/quorate/tls", tls), ("/var/log/quorate", logs)):
                text = text.replace(place, str(here))
            text += f"admin.serverPort={base + PORTS['8080'] + member}\n"
            config = directory / f"{member}.cfg"
            config.write_text(text, encoding="utf-8")
            with open(directory / f"{member}.log", "wb") as log:
                running.append(subprocess.Popen([SERVER, config], stdout=log, stderr=log))
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def back_up(directory, environment):
    """Runs the command of the backup's unit as systemd does."""
    command = re.search(r"^ExecStart=/bin/sh -ec '(.*)'$", blocks("ini", BACKUPS)[0], re.MULTILINE).group(1).replace("%%", "%")
    programs = directory / "programs"
    programs.mkdir()
    (programs / "quorate").symlink_to(os.path.realpath(quorate_cli.PROGRAM))
    (directory / "backups").mkdir()
    return subprocess.run(["/bin/sh", "-ec", command.replace("/var/backups", str(directory / "backups"))],
                          env=dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", **environment),
                          capture_output=True, text=True, timeout=harness.WAIT_SECONDS, check=False)


def curl(directory, base, *arguments):
    return subprocess.run(["curl", "--silent", "--cacert", directory / "certs/ca.pem", *arguments,
                           f"https://{harness.HOST}:{base + 301}/metrics"],
                          capture_output=True, text=True, timeout=harness.WAIT_SECONDS, check=False)


def test_five_members_with_the_configurations_of_the_page_serve_and_admit_nobody_without_a_certificate():
    ports = harness.Reservation(len(MEMBERS))
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name, contextlib.closing(ports.holder):
        directory = pathlib.Path(name)
        for arguments in (("create", "certs", harness.HOST), ("client", "certs", "admin"), ("client", "certs", "monitoring")):
            made = quorate_cli.run("certs", arguments[0], directory / arguments[1], *arguments[2:])
            assert made.returncode == 0, made.stderr
        client = directory / "client.conf"
        client.write_text(on_this_machine(blocks("properties")[1], ports.base).replace("/root/certs", f"{directory}/certs"),
                          encoding="utf-8")
        environment = {"QUORATE_CONFIG": str(client), "QUORATE_SERVER": ""}
        with servers(directory, ports.base):
            def serves():
                return quorate_cli.run("status", environment=environment).returncode == 0
            try:
                harness.wait_for("all five serve", serves, 2 * harness.WAIT_SECONDS)
            except AssertionError as error:
                logs = "\n".join(harness.end_of((directory / f"{member}.log").read_text(), 5) for member in MEMBERS)
                raise AssertionError(f"{error}\n{quorate_cli.run('status', environment=environment).stderr}\n{logs}") from error
            status = quorate_cli.run("status", environment=environment).stdout
            assert len(re.findall(r" (?:leader|follower) +yes ", status)) == len(MEMBERS), status
            monitoring = directory / "certs/client-monitoring.pem"
            with_certificate = curl(directory, ports.base, "--cert", monitoring, "--key", monitoring)
            assert "quorate_" in with_certificate.stdout, with_certificate
            without = curl(directory, ports.base)
            assert without.returncode != 0 and not without.stdout, without
            backup = back_up(directory, environment)
            assert backup.returncode == 0, backup.stderr
            assert [file.name[:10] for file in (directory / "backups").iterdir()] == ["quorate-20"], backup


def test_prometheus_takes_the_configuration_of_the_page():
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        directory = pathlib.Path(name)
        (directory / "prometheus.yml").write_text(blocks("yaml")[0], encoding="utf-8")
        for rules in ("recording.yml", "alerts.yml"):
            shutil.copy(ROOT / "deploy/monitoring" / rules, directory)
        for file in ("ca.pem", "client-monitoring.pem"):
            (directory / file).write_text("", encoding="utf-8")
        checked = subprocess.run(["promtool", "check", "config", "prometheus.yml"], cwd=directory, capture_output=True, text=True,
                                 env=dict(os.environ), check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_rules_for_backups_tell_of_a_failed_one_and_of_a_timer_that_is_off():
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        directory = pathlib.Path(name)
        (directory / "backups.yml").write_text(blocks("yaml", BACKUPS)[0], encoding="utf-8")
        unit = 'node_systemd_unit_state{name="quorate-backup.%s", state="%s"}'
        (directory / "test.yml").write_text(f"""
rule_files: [backups.yml]
tests:
  - interval: 1m
    input_series:
      - {{series: '{unit % ("service", "failed")}', values: "0x9 1x40"}}
      - {{series: '{unit % ("timer", "active")}', values: "1x9 0x40"}}
    alert_rule_test:
      - {{eval_time: 5m, alertname: QuorateBackupFailed, exp_alerts: []}}
      - {{eval_time: 5m, alertname: QuorateBackupNotScheduled, exp_alerts: []}}
      - eval_time: 30m
        alertname: QuorateBackupFailed
        exp_alerts: [{{exp_labels: {{name: quorate-backup.service, state: failed, severity: warning}}}}]
      - {{eval_time: 30m, alertname: QuorateBackupNotScheduled, exp_alerts: [{{exp_labels: {{severity: warning}}}}]}}
""", encoding="utf-8")
        checked = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=directory, capture_output=True, text=True,
                                 check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_alertmanager_takes_the_configuration_of_the_page_and_sends_what_is_critical():
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        configuration = pathlib.Path(name, "alertmanager.yml")
        configuration.write_text(blocks("yaml")[1], encoding="utf-8")
        checked = subprocess.run(["amtool", "check-config", configuration], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        for severity, receiver in (("critical", "operators"), ("warning", "operators"), ("info", "nobody")):
            routed = subprocess.run(["amtool", "config", "routes", "test", f"--config.file={configuration}",
                                     "alertname=QuorateMemberDown", f"severity={severity}"],
                                    capture_output=True, text=True, check=False)
            assert routed.stdout.strip() == receiver, (severity, routed.stdout + routed.stderr)


def test_systemd_takes_the_units_of_the_backup_of_each_night():
    with tempfile.TemporaryDirectory(prefix="quorate-docs-") as name:
        units = [pathlib.Path(name, f"quorate-backup.{kind}") for kind in ("service", "timer")]
        for unit, text in zip(units, blocks("ini", BACKUPS), strict=True):
            unit.write_text(text, encoding="utf-8")
        checked = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
        assert checked.returncode == 0 and not checked.stderr, checked.stderr
