package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vmop/internal/readfile"
)

// namespaceFile is the file in a pod with the name of the pod's namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ErrNoNamespace means that the namespace to manage is unknown.
var ErrNoNamespace = errors.New(`no namespace to manage: in a pod it is the pod's, elsewhere set it in the configuration (-c FILE):
  "/Manager":
    "/Controller":
      namespace: vmop-dev`)

// ErrNoServer means that the address of the API server is unknown.
var ErrNoServer = errors.New("no API server: this is not a pod, and there is no kubeconfig; " +
	"name one with --kubeconfig FILE or KUBECONFIG")

// Connection contains the address of the API server and the credentials for it.
type Connection struct {
	// Config is the configuration for clients.
	Config *rest.Config
	// InCluster reports whether the connection comes from the pod's environment.
	InCluster bool
}

// Connect finds the API server in this order:
//
//  1. the kubeconfig, if kubeconfig or context is not "" or $KUBECONFIG is set
//  2. the pod's environment
//  3. the user's kubeconfig
//
// It does not connect yet.
func Connect(kubeconfig, context string) (Connection, error) {
	if kubeconfig == "" && context == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			return Connection{Config: config, InCluster: true}, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return Connection{}, fmt.Errorf("connect from a pod: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return Connection{}, ErrNoServer
	case err != nil:
		return Connection{}, fmt.Errorf("read kubeconfig: %w", err)
	}
	return Connection{Config: config}, nil
}

// namespaceOf returns the configured namespace, or the pod's namespace, which it reads from file.
func namespaceOf(c Config, file string) (string, error) {
	if c.Namespace != "" {
		return c.Namespace, nil
	}
	text, err := readfile.ReadFile(file, 1<<10)
	name := strings.TrimSpace(string(text))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("find the pod's namespace: %w", err)
	case name == "":
		return "", ErrNoNamespace
	}
	return name, nil
}
