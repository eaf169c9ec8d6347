package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
	"vmop/manager/vm/objects"
)

func newExpose(f *flags) *cobra.Command {
	var form string
	var e exposure
	cmd := &cobra.Command{
		Use: "expose NAME --port PORT", Short: "Create a Service for a port of the guest", GroupID: groupChange,
		Long: "Create a Service for a port of the guest. The VM may be stopped. The Service is kept\n" +
			"when the VM is deleted. For a user network the port is added; a masquerade network\n" +
			"forwards all ports. A Service cannot reach a guest on a bridge, which has its own\n" +
			"address.",
		Example: "  kubectl vmop expose web --port 80\n" +
			"  kubectl vmop expose virtualmachine web --name web-ssh --port 27017 --target-port 22 --type NodePort",
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	p := cmd.Flags()
	p.StringVar(&e.name, "name", "", "`NAME` of the Service (default NAME-PORT)")
	p.Int32Var(&e.port, "port", 0, "`PORT` of the Service, 1 to 65535; required")
	p.Int32Var(&e.target, "target-port", 0, "`PORT` of the guest (default --port)")
	p.StringVar(&e.portName, "port-name", "", "`NAME` of the Service's port")
	p.StringVar(&e.protocol, "protocol", string(corev1.ProtocolTCP), "`PROTOCOL` of the port: TCP or UDP")
	p.StringVar(&e.kind, "type", string(corev1.ServiceTypeClusterIP),
		"`TYPE` of the Service: ClusterIP, NodePort or LoadBalancer")
	p.StringVar(&e.clusterIP, "cluster-ip", "",
		"`ADDRESS` of the Service, or None for the pod's address (default any free address)")
	p.StringVar(&e.externalIP, "external-ip", "", "`ADDRESS` outside the cluster that leads to its nodes")
	p.StringVar(&e.family, "ip-family", "",
		"`FAMILIES` of addresses: IPv4, IPv6, or both with the preferred one first, such as IPv4,IPv6")
	p.StringVar(&e.families, "ip-family-policy", "",
		"`POLICY` for the families: SingleStack, PreferDualStack or RequireDualStack")
	p.Int32Var(&e.nodePort, "node-port", 0, "`PORT` of the nodes (default any free port)")
	cli.CompleteFlag(cmd, "protocol", "TCP", "UDP")
	cli.CompleteFlag(cmd, "ip-family", "IPv4", "IPv6", "IPv4,IPv6", "IPv6,IPv4")
	cli.CompleteFlag(cmd, "ip-family-policy", "SingleStack", "PreferDualStack", "RequireDualStack")
	cli.CompleteFlag(cmd, "type", "ClusterIP", "NodePort", "LoadBalancer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if e.port < 1 || e.port > 65535 {
			return cli.UsageError{Err: errors.New("give --port 1 to 65535")}
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		if err := c.leadPort(cmd, vm, e); err != nil {
			return err
		}
		service, err := c.core.Services(c.namespace).Create(cmd.Context(), e.exposedService(vm),
			metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil {
			return fmt.Errorf("expose VM %s: %w", vm.Name, err)
		}
		service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		return printDone(cmd, form, service, "service", service.Name, "exposed")
	}
	return cmd
}

// leadPort makes the pod's port, which a Service leads to, forward to the guest.
func (c *cluster) leadPort(cmd *cobra.Command, vm *v1.VirtualMachine, e exposure) error {
	port := e.exposedService(vm).Spec.Ports[0]
	patch, err := act.Port(vm, port.TargetPort.IntVal, port.Protocol)
	if err != nil {
		return fmt.Errorf("expose VM %s: %w%s", vm.Name, err, bridgeAddress(vm))
	}
	if patch == nil {
		return nil
	}
	_, err = c.patchVM(cmd.Context(), vm.Name, types.JSONPatchType, patch)
	return err
}

// bridgeAddress describes the address that a guest reports for itself on a bridge.
func bridgeAddress(vm *v1.VirtualMachine) string {
	for _, a := range vm.Status.Addresses {
		if a.Source == "Agent" {
			return "; the guest reports the address " + a.Address
		}
	}
	return ""
}

// exposure is a port of a guest that a Service exposes.
type exposure struct {
	name, protocol, kind                              string
	portName, clusterIP, externalIP, family, families string
	port, target, nodePort                            int32
}

func (e exposure) exposedService(vm *v1.VirtualMachine) *corev1.Service {
	if e.target == 0 {
		e.target = e.port
	}
	if e.name == "" {
		e.name = fmt.Sprintf("%s-%d", vm.Name, e.port)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: e.name, Namespace: vm.Namespace},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceType(e.kind), ClusterIP: e.clusterIP,
			Selector: map[string]string{objects.LabelName: objects.AppName, objects.LabelInstance: vm.Name},
			Ports: []corev1.ServicePort{{
				Name: e.portName, Protocol: corev1.Protocol(strings.ToUpper(e.protocol)), Port: e.port,
				TargetPort: intstr.FromInt32(e.target), NodePort: e.nodePort,
			}},
		},
	}
	if e.externalIP != "" {
		service.Spec.ExternalIPs = []string{e.externalIP}
	}
	if e.families != "" {
		service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicy(e.families))
	}
	if e.family != "" {
		for family := range strings.SplitSeq(e.family, ",") {
			service.Spec.IPFamilies = append(service.Spec.IPFamilies, corev1.IPFamily(family))
		}
	}
	return service
}
