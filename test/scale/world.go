package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
)

// namespace contains the VMs, and account is the manager's service account.
const (
	namespace = "scale"
	account   = "vm-operator"
)

// world is a Kubernetes without nodes, for measuring a manager.
type world struct {
	*clustertest.Kubernetes
	dir     string // for all created files
	program string // the manager
	log     func(string)
	client  *kubernetes.Clientset
	vms     dynamic.ResourceInterface

	operations dynamic.ResourceInterface
	audit      audit
	kubelet    *kubelet
	crowd      *crowd
	manager    *manager
}

// auditPolicy makes the API server log the manager's requests without their contents.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["system:serviceaccount:` + namespace + ":" + account + `"]
- level: None
`

// controllers lists the controllers that VMs need. Others, such as the volume binder, would only report missing
// objects.
const controllers = "statefulset-controller,garbage-collector-controller,namespace-controller," +
	"serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller"

// newWorld starts a Kubernetes with the objects that the manager needs, and the simulated kubelet. It does not start
// the manager.
func newWorld(ctx context.Context, program string, log func(string)) (w *world, err error) {
	w = &world{program: program, log: log}
	if w.dir, err = os.MkdirTemp("", "scale"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closeWorld(context.WithoutCancel(ctx)))
		}
	}()
	w.Kubernetes, err = clustertest.Up(ctx, cluster.Options{
		Log:         log,
		AuditPolicy: auditPolicy,
		Without:     []string{"kube-scheduler"}, // no nodes to choose from
		Arguments: map[string][]string{
			"kube-apiserver": {"--max-requests-inflight", "2000", "--max-mutating-requests-inflight", "1000"},
			"kube-controller-manager": {
				"--controllers", controllers, "--kube-api-qps", "1000", "--kube-api-burst",
				"2000", "--concurrent-statefulset-syncs", "16",
			},
		},
	})
	if err != nil {
		return nil, err
	}
	w.audit.path = filepath.Join(w.Dir, cluster.AuditLog)
	if _, err := w.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return nil, err
	}
	if err := w.ApplyDeploy(ctx, namespace, w.dir, ""); err != nil {
		return nil, err
	}
	class := filepath.Join(w.dir, "class.yaml")
	if err := os.WriteFile(class, []byte(classText), 0o600); err != nil {
		return nil, err
	}
	if _, err := w.Kubectl(ctx, "apply", "-f", class); err != nil {
		return nil, err
	}
	return w, w.populateWorld(ctx)
}

// className is the class of VMs with a class.
const className = "office"

const classText = `apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineClass
metadata: {name: ` + className + `}
spec:
  cpu: {type: Model, model: Nehalem}
  sizingPolicies:
  - cores: {min: 1, max: 4}
    memory: {min: 1Gi, max: 16Gi, step: 512Mi}
    coreFractions: [10%, 20%, 50%]
    defaultCoreFraction: 20%
  defaults: {firmware: uefi, useTpm: true}
`

// populateWorld starts the simulated kubelet and the watchers of VMs.
func (w *world) populateWorld(ctx context.Context) error {
	var err error
	if w.client, err = kubernetes.NewForConfig(w.Config); err != nil {
		return err
	}
	all, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		return err
	}
	w.vms = all.Resource(v1.GroupVersion().WithResource("vms")).Namespace(namespace)
	w.operations = all.Resource(v1.GroupVersion().WithResource("virtualmachineoperations")).Namespace(namespace)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	w.kubelet = startKubelet(ctx, w.client.CoreV1().Pods(namespace), w.vms)
	w.crowd = watchCrowd(ctx, w.vms)
	return nil
}

// managerConfig writes the manager's configuration, and a kubeconfig with a token of its account.
func (w *world) managerConfig(ctx context.Context) (config, kubeconfig string, err error) {
	token, err := w.Kubectl(ctx, "-n", namespace, "create", "token", account, "--duration", "24h")
	if err != nil {
		return "", "", err
	}
	kubeconfig, config = filepath.Join(w.dir, "manager.kubeconfig"), filepath.Join(w.dir, "config.yaml")
	if err := w.WriteKubeconfig(kubeconfig, token); err != nil {
		return "", "", err
	}
	text := "\"/Manager\":\n  \"/Controller\":\n    namespace: " + namespace +
		"\n    \"/Reconciler\":\n      virtualMachineCIDRs: [10.64.0.0/16]\n      allowedBridges: [br0]\n"
	return config, kubeconfig, os.WriteFile(config, []byte(text), 0o600)
}

// closeWorld ends everything.
func (w *world) closeWorld(ctx context.Context) error {
	var errs []error
	if w.manager != nil {
		errs = append(errs, w.manager.stopManager())
	}
	if w.kubelet != nil {
		w.kubelet.stop()
		w.crowd.stop()
	}
	if w.Kubernetes != nil {
		errs = append(errs, w.Down(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
