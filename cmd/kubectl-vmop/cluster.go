package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
)

// fieldManager is the owner of the fields that this program writes.
const fieldManager = "kubectl-vmop"

// flags are the flags of all verbs: kubectl's flags for the connection.
type flags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	manager   managerFlags
}

func (f *flags) addTo(root *cobra.Command) {
	f.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	p := root.PersistentFlags()
	p.StringVar(&f.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"kubeconfig `FILE` (default $KUBECONFIG, then ~/.kube/config)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.ShortName = "n"
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&f.overrides, p, names)
	cli.CompleteFile(root, clientcmd.RecommendedConfigPathFlag)
	f.manager.addFlags(root)
}

// cluster is a connection to a namespace of VMs.
type cluster struct {
	config    *rest.Config
	namespace string
	vms       *gentype.ClientWithList[*v1.VirtualMachine, *v1.VirtualMachineList]
	core      *core.CoreV1Client

	operations *gentype.ClientWithList[*v1.VirtualMachineOperation, *v1.VirtualMachineOperationList]
	disks      *gentype.ClientWithList[*v1.VirtualDisk, *v1.VirtualDiskList]
	images     *gentype.ClientWithList[*v1.VirtualImage, *v1.VirtualImageList]

	clusterImages *gentype.ClientWithList[*v1.ClusterVirtualImage, *v1.ClusterVirtualImageList]

	attachments *gentype.ClientWithList[
		*v1.VirtualMachineBlockDeviceAttachment, *v1.VirtualMachineBlockDeviceAttachmentList,
	]
	pools         *gentype.ClientWithList[*v1.VmPool, *v1.VmPoolList]
	vmSnapshots   *gentype.ClientWithList[*v1.VirtualMachineSnapshot, *v1.VirtualMachineSnapshotList]
	diskSnapshots *gentype.ClientWithList[*v1.VirtualDiskSnapshot, *v1.VirtualDiskSnapshotList]
}

// connectTo creates the clients. It does not send requests.
func (f *flags) connectTo(cmd *cobra.Command) (*cluster, error) {
	if err := takeOver(cmd); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster is configured: give --kubeconfig FILE, set KUBECONFIG, or write ~/.kube/config")
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	c := &cluster{config: config}
	if c.namespace, _, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	config.UserAgent = "kubectl-vmop/" + version
	config.QPS = -1
	config.WarningHandlerWithContext = rest.NoWarnings{}
	if c.core, err = core.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("prepare a client: %w", err)
	}
	own := rest.CopyConfig(config)
	group := v1.GroupVersion()
	own.GroupVersion, own.APIPath = &group, "/apis"
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	from := origin{client, runtime.NewParameterCodec(scheme), c.namespace}
	c.vms = clientOf[v1.VirtualMachine, v1.VirtualMachineList](from, "vms")
	c.operations = clientOf[v1.VirtualMachineOperation, v1.VirtualMachineOperationList](
		from, "virtualmachineoperations")
	c.disks = clientOf[v1.VirtualDisk, v1.VirtualDiskList](from, "virtualdisks")
	c.images = clientOf[v1.VirtualImage, v1.VirtualImageList](from, "virtualimages")
	c.clusterImages = clientOf[v1.ClusterVirtualImage, v1.ClusterVirtualImageList](
		origin{from.client, from.codec, ""}, "clustervirtualimages")
	c.attachments = clientOf[v1.VirtualMachineBlockDeviceAttachment, v1.VirtualMachineBlockDeviceAttachmentList](
		from, "virtualmachineblockdeviceattachments")
	c.pools = clientOf[v1.VmPool, v1.VmPoolList](from, "vmpools")
	c.vmSnapshots = clientOf[v1.VirtualMachineSnapshot, v1.VirtualMachineSnapshotList](from, "virtualmachinesnapshots")
	c.diskSnapshots = clientOf[v1.VirtualDiskSnapshot, v1.VirtualDiskSnapshotList](from, "virtualdisksnapshots")
	return c, nil
}

// origin contains the settings that the clients of a namespace share.
type origin struct {
	client    rest.Interface
	codec     runtime.ParameterCodec
	namespace string
}

// clientOf returns the client for a kind of resources.
func clientOf[T, L any, P interface {
	*T
	runtime.Object
	metav1.Object
}, Q interface {
	*L
	runtime.Object
}](from origin, resource string) *gentype.ClientWithList[P, Q] {
	return gentype.NewClientWithList[P, Q](resource, from.client, from.codec, from.namespace,
		func() P { return new(T) }, func() Q { return new(L) })
}

// reviewClient returns the client that asks the API server about the user's permissions.
func (c *cluster) reviewClient() (authorization.SelfSubjectAccessReviewInterface, error) {
	client, err := authorization.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return client.SelfSubjectAccessReviews(), nil
}

// patience limits a question about the user.
const patience = 5 * time.Second

// userName returns the user's name according to the API server, or "" if unknown.
func (c *cluster) userName(ctx context.Context) string {
	client, err := authentication.NewForConfig(c.config)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	question := &authenticationv1.SelfSubjectReview{}
	review, err := client.SelfSubjectReviews().Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return ""
	}
	return review.Status.UserInfo.Username
}

// getVM returns a VM.
func (c *cluster) getVM(ctx context.Context, name string) (*v1.VirtualMachine, error) {
	vm, err := c.vms.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.explainVM(name, err)
	}
	return withKind(vm), nil
}

// withKind sets the kind of a VM, which Go clients omit.
func withKind(vm *v1.VirtualMachine) *v1.VirtualMachine {
	vm.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	return vm
}

// patchVM changes a VM.
func (c *cluster) patchVM(
	ctx context.Context, name string, form types.PatchType, patch []byte,
) (*v1.VirtualMachine, error) {
	vm, err := c.vms.Patch(ctx, name, form, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, c.explainVM(name, err)
	}
	return withKind(vm), nil
}

// explainVM adds a hint for the user to an error about a VM.
func (c *cluster) explainVM(name string, err error) error {
	if !isMissingObject(err) {
		return unknownKind(err)
	}
	return hinted{
		fmt.Errorf("there is no VM %s in namespace %s: %w", name, c.namespace, err),
		"list the VMs of all namespaces with: kubectl vmop get -A",
	}
}

// isMissingObject reports whether an error means that the cluster has the kind but no object of that name.
func isMissingObject(err error) bool {
	return apierrors.IsNotFound(err) && !errors.As(unknownKind(err), new(hinted))
}

// unknownKind adds a hint for the user to the error of a cluster that lacks a kind of this project.
func unknownKind(err error) error {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return err
	}
	if details := status.Status().Details; details != nil && slices.ContainsFunc(details.Causes,
		func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse }) {
		return hinted{err, "the cluster doesn't have VirtualMachines, or not this kind yet: " +
			"docs/reference/kubernetes.md"}
	}
	return err
}

// selectByName selects one object, starting at a version.
func selectByName(name, since string) metav1.ListOptions {
	return metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", name).String(),
		ResourceVersion: since,
	}
}
