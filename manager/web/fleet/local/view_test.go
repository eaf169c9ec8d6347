package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// Shown states, and the possible actions.
func TestStates(t *testing.T) {
	t.Parallel()
	here := &inventory.Place{Folder: "/etc/opt/vmrunner"}
	paused := status.Condition{Type: vmstatus.ConditionReady, Status: vmstatus.False, Message: "the VM is paused"}
	for _, c := range []struct {
		vm    inventory.VM
		state fleet.State
		can   string
	}{
		{inventory.VM{State: vmstatus.StateStopped, Place: here}, fleet.Stopped, "start delete "},
		{inventory.VM{State: vmstatus.StateStopped}, fleet.Stopped, ""},
		{inventory.VM{State: vmstatus.StateStopped, Place: here, Fault: errors.New("x")}, fleet.Failed, "delete "},
		{inventory.VM{State: inventory.StateFailed, Place: here}, fleet.Failed, "start delete "},
		{inventory.VM{State: inventory.StateNoRunner, Place: here}, fleet.Unmanaged, "start "},
		{inventory.VM{State: inventory.StateNoAnswer, Place: here}, fleet.Unmanaged, ""},
		{inventory.VM{State: inventory.StateActive, Place: here}, fleet.Running, "stop "},
		{
			inventory.VM{State: vmstatus.StateStarting, Place: here, Status: &status.Status{}},
			fleet.Starting,
			"stop kill force-restart ",
		},
		{
			inventory.VM{State: vmstatus.StateBooted, Place: here, Status: &status.Status{}},
			fleet.Running,
			"stop kill restart force-restart reset pause ",
		},
		{
			inventory.VM{State: vmstatus.StateBooting, Status: &status.Status{}},
			fleet.Running,
			"stop kill reset pause ",
		},
		{
			inventory.VM{
				State: vmstatus.StateBooted, Place: here,
				Status: &status.Status{Conditions: []status.Condition{paused}},
			}, fleet.Paused, "stop kill restart force-restart reset resume ",
		},
		{
			inventory.VM{State: vmstatus.StateTerminating, Place: here, Status: &status.Status{}},
			fleet.Stopping,
			"kill force-restart ",
		},
	} {
		got := newView(&c.vm)
		require.Equal(t, c.state, got.State, "%+v", c.vm)
		can := ""
		for _, a := range fleet.Actions() {
			if got.Can[a] {
				can += string(a) + " "
			}
		}
		require.Equal(t, c.can, can, "%+v", c.vm)
	}
}

// Everything on a page comes from the configuration or the runner.
func TestFacts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s := status.Status{
		State: vmstatus.StateBooted, VMType: "pc", UUID: "u", Since: at, Started: &at, CPUs: 3, RAM: 5 << 20,
		LoggedInUser: "alice", Consoles: []status.Console{{Kind: status.VNC, Client: "uid 0", Since: at}},
		RestartAwaitingChanges: []status.Change{{
			Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4, DesiredValue: 8,
		}},
		Problems:      []status.Problem{{Path: "vm.currentRam", Message: "no driver"}},
		Configuration: status.Configuration{Error: "line 3"},
		Conditions: []status.Condition{{
			Type: vmstatus.ConditionReady, Status: vmstatus.True,
			LastTransitionTime: at,
		}},
		Guest: &status.Guest{
			OS: &status.OSInfo{ID: "debian", PrettyName: "Debian 12", KernelRelease: "6.1"},
		},
		Addresses: []status.Address{
			{Address: "10.0.0.2", From: status.FromNetwork, Source: status.SourceAgent},
			{
				Address: "127.0.0.1", From: status.FromHost, Source: status.SourceConfiguration,
				Ports: []status.AddressPort{{Protocol: "tcp", Port: 2222, Guest: 22}},
			},
		},
	}
	got := newView(&inventory.VM{
		Name: "web", File: "/f.yaml", State: vmstatus.StateBooted, Status: &s, Place: &inventory.Place{},
		Config: &config.Config{VMType: "standard", VM: vmspec.Spec{
			Name: "web", MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 8 << 20, CurrentRAM: 4 << 20,
			Display:       &vmspec.Display{},
			SerialConsole: &vmspec.SerialConsole{},
			Drives:        []vmspec.Drive{{File: "disk.img"}, {Type: vmspec.DriveIDECD, File: "https://me:pw@x/y.iso"}},
		}},
	})
	require.Equal(t, fleet.Amount{Now: 3, Wanted: 2, Maximum: 4}, got.CPUs)
	require.Equal(t, fleet.Amount{Now: 5 << 20, Wanted: 4 << 20, Maximum: 8 << 20}, got.RAM)
	require.Equal(t, []fleet.Address{
		{Address: "10.0.0.2", From: "Network", Claimed: true},
		{Address: "127.0.0.1", From: "Host", Ports: []fleet.Port{{TCP: true, Port: 2222, Guest: 22}}},
	}, got.Addresses)
	require.Equal(t, "ssh 10.0.0.2", got.SSH)
	require.Equal(t, "pc", got.Type)
	require.Equal(t, []fleet.Drive{{Name: "drive 1", Medium: "https://x/y.iso"}}, got.Drives)
	require.True(t, got.Screen && got.Console)
	require.Equal(t, []fleet.Change{{
		Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4, DesiredValue: 8,
	}}, got.RestartAwaitingChanges)
	require.Equal(t, []fleet.Problem{{Path: "vm.currentRam", Message: "no driver"}, {
		Path:    "/f.yaml",
		Message: "line 3",
	}}, got.Problems)
	require.Equal(t, []fleet.Viewer{{Kind: "vnc", Who: "uid 0", Since: at}}, got.Viewers)
	require.Equal(t, "Debian 12", got.OS)
}

// A definition is shown without secrets.
func TestSecretsAreLeftOut(t *testing.T) {
	t.Parallel()
	text, err := redactSecrets([]byte(`# of the office
"/Runner":
  cloudInit:
    userData: {password: canary}
    metaData:
      key: canary
  vm:
    name: web   # the first
    drives: [{type: ide-cd, file: "https://me:canary@x/y.iso"}]
`))
	require.NoError(t, err)
	require.NotContains(t, text, "canary")
	require.Contains(t, text, "https://…@x/y.iso")
	require.Contains(t, text, "# of the office")
	text, err = redactSecrets([]byte("_Runner:\n  cloudInit:\n    userData: canary\n"))
	require.NoError(t, err)
	require.NotContains(t, text, "canary", "the other spelling of the section")
	_, err = redactSecrets([]byte("a: [canary"))
	require.ErrorAs(t, err, new(fleet.Refusal), "who knows where its secrets are")
	require.NotContains(t, err.Error(), "canary")
}

// This process is shown as a viewer with its user's name.
func TestOwnViewers(t *testing.T) {
	t.Parallel()
	f := Fleet{user: "alice"}
	vm := f.nameViewers(&fleet.VM{Viewers: []fleet.Viewer{
		{Who: fmt.Sprintf("uid 0 pid %d", os.Getpid())}, {Who: fmt.Sprintf("uid 0 pid 1%d", os.Getpid())},
	}})
	require.Equal(t, "alice", vm.Viewers[0].Who)
	require.Contains(t, vm.Viewers[1].Who, "pid")
}

// Errors that users can understand and fix are refusals; others are failures.
func TestErrorsForUsers(t *testing.T) {
	t.Parallel()
	require.NoError(t, asRefusal(nil))
	require.ErrorIs(t, asRefusal(fmt.Errorf("x: %w", inventory.ErrUnknown)), fleet.ErrNotFound)
	require.ErrorIs(t, asRefusal(&control.AnswerError{Code: http.StatusLocked}), fleet.ErrOccupied)
	for _, err := range []error{
		&control.AnswerError{Code: http.StatusConflict, Message: "not now"}, &qmp.Error{Desc: "no"},
		control.ErrNotRunning, inventory.ErrRunning, inventory.ErrChanged, &inventory.StartError{},
		yamlfile.Faults{{Message: "x"}},
	} {
		require.ErrorAs(t, asRefusal(fmt.Errorf("do: %w", err)), new(fleet.Refusal), "%T", err)
	}
	require.False(t, errors.As(asRefusal(errors.New("broken pipe")), new(fleet.Refusal)))
	require.ErrorIs(t, asRefusal(context.Canceled), context.Canceled)
}

// The list contains VMs that are configured or running.
func TestWhichVMsAreListed(t *testing.T) {
	t.Parallel()
	var f Fleet
	f.replaceAll([]inventory.VM{
		{Name: "configured", State: vmstatus.StateStopped, Place: &inventory.Place{}},
		{Name: "left", State: vmstatus.StateStopped},
		{Name: "foreign", State: vmstatus.StateBooted, Status: &status.Status{}},
	})
	require.Len(t, f.List(), 2)
	f.replaceAll([]inventory.VM{{Name: "foreign", State: vmstatus.StateStopped}})
	require.Empty(t, f.List())
}

// A medium stays unchanged if only its hidden password differs. Only drives for removable media have a medium.
func TestMediaThatStay(t *testing.T) {
	t.Parallel()
	var f Fleet // without an inventory: nothing may be written
	f.Put(&fleet.VM{Name: "web", Drives: []fleet.Drive{{Name: "drive 1", Medium: "https://x/y.iso"}}})
	require.NoError(t, f.Insert(t.Context(), "", "web", "drive 1", "https://x/y.iso"))
	require.ErrorAs(t, f.Insert(t.Context(), "", "web", "drive 0", "z.iso"), new(fleet.Refusal))
	require.ErrorIs(t, f.Insert(t.Context(), "", "other", "drive 1", ""), fleet.ErrNotFound)
	text, err := inventory.SetInVM([]byte("_Runner:\n  vm:\n    currentCpus: 1\n"), "2", "currentCpus")
	require.NoError(t, err)
	require.Equal(t, "_Runner:\n  vm:\n    currentCpus: 2\n", string(text))
}
