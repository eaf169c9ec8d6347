package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	poolctl "vmop/manager/pool/controller"
	"vmop/test/wait"
)

// pool creates a pool with VMs that users may start.
func (w *world) pool(name string, edits ...func(*v1.VmPoolSpec)) {
	w.t.Helper()
	p := &v1.VmPool{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Name}}
	p.Spec.Permissions = []v1.PoolPermission{{Role: "staff", May: []v1.PoolAction{"start", "accessConsole"}}}
	for _, edit := range edits {
		edit(&p.Spec)
	}
	w.create(p)
}

// member adds a VM to pools.
func member(pools ...string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.Pools = pools }
}

// counts waits until the status of a pool has these numbers of VMs.
func (w *world) counts(name string, vms, free, assigned int32) *v1.VmPool {
	w.t.Helper()
	what := fmt.Sprintf("%d VMs, %d free, %d assigned", vms, free, assigned)
	return eventually(w, name, &v1.VmPool{}, what, func(p *v1.VmPool) bool {
		s := p.Status
		return s.VMs == vms && s.Free == free && s.Assigned == assigned
	})
}

// owner waits until a VM is assigned to a user; "" means that it is unassigned.
func (w *world) owner(vm, user string) *v1.VirtualMachine {
	w.t.Helper()
	return eventually(w, vm, &v1.VirtualMachine{}, "assigned to "+user, func(vm *v1.VirtualMachine) bool {
		a := vm.Status.Assignment
		return a == nil && user == "" || a != nil && a.User == user
	})
}

// looks plays a runner that reports the user of the display.
func (w *world) looks(vm, who string) {
	w.t.Helper()
	wait.For(w.t, "the viewer is reported", func() error {
		is := &v1.VirtualMachine{}
		if err := w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: vm}, is); err != nil {
			return err
		}
		c := metav1.Condition{Type: v1.ConditionConsoleConnected, Status: metav1.ConditionFalse, Reason: "Disconnected"}
		if who != "" {
			c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Connected", who
		}
		c.LastTransitionTime = metav1.NewTime(time.Now().Add(time.Duration(w.clock.Load())))
		meta.RemoveStatusCondition(&is.Status.Conditions, c.Type)
		is.Status.Conditions = append(is.Status.Conditions, c)
		return w.client.Status().Update(w.playing(), is)
	})
}

// P08: 50 users ask two managers at the same time. 10 VMs go to 10 users, and no VM to two users.
func TestManyClaimAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, _ := w.start(w.Config)
	two, _ := w.start(w.Config)
	w.pool("desktops", func(s *v1.VmPoolSpec) { s.Retention = "P1D" })
	for i := range 10 {
		w.vm(fmt.Sprint("d", i), stopped, member("desktops"))
	}
	w.counts("desktops", 10, 10, 0)
	wait.For(t, "both managers know the pool", func() error {
		for _, c := range []*Controller{one, two} {
			if n := len(c.Store().Pools().Members()); n != 10 || len(c.Store().Pools().All()) != 1 {
				return fmt.Errorf("%d VMs", n)
			}
		}
		return nil
	})
	var asking sync.WaitGroup
	var mu sync.Mutex
	got, given := map[string][]string{}, map[string]bool{} // VMs by user, and all assigned VMs
	for i := range 50 {
		for _, c := range []*Controller{one, two} {
			asking.Go(func() {
				user := fmt.Sprint("user", i)
				vm, _, err := c.Pools().Claim(context.WithoutCancel(t.Context()), user, "desktops")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					got[user], given[vm] = append(got[user], vm), true
				} else if !errors.Is(err, poolctl.ErrNone) {
					t.Error(err)
				}
			})
		}
	}
	asking.Wait()
	require.Len(t, given, 10, "all were given away")
	have := map[string]string{} // the VM of each user
	wait.For(t, "each user has one", func() error {
		var all v1.VirtualMachineList
		if err := w.client.List(w.playing(), &all, client.InNamespace(w.Name)); err != nil {
			return err
		}
		clear(have)
		for _, vm := range all.Items {
			a := vm.Status.Assignment
			if a == nil {
				continue
			}
			if have[a.User] != "" {
				return fmt.Errorf("%s has %s and %s", a.User, have[a.User], vm.Name)
			}
			have[a.User] = vm.Name
		}
		return nil
	})
	// A user with a VM from each manager has lost one of them, which then may go to another user.
	for user, vms := range got {
		require.Contains(t, vms, have[user], user)
	}
	for user, vm := range have { // P04
		if again, mine, err := one.Pools().Claim(t.Context(), user, "desktops"); err == nil && again == vm {
			require.True(t, mine)
		}
	}
}

// A pool's VM is assigned, started, used, retained, and finally released.
func TestPoolLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play()
	vms, _ := w.start(w.Config)
	pools := vms.Pools()
	w.pool("desktops", func(s *v1.VmPoolSpec) {
		s.Retention, s.AfterRetention, s.LoginOnAssignment, s.Started = "PT1h", v1.StopVM, true, 1
	})
	w.vm("d1", stopped, member("desktops"))
	w.vm("d2", stopped, member("desktops"))
	w.phase("d1", v1.PhaseRunning, "") // one started VM is kept ready
	w.looks("d1", "")
	w.counts("desktops", 2, 2, 0)
	_, _, err := pools.Claim(t.Context(), "alice", "laptops")
	require.ErrorIs(t, err, poolctl.ErrNoPool)

	vm, mine, err := pools.Claim(t.Context(), "alice", "desktops")
	require.NoError(t, err)
	require.Equal(t, "d1 false", fmt.Sprint(vm, " ", mine), "the one that runs")
	w.owner("d1", "alice")
	require.Contains(t, w.events("d1", pool.Assigned)[0].Note, "alice was assigned the VM from the pool desktops")
	config := eventually(w, "d1", &corev1.ConfigMap{}, "P12: alice is to be logged in", func(c *corev1.ConfigMap) bool {
		return contains(c.Data, "loggedInUser: alice")
	})
	require.NotEmpty(t, config.Data)
	w.phase("d2", v1.PhaseRunning, "") // the next VM is ready for the next user
	w.looks("d2", "")

	w.looks("d1", "vnc alice")
	eventually(w, "d1", &v1.VirtualMachine{}, "who looks", func(vm *v1.VirtualMachine) bool {
		return vm.Status.ConsoleUser == "alice"
	})
	w.clock.Add(int64(3 * time.Hour))
	w.looks("d1", "")
	eventually(w, "d1", &v1.VirtualMachine{}, "P13: last used when alice went", func(vm *v1.VirtualMachine) bool {
		a := vm.Status.Assignment
		return a != nil && time.Since(a.LastUsed.Time) < -2*time.Hour
	})
	eventually(w, "desktops", &v1.VmPool{}, "retained", func(p *v1.VmPool) bool { return p.Status.Retained == 1 })
	vm, mine, err = pools.Claim(t.Context(), "alice", "desktops")
	require.NoError(t, err)
	require.Equal(t, "d1 true", fmt.Sprint(vm, " ", mine), "P04")

	w.advance(2 * time.Hour)
	w.edit("d2", func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"look": "again"} })
	w.owner("d1", "")
	require.Contains(t, w.events("d1", pool.Ended)[0].Note, "alice no longer has the VM from the pool desktops")
	eventually(w, "d1", &corev1.ConfigMap{}, "no user is to be logged in", func(c *corev1.ConfigMap) bool {
		return !contains(c.Data, "loggedInUser")
	})
	eventually(w, "desktops", &v1.VmPool{}, "free", func(p *v1.VmPool) bool { return p.Status.Free == 2 })
	wait.For(t, "one of both is stopped again", func() error {
		on := 0
		for _, name := range []string{"d1", "d2"} {
			if vm, _ := get(w, name, &v1.VirtualMachine{}); vm.Spec.VM.State == v1.Running {
				on++
			}
		}
		if on != 1 {
			return fmt.Errorf("%d are to run", on)
		}
		return nil
	})

	vm, _, err = pools.Claim(t.Context(), "bob", "desktops")
	require.NoError(t, err)
	require.NoError(t, pools.Release(t.Context(), "boss", vm))
	require.ErrorIs(t, pools.Release(t.Context(), "boss", vm), poolctl.ErrNotAssigned)
	require.Contains(t, w.events(vm, pool.Released)[0].Note, "boss has released the VM, which bob had")
	vm, _, err = pools.Claim(t.Context(), "eve", "desktops")
	require.NoError(t, err)
	p, _ := get(w, "desktops", &v1.VmPool{})
	require.NoError(t, w.client.Delete(w.playing(), p))
	w.owner(vm, "") // P14
}

func contains(data map[string]string, text string) bool {
	for _, value := range data {
		if strings.Contains(value, text) {
			return true
		}
	}
	return false
}

// VMs are created from a template with their disks, replaced with all their volumes, and removed.
func TestPoolTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play()
	vms, _ := w.start(w.Config)
	w.pool("lab", func(s *v1.VmPoolSpec) {
		template := machine(w.Name, "template", stopped).Spec
		s.Template = &v1.VmPoolTemplate{Spec: template}
		s.Template.Metadata.Labels = map[string]string{"course": "go"}
		s.Template.Disks = []v1.DiskTemplate{{Name: "home"}}
		s.Template.Disks[0].Spec.PersistentVolumeClaim = v1.VirtualDiskClaim{Size: resource.MustParse("1Gi")}
		s.Replicas, s.Recreate = new(int32(2)), v1.RecreateOnRelease
	})
	w.counts("lab", 2, 2, 0)
	for _, name := range []string{"lab-1", "lab-2"} {
		vm, is := get(w, name, &v1.VirtualMachine{})
		require.True(t, is)
		require.Equal(t, map[string]string{"course": "go", v1.LabelPool: "lab"}, vm.Labels)
		disk := there(w, name+"-home", &v1.VirtualDisk{})
		require.Equal(t, vm.UID, disk.OwnerReferences[0].UID)
	}
	vm, _, err := vms.Pools().Claim(t.Context(), "alice", "lab")
	require.NoError(t, err)
	require.Equal(t, "lab-1", vm)
	w.edit("lab-1", running)
	there(w, "system-disk-lab-1-0", &corev1.PersistentVolumeClaim{})
	require.NoError(t, vms.Pools().Release(t.Context(), "alice", "lab-1"))
	wait.For(t, "lab-1 is gone", func() error {
		if _, there := get(w, "lab-1", &v1.VirtualMachine{}); there {
			return errors.New("it is there")
		}
		return nil
	})
	for _, name := range []string{"system-disk-lab-1-0", "runner-data-lab-1-0"} {
		if is, there := get(w, name, &corev1.PersistentVolumeClaim{}); there && is.DeletionTimestamp == nil {
			require.Equal(t, "lab-1", is.OwnerReferences[0].Name, "the garbage collector comes")
		}
	}
	there(w, "lab-3", &v1.VirtualMachine{})
	eventually(w, "lab", &v1.VmPool{}, "has made three VMs", func(p *v1.VmPool) bool { return p.Status.Made == 3 })
	w.counts("lab", 2, 2, 0)

	p, _ := get(w, "lab", &v1.VmPool{})
	p.Spec.Replicas = new(int32(0))
	require.NoError(t, w.client.Patch(w.playing(), p, client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec": {"replicas": 0}}`))))
	w.counts("lab", 0, 0, 0)
}

// P01: the API server accepts valid pool definitions, and its error for any other shows the correct form.
func TestPoolDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	try := func(edit func(*v1.VmPoolSpec)) error {
		p := &v1.VmPool{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Namespace: w.Name}}
		p.Spec.Permissions = []v1.PoolPermission{}
		edit(&p.Spec)
		err := w.client.Create(w.playing(), p)
		if err == nil {
			_, err := pool.Of(p)
			require.NoError(t, err, p.Spec.Retention)
		}
		return err
	}
	for _, good := range []string{
		"", "PT1h", "PT30M", "P2W", "P1DT2H", "PT1.5S", "PT0S", "P400D",
		"2026-12-24T18:00:00Z", "2026-12-24T18:00+02:00",
		"2026-12-24t18:00:00.5z",
	} {
		require.NoError(t, try(func(s *v1.VmPoolSpec) { s.Retention = good }), good)
	}
	for _, bad := range []string{"P", "PT", "P1Y", "P1M", "1h", "P1DT", "2026-12-24", "2026-13-01T00:00:00Z", "PT1h "} {
		err := try(func(s *v1.VmPoolSpec) { s.Retention = bad })
		require.ErrorContains(t, err, "must be a duration such as PT1h", bad)
	}
	require.ErrorContains(t, try(func(s *v1.VmPoolSpec) { s.Replicas = new(int32(1)) }), "without a template")
	require.ErrorContains(t, try(func(s *v1.VmPoolSpec) { s.Recreate = v1.RecreateOnRelease }), "without a template")
	require.ErrorContains(t, try(func(s *v1.VmPoolSpec) {
		s.Permissions = []v1.PoolPermission{{User: "a", Role: "b"}}
	}), "set either user or role")
	require.ErrorContains(t, try(func(s *v1.VmPoolSpec) {
		s.Permissions = []v1.PoolPermission{{User: "a", May: []v1.PoolAction{"edit"}}}
	}), "Unsupported value")
	w.Apply(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VmPool
metadata: {name: original}
spec:
  retention: PT4h
  loginOnAssignment: true
  permissions:
  - user: admin
    may: [accessConsole, start, "*"]
  - role: user`)
	p, _ := get(w, "original", &v1.VmPool{})
	require.Equal(t, []v1.PoolAction{"accessConsole"}, p.Spec.Permissions[1].May)
}
