// SPDX-License-Identifier: Apache-2.0
// Checks Kubernetes objects, a JSON array on standard input, by the schemas of Kubernetes. Prints a line for each problem.

import { readFileSync } from "node:fs";

const SCHEMAS = {
  "apps/v1/StatefulSet": "IoK8sApiAppsV1StatefulSet",
  "batch/v1/Job": "IoK8sApiBatchV1Job",
  "networking.k8s.io/v1/NetworkPolicy": "IoK8sApiNetworkingV1NetworkPolicy",
  "policy/v1/PodDisruptionBudget": "IoK8sApiPolicyV1PodDisruptionBudget",
  "v1/ConfigMap": "IoK8sApiCoreV1ConfigMap",
  "v1/Secret": "IoK8sApiCoreV1Secret",
  "v1/Service": "IoK8sApiCoreV1Service",
};

for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const kind = `${object.apiVersion}/${object.kind}`;
  if (!SCHEMAS[kind]) {
    console.log(`${kind}: no schema`);
    continue;
  }
  const { validate } = await import(`kubernetes-models/_schemas/${SCHEMAS[kind]}`);
  if (!validate(object)) {
    for (const error of validate.errors) console.log(`${kind}${error.instancePath}: ${JSON.stringify(error)}`);
  }
}
