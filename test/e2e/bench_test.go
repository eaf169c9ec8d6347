package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster/clustertest"
)

const many = 20 // number of disks, one after the other and then at the same time

// BenchmarkDisks measures how long users wait for disks on nodes that already have the images: until a disk is attached
// to a running guest, for one and for twenty disks, and until a blank disk is ready, without the time for its claim. It
// logs the time of each step of an attachment.
func BenchmarkDisks(b *testing.B) {
	l := newLab(b)
	v := l.create(b, tiny("benched", func(s *v1.VirtualMachineSpec) {
		s.VM.Options = &runtime.RawExtension{Raw: []byte(`{"hotplugPorts": 24}`)}
	}))
	v.runs()
	inside := v.console().booted()
	has := func(n int) string {
		return fmt.Sprintf("until [ $(ls -d /sys/block/vd* 2>/dev/null | wc -l) = %d ]; do usleep 10000; done", n)
	}
	var blank, attached []time.Duration
	for i := range many {
		claim := l.seconds(b, blankClaim(i), func(o client.Object) bool {
			return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
		})
		blank = append(blank, l.seconds(b, blankDisk(i), func(o client.Object) bool {
			return o.(*v1.VirtualDisk).Status.Phase == v1.DiskReady
		})-claim)
	}
	for b.Loop() {
		for i := range many {
			followed := l.follow(b, v, i)
			begin := time.Now()
			require.NoError(b, l.client.Create(b.Context(), attachmentTo(v.name, i)))
			inside.ask(has(1))
			attached = append(attached, time.Since(begin))
			b.Logf("%d: %s the guest has it %.2f", i, followed(begin), time.Since(begin).Seconds())
			l.kubectl(b, "delete", "vmbda", benchDisk(i), "--timeout=2m")
			inside.ask(has(0))
		}
	}
	followed, begin := l.follow(b, v, many-1), time.Now()
	for i := range many {
		require.NoError(b, l.client.Create(b.Context(), attachmentTo(v.name, i)))
	}
	inside.ask(has(many))
	b.ReportMetric(time.Since(begin).Seconds(), "s-to-attach-twenty")
	b.Logf("the last of twenty: %s the guest has all", followed(begin))
	for name, all := range map[string][]time.Duration{"attach": attached, "blank-disk": blank} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2].Seconds(), "s-to-"+name+"-median")
		b.ReportMetric(all[(len(all)*95+99)/100-1].Seconds(), "s-to-"+name+"-p95")
	}
}

func benchDisk(i int) string { return fmt.Sprintf("disk-%d", i) }

func blankDisk(i int) *v1.VirtualDisk {
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: benchDisk(i), Namespace: namespace}}
	claim := &d.Spec.PersistentVolumeClaim
	claim.StorageClassName, claim.Size = new(storage), resource.MustParse("16Mi")
	return d
}

func blankClaim(i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", i), Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(storage), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode: new(corev1.PersistentVolumeBlock),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
			},
		},
	}
}

func attachmentTo(vm string, i int) *v1.VirtualMachineBlockDeviceAttachment {
	a := &v1.VirtualMachineBlockDeviceAttachment{}
	a.Name, a.Namespace = benchDisk(i), namespace
	a.Spec.VirtualMachineName = vm
	a.Spec.BlockDeviceRef = v1.AttachedDeviceRef{Kind: v1.AttachedDeviceKind(v1.KindVirtualDisk), Name: benchDisk(i)}
	return a
}

// seconds creates an object, and returns the time until it is in the wanted state.
func (l *lab) seconds(b *testing.B, o client.Object, is func(client.Object) bool) time.Duration {
	begin := time.Now()
	require.NoError(b, l.client.Create(b.Context(), o))
	for !is(o) {
		time.Sleep(10 * time.Millisecond)
		require.NoError(b, l.client.Get(b.Context(), client.ObjectKeyFromObject(o), o))
	}
	return time.Since(begin)
}

// follow records when the steps of an attachment end, and returns a function that describes them.
func (l *lab) follow(b *testing.B, v *clusterVM, i int) func(begin time.Time) string {
	config, err := clustertest.Config(l.Cluster)
	require.NoError(b, err)
	watching, err := client.NewWithWatch(config, client.Options{Scheme: l.client.Scheme()})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	var mu sync.Mutex
	var steps []string
	at := map[string]time.Time{}
	note := func(step string, done bool) {
		mu.Lock()
		defer mu.Unlock()
		if _, known := at[step]; done && !known {
			at[step], steps = time.Now(), append(steps, step)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ConfigMapList{}, &v1.VirtualMachineList{}} {
		w, err := watching.Watch(ctx, list, client.InNamespace(namespace))
		require.NoError(b, err)
		go func() {
			for e := range w.ResultChan() {
				switch o := e.Object.(type) {
				case *corev1.Pod:
					if o.Name == "vd-"+benchDisk(i) {
						note("a pod exports it", true)
						note("it has a node", o.Spec.NodeName != "")
						note("it has an address", o.Status.PodIP != "")
						note("it is ready", len(o.Status.ContainerStatuses) > 0 && o.Status.ContainerStatuses[0].Ready)
					}
				case *corev1.ConfigMap:
					configured := strings.Contains(fmt.Sprint(o.Data), "serial: "+benchDisk(i))
					note("it is in the configuration", o.Name == v.name && configured)
				case *v1.VirtualMachine:
					if r := o.Status.Runner; o.Name == v.name && r != nil && len(r.Drives) > 0 {
						note("the runner has seen "+strconv.Itoa(len(r.Drives)), true)
						attached := 0
						for _, d := range r.Drives {
							if d.State == "Attached" {
								attached++
							}
						}
						note("QEMU has "+strconv.Itoa(attached), attached > 0)
					}
				}
			}
		}()
	}
	return func(begin time.Time) string {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		var said strings.Builder
		for _, step := range steps {
			fmt.Fprintf(&said, "%s %.2f, ", step, at[step].Sub(begin).Seconds())
		}
		return said.String()
	}
}
