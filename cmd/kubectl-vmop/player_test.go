package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/test/cluster/clustertest"
)

// operates decides about the operations in a namespace as a manager does, without pods, until the test ends: the
// statuses of VMs are the script's.
func operates(t *testing.T, k *clustertest.Kubernetes, namespace string) {
	t.Helper()
	var f flags
	root := &cobra.Command{}
	f.add(root)
	require.NoError(t, root.ParseFlags([]string{"--kubeconfig", k.Kubeconfig, "-n", namespace}))
	c, err := f.connect(root)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = c.decideAll(ctx) // it is tried again
			<-time.After(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (c *cluster) decideAll(ctx context.Context) error {
	list, err := c.operations.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	of := map[string][]*v1.VirtualMachineOperation{}
	for i := range list.Items {
		o := &list.Items[i]
		of[o.Spec.VirtualMachineName] = append(of[o.Spec.VirtualMachineName], o)
	}
	for name, ops := range of {
		vm, err := c.vms.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := operation.Situation{
			VM: vm, Operations: ops, Now: time.Now(), Retention: operation.Retention{Most: 10, For: time.Hour},
			Seen: func(types.UID) time.Time { return time.Now() },
		}
		plan := operation.Decide(s)
		for _, o := range plan.Write {
			if err := c.writeStatus(ctx, o); err != nil {
				return err
			}
		}
		if plan.Send == nil {
			continue
		}
		signal, err := operation.SignalOf(plan.Send, vm, nil)
		if err != nil {
			return err
		}
		if signal.Patch != nil {
			if vm, err = c.patch(ctx, name, signal.PatchType, signal.Patch); err != nil {
				return err
			}
		}
		if err := c.writeStatus(ctx, s.SentNow(plan.Send, vm.Generation)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) writeStatus(ctx context.Context, o *v1.VirtualMachineOperation) error {
	text, err := json.Marshal(map[string]any{"status": o.Status})
	if err == nil {
		_, err = c.operations.Patch(ctx, o.Name, types.MergePatchType, text, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fmt.Errorf("write the status of %s: %w", o.Name, err)
	}
	return nil
}
