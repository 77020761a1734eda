#!/bin/sh
# What an agent needs of its site's Kubernetes to repeat replicated writes in the names of their callers.
#
# Run it once per site as an administrator of that cluster, with kubectl's current context, or paste it piece by
# piece. It leaves the file kubernetes.token; name it in the site's configuration:
#
#     [services.kubernetes]
#     credential = "kubernetes.token"
set -eu

namespace=${CHEOPS_NAMESPACE:-cheops}

# Who the agent is.
kubectl create namespace "$namespace" --dry-run=client --output yaml | kubectl apply -f -
kubectl create serviceaccount agent --namespace "$namespace" --dry-run=client --output yaml | kubectl apply -f -

# What it may do: ask who a token belongs to, and speak in the name of users and groups. Nothing in its own name.
# The API server then applies the rights of the caller in whose name it speaks, as if that caller had come itself.
# Whoever has the agent's token can speak for everybody: to bound it, add `resourceNames` with the users and groups
# that use replication. For service accounts as callers add `serviceaccounts` to the resources, and name them in
# `vouch` of the configuration.
kubectl apply -f - <<EOF
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: $namespace-agent
rules:
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [""]
  resources: [users, groups]
  verbs: [impersonate]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: $namespace-agent
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: $namespace-agent
subjects:
- kind: ServiceAccount
  name: agent
  namespace: $namespace
---
# A token that lasts until this secret is deleted.
apiVersion: v1
kind: Secret
metadata:
  name: agent-token
  namespace: $namespace
  annotations:
    kubernetes.io/service-account.name: agent
type: kubernetes.io/service-account-token
EOF

# The token appears a moment after its secret.
umask 077
until kubectl get secret agent-token --namespace "$namespace" --output 'jsonpath={.data.token}' |
    base64 --decode >kubernetes.token && [ -s kubernetes.token ]; do
    sleep 1
done
echo "kubernetes.token is written: name it as \`credential\` in [services.kubernetes]"
