"""Schemas of the custom resources in deploy/kubernetes, which name the fields that we use and refuse all others. They
are ours, not the operators' own: they catch a slip, and what they allow was looked up in the operators' documentation. Pod
templates inside are left to check.py, which takes them for pods."""


def fields(required, optional=None):
    optional = optional or {}
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": sorted(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 1}
TEXTS = {"type": "object", "additionalProperties": TEXT}
POD = fields({"metadata": fields({"labels": TEXTS}, {"annotations": TEXTS}), "spec": {"type": "object"}})
SELECTOR = fields({"matchLabels": TEXTS})


def resource(group, kind, spec):
    metadata = fields({"name": TEXT}, {"labels": TEXTS})
    return fields({"apiVersion": {"const": group}, "kind": {"const": kind}, "metadata": metadata, "spec": spec})


RELABELING = fields({"action": {"enum": ["replace"]}, "targetLabel": TEXT, "replacement": TEXT})
SECRET_KEY = fields({"name": TEXT, "key": TEXT})
ENDPOINT = fields(
    {
        "port": TEXT,
        "path": {"type": "string", "pattern": "^/"},
        "interval": {"type": "string", "pattern": "^[0-9]+s$"},
        "authorization": fields({"type": {"const": "Bearer"}, "credentials": SECRET_KEY}),
        "relabelings": {"type": "array", "items": RELABELING},
    }
)


def monitor(endpoints):
    return fields({"selector": SELECTOR, endpoints: {"type": "array", "items": ENDPOINT, "minItems": 1}})


REPLICAS = fields(
    {
        "replicas": COUNT,
        "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
        "template": POD,
    }
)
PYTORCH = fields({"nprocPerNode": TEXT, "pytorchReplicaSpecs": fields({"Worker": REPLICAS}, {"Master": REPLICAS})})
GROUP = fields(
    {
        "size": COUNT,
        "restartPolicy": {"enum": ["RecreateGroupOnPodRestart", "None"]},
        "leaderTemplate": POD,
        "workerTemplate": POD,
    }
)

SCHEMAS = {
    "PodMonitor": resource("monitoring.coreos.com/v1", "PodMonitor", monitor("podMetricsEndpoints")),
    "ServiceMonitor": resource("monitoring.coreos.com/v1", "ServiceMonitor", monitor("endpoints")),
    "PyTorchJob": resource("kubeflow.org/v1", "PyTorchJob", PYTORCH),
    "LeaderWorkerSet": resource(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        fields({"replicas": COUNT, "leaderWorkerTemplate": GROUP}),
    ),
}
