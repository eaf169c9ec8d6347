package inventory

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// played is a VM that consists only of a control socket.
type played struct{}

func (played) Act(context.Context, control.Action, string) error { return nil }
func (played) Run(context.Context, qmp.Command) (json.RawMessage, error) {
	return nil, control.Refusal("it is played")
}
func (played) Plan() *plan.Plan { return nil }
func (played) Dropped() uint64  { return 0 }

// play starts a played VM in a directory below the test's folder.
func (h *here) play(name, dir string) *status.Tracker {
	h.t.Helper()
	dir = filepath.Join(h.dir, dir)
	require.NoError(h.t, os.MkdirAll(dir, 0o700))
	tracker := status.NewTracker(time.Now, status.Described{Name: name}, status.Entered{State: vmstatus.StateBooted})
	server, err := control.Start(h.t.Context(), control.Options{
		Dir: dir, Backend: played{}, Tracker: tracker, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, server.Close(context.WithoutCancel(h.t.Context()))) })
	return tracker
}

func TestListHasAllVMs(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	good := h.write("user/vmrunner/good.yaml", text("good", quick))
	own := h.write("system/vmrunner/own/config.yaml", text("own", quick))
	h.write("user/vmrunner/wrong.yaml", text("wrong", "maximumRm: 1 GiB"))
	h.write("user/vmrunner/broken.yaml", []byte("{"))
	h.write("user/vmrunner/other.yaml", text("another"))
	h.write("user/vmrunner/twice.yaml", text("twice"))
	second := h.write("system/vmrunner/twice.yaml", text("twice"))
	h.write("user/vmrunner/.good.yaml.123", text("half written"))
	h.write("user/vmrunner/display-password", []byte("secret"))
	h.write("user/vmrunner/empty/notes.txt", nil)
	require.NoError(t, os.Symlink("nowhere", filepath.Join(h.dir, "user/vmrunner/dangling.yaml")))
	h.play("good", "run/vmrunner/good")
	h.play("elsewhere", "run/vmrunner/elsewhere")

	vms, err := h.List(t.Context())
	require.NoError(t, err)
	states, byName := map[string]State{}, map[string]VM{}
	for _, vm := range vms {
		states[vm.Name], byName[vm.Name] = vm.State, vm
	}
	require.Equal(t, map[string]State{
		"good": vmstatus.StateBooted, "elsewhere": vmstatus.StateBooted, "own": vmstatus.StateStopped,
		"wrong": vmstatus.StateStopped, "broken": vmstatus.StateStopped, "other": vmstatus.StateStopped,
		"twice": vmstatus.StateStopped, "dangling": vmstatus.StateStopped,
	}, states)
	require.Len(t, vms, len(states))

	require.Equal(t, good, byName["good"].File)
	require.NoError(t, byName["good"].Fault)
	require.NotNil(t, byName["good"].Status)
	require.False(t, byName["good"].Place.System)
	require.Equal(t, own, byName["own"].File)
	require.True(t, byName["own"].Place.System)
	require.Nil(t, byName["elsewhere"].Place)
	require.Equal(t, []string{second}, byName["twice"].Ignored)
	for name, fault := range map[string]string{
		"wrong": "maximumRm", "broken": "broken.yaml",
		"other": `vm.name: is "another", but the file belongs to the VM "other"`,
	} {
		require.ErrorContains(t, byName[name].Fault, fault)
		require.ErrorAs(t, byName[name].Fault, new(yamlfile.Faults))
		require.Nil(t, byName[name].Config)
	}
	require.ErrorContains(t, byName["dangling"].Fault, "no such file")
	require.Equal(t, []string{"broken", "dangling", "elsewhere", "good", "other", "own", "twice", "wrong"}, h.Names())
}

func TestFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	h.write("user/vmrunner", nil) // a file instead of a folder
	h.write("system/vmrunner/good.yaml", text("good"))
	vms, err := h.List(t.Context())
	require.ErrorContains(t, err, "list the VMs in "+filepath.Join(h.dir, "user/vmrunner"))
	require.Len(t, vms, 1)
}

func TestFind(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	h.write("user/vmrunner/webserver.yaml", text("webserver"))
	h.play("two", "run/vmrunner/two")
	h.play("two", "other/two")
	_, err := config.Announce(h.opts.Env, config.Machine{Name: "two", RuntimeDir: filepath.Join(h.dir, "other/two")})
	require.NoError(t, err)

	require.Equal(t, "webserver", h.find("webserver").Name)
	_, err = h.Find(t.Context(), "webservr")
	require.ErrorIs(t, err, ErrUnknown)
	require.EqualError(t, err, "webservr: there is no such VM; did you mean webserver?")
	for _, name := range []string{"../webserver", "", ".x"} {
		_, err = h.Find(t.Context(), name)
		require.ErrorContains(t, err, "is not a valid VM name")
	}
	_, err = h.Find(t.Context(), "two")
	require.ErrorContains(t, err, "two is the name of 2 running VMs")
	h.write("user/vmrunner/two.yaml", text("two"))
	require.Equal(t, filepath.Join(h.dir, "run/vmrunner/two"), h.find("two").RuntimeDir, "the one that is configured")
}

func TestWatch(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	lists := h.Watch(t.Context())
	is := func(name string, state State) func([]VM) bool {
		return func(vms []VM) bool { return len(vms) == 1 && vms[0].Name == name && vms[0].State == state }
	}
	none := func(vms []VM) bool { return len(vms) == 0 }
	until(t, lists, none)
	file := h.write("user/vmrunner/web.yaml", text("web", quick))
	until(t, lists, is("web", vmstatus.StateStopped))
	tracker := h.play("web", "run/vmrunner/web")
	until(t, lists, is("web", vmstatus.StateBooted))
	tracker.Update(status.Entered{State: vmstatus.StateTerminating})
	until(t, lists, is("web", vmstatus.StateTerminating))
	h.write("user/vmrunner/web.yaml", text("web", "cpus: 3"))
	until(t, lists, func(vms []VM) bool { return vms[0].Fault != nil })
	require.NoError(t, os.Remove(file))
	until(t, lists, func(vms []VM) bool { return len(vms) == 1 && vms[0].Place == nil })
	h.write("user/vmrunner/db/config.yaml", text("db"))
	until(t, lists, func(vms []VM) bool { return len(vms) == 2 })
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	h.play("web", "run/vmrunner/web")
	ctx, cancel := context.WithCancel(t.Context())
	lists := h.Watch(ctx)
	until(t, lists, func(vms []VM) bool { return len(vms) == 1 })
	cancel()
	for range lists { // until it is closed
	}
}
