package controller

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// snapshotOf returns what is known about a VM, or nil if the VM doesn't exist.
func (c *reconciler) snapshotOf(name string) (*decide.Snapshot, error) {
	vm, err := c.store.VM(name)
	if vm == nil || err != nil {
		return nil, err
	}
	s := &decide.Snapshot{VM: vm, Settings: c.opts.Settings(), Now: c.opts.Now()}
	if err := c.addPods(s); err != nil {
		return nil, err
	}
	if s.ConfigMap, err = c.store.Metadata(objects.KindConfigMap, vm.Name); err != nil {
		return nil, err
	}
	if s.VM, s.Class, err = decide.Resolve(vm, s.Pod, s.ConfigMap, c.store); err != nil {
		return nil, fmt.Errorf("resolve VM %s: %w", name, err)
	}
	vm = s.VM
	for _, get := range []struct {
		kind objects.Kind
		name string
		into **objects.Metadata
	}{
		{objects.KindStatefulSet, vm.Name, &s.StatefulSet},
		{objects.KindService, vm.Name, &s.Service},
		{objects.KindDisruptionBudget, vm.Name, &s.DisruptionBudget},
		{objects.KindConfigMap, objects.TypesConfigMap(vm, s.Settings), &s.Types},
	} {
		if *get.into, err = c.store.Metadata(get.kind, get.name); err != nil {
			return nil, err
		}
	}
	if s.Claims, s.ClaimRecords, err = c.existingClaims(objects.ClaimNames(vm)); err != nil {
		return nil, err
	}
	if from := vm.Spec.DataSource; from != nil {
		s.Source = c.machines.Snapshot(from.Name)
	}
	if s.Secrets, err = c.store.DisplaySecrets(vm.Name); err != nil {
		return nil, err
	}
	for _, of := range objects.DataSecrets(vm) {
		data, err := c.store.DataSecret(of.Type, of.Name)
		if err != nil {
			return nil, err
		}
		s.Data = append(s.Data, data)
	}
	if s.Strays, err = c.store.Strays(vm.Name); err != nil {
		return nil, err
	}
	return s, nil
}

// addPods adds the pods of the VM, and what is known about the guest's node.
func (c *reconciler) addPods(s *decide.Snapshot) error {
	vm := s.VM
	pod, err := c.store.PodAt(vm.Name, vm.Status.PodOrdinal)
	if err != nil {
		return err
	}
	if pod != nil {
		s.Pod = decide.WithoutNode(pod, s.Now)
	}
	if pod != nil && vm.Spec.EvictionStrategy != "" {
		s.Drained = c.store.Drained(pod.Spec.NodeName)
	}
	s.Other, err = c.store.PodAt(vm.Name, objects.OtherOrdinal(vm))
	return err
}

// existingClaims returns the existing claims with the given names, and their records.
func (c *reconciler) existingClaims(names []string) (
	existing map[string]metav1.ObjectMeta, records map[string]*objects.Metadata, err error,
) {
	existing, records = map[string]metav1.ObjectMeta{}, map[string]*objects.Metadata{}
	for _, name := range names {
		claim, err := c.store.Metadata(objects.KindClaim, name)
		if err != nil {
			return nil, nil, err
		}
		if claim == nil {
			continue
		}
		existing[name] = claim.ObjectMeta
		record, err := c.store.Metadata(objects.KindConfigMap, objects.ClaimRecordName(name))
		if err != nil {
			return nil, nil, err
		}
		if record != nil {
			records[name] = record
		}
	}
	return existing, records, nil
}
