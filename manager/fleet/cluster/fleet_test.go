package cluster

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/fleet"
	"vmop/manager/objects"
	"vmop/manager/store"
)

// many is a fleet of VMs that are running.
func many(t testing.TB, n int) *Fleet {
	t.Helper()
	s := store.New("vms", func() string { return "" })
	f := New(Options{Namespace: "vms", Store: s, Log: slog.New(slog.DiscardHandler)})
	for i := range n {
		put(t, f, i, 1, 2)
	}
	return f
}

// put brings a VM of a version into the store, as a watch does.
func put(t testing.TB, f *Fleet, number, version int, cpus int32) {
	t.Helper()
	name := fmt.Sprintf("vm-%04d", number)
	var vm v1.VirtualMachine
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, runningVM, name, number, version, name), &vm))
	vm.Status.CPUs = cpus
	require.NoError(t, f.opts.Store.Put(&vm))
	pod := &corev1.Pod{}
	pod.Name, pod.UID = objects.PodName(name), types.UID(name)
	pod.Labels = map[string]string{objects.LabelInstance: name}
	pod.ResourceVersion = fmt.Sprint(version)
	require.NoError(t, f.opts.Store.Put(pod))
}

// runningVM is the resource of one, with a name, a number, a version, and a pod's uid.
const runningVM = `{
  "metadata": {"name": %q, "uid": "0e984725-c51c-4bf4-9960-%012d", "resourceVersion": "%d", "generation": 1, "labels": {"tier": "front"}},
  "spec": {"vmType": {"source": "standard"}, "permissions": [{"role": "desk", "may": ["start", "accessConsole"]}],
    "vm": {"state": "Running", "maximumCpus": 4, "currentCpus": 2, "maximumRam": "8Gi", "networks": [{"user": {}}], "display": {"spice": {"port": 5900}},
      "disks": [{"volumeClaimTemplate": {"metadata": {"name": "system"}, "spec": {"resources": {"requests": {"storage": "40Gi"}}}}}, {"cdrom": {"image": "a.iso"}}]}},
  "status": {"phase": "Running", "nodeName": "node-1", "ram": "4Gi", "runner": {"podUID": %q, "state": "Booted", "control": {"port": 7443, "key": "ab"}},
    "osinfo": {"id": "debian", "pretty-name": "Debian GNU/Linux 12 (bookworm)"},
    "interfaces": [{"name": "lo", "ips": ["127.0.0.1"]}, {"name": "enp1s0", "ips": ["10.0.2.15", "fe80::1"]}],
    "conditions": [
      {"type": "Running", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "Booted", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "Ready", "status": "True", "reason": "VmBooted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "ConsoleConnected", "status": "False", "reason": "Disconnected", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "Reconciled", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`

// Nothing is kept while no page asks. A list is made once; after that only what has changed is
// decoded again, and a change is never missed.
func TestListsAreKeptAsLongAsPagesAsk(t *testing.T) {
	t.Parallel()
	f := many(t, 100)
	require.Nil(t, f.table)
	require.Equal(t, fleet.Use{CPUs: 200, RAM: 400 << 30}, f.Used(), "charts need no list")
	require.Nil(t, f.table)
	first := f.List()
	require.Len(t, first, 100)
	changed := f.Changed()
	put(t, f, 7, 2, 3)
	<-changed
	second := f.List()
	require.EqualValues(t, 3, second[7].CPUs.Now)
	for i := range second {
		require.Equal(t, i != 7, first[i] == second[i], "%d", i)
	}
	require.Equal(t, v1.Action("start"), f.Rights(second[7]).Permissions[0].May[0])
	f.release()
	require.Nil(t, f.table)
	require.Len(t, f.Rights(second[7]).Permissions, 1, "a page that was open still has its VMs")
	vm, err := f.Get("vm-0007")
	require.NoError(t, err)
	require.EqualValues(t, 3, vm.CPUs.Now)
	_, err = f.Get("other")
	require.ErrorIs(t, err, fleet.ErrNotFound)
	require.Empty(t, f.Rights(&fleet.VM{Name: "other"}).Permissions)
}

// A page that waits for changes sees the last one, however many there are.
func TestNoChangeIsMissed(t *testing.T) {
	t.Parallel()
	f := many(t, 10)
	const versions = 500
	go func() {
		for v := range versions {
			put(t, f, v%10, v+2, int32(v+1))
		}
	}()
	for {
		changed := f.Changed()
		if f.List()[(versions-1)%10].CPUs.Now == versions {
			return
		}
		<-changed
	}
}

// What pages show of a VM takes little memory, for all pages together, and none when they are
// closed.
func TestVMsAreSmall(t *testing.T) { // alone: it measures the heap
	const vms = 1000
	f := many(t, vms)
	live := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	f.List()
	f.release() // what decoding keeps
	before := live()
	list := f.List()
	each := (live() - before) / vms
	t.Logf("%d bytes for each VM", each)
	require.Less(t, each, int64(8000))
	runtime.KeepAlive(list)
	list = nil
	f.release()
	require.InDelta(t, 0, live()-before, 100*vms)
	runtime.KeepAlive(f)
}

// BenchmarkFirstList is the list of the first page that is opened.
func BenchmarkFirstList(b *testing.B) {
	f := many(b, 5000)
	for b.Loop() {
		f.release()
		f.List()
	}
}

// BenchmarkNextList is the list of a page that is open, after a VM has changed.
func BenchmarkNextList(b *testing.B) {
	f := many(b, 5000)
	f.List()
	version := 1
	for b.Loop() {
		b.StopTimer()
		version++
		put(b, f, 2500, version, 2)
		b.StartTimer()
		f.List()
	}
}

// BenchmarkRights is whether a user may see each VM.
func BenchmarkRights(b *testing.B) {
	f := many(b, 5000)
	list := f.List()
	for b.Loop() {
		for _, vm := range list {
			f.Rights(vm)
		}
	}
}
