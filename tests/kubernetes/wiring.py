"""What no schema says of our manifests: that a pod is confined, that library, daemon and monitoring fit together, and that
every pod carries the same of ours. Pure: manifests in, faults out as sentences. check.py calls it."""

WATCHED = {"airamp-accel/watched": "true"}
TELEMETRY = "AIRAMP_TELEMETRY_DIR"
SECRET = "airamp-metrics-token"
GPUS = {"nvidia.com/gpu", "amd.com/gpu"}


def of_pod(spec, labels, model, settings):
    """Faults of a pod, beside the pod that the others must be like."""
    if not WATCHED.items() <= labels.items():
        yield "its pods do not have the label by which daemons are found and guarded"
    yield from confined(spec)
    if sorted(ours(spec["initContainers"])) != sorted(ours(model["initContainers"])):
        yield "its init containers are not those of base/job.yaml"
    if sorted(ours(spec["volumes"])) != sorted(ours(model["volumes"])):
        yield "its volumes are not those of base/job.yaml"
    sidecar = named(spec["initContainers"], "airampd")
    job = spec["containers"][0]
    for container in spec["initContainers"] + spec["containers"]:
        yield from mounts(container, spec)
        yield from (f"{name} is no setting" for name in environment(container) if unknown(name, settings))
        if not tagged(container["image"]):
            yield f"{container['name']}: {container['image']} has no tag"
    yield from probes(spec["initContainers"])
    yield from requests(spec["initContainers"])
    yield from sidecar_faults(sidecar)
    yield from job_faults(job, sidecar, spec)


def confined(spec):
    """The profile 'restricted' of Pod Security, and more: no writable root, memory limited."""
    pod = spec.get("securityContext", {})
    if pod.get("runAsNonRoot") is not True or not pod.get("runAsUser"):
        yield "it may run as root"
    if pod.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "it has no seccomp profile"
    if spec.get("automountServiceAccountToken") is not False:
        yield "it is given a token of the cluster"
    if any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "it shares a namespace with its node"
    for volume in spec["volumes"]:
        if not {"emptyDir", "configMap", "secret"} & set(volume):
            yield f"volume {volume['name']} is of a kind that the profile refuses"
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"volume {volume['name']} has no limit"
    for container in spec["initContainers"] + spec["containers"]:
        name, own = container["name"], container.get("securityContext", {})
        if own.get("readOnlyRootFilesystem") is not True:
            yield f"{name} can write to its root"
        if own.get("allowPrivilegeEscalation") is not False or own.get("capabilities") != {"drop": ["ALL"]}:
            yield f"{name} has or can get privileges"
        if own.get("runAsUser", pod.get("runAsUser")) != pod.get("runAsUser"):
            yield f"{name} runs as another user than the rest"
        if "memory" not in container.get("resources", {}).get("limits", {}):
            yield f"{name} has no limit of memory"


def probes(parts):
    """A container of ours that a probe restarts, or finds not ready, counts against the job."""
    for part in parts:
        if part["name"].startswith("airamp") and any(key.endswith("Probe") for key in part):
            yield f"{part['name']} has a probe that can end or hold up the job"


def requests(parts):
    """Of a pod whose containers ask for what they are limited to, all of them, a node can give processors to the job alone."""
    for part in parts:
        asked, limits = (part.get("resources", {}).get(key, {}) for key in ("requests", "limits"))
        if part["name"].startswith("airamp") and not (asked == limits and {"cpu", "memory"} <= set(limits)):
            yield f"{part['name']} asks for less than its limits, and no pod that it is added to is guaranteed"


def sidecar_faults(sidecar):
    variables = environment(sidecar)
    if sidecar.get("restartPolicy") != "Always":
        yield "airampd is no native sidecar"
    if variables.get("AIRAMP_METRICS_ADDR") != "status.podIP":
        yield "airampd does not listen at the pod's address"
    if variables.get("NODE_NAME") != "spec.nodeName":
        yield "airampd would take the pod for the node"
    ports = [str(port["containerPort"]) for port in sidecar["ports"] if port["name"] == "airampd"]
    if ports != [variables.get("AIRAMP_METRICS_PORT")]:
        yield "airampd does not listen at the port that it has"
    held = holder(sidecar, variables.get("AIRAMP_METRICS_TOKEN_FILE", ""))
    if held != "airamp-token":
        yield "the token is not where airampd looks for it"


def job_faults(job, sidecar, spec):
    variables, others = environment(job), environment(sidecar)
    if holder(job, variables.get("LD_PRELOAD", "")) != "airamp":
        yield "the library is not preloaded from where it was copied to"
    volume = holder(job, variables.get(TELEMETRY, "") + "/file")
    if volume is None or volume != holder(sidecar, others.get(TELEMETRY, "") + "/file"):
        yield "job and daemon do not share the telemetry"
    elif named(spec["volumes"], volume)["emptyDir"].get("medium") != "Memory":
        yield "the telemetry is not in memory"
    if holder(job, "/dev/shm/file") is None:
        yield "NCCL has no shared memory of its own"
    if any(mount["name"] == "airamp-token" for mount in job["volumeMounts"]):
        yield "the job can read the daemon's token"
    place = holder(job, variables.get("HF_HOME", "") + "/file")
    if "MODEL" in variables and place in (None, holder(job, "/tmp/file"), holder(job, "/dev/shm/file")):
        yield "the model has no volume of its own"


def of_access(manifest, model):
    """Faults of what lets Prometheus in."""
    sidecar = named(model["spec"]["initContainers"], "airampd")
    port = int(environment(sidecar).get("AIRAMP_METRICS_PORT", 0))
    token = named(model["spec"]["volumes"], "airamp-token")["secret"]["secretName"]
    kind, spec = manifest["kind"], manifest.get("spec", {})
    for endpoint in spec.get("podMetricsEndpoints", []) + spec.get("endpoints", []):
        if endpoint["port"] != "airampd" or endpoint["authorization"]["credentials"]["name"] != token:
            yield "it asks at another port, or with another token"
    if kind == "PodMonitor" and spec["selector"]["matchLabels"] != WATCHED:
        yield "it does not find the pods"
    if kind == "NetworkPolicy" and manifest["metadata"]["name"] == "airamp-watched":
        opened = [one["port"] for rule in spec["ingress"] for one in rule.get("ports", [])]
        if spec["podSelector"]["matchLabels"] != WATCHED or opened != [port]:
            yield "it guards other pods, or opens other ports, than the daemon's"
    if kind == "Service" and spec["selector"] == WATCHED and spec["ports"][0]["targetPort"] != port:
        yield "it leads to another port than the daemon's"


def of_overlay(group, pods):
    if any(manifest["kind"] in ("ConfigMap", "NetworkPolicy") for manifest in group):
        yield "with the job it would put the namespace's settings back"
    for manifest in group:
        for pod in pods(manifest):
            if len(GPUS & set(pod["spec"]["containers"][0]["resources"]["limits"])) != 1:
                yield "the job asks for no GPU"


def ours(parts):
    """What is named after us, without the image's tag, in a form that can be compared."""
    kept = [{**part, "image": part.get("image", "").partition(":")[0]} for part in parts]
    return [repr(sorted(part.items())) for part in kept if part["name"].startswith("airamp")]


def named(parts, name):
    return next((part for part in parts if part["name"] == name), {"ports": [], "volumeMounts": []})


def environment(container):
    """Variables; one that is a fact of the pod has the fact's name as its value."""
    entries = container.get("env", [])
    return {one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in entries}


def holder(container, path):
    """The volume in which the container sees a path."""
    inside = [one for one in container["volumeMounts"] if path.startswith(one["mountPath"] + "/")]
    return inside[0]["name"] if inside else None


def mounts(container, spec):
    known = {volume["name"] for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        if mount["name"] not in known:
            yield f"{container['name']} mounts {mount['name']}, which is no volume"


def unknown(name, settings):
    return name.startswith("AIRAMP_") and name not in settings


def tagged(image):
    # The base leaves the job's image to the overlays.
    return image == "trainer" or ":" in image
