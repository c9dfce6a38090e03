"""Lints and renders the Helm chart, checks its objects by the schemas of Kubernetes, and reads the compose file.

python check.py

No cluster and no container engine runs here: the objects are valid, and the program accepts the configuration that
they give it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/crore"
COMPOSE = ROOT / "deploy/compose"
HELM = os.environ["CRORE_HELM"]
COMPOSE_READER = os.environ["CRORE_COMPOSE"]
CRORE = os.environ["CRORE_SERVER"]
#: The oldest that the chart allows, and a newer one.
VERSIONS = ("1.27", "1.34")
#: Every switch of the chart.
EVERYTHING = {
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate", "annotations": {"a": "b"}},
    "podMonitor": {"enabled": True},
    "antiAffinity": "required",
    "persistence": {"storageClass": "fast"},
    "secretFiles": "crore-secrets",
    "address": "wss://$(CRORE_NODE_NAME).example.com/crore",
    "otherAddresses": ["wss://a.example.com/crore", "wss://b.example.com/crore"],
    "operatorsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
    "image": {"pullSecrets": ["registry"], "tag": "latest"},
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "crore", "operator": "Exists"}],
}
#: Nothing that can be left out.
LITTLE = {
    "replicas": 1,
    "antiAffinity": "none",
    "persistence": {"enabled": False},
    "tickets": {"existingSecret": "keys"},
}


def run(*command: object, ok: bool = True, **options: object) -> str:
    """The output of a command, which must succeed (or, without `ok`, fail)."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **options)
    if (done.returncode == 0) != ok:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Values(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, values: dict[str, object]) -> Path:
        path = self.folder / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return path

    def render(self, values: dict[str, object], version: str = VERSIONS[0]) -> list[dict]:
        file = self.file(values)
        text = run(HELM, "template", "try", CHART, "--kube-version", version, "--values", file)
        return [document for document in yaml.safe_load_all(text) if document]


class Chart(Values):
    def test_the_linter_finds_nothing(self) -> None:
        for values in ({}, EVERYTHING, LITTLE):
            run(HELM, "lint", "--strict", CHART, "--values", self.file(values))

    def test_objects_are_valid(self) -> None:
        for version in VERSIONS:
            for values in ({}, EVERYTHING, LITTLE):
                for document in self.render(values, version):
                    if document["kind"] == "PodMonitor":
                        continue  # not an object of Kubernetes itself
                    kubernetes_validate.validate(document, version, strict=True)

    def test_every_switch_adds_its_object(self) -> None:
        kinds = lambda values: sorted(document["kind"] for document in self.render(values))  # noqa: E731
        bare = ["ConfigMap", "Service", "Service", "StatefulSet"]
        self.assertEqual(kinds(LITTLE), bare)
        self.assertEqual(kinds({}), sorted([*bare, "PodDisruptionBudget", "Secret"]))
        more = ["Ingress", "NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "Secret"]
        self.assertEqual(kinds(EVERYTHING), sorted([*bare, *more]))

    def test_references_lead_to_objects_of_the_chart(self) -> None:
        documents = self.render({})
        names = {(document["kind"], document["metadata"]["name"]) for document in documents}
        (nodes,) = [document for document in documents if document["kind"] == "StatefulSet"]
        pod = nodes["spec"]["template"]["spec"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertIn(("ConfigMap", volumes["config"]["configMap"]["name"]), names)
        self.assertIn(("Secret", volumes["tickets"]["secret"]["secretName"]), names)
        self.assertIn(("Service", nodes["spec"]["serviceName"]), names)
        claims = {claim["metadata"]["name"] for claim in nodes["spec"]["volumeClaimTemplates"]}
        mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        self.assertEqual(mounts, volumes.keys() | claims)
        labels = nodes["spec"]["template"]["metadata"]["labels"].items()
        for document in documents:
            if document["kind"] == "Service":
                self.assertLessEqual(document["spec"]["selector"].items(), labels)

    def test_a_pod_has_time_for_its_drain(self) -> None:
        documents = self.render({"drain": {"delaySeconds": 7, "windowSeconds": 90}})
        (nodes,) = [document for document in documents if document["kind"] == "StatefulSet"]
        pod = nodes["spec"]["template"]["spec"]
        variables = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
        self.assertEqual(variables["CRORE_NODE_DRAIN_DELAY"], "7s")
        self.assertEqual(variables["CRORE_NODE_DRAIN_WINDOW"], "90s")
        self.assertGreater(pod["terminationGracePeriodSeconds"], 7 + 90)

    def test_wrong_values_are_refused(self) -> None:
        for values in ({"replica": 3}, {"replicas": 0}, {"antiAffinity": "always"}, {"otherAddresses": ["http://a"]}):
            run(HELM, "template", "try", CHART, "--kube-version", VERSIONS[0], "--values", self.file(values), ok=False)

    def test_the_program_accepts_the_configuration(self) -> None:
        for values in ({}, EVERYTHING, LITTLE):
            documents = self.render(values)
            secrets = self.folder / "secrets"
            secrets.mkdir(exist_ok=True)
            (secrets / "token-secret").write_text("0123456789abcdef0123456789abcdef\n")
            (secrets / "keys").write_text("ab" * 32 + "\n")
            environment = {}
            for document in documents:
                if document["kind"] == "ConfigMap":
                    text = document["data"]["crore.toml"].replace("/etc/crore/secrets", str(secrets))
                    (self.folder / "crore.toml").write_text(text)
                if document["kind"] == "StatefulSet":
                    (container,) = document["spec"]["template"]["spec"]["containers"]
                    for variable in container["env"]:
                        value = variable.get("value", "pod-0").replace("/etc/crore/tickets", str(secrets))
                        environment[variable["name"]] = value
                    self.assertEqual(container["args"][0], "serve")
            run(CRORE, "config", "check", self.folder / "crore.toml", env=environment)


class Compose(Values):
    def setUp(self) -> None:
        super().setUp()
        self.services = json.loads(run(COMPOSE_READER, COMPOSE / "compose.yaml"))["services"]

    def test_docker_reads_the_file(self) -> None:
        names = [name + str(number) for name in ("kafka", "node") for number in (1, 2, 3)]
        self.assertEqual(sorted(self.services), [*names, "topics"])
        ports = [port["published"] for service in self.services.values() for port in service.get("ports") or []]
        self.assertEqual(len(ports), len(set(ports)))
        for service in self.services.values():
            for name in service.get("depends_on") or {}:
                self.assertIn(name, self.services)

    def test_the_program_accepts_the_configuration(self) -> None:
        (self.folder / "ticket-keys").write_text("ab" * 32 + "\n")
        for number in (1, 2, 3):
            service = self.services[f"node{number}"]
            self.assertEqual(service["command"][0], "serve")
            secret = "/run/secrets"
            environment = {k: v.replace(secret, str(self.folder)) for k, v in service["environment"].items()}
            run(CRORE, "config", "check", COMPOSE / "crore.toml", env=environment)


def main() -> None:
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    )
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
