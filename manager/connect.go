package manager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vmop/regular"
)

// namespaceFile is where a pod finds the name of its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ErrNoNamespace means that the namespace to manage is not known.
var ErrNoNamespace = errors.New(`no namespace to manage: in a pod it is the pod's, elsewhere set it in the configuration (-c FILE):
  "/Manager":
    "/Controller":
      namespace: vmop-dev`)

// ErrNoServer means that the address of the API server is not known.
var ErrNoServer = errors.New("no API server: this is not a pod, and there is no kubeconfig; " +
	"name one with --kubeconfig FILE or KUBECONFIG")

// Connection is the address of the API server, and the credentials for it.
type Connection struct {
	// Config is for clients.
	Config *rest.Config
	// InCluster: the connection is that of the pod.
	InCluster bool
}

// Connect finds the API server: that of a kubeconfig, if a file or a context of it is
// named or $KUBECONFIG is set; else that of the pod; else that of the user's kubeconfig.
// It doesn't connect yet. Either argument may be "".
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

// namespaceOf returns the namespace to manage: the configured one, or that of the
// pod, as a file of the pod says.
func namespaceOf(c Config, file string) (string, error) {
	if c.Namespace != "" {
		return c.Namespace, nil
	}
	text, err := regular.ReadFile(file, 1<<10)
	name := strings.TrimSpace(string(text))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("find the pod's namespace: %w", err)
	case name == "":
		return "", ErrNoNamespace
	}
	return name, nil
}
