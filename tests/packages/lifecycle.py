# SPDX-License-Identifier: Apache-2.0
"""The life of the packages on one machine, from their making to their purge. The tests depend on each other, in their
order."""

import filecmp
import glob
import gzip
import os
import re
import shutil
import subprocess
import threading

import guide
import harness
import root as roots

PACKAGE = os.path.join(harness.ROOT, "deploy/package")
UPGRADED = "99.0"
GRPC = "localhost:2281"
CLOCK_LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


class Machine:
    """The packages, and the root that they are installed in."""

    def __init__(self, directory, cache):
        self.directory = directory
        self.root = roots.Root(directory)
        # The minimal Debian, as it is before packages are installed.
        self.archive = cache or os.path.join(directory, "root.tar")
        self._packages = []
        self._has_root = False

    @property
    def packages(self):
        """The paths of the packages, which are made once."""
        self._packages = self._packages or self.build("first")
        return self._packages

    def elsewhere(self, command):
        """Returns a command and its environment that see another machine: with another name, time zone, mask and place of
        temporary files, whose file system lists a directory in another order."""
        temporary = os.path.join(self.directory, "elsewhere")
        if not os.path.exists(temporary):
            os.mkdir(temporary)
            self.root.check_call(["mount", "-t", "tmpfs", "tmpfs", temporary])
        return (["unshare", "--uts", "sh", "-c", 'hostname elsewhere && umask 077 && exec "$@"', "sh", *command],
                dict(os.environ, TMPDIR=temporary, TZ="Pacific/Kiritimati"))

    def build(self, name, *options, elsewhere=False):
        """Runs deploy/package. Returns the paths of the packages. elsewhere: on another machine, on another day."""
        output = os.path.join(self.directory, name)
        command, environment = [PACKAGE, "--no-build", "--output", output, *options], os.environ
        if elsewhere:
            command, environment = self.elsewhere(command)
            assert os.path.exists(CLOCK_LIBRARY), "libfaketime is not installed (deploy/install_packages)"
            environment.update(LD_PRELOAD=CLOCK_LIBRARY, FAKETIME="+400d")
        result = subprocess.run(command, capture_output=True, text=True, check=False,
                                env=dict(environment, DEB_BUILD_OPTIONS="noautodbgsym"))
        assert result.returncode == 0, result.stdout + result.stderr
        files = sorted(glob.glob(output + "/*"))
        assert sorted(result.stdout.split()) == files, (result.stdout, files)
        return files

    def package(self, name, packages=None):
        """Returns the path of a package of this name."""
        return next(path for path in packages or self.packages if os.path.basename(path).startswith(name + "_"))

    def require_root(self):
        """Makes the root, if there is none yet."""
        if not self._has_root:
            self.root.make(self.archive)
            self.root.run("apt-get", "--quiet", "update", outside=True)
            self._has_root = True

    def install(self, *names, packages=None):
        """Installs packages with what they depend on."""
        self.require_root()
        files = [self.root.add(self.package(name, packages)) for name in names]
        return self.root.run("apt-get", "--yes", "--quiet", "--no-install-recommends", "install", *files, outside=True,
                             seconds=300)

    def shell(self, *words, **options):
        return self.root.run("quorate", "--server", GRPC, "shell", "--", *words, **options)

    def mode(self, path):
        """Returns mode, owner and group: "700 quorate:quorate"."""
        return self.root.output("stat", "-c", "%a %U:%G", path)

    def state(self, name):
        """Returns the state of a package, such as "ii"; "" if it is unknown."""
        return self.root.output("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name, check=False)


def the_same_programs_give_the_same_packages(machine):
    names = [os.path.basename(path) for path in machine.packages]
    assert [re.match("[^_]*", name).group() for name in names] == [
        "libquorate-client-dev", "libquorate-client0", "quorate-server", "quorate-tools", "quorate-zookeeper-compat"], names
    again = machine.build("again", elsewhere=True)
    _, differing, missing = filecmp.cmpfiles(*[os.path.join(machine.directory, name) for name in ("first", "again")],
                                             names, shallow=False)
    assert not differing and not missing and len(again) == len(names), (differing, missing)


def lintian_finds_nothing_wrong(machine):
    result = subprocess.run(["lintian", "--profile", "debian", "--allow-root", "--fail-on", "error,warning", *machine.packages],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def the_packages_install(machine):
    """By the command of the guide, in the directory of a clone."""
    machine.require_root()
    root = machine.root
    (command,) = [line for line in guide.block("# Install Quorate") if line.startswith("apt-get install ")]
    assert command in guide.block("## How do I install it?", "README.md"), "README.md has another command"
    os.makedirs(root.file("/srv/clone/dist"))
    for path in machine.packages:
        shutil.copy(path, root.file("/srv/clone/dist"))
    with open(root.file("/etc/apt/apt.conf.d/99-answers"), "w", encoding="utf-8") as file:
        file.write('APT::Get::Assume-Yes "true";\n')
    root.run("sh", "-c", f"cd /srv/clone && {command}", outside=True, seconds=300)
    shutil.rmtree(root.file("/srv/clone"))
    assert machine.state("quorate-server") == "ii" and machine.state("quorate-tools") == "ii"
    assert root.output("dpkg", "--verify", "quorate-server", "quorate-tools") == ""
    assert root.output("id", "-gn", "quorate") == "quorate"
    assert "/var/lib/quorate:" in root.output("getent", "passwd", "quorate")
    assert root.output("getent", "shadow", "quorate").split(":")[1].startswith("!"), "the user is not locked"
    for path, mode in (("/etc/quorate", "755 root:root"), ("/etc/quorate/zoo.cfg", "640 root:quorate"),
                       ("/var/lib/quorate", "700 quorate:quorate"), ("/var/log/quorate", "750 quorate:adm"),
                       ("/usr/sbin/quorated", "755 root:root"), ("/usr/bin/quorate", "755 root:root")):
        assert machine.mode(path) == mode, f"{path}: {machine.mode(path)}"
    assert root.output("dpkg-query", "-W", "-f", "${Conffiles}", "quorate-server").split()[0] == "/etc/quorate/zoo.cfg"
    assert root.output("quorated", "--version").startswith("quorated ")


def systemd_understands_the_unit(machine):
    def verify():
        return subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"--root={machine.root}",
                               "quorate.service"], capture_output=True, text=True, check=False)

    result = verify()
    assert (result.returncode, result.stdout + result.stderr) == (0, ""), result.stdout + result.stderr
    override = machine.root.file("/etc/systemd/system/quorate.service.d/wrong.conf")
    os.makedirs(os.path.dirname(override))
    with open(override, "w", encoding="utf-8") as file:
        file.write("[Service]\nRestartSecs=2\n")
    assert "RestartSecs" in verify().stderr, "a mistake is not noticed"
    os.unlink(override)


def maintainer_scripts_can_run_twice(machine):
    root = machine.root
    root.run("chmod", "0750", "/var/lib/quorate")
    for _ in range(2):
        root.run("/var/lib/dpkg/info/quorate-server.postinst", "configure", "0.1.0")
    assert machine.mode("/var/lib/quorate") == "750 quorate:quorate", "the administrator's mode was changed"
    root.run("chmod", "0700", "/var/lib/quorate")


def the_directory_of_logs_comes_back_when_the_machine_starts(machine):
    root = machine.root

    def make():
        roots.Root.check_call(["systemd-tmpfiles", f"--root={root.path}", "--create", "quorate-server.conf"])

    root.run("rmdir", "/var/log/quorate")
    make()
    assert machine.mode("/var/log/quorate") == "750 quorate:adm", machine.mode("/var/log/quorate")
    root.run("chmod", "0755", "/var/log/quorate")
    make()
    assert machine.mode("/var/log/quorate") == "755 quorate:adm", "the administrator's mode was changed"
    root.run("chmod", "0750", "/var/log/quorate")


def sasl_finds_its_plug_ins(machine):
    """By a section with a key of Kerberos that is not there, which is looked at after the plug-in, and one with a user."""
    root = machine.root
    for name, module, wanted in (
            ("kerberos", 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/no/keys" '
                         'principal="zookeeper/h@R"', "the keytab /no/keys cannot be used"),
            ("passwords", 'org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="x"',
             "clients can authenticate by SASL")):
        with open(root.file(f"/tmp/{name}.jaas"), "w", encoding="utf-8") as file:
            file.write(f"Server {{ {module}; }};\n")
        with open(root.file(f"/tmp/{name}.cfg"), "w", encoding="utf-8") as file:
            file.write(f"dataDir=/tmp/{name}\njaasFile=/tmp/{name}.jaas\nadmin.enableServer=false\n"
                       "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
                       # The server of the second section ends when SASL is set up: this is no address of any machine.
                       "clientPort=2181\nclientPortAddress=192.0.2.1\n")
        result = root.run("quorated", f"/tmp/{name}.cfg", check=False)
        assert result.returncode != 0 and wanted in result.stdout + result.stderr, result.stdout + result.stderr


def the_server_serves_by_the_command_of_its_unit(machine):
    with roots.Service(machine.root) as service:
        service.await_report("STATUS=serving alone")
        service.await_report("WATCHDOG=1")
        for command, output in (guide.session("# Install Quorate"), guide.printed("## How do I install it?", "README.md")):
            assert machine.root.run("sh", "-c", command).stdout == output, command
            machine.shell("delete", "/hello")
        assert machine.shell("create", "/installed", "yes").stdout == "Created /installed\n"
        assert machine.shell("get", "/installed").stdout == "yes\n"
        status = machine.root.output("quorate", "--server", GRPC, "status")
        assert "standalone" in status or "leader" in status, status
        assert machine.mode("/var/lib/quorate/checkpoints") == "700 quorate:quorate"
        assert service.stop() == 0
        service.await_report("STOPPING=1")


def manual_pages_have_the_help_texts(machine):
    def page(section, name):
        with gzip.open(machine.root.file(f"/usr/share/man/man{section}/{name}.{section}.gz"), "rt", encoding="utf-8") as file:
            return file.read().replace("\\-", "-")

    names = machine.root.output("quorate", "completion", "words", "quorate ").split()
    assert len(names) > 20, names
    for name in names:
        if name != "help":
            assert name in page(1, f"quorate-{name}"), name
    options = re.findall(r"^ +(--[a-z-]+)", machine.root.output("quorate", "help", "backup"), re.MULTILINE)
    assert options and not [option for option in options if option not in page(1, "quorate-backup")], options
    assert "quorated" in page(8, "quorated") and "status" in page(1, "quorate")


def completions_are_installed(machine):
    script = "source /usr/share/bash-completion/completions/quorate; COMP_LINE='quorate sta' COMP_POINT=11 " \
             "COMP_WORDS=(quorate sta) COMP_CWORD=1; _quorate; echo ${COMPREPLY[@]}"
    assert machine.root.output("bash", "-c", script) == "status"
    assert "compdef" in machine.root.output("cat", "/usr/share/zsh/vendor-completions/_quorate")
    assert "complete" in machine.root.output("cat", "/usr/share/fish/vendor_completions.d/quorate.fish")


class Writer(threading.Thread):
    """Creates znodes one after the other, and keeps the paths of those that were acknowledged."""

    def __init__(self, machine):
        super().__init__(daemon=True)
        self.machine, self.paths, self.ending = machine, [], threading.Event()
        self.first = threading.Event()

    def run(self):
        while not self.ending.is_set():
            path = f"/load-{len(self.paths):05}"
            result = self.machine.shell("create", path, check=False)
            if result.returncode == 0 or "already exists" in result.stdout + result.stderr:
                self.paths.append(path)
                self.first.set()

    def end(self):
        self.ending.set()
        self.join()
        return self.paths


def an_upgrade_under_load_keeps_the_data(machine):
    root = machine.root
    with open(root.file("/etc/quorate/zoo.cfg"), "a", encoding="utf-8") as file:
        file.write("# changed by the administrator\n")
    packages = machine.build("higher", "--version", UPGRADED)
    with roots.Service(root) as service:
        writer = Writer(machine)
        writer.start()
        assert writer.first.wait(harness.WAIT_SECONDS), "nothing was written"
        machine.install("quorate-server", "quorate-tools", packages=packages)
        # As the maintainer script does where systemd runs.
        before = len(writer.paths)
        assert service.stop() == 0
    with roots.Service(root):
        paths = writer.end()
        listed = machine.shell("ls", "/").stdout
        lost = [path for path in paths if path[1:] not in listed]
        assert not lost and len(paths) >= before > 0, lost
        assert machine.shell("get", "/installed").stdout == "yes\n"
    assert root.output("dpkg-query", "-W", "-f", "${Version}", "quorate-server") == UPGRADED
    assert "changed by the administrator" in root.output("cat", "/etc/quorate/zoo.cfg")
    assert machine.mode("/etc/quorate/zoo.cfg") == "640 root:quorate"
    return f"{len(paths)} writes"


def removal_keeps_data_and_configuration_and_purge_removes_them(machine):
    root = machine.root
    root.run("dpkg", "--remove", "quorate-tools", "quorate-server")
    for path in ("/var/lib/quorate/checkpoints", "/etc/quorate/zoo.cfg"):
        assert os.path.exists(root.file(path)), f"removal took {path}"
    assert not os.path.exists(root.file("/usr/sbin/quorated"))
    machine.install("quorate-server", "quorate-tools")
    with roots.Service(root):
        assert machine.shell("get", "/installed").stdout == "yes\n"
    root.run("dpkg", "--purge", "quorate-tools", "quorate-server")
    for path in ("/var/lib/quorate", "/var/log/quorate", "/etc/quorate"):
        assert not os.path.exists(root.file(path)), f"purge left {path}"
    assert root.output("id", "-un", "quorate") == "quorate", "another user could get the number of this one"
    assert machine.state("quorate-server") in ("", "un")
    machine.install("quorate-server")
    assert machine.mode("/var/lib/quorate") == "700 quorate:quorate"


TESTS = (the_same_programs_give_the_same_packages, lintian_finds_nothing_wrong, the_packages_install, sasl_finds_its_plug_ins,
         systemd_understands_the_unit, maintainer_scripts_can_run_twice,
         the_directory_of_logs_comes_back_when_the_machine_starts, the_server_serves_by_the_command_of_its_unit,
         manual_pages_have_the_help_texts, completions_are_installed, an_upgrade_under_load_keeps_the_data,
         removal_keeps_data_and_configuration_and_purge_removes_them)
