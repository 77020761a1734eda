//! Ordinary commands, as people type them, in an order that leaves nothing behind.

/// Files that the commands read.
pub(super) const FILES: &[(&str, &str)] = &[
    (
        "web.yaml",
        r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
",
    ),
    (
        "web-2.yaml",
        r"apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:2', env: [{name: A, value: b}]}]}
",
    ),
    (
        "colours.json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"colours"},"data":{"sky":"blue","grass":"green"}}"#,
    ),
    (
        "wrong.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n",
    ),
];

pub(super) const COMMANDS: &[&str] = &[
    // What the cluster is.
    "version",
    "cluster-info",
    "api-versions",
    "api-resources",
    "api-resources --namespaced=false -o name",
    "explain deployment.spec.strategy",
    "get --raw /healthz",
    "get namespaces",
    "get namespace default -o yaml",
    "get all --all-namespaces",
    "get clusterroles -o name",
    // One resource through its life, and what goes wrong with it.
    "create configmap settings --from-literal=a=1",
    "create configmap settings --from-literal=a=1",
    "get configmap settings -o yaml",
    "get configmap settings -o jsonpath={.data.a}",
    "label configmap settings tier=front",
    "annotate configmap settings note=hello",
    // While it has one entry: kubectl shows several in any order.
    "describe configmap settings",
    "patch configmap settings --type merge -p '{\"data\":{\"b\":\"2\"}}'",
    "patch configmap settings --type json -p '[{\"op\":\"add\",\"path\":\"/data/c\",\"value\":\"3\"}]'",
    "patch configmap settings --type json -p '[{\"op\":\"remove\",\"path\":\"/data/x\"}]'",
    "get configmaps -l tier=front --show-labels",
    "get configmaps --field-selector metadata.name=settings -o name",
    "get configmap absent",
    "get nonsense",
    "create -f wrong.yaml",
    "create configmap tried --from-literal=a=1 --dry-run=server -o yaml",
    "create secret generic key --from-literal=password=xyzzy",
    "get secret key -o go-template={{.data.password}}",
    // Files.
    "apply -f web.yaml",
    "apply -f web.yaml",
    "diff -f web-2.yaml",
    "apply -f web-2.yaml",
    "apply --server-side -f colours.json",
    "apply --server-side --force-conflicts --field-manager=other -f colours.json",
    "replace -f colours.json",
    "get -f web.yaml -o name",
    // Deployments, services, pods.
    "get deployments,services -o wide",
    "get deployment web -o json",
    "scale deployment web --current-replicas=0 --replicas=0",
    "scale deployment web --current-replicas=7 --replicas=8",
    "set image deployment/web web=nginx:3",
    "rollout history deployment/web",
    "rollout undo deployment/web",
    "expose deployment web --name=web-too --port=8080 --cluster-ip=None",
    "run one --image=nginx --restart=Never",
    "get pod one",
    "get pods -o custom-columns=NAME:.metadata.name,PHASE:.status.phase",
    "describe pod one",
    "logs one",
    "exec one -- true",
    "wait --for=condition=Ready pod/one --timeout=1s",
    // Who may do what.
    "auth can-i create pods",
    "auth can-i delete nodes --as somebody",
    "auth whoami",
    "create serviceaccount robot",
    "create role reader --verb=get --resource=pods",
    "create rolebinding reads --role=reader --serviceaccount=ordinary:robot",
    "auth can-i get pods --as system:serviceaccount:ordinary:robot",
    // All of it away.
    "delete rolebinding/reads role/reader serviceaccount/robot",
    "delete pod one --now",
    "delete service web-too",
    "delete -f web.yaml",
    "delete -f web.yaml --ignore-not-found",
    "delete configmap settings colours",
    "delete secret key",
    "delete configmap settings",
];
