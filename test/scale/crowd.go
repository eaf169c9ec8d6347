package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// crowd contains the VMs as a user sees them.
type crowd struct {
	vms  dynamic.ResourceInterface
	stop func()
	// classed determines whether new VMs have a class and an address from the manager's ranges.
	classed bool

	mu      sync.Mutex
	up      map[string]time.Time // VMs with a booted guest
	made    int                  // number of created VMs
	changed chan struct{}        // closed when up changes
}

// watchCrowd watches VMs until stop is called.
func watchCrowd(ctx context.Context, vms dynamic.ResourceInterface) *crowd {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &crowd{vms: vms, up: map[string]time.Time{}, changed: make(chan struct{})}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return vms.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return vms.Watch(ctx, o)
			},
		},
		ObjectType: &unstructured.Unstructured{},
		Transform: func(object any) (any, error) { // the state is recorded, and only the name is kept
			if vm, ok := object.(*unstructured.Unstructured); ok {
				c.recordVM(vm)
				small := &unstructured.Unstructured{}
				small.SetName(vm.GetName())
				small.SetNamespace(vm.GetNamespace())
				small.SetResourceVersion(vm.GetResourceVersion())
				return small, nil
			}
			return object, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{},
	})
	var watching sync.WaitGroup
	watching.Go(func() { controller.RunWithContext(ctx) })
	c.stop = func() {
		cancel()
		watching.Wait()
	}
	return c
}

// recordVM stores the state of a VM.
func (c *crowd) recordVM(vm *unstructured.Unstructured) {
	phase, _, _ := unstructured.NestedString(vm.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(vm.Object, "status", "conditions")
	up := phase == string(v1.PhaseRunning) && isTrue(conditions, v1.ConditionBooted)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, was := c.up[vm.GetName()]; up == was {
		return
	}
	if up {
		c.up[vm.GetName()] = time.Now()
	} else {
		delete(c.up, vm.GetName())
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func isTrue(conditions []any, kind string) bool {
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c["status"] == "True"
		}
	}
	return false
}

// awaitRunning waits until all created VMs run.
func (c *crowd) awaitRunning(ctx context.Context) error {
	ctx, cancel := wait.Context(ctx)
	defer cancel()
	for {
		c.mu.Lock()
		up, made, changed := len(c.up), c.made, c.changed
		c.mu.Unlock()
		if up == made {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d VMs run: %w", up, made, context.Cause(ctx))
		}
	}
}

// creators is the number of users that create VMs at the same time.
const creators = 8

// growTo creates VMs until their number is n.
func (c *crowd) growTo(ctx context.Context, n int) error {
	numbers, errs := make(chan int), make(chan error, creators)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range creators {
		go func() {
			var err error
			for i := range numbers {
				if _, err = c.vms.Create(ctx, c.newVM(i), metav1.CreateOptions{}); err != nil {
					cancel()
					break
				}
			}
			errs <- err
		}()
	}
	for i := c.made; i < n && ctx.Err() == nil; i++ {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	var failed error
	for range creators {
		if err := <-errs; err != nil && failed == nil {
			failed = fmt.Errorf("create VMs: %w", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = n
	return failed
}

func vmName(number int) string { return fmt.Sprintf("vm-%05d", number) }

// newVM returns a typical VM: its own disk, a CD, a display, data for cloud-init.
func (c *crowd) newVM(number int) *unstructured.Unstructured {
	vm := newVM(number)
	if c.classed {
		spec := vm.Object["spec"].(map[string]any)
		spec["virtualMachineClassName"] = className
		spec["vm"].(map[string]any)["networks"] = []any{map[string]any{"tap": map[string]any{}}}
	}
	return vm
}

// newVM returns a VM without class and address.
func newVM(number int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": map[string]any{"name": vmName(number), "namespace": namespace},
		"spec": map[string]any{
			"guestShutdownStops": true,
			"cloudInit": map[string]any{"userData": map[string]any{
				"ssh_authorized_keys": []any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample user@example"},
			}},
			"vm": map[string]any{
				"state": "Running", "maximumCpus": int64(4), "currentCpus": int64(2), "maximumRam": "8Gi",
				"currentRam": "4Gi", "accelerator": "tcg",
				"networks": []any{map[string]any{"user": map[string]any{}}},
				"disks": []any{
					map[string]any{"volumeClaimTemplate": map[string]any{
						"metadata": map[string]any{"name": "system"},
						"spec": map[string]any{
							"resources": map[string]any{"requests": map[string]any{"storage": "40Gi"}},
						},
					}},
					map[string]any{"cdrom": map[string]any{"image": "installer.iso"}},
				},
				"display": map[string]any{"spice": map[string]any{"port": int64(5900)}},
			},
		},
	}}
}
