package k8s

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	"vmop/internal/readfile"
)

// DefaultServiceAccount is where the kubelet stores what a pod needs to use the API server: the files token,
// ca.crt and namespace.
const DefaultServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Environment variables from the downward API and the kubelet.
const (
	podNameVariable = "POD_NAME"
	podUIDVariable  = "POD_UID"
	hostVariable    = "KUBERNETES_SERVICE_HOST"
	portVariable    = "KUBERNETES_SERVICE_PORT"
)

// A Pod is the pod of this runner.
type Pod struct {
	// Name and UID of the pod, and its Namespace.
	Name, UID, Namespace string
	// VM is the name of the VM that the pod runs.
	VM string

	server  string // its URL
	account string // folder of the service account
}

// FindPod returns the pod of a process with this environment, including what it needs to report. It returns nil
// if the process isn't in a pod, if the pod has no service account token, or if the pod wasn't created for a VM.
// A VM's pod has a POD_NAME of the form VM-NUMBER, like all pods of a StatefulSet.
func FindPod(getenv func(string) string, serviceAccount string) (*Pod, error) {
	host, name := getenv(hostVariable), getenv(podNameVariable)
	vm := statefulSetOf(name)
	if host == "" || vm == "" {
		return nil, nil
	}
	namespace, err := readfile.ReadFile(filepath.Join(serviceAccount, "namespace"), largestCredential)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the pod was given no token
	}
	if err != nil {
		return nil, fmt.Errorf("find the pod's namespace: %w", err)
	}
	return &Pod{
		Name: name, UID: getenv(podUIDVariable), Namespace: strings.TrimSpace(string(namespace)), VM: vm,
		server: "https://" + net.JoinHostPort(host, getenv(portVariable)), account: serviceAccount,
	}, nil
}

// statefulSetOf returns the name of a pod's StatefulSet, which is also the VM's name; empty if the pod doesn't belong
// to a StatefulSet.
func statefulSetOf(pod string) string {
	at := strings.LastIndexByte(pod, '-')
	if at < 1 || at == len(pod)-1 || strings.Trim(pod[at+1:], "0123456789") != "" {
		return ""
	}
	return pod[:at]
}
