package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/runner/status/k8s"
)

// The page shows every verb with an example.
func TestThePageHasEveryVerb(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/kubectl.md")
	require.NoError(t, err)
	for _, verb := range listVerbs(newPluginCommand()) {
		if verb != "help" && verb != "version" && !strings.HasPrefix(verb, "completion") {
			require.Contains(t, string(page), "kubectl vmop "+verb+" ", verb)
		}
	}
}

// can-i checks every verb of the program, and suggests a verb for a wrong one.
func TestCanIKnowsEveryVerb(t *testing.T) {
	t.Parallel()
	root := newPluginCommand()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	verbs, needs := listVerbs(root), verbNeeds()
	require.ElementsMatch(t, slices.Collect(maps.Keys(needs)), verbs)
	for _, verb := range verbs {
		for _, rest := range [][]string{{}, {"web"}, {"vm", "web"}} {
			got, name, err := chooseVerb(root, append(strings.Fields(verb), rest...))
			require.NoError(t, err, verb)
			require.Equal(t, verb, got)
			require.Equal(t, rest, name, verb)
		}
	}
	got, _, err := chooseVerb(root, []string{"disk", "rm", "data"})
	require.NoError(t, err, "an alias")
	require.Equal(t, "disk remove", got)
	for text, want := range map[string]string{
		"migrat web":     "there is no verb \"migrat\" (did you mean migrate?)",
		"reboot web":     "there is no verb \"reboot\" (did you mean restart?)",
		"disk uplaod":    "there is no verb \"uplaod\" (did you mean upload?)",
		"image delete x": "there is no verb \"delete\" (did you mean remove?)",
		"disk":           "can-i disk: add one of its verbs: disk attach, disk create, disk detach, disk export, ",
		"start vm web x": "usage: kubectl vmop can-i [VERB] [NAME]",
		"takeover web":   "there is no verb \"takeover\" (\"kubectl vmop help\" lists them)",
	} {
		_, _, err := chooseVerb(root, strings.Fields(text))
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(cli.UsageError))
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		name string
		rest []string
	}{
		"web": {"web", nil}, "vm/web": {"web", nil}, "vm web": {"web", nil},
		"virtualmachine web 22": {"web", []string{"22"}},
		"vm":                    {"vm", nil}, "vm/vm 22": {"vm", []string{"22"}}, "VMI/web": {"web", nil},
		"omv vm-cirros": {"vm-cirros", nil},
		"a/b":           {"a/b", nil}, "": {"", nil},
	} {
		name, rest := splitName(strings.Fields(text))
		require.Equal(t, want.name, name, text)
		require.ElementsMatch(t, want.rest, rest, text)
	}
}

// Changes are sorted: those that the runner reports as pending wait for a restart, with all changes below them, and so
// do changes of the pod.
func TestDifferencesAreSorted(t *testing.T) {
	t.Parallel()
	all := []k8s.Change{
		{Path: "vm.currentCpus"},
		{Path: "vm.maximumRam"},
		{Path: "vm.networks[0].user.net"},
		{Path: "vm.networks[1]"},
		{Path: "nodeSelector.disk"},
		{Path: "image.source"},
		{Path: "permissions[0].may[0]"},
		{Path: "vm.powerdownTimeout"},
	}
	d := sortOut(all, control.Forecast{Later: []status.Change{
		{Path: "vm.maximumRam", CurrentValue: 1, DesiredValue: 2, Operation: "replace"},
		{Path: "vm.network[0].net", DesiredValue: "10.0.3.0/24", Operation: "add"},
	}})
	paths := func(list []k8s.Change) (paths []string) {
		for _, c := range list {
			paths = append(paths, c.Path)
		}
		return paths
	}
	now, later := paths(d.Now), paths(d.Later)
	require.Equal(t, []string{"vm.currentCpus", "vm.networks[1]", "permissions[0].may[0]", "vm.powerdownTimeout"}, now)
	require.Equal(t,
		[]string{"vm.maximumRam", "vm.networks[0]", "nodeSelector.disk", "image.source"}, later)
	require.Empty(t, d.Start)
}

func TestSpecChanges(t *testing.T) {
	t.Parallel()
	before, after := &v1.VirtualMachine{}, &v1.VirtualMachine{}
	before.Spec.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{Image: "a.iso"}}}
	after.Spec.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{Image: "b.iso"}}, {CDROM: &v1.CDROM{}}}
	after.Spec.NodeName = "node1"
	changes, err := specChanges(before, after)
	require.NoError(t, err)
	require.Equal(t, []k8s.Change{
		{Path: "nodeName", Operation: "add", DesiredValue: "node1"},
		{Path: "vm.disks[0].cdrom.image", Operation: "replace", CurrentValue: "a.iso", DesiredValue: "b.iso"},
		{Path: "vm.disks[1]", Operation: "add", DesiredValue: map[string]any{"cdrom": map[string]any{"image": ""}}},
	}, changes)
	changes, err = specChanges(before, before)
	require.NoError(t, err)
	require.Empty(t, changes)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, err := range map[int]error{
		0: nil, 1: errors.New("x"), 2: cli.UsageError{Err: errors.New("x")}, 124: errTimeout, 7: cli.ExitError{Code: 7},
	} {
		require.Equal(t, code, exitCode(err))
	}
}

func TestArgumentsAreFound(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	plan := "qemu /usr/bin/qemu\n    -smp 2   # standard.star:3\n    -m 512   # standard.star:4\n"
	require.NoError(t, printMatches(&out, plan, []string{"SMP", "standard"}))
	require.Equal(t, "-smp 2   # standard.star:3\n", out.String())
	require.EqualError(t, printMatches(&out, plan, []string{"-cpu"}), "no argument contains -cpu")
}

// A device is explained with its field of the resource, although the runner only knows its own configuration.
func TestADeviceIsExplainedByTheResource(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"devices": [{"names": ["eth0"], "field": "vm.network[0]", "place": "c.yaml:7"}]}`)
	}))
	defer server.Close()
	client := control.NewClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, "")
	g := guest{runner: ofResource{client, &v1.VirtualMachine{}}, name: "web"}
	var out bytes.Buffer
	require.NoError(t, g.printOrigin(t.Context(), &out, []string{"eth0"}, "text"))
	require.Contains(t, out.String(), "  configuration       spec.vm.networks[0]\n")
	require.NotContains(t, out.String(), "c.yaml")
}

// The status of a pending object is shown. The default message of a new object, that a manager may be missing, is not.
func TestAwaited(t *testing.T) {
	t.Parallel()
	require.Equal(t, "waiting for the manager (kubectl get deployment vm-operator)",
		pendingText("Pending", "NotSeen", "no manager has seen the disk yet: check that one is running"))
	require.Equal(t, "the volume is being made", pendingText("Pending", "Provisioning", "the volume is being made"))
	require.Equal(t, "Ready", pendingText("Ready", "", ""))
}
