package attachment

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// world is a namespace with controllers that act in random order.
type world struct {
	*rand.Rand
	t       *testing.T
	vms     map[string]*machine
	disks   map[string]*v1.VirtualDisk
	image   int              // the number of the current image; 0: no image exists
	images  int              // the number of images created so far
	wishes  map[string]*wish // attachments
	exports map[string]*export
	count   int  // attachments created so far
	quiet   bool // without changes by users and without accidents
}

// machine is a VM with its stateful set, its pod, and its configuration.
type machine struct {
	def      v1.VirtualMachine
	template []string // disks that the stateful set's pods mount
	replicas bool
	version  int             // of the configuration
	config   map[string]bool // attachments with a drive in the configuration
	pod      *pod
}

// image is the name of the image.
const image = "image"

type pod struct {
	mounts []string
	awaits bool            // the runner's version waits for exports
	drives map[string]bool // in QEMU
	reads  map[string]int  // the image that each drive reads
	follows
	told follows // the runner's last report
}

// follows is the state of a runner.
type follows struct {
	seen   int                   // version of the configuration
	config map[string]bool       // attachments that the runner has read
	states map[string]DriveState // at the last report
}

type wish struct {
	vm, disk string // disk can be the constant image
	number   int
	deleted  bool
	status   Plan
}

type export struct {
	vm, disk             string
	image                int
	ready, ending, stuck bool // stuck: never becomes ready
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 1)), t: t, vms: map[string]*machine{}, disks: map[string]*v1.VirtualDisk{},
		wishes: map[string]*wish{}, exports: map[string]*export{},
	}
	for _, name := range []string{"a", "b"} {
		m := &machine{config: map[string]bool{}}
		m.def.Name = name
		m.def.Spec.VM.State = v1.Running
		w.vms[name] = m
	}
	for _, name := range []string{"x", "y"} {
		d := &v1.VirtualDisk{}
		d.Name, d.Status.Phase, d.Status.Target.UID = name, v1.DiskReady, "1"
		w.disks[name] = d
	}
	return w
}

// pick returns a random key of a map.
func pick[V any](w *world, of map[string]V) string {
	if len(of) == 0 {
		return ""
	}
	all := slices.Sorted(maps.Keys(of))
	return all[w.IntN(len(all))]
}

// user changes the desired state.
func (w *world) user() {
	m := w.vms[pick(w, w.vms)]
	switch w.IntN(6) {
	case 5:
		w.image = 0
		if w.IntN(2) == 0 {
			w.images++
			w.image = w.images
		}
	case 0:
		m.def.Spec.VM.State = v1.Running
		if w.IntN(2) == 0 {
			m.def.Spec.VM.State = v1.Stopped
		}
	case 1:
		m.def.Spec.BlockDeviceRefs = nil
		if w.IntN(3) == 0 {
			m.def.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: pick(w, w.disks)}}
		}
	case 2, 3:
		w.count++
		a := &wish{vm: m.def.Name, disk: pick(w, w.disks), number: w.count}
		if w.IntN(3) == 0 {
			a.disk = image
		}
		w.wishes[fmt.Sprint("att", w.count)] = a
	case 4:
		if name := pick(w, w.wishes); name != "" {
			w.wishes[name].deleted = true
		}
	}
}

// of returns the export of a disk for a VM.
func (w *world) of(vm, name string) Export {
	for _, e := range w.exports {
		if e.vm == vm && e.disk == name {
			return e.is()
		}
	}
	return Export{}
}

func (e *export) is() Export {
	return Export{Exists: true, Ready: e.ready, Ending: e.ending}
}

// mounted reports whether the VM's pod mounts a disk, or a new pod would mount it.
func (m *machine) mounted(name string) bool {
	return m.replicas && slices.Contains(m.template, name) || m.pod != nil && slices.Contains(m.pod.mounts, name)
}

// vm reconciles a VM, as manager/vm/controller does.
func (w *world) vm(name string) {
	m := w.vms[name]
	runs := m.def.Spec.DesiredState() == v1.Running
	var named []string
	may := true
	for _, ref := range m.def.Spec.BlockDeviceRefs {
		named = append(named, ref.Name)
		what, _, _ := disk.ForVM(name, ref.Name, w.disks[ref.Name])
		may = may && (what == disk.Has || what == disk.Take) && !w.of(name, ref.Name).Exists
	}
	if runs && may {
		for _, d := range named {
			w.disks[d].Status = disk.Lock(w.disks[d], name, "", time.Time{})
		}
		m.template = named
	}
	m.replicas = runs && (may || m.replicas)
	for d, is := range w.disks {
		if disk.Holder(is) != name || runs && slices.Contains(named, d) {
			continue
		}
		wanted := false
		for _, a := range w.wishes {
			wanted = wanted || a.vm == name && a.disk == d && (a.status.Take || a.status.Export)
		}
		if !m.mounted(d) && !w.of(name, d).Exists && !wanted {
			is.Status = disk.Unlock(is, time.Time{})
		}
	}
}

// set plays the stateful set controller and the kubelet.
func (w *world) set(name string) {
	m := w.vms[name]
	switch {
	case m.pod != nil && (!m.replicas || !w.quiet && w.IntN(20) == 0):
		m.pod = nil
	case m.pod == nil && m.replicas:
		m.pod = &pod{mounts: m.template, drives: map[string]bool{}, reads: map[string]int{}, awaits: w.IntN(2) == 0}
	}
}

// runner plays the runner: it follows the configuration and reports.
func (w *world) runner(name string) {
	m := w.vms[name]
	p := m.pod
	if p == nil {
		return
	}
	serves := func(a string) bool { return w.exports[a] != nil && w.exports[a].ready && !w.exports[a].ending }
	switch w.IntN(4) {
	case 0:
		p.seen, p.config = m.version, maps.Clone(m.config)
	case 1:
		for a := range p.config {
			if serves(a) {
				p.drives[a], p.reads[a] = true, w.exports[a].image
			}
		}
	case 2:
		for a := range p.drives {
			if !p.config[a] && serves(a) {
				delete(p.drives, a)
			}
		}
	case 3:
		p.told = follows{seen: p.seen, config: p.config, states: map[string]DriveState{}}
		for a := range p.config {
			p.told.states[a] = DriveAttaching
		}
		for a := range p.drives {
			p.told.states[a] = DriveDetaching
			if p.config[a] {
				p.told.states[a] = DriveAttached
			}
		}
	}
}

// attachment reconciles an attachment.
func (w *world) attachment(name string) {
	a := w.wishes[name]
	m := w.vms[a.vm]
	s := Situation{
		VMName: a.vm, Ref: v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: a.disk}, Deleted: a.deleted,
		VM: &m.def, HasPod: m.pod != nil, Disk: w.disks[a.disk],
		Mounted: m.mounted(a.disk), Drive: Drive{Configured: m.config[name]},
	}
	for other, o := range w.wishes {
		if o.disk == a.disk && o.vm == a.vm && o.number < a.number {
			s.Other = other
		}
	}
	if e := w.exports[name]; e != nil {
		s.Export = e.is()
	}
	if m.pod != nil {
		s.Drive.Unseen = m.pod.told.seen != m.version
		s.Awaits = m.pod.awaits && m.pod.told.states != nil
		s.Drive.State = m.pod.told.states[name]
	}
	if a.disk == image {
		s.Ref.Kind = v1.AttachedImage
		s.Earlier = m.pod != nil && m.pod.told.states != nil && !m.pod.awaits
		if e := w.exports[name]; w.image != 0 && (e == nil || e.image == w.image) && (!s.Drive.Configured || e != nil) {
			s.Disk = &v1.VirtualDisk{}
			s.Disk.Kind, s.Disk.Status.Phase, s.Disk.Status.Target.UID = "VirtualImage", v1.DiskReady, "1"
		}
	}
	p := Decide(s)
	a.status = p
	if p.Take {
		w.disks[a.disk].Status = disk.Lock(w.disks[a.disk], a.vm, "", time.Time{})
	}
	if p.Drive != m.config[name] {
		require.True(w.t, !p.Drive || s.Awaits || s.Export.Ready && a.disk != image, "an earlier runner gives up")
		require.True(w.t, p.Drive || m.pod == nil || s.Export.Ready || s.Drive.State != DriveAttached,
			"detached without being served")
		m.version++
		delete(m.config, name)
		if p.Drive {
			m.config[name] = true
		}
	}
	switch e := w.exports[name]; {
	case p.Export && e == nil:
		w.exports[name] = &export{vm: a.vm, disk: a.disk, stuck: w.IntN(5) == 0}
		if a.disk == image {
			w.exports[name].image = w.image
		}
	case !p.Export && e != nil && !e.ending:
		require.False(w.t, m.pod != nil && m.pod.drives[name], "the guest has a disk with an ended export")
		e.ending = true
	}
	if p.Done {
		require.Nil(w.t, w.exports[name])
		delete(w.wishes, name)
	}
}

// kubelet plays the kubelet of exports: it makes them ready, ends them, and restarts them.
func (w *world) kubelet() {
	name := pick(w, w.exports)
	switch e := w.exports[name]; {
	case e == nil:
	case e.ending:
		delete(w.exports, name)
	default:
		e.ready = !e.stuck && (w.quiet || w.IntN(10) != 0)
	}
}

// step performs one random action of a user, a controller or a runner.
func (w *world) step() {
	switch w.IntN(7) {
	case 0:
		if !w.quiet && w.IntN(4) == 0 {
			w.user()
		}
	case 1:
		w.vm(pick(w, w.vms))
	case 2:
		w.set(pick(w, w.vms))
	case 3:
		w.kubelet()
	case 4:
		w.runner(pick(w, w.vms))
	default:
		if name := pick(w, w.wishes); name != "" {
			w.attachment(name)
		}
	}
	w.check()
}

// check fails if two writers use a disk, or if a guest's image changes while it reads it.
func (w *world) check() {
	for _, m := range w.vms {
		for a, is := range w.exports {
			if m.pod != nil && m.pod.drives[a] {
				require.Equal(w.t, m.pod.reads[a], is.image)
			}
		}
	}
	for name, d := range w.disks {
		var writers []string
		for vm, m := range w.vms {
			if m.pod != nil && slices.Contains(m.pod.mounts, name) {
				writers = append(writers, vm)
			}
		}
		for _, e := range w.exports {
			if e.disk == name {
				writers = append(writers, e.vm)
			}
		}
		require.LessOrEqual(w.t, len(writers), 1, name)
		for _, vm := range writers {
			require.Equal(w.t, disk.Holder(d), vm)
		}
	}
}

// A disk never has two writers, regardless of users' requests and of the order in which the controllers act. The last
// requests are fulfilled at the end.
func TestADiskNeverHasTwoWriters(t *testing.T) {
	t.Parallel()
	attached := 0
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		for range 2000 {
			w.step()
			for _, a := range w.wishes {
				if a.status.Phase == Attached {
					attached++
				}
			}
		}
		w.quiet = true
		for range 2000 {
			w.step()
		}
		for name, a := range w.wishes {
			require.False(t, a.deleted, "seed %d: %s is still there: %+v", seed, name, a.status)
			if e := w.exports[name]; e != nil && e.stuck {
				require.Equal(t, ReasonExporting, a.status.Reason, "seed %d: %s: %+v", seed, name, a.status)
				continue
			}
			require.Contains(t, []Phase{Attached, Pending, failed}, a.status.Phase,
				"seed %d: %s: %+v", seed, name, a.status)
		}
	}
	require.Positive(t, attached)
}
