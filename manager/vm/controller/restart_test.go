package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
	"vmop/test/wait"
)

func automatic(vm *v1.VirtualMachine) {
	vm.Spec.Disruptions = &v1.Disruptions{RestartApprovalMode: v1.RestartAutomatic}
}

// hasOtherVolumes reports whether a pod has a change that needs a restart.
func hasOtherVolumes(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && strings.HasSuffix(v.PersistentVolumeClaim.ClaimName, ".r1")
	})
}

// needs waits until a VM reports a reason to restart; "" means that it needs no restart.
func (w *world) needs(name, reason string) *v1.VirtualMachine {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachine{}, "RestartRequired "+reason, func(vm *v1.VirtualMachine) bool {
		c := condition(vm, v1.ConditionRestartRequired)
		if reason == "" {
			return c != nil && c.Status == metav1.ConditionFalse
		}
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	})
}

// After a manager is killed at any write of a restart, the next manager restarts the VM if necessary, and never twice.
func TestAutomaticRestartOfAKilledManager(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	restart := func(t *testing.T, at int, after bool) (writes int) {
		w := newWorld(t)
		w.settings.Load().Restarts.Pause = 0
		stop, seen := w.pods()
		w.play()
		end := w.manage(nil)
		w.vm("web", automatic)
		w.settled()
		end()
		w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.ClaimNameSuffix = "r1" })
		first := cutWire(at, after)
		end = w.manage(first)
		w.say("web", w.pod("web"), stateBooted, nil) // the runner has the new definition
		if at > 0 {
			wait.Receive(t, first.cut, "it was not killed")
			end()
			w.manage(nil)
			w.say("web", w.pod("web"), stateBooted, nil)
		}
		eventually(w, objects.PodName("web", 0), &corev1.Pod{}, "it was restarted", hasOtherVolumes)
		w.settled()
		w.needs("web", "")
		stop()
		require.Len(t, seen()["web-0"], 2, "pods, cut at write %d", at)
		return len(first.written())
	}
	writes := restart(t, 0, false)
	require.GreaterOrEqual(t, writes, 3, "the stateful set, the record, the pod")
	for at := 1; at <= min(writes-1, 7); at++ { // the last write ends the restart
		t.Run(fmt.Sprint("at write ", at), func(t *testing.T) {
			t.Parallel()
			restart(t, at, at%2 == 0)
		})
	}
}

// pods returns a function that stops the watch, and one that returns all pods seen so far, by name.
func (w *world) pods() (stop func(), seen func() map[string]map[apitypes.UID]bool) {
	w.t.Helper()
	events, err := w.client.Watch(w.playing(), &corev1.PodList{}, client.InNamespace(w.Name))
	require.NoError(w.t, err)
	var mu sync.Mutex
	all := map[string]map[apitypes.UID]bool{}
	go func() {
		for event := range events.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Added {
				mu.Lock()
				if all[pod.Name] == nil {
					all[pod.Name] = map[apitypes.UID]bool{}
				}
				all[pod.Name][pod.UID] = true
				mu.Unlock()
			}
		}
	}()
	w.t.Cleanup(events.Stop)
	return events.Stop, func() map[string]map[apitypes.UID]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}

// Restart turns are limited in number and separated by a pause; after a while, turns continue even if a VM doesn't
// start.
func TestRestartTurns(t *testing.T) {
	t.Parallel()
	limit := objects.Restarts{AtOnce: 2, Pause: 10 * time.Second}
	now := time.Unix(1000, 0)
	turns := &restartTurns{}
	take := func(name string) bool {
		mine, again := turns.claimTurn(name, limit, now)
		require.Equal(t, mine, again.IsZero())
		require.True(t, mine || again.After(now))
		return mine
	}
	turns.setBusy("busy", true, now) // begun by an earlier manager
	require.False(t, take("a"), "it may not know all of these yet")
	now = now.Add(limit.Pause)
	require.True(t, take("a"))
	require.True(t, take("a"), "it is its turn still")
	require.False(t, take("b"))
	now = now.Add(limit.Pause)
	require.False(t, take("b"), "there are two")
	turns.setBusy("busy", false, now)
	require.True(t, take("b"))
	now = now.Add(limit.Pause)
	require.False(t, take("c"))
	now = now.Add(longestRestart)
	require.True(t, take("c"), "the others have had their time")
}
