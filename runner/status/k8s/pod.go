package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	"vmop/regular"
)

// DefaultServiceAccount is where the kubelet puts what a pod needs to speak to the
// API server: the files token, ca.crt and namespace.
const DefaultServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Variables of the environment, which come from the downward API, and from the
// kubelet.
const (
	podNameVariable = "POD_NAME"
	podUIDVariable  = "POD_UID"
	hostVariable    = "KUBERNETES_SERVICE_HOST"
	portVariable    = "KUBERNETES_SERVICE_PORT"
)

// A Pod is the one that this runner is in.
type Pod struct {
	// Name and UID of the pod, Namespace that it is in.
	Name, UID, Namespace string
	// VM is the name of the VM that the pod is made for.
	VM string

	server  string // its URL
	account string // folder of the service account
}

// FindPod returns the pod that a process with an environment is in, with what it needs to report;
// nil if it is in none, or in one that was not made for a VM: there the variable
// POD_NAME has no name of the form VM-NUMBER, as pods of a StatefulSet have.
func FindPod(getenv func(string) string, serviceAccount string) (*Pod, error) {
	host, name := getenv(hostVariable), getenv(podNameVariable)
	vm := ownerOf(name)
	if host == "" || vm == "" {
		return nil, nil
	}
	namespace, err := regular.ReadFile(filepath.Join(serviceAccount, "namespace"), largestCredential)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was given no token
	}
	if err != nil {
		return nil, fmt.Errorf("find the pod's namespace: %w", err)
	}
	return &Pod{
		Name: name, UID: getenv(podUIDVariable), Namespace: strings.TrimSpace(string(namespace)), VM: vm,
		server: "https://" + net.JoinHostPort(host, getenv(portVariable)), account: serviceAccount,
	}, nil
}

// ownerOf returns the name of the StatefulSet, which is the VM's, of a pod's name;
// empty if it is not one of a StatefulSet.
func ownerOf(pod string) string {
	at := strings.LastIndexByte(pod, '-')
	if at < 1 || at == len(pod)-1 || strings.Trim(pod[at+1:], "0123456789") != "" {
		return ""
	}
	return pod[:at]
}
