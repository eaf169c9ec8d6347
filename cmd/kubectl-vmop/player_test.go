package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/test/cluster/clustertest"
)

// operates decides about the operations in a namespace as a manager does, until the test ends. It creates no pods: the
// script sets the statuses of VMs.
func operates(t *testing.T, k *clustertest.Kubernetes, namespace string) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, v1.AddToScheme(scheme))
	c, err := client.New(k.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = decideAll(ctx, c, namespace) // it is retried
			<-time.After(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func decideAll(ctx context.Context, c client.Client, namespace string) error {
	var list v1.VirtualMachineOperationList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	of := map[string][]*v1.VirtualMachineOperation{}
	for i := range list.Items {
		o := &list.Items[i]
		of[o.Spec.VirtualMachineName] = append(of[o.Spec.VirtualMachineName], o)
	}
	for name, ops := range of {
		vm := &v1.VirtualMachine{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, vm); err != nil {
			return err
		}
		s := operation.Situation{
			VM: vm, Operations: ops, Now: time.Now(), Retention: operation.Retention{Most: 10, For: time.Hour},
			Seen: func(types.UID) time.Time { return time.Now() },
		}
		plan := operation.Decide(s)
		for _, o := range plan.Write {
			if err := writeStatus(ctx, c, o); err != nil {
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
			if err := c.Patch(ctx, vm, client.RawPatch(signal.PatchType, signal.Patch)); err != nil {
				return err
			}
		}
		if err := writeStatus(ctx, c, s.SentNow(plan.Send, vm.Generation)); err != nil {
			return err
		}
	}
	return nil
}

func writeStatus(ctx context.Context, c client.Client, o *v1.VirtualMachineOperation) error {
	text, err := json.Marshal(map[string]any{"status": o.Status})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, o.DeepCopy(), client.RawPatch(types.MergePatchType, text))
}
