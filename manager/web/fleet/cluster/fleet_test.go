package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/store"
	"vmop/manager/vm/objects"
	"vmop/manager/web"
	"vmop/manager/web/fleet"
	"vmop/test/wait"
)

// many returns a fleet of running VMs.
func many(t testing.TB, n int) *Fleet {
	t.Helper()
	s := store.New("vms", func() string { return "" })
	f := New(Options{Namespace: "vms", Store: s, Volumes: volumes("vms"), Log: slog.New(slog.DiscardHandler)})
	for i := range n {
		put(t, f, i, 1, 2)
	}
	return f
}

// put puts a version of a VM into the store, like a watch.
func put(t testing.TB, f *Fleet, number, version int, cpus int32) {
	t.Helper()
	name := fmt.Sprintf("vm-%04d", number)
	var vm v1.VirtualMachine
	require.NoError(t, json.Unmarshal(fmt.Appendf(nil, runningVM, name, number, version, name), &vm))
	vm.Status.CPUs = cpus
	require.NoError(t, f.opts.Store.Put(&vm))
	pod := &corev1.Pod{}
	pod.Name, pod.UID = objects.PodName(name, 0), types.UID(name)
	pod.Labels = map[string]string{objects.LabelInstance: name}
	pod.ResourceVersion = fmt.Sprint(version)
	require.NoError(t, f.opts.Store.Put(pod))
}

// runningVM is a resource with placeholders for name, number, version, and the pod's UID.
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

// VMs are cached only while pages ask. After the first list, only changed VMs are decoded again, and no change is
// missed.
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
	f.releaseTable()
	require.Nil(t, f.table)
	require.Len(t, f.Rights(second[7]).Permissions, 1, "a page that was open still has its VMs")
	vm, err := f.Get("vm-0007")
	require.NoError(t, err)
	require.EqualValues(t, 3, vm.CPUs.Now)
	_, err = f.Get("other")
	require.ErrorIs(t, err, fleet.ErrNotFound)
	require.Empty(t, f.Rights(&fleet.VM{Name: "other"}).Permissions)
}

// The first page of many VMs consists of outlines that match the final VMs. It decodes only the VMs that it shows;
// others follow in the background.
func TestOutline(t *testing.T) {
	t.Parallel()
	few := many(t, 10)
	require.False(t, few.Outline()[0].Brief)
	f := many(t, 5000)
	brief := f.Outline()
	require.Len(t, brief, 5000)
	whole := f.Whole(brief[100:150])
	require.Len(t, whole, 50)
	require.Equal(t, "vm-0100", whole[0].Name)
	require.Equal(t, "node-1", whole[0].Node)
	require.Equal(t, f.Rights(brief[4000]).Permissions, f.decodeVM("vm-4000").rights.Permissions)
	list := f.List()
	for i, vm := range list {
		want := &fleet.VM{
			Name: vm.Name, Brief: true, State: vm.State, CPUs: fleet.Amount{Now: vm.CPUs.Now},
			RAM: fleet.Amount{Now: vm.RAM.Now},
		}
		require.Equal(t, want, brief[i])
	}
	wait.For(t, "all are decoded", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.filling {
			return errors.New("they are not")
		}
		return nil
	})
	require.False(t, f.Outline()[0].Brief, "there is a list by now")
	require.Empty(t, f.Whole([]*fleet.VM{{Name: "gone", Brief: true}}))
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

// The cached VMs take little memory, shared by all pages. It is freed after the pages are closed.
func TestVMsAreSmall(t *testing.T) { // not parallel: it measures the heap
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
	f.releaseTable() // fills decoding caches
	before := live()
	list := f.List()
	each := (live() - before) / vms
	t.Logf("%d bytes for each VM", each)
	require.Less(t, each, int64(8000))
	runtime.KeepAlive(list)
	list = nil
	f.releaseTable()
	require.InDelta(t, 0, live()-before, 100*vms)
	runtime.KeepAlive(f)
}

// deskUsers are visitors with a role that every VM's permissions name.
type deskUsers struct{ fleet *Fleet }

func (deskUsers) Handler(_ *web.Server, pages http.Handler) http.Handler { return pages }
func (deskUsers) Of(*http.Request) access.Subject {
	return access.Subject{User: "a", Roles: []string{"desk"}}
}
func (deskUsers) MayUse(access.Subject, access.Page) bool { return true }
func (deskUsers) Ended(*http.Request) <-chan struct{}     { return nil }
func (deskUsers) Check(*http.Request)                     {}
func (deskUsers) HasPageKey(*http.Request) bool           { return true }
func (deskUsers) Touch(*http.Request)                     {}
func (deskUsers) Scheme(*http.Request) string             { return "https" }
func (deskUsers) DecidePool(context.Context, access.Subject, access.Verb, string) access.Decision {
	return access.Decision{}
}

func (u deskUsers) Decide(_ context.Context, who access.Subject, verb access.Verb, vm *fleet.VM) access.Decision {
	return access.Decide(access.Policy{}, who, verb, u.fleet.Rights(vm))
}

// BenchmarkFirstPage opens a page with 5000 VMs and an empty cache. The list by name decodes only the shown VMs; the
// other list decodes all.
func BenchmarkFirstPage(b *testing.B) {
	for _, address := range []string{"/", "/?sort=-ram"} {
		b.Run(address, func(b *testing.B) {
			f := many(b, 5000)
			pages, err := web.New(web.Options{
				Fleet: f, Visitors: deskUsers{f}, Title: "office", Log: slog.New(slog.DiscardHandler),
			})
			require.NoError(b, err)
			var times []time.Duration
			for b.Loop() {
				b.StopTimer()
				f.releaseTable()
				runtime.GC()
				b.StartTimer()
				began, w := time.Now(), httptest.NewRecorder()
				pages.ServeHTTP(w, httptest.NewRequest("GET", address, nil))
				times = append(times, time.Since(began))
				require.Equal(b, 50, strings.Count(w.Body.String(), "<tr id="))
				b.StopTimer()
				f.List() // the background decoding
				b.StartTimer()
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}

// BenchmarkFirstList lists all VMs with an empty cache.
func BenchmarkFirstList(b *testing.B) {
	f := many(b, 5000)
	for b.Loop() {
		f.releaseTable()
		f.List()
	}
}

// BenchmarkNextList lists the VMs again after one has changed.
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

// BenchmarkRights checks for each VM whether a user may see it.
func BenchmarkRights(b *testing.B) {
	f := many(b, 5000)
	list := f.List()
	for b.Loop() {
		for _, vm := range list {
			f.Rights(vm)
		}
	}
}
