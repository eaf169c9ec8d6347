package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
)

// A clone's definition keeps every part that two VMs may have in common.
func TestACloneKeepsWhatTwoVMsCanHave(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"DHCP": `{"cloudInit": {"networkConfig": {"version": 2, "ethernets": {"eth0": {"dhcp4": true,
			"nameservers": {"addresses": ["192.0.2.53"]}}}}}, "vm": {"maximumCpus": 1}}`,
		"ports of the pod":      `{"vm": {"networks": [{"user": {"ports": [{"port": 22}]}}, {"masquerade": {}}]}}`,
		"labels of the service": `{"loadBalancerService": {"labels": {"a": "b"}}, "vm": {}}`,
		"an image":              `{"blockDeviceRefs": [{"kind": "VirtualImage", "name": "debian"}], "vm": {}}`,
	} {
		from := &v1.VirtualMachineSnapshot{}
		from.Status.Definition = &v1.VirtualMachineDefinition{Spec: runtime.RawExtension{Raw: []byte(spec)}}
		var want v1.VirtualMachineSpec
		require.NoError(t, json.Unmarshal([]byte(spec), &want), name)
		p, err := planClone(from, "copy", "8c1d3f0e-5a0f-4c4e-9d3a-6f1b0c7a9e21", false, nil)
		require.NoError(t, err, name)
		require.Empty(t, p.notes, name)
		want.DataSource, want.VM.State, want.VM.MachineUUID = p.vm.Spec.DataSource, v1.Stopped, p.vm.Spec.VM.MachineUUID
		require.Equal(t, want, p.vm.Spec, name)
	}
}

func TestAddressesInNetworkConfigurations(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]bool{
		`{"ethernets": {"a": {"addresses": ["192.0.2.7/24"]}}}`:                                             true,
		`{"ethernets": {"a": {"match": {"macaddress": "02:00:00:00:00:01"}}}}`:                              true,
		`{"config": [{"type": "physical", "subnets": [{"type": "static", "address": "192.0.2.7"}]}]}`:       true,
		`{"config": [{"type": "physical", "mac_address": "02:00:00:00:00:01"}]}`:                            true,
		`{"config": [{"type": "physical", "name": "eth0", "subnets": [{"type": "dhcp"}]}]}`:                 false,
		`{"ethernets": {"a": {"dhcp4": true, "nameservers": {"addresses": ["192.0.2.53"]}}}, "version": 2}`: false,
	} {
		p := &clonePlan{vm: &v1.VirtualMachine{}}
		p.vm.Spec.CloudInit = &v1.CloudInit{NetworkConfig: &runtime.RawExtension{Raw: []byte(config)}}
		require.NoError(t, p.clearCloudInit(), config)
		require.Equal(t, want, p.vm.Spec.CloudInit.NetworkConfig == nil, config)
		require.Equal(t, want, len(p.notes) == 1, config)
	}
}
