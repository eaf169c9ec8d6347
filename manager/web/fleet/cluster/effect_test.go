package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// The page's forecast for an edit matches the rules of the running plan, with paths of the resource. Fields outside the
// machine take effect immediately, except fields of the pod.
func TestWhatIsLive(t *testing.T) {
	t.Parallel()
	wanted := vmspec.Spec{
		CurrentCPUs: 4, CurrentRAM: vmspec.GiB,
		Drives:  []vmspec.Drive{{}, {Type: vmspec.DriveIDECD}},
		Network: []vmspec.Network{{Type: vmspec.NetworkTap}, {Type: vmspec.NetworkUser}},
	}
	const storage = "vm.disks[0].volumeClaimTemplate.spec.resources.requests.storage"
	rules := map[string]plan.Rule{
		"vm.currentCpus": plan.CPUs{Maximum: 4}, "vm.currentRam": plan.Balloon{Maximum: 1 << 30},
		"vm.disks[1].cdrom.image": plan.Medium{Drive: 1}, "vm.networks[1].user.ports[0].guest": plan.Ports{Network: 1},
		storage: plan.Disk{Drive: 0},
	}
	for path, rule := range rules {
		require.True(t, liveBy(plan.Rules{rule}, wanted)(path), path)
		require.False(t, liveBy(nil, wanted)(path), "%s without a rule", path)
	}
	for path, live := range map[string]bool{
		"vm.state": true, "vm.powerdownTimeout": true, "vm.display.loggedInUser": true, "vm.maximumRam": false,
		"vm.disks[1].cdrom.bootindex": false, "vm.networks[0].tap.bridge": false, "cloudInit.userData": false,
		"blockDeviceRefs[0].name": false, "permissions[0].may[1]": true, "runPolicy": true, "resetCounter": true,
		"migration.copyDisks": true, "nodeSelector.zone": false, "resources.limits.cpu": false, "vmType.source": false,
	} {
		require.Equal(t, live, liveBy(nil, wanted)(path), path)
	}
}

// The runner's forecast decides about the machine, with paths of the resource, and the rules about claims of disks.
// Fields of the pod need a restart in any case.
func TestWhatIsLiveByTheForecast(t *testing.T) {
	t.Parallel()
	never := func(string) bool { return false }
	live := forecastBy(control.Forecast{Later: []status.Change{
		{Path: "vm.network[1]", Operation: "add"}, {Path: "vm.network[2].mac", Operation: "replace"}, {Path: "vm.uuid"},
	}}, never)
	for path, want := range map[string]bool{
		"vm.networks[0].user": true, "vm.networks[1].tap.bridge": false, "vm.networks[10].user": true,
		"vm.networks[2].tap.mac": false, "vm.machineUuid": false, "vm.currentCpus": true, "vm.state": true,
		"vm.display.secret": false, "vm.disks[0].volumeClaimTemplate.spec.storageClassName": false,
		"blockDeviceRefs[0].name": false,
	} {
		require.Equal(t, want, live(path), path)
	}
	require.False(t, forecastBy(control.Forecast{Fault: "wrong"}, never)("vm.networks[0].user"))
}

// The type determines whether CPUs can be hotplugged: microvm has no rule for it.
func TestWhatIsLiveByTheType(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]bool{"standard": true, "microvm": false} {
		kind, err := vmtypes.Source{}.Library().Load(t.Context(), name)
		require.NoError(t, err)
		wanted := vmspec.Spec{
			Name: "web", UUID: "1b4e28ba-2fa1-4d2b-883f-0016d3cca427", MaximumCPUs: 4, CurrentCPUs: 2,
			Firmware: vmspec.FirmwareBIOS, Network: []vmspec.Network{},
		}.WithDefaults()
		host := vmtypes.Host{
			RuntimeDir: "/run/web", DataDir: "/data", Arch: "x86_64", KVM: true,
			Exists: func(string) bool { return true },
		}
		made, err := kind.Launch(t.Context(), wanted, host)
		require.NoError(t, err)
		require.Equal(t, live, liveBy(made.Rules, wanted)("vm.currentCpus"), name)
	}
}
