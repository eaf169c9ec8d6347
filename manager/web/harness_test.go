package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/web/fleet"
	"vmop/runner/hardware"
)

// stage is a fleet with VMs that a test sets, because pages must show states that can't be produced with real VMs. It
// records all actions. test/web has real VMs.
type stage struct {
	fleet.Table
	mutex   sync.Mutex
	done    []string
	fails   error
	refuse  func(a fleet.Action, name string) error // returns the result of an action; nil carries it out
	shots   int
	dial    func() (net.Conn, error) // opens a stream, instead of conns
	picture []byte                   // of screens
	began   time.Time                // start of the measurements
	typed   atomic.Bool              // a user types on consoles
	news    chan []fleet.Event       // for the VM with an open page; nil uses told
	told    []fleet.Event
	conns   chan net.Conn // the other ends of streams
	disks   *disks        // nil if there are none
	pools   *poolsOf      // nil if there are none

	machines *machines // nil for a fleet like a cluster
	defined
}

// disks is the storage of a stage.
type disks struct {
	of   *stage
	list []fleet.Volume
	// local reports that the disks are those of one computer.
	local bool

	uploads map[string][]byte // received data by disk name
	id      string            // of the last upload
	sum     string            // its checksum
	offer   []byte            // exported data; nil if not ready
	fails   error             // in the middle of an export, or for the next pieces
}

// Storage implements fleet.Fleet.
func (f *stage) Storage() fleet.Storage {
	if f.disks == nil {
		return nil
	}
	if f.disks.local {
		return struct{ fleet.Storage }{f.disks} // which neither grows nor sends disks
	}
	return f.disks
}

// Pools implements fleet.Fleet.
func (f *stage) Pools() fleet.Pools {
	if f.pools == nil {
		return nil
	}
	return f.pools
}

// store gives a play disks and images.
func (p *play) store(list ...fleet.Volume) {
	p.disks = &disks{of: p.stage, list: list, uploads: map[string][]byte{}}
}

// stored returns a disk or image in each state.
func stored() (list []fleet.Volume) {
	for i, state := range fleet.VolumeStates() {
		v := fleet.Volume{Kind: fleet.VirtualDisk, Name: "disk-" + strings.ToLower(state), Size: 20 << 30, State: state}
		if i%2 == 1 {
			v.Kind, v.Source = fleet.VirtualImage, "https://cloud.example.org/images/debian-12-generic-amd64.qcow2"
		}
		if state == "Ready" || state == "Resizing" {
			v.UsedBy = []string{"web", "web-2"}
		}
		v.Message = "the reason of <b>" + state + "</b>"
		list = append(list, v)
	}
	return list
}

func (d *disks) Disks(context.Context) ([]fleet.Volume, error) {
	d.of.mutex.Lock()
	defer d.of.mutex.Unlock()
	return d.list, nil
}

func (d *disks) NewDisks() fleet.NewDisks {
	if d.local {
		return fleet.NewDisks{
			Kinds: []fleet.VolumeKind{fleet.UploadedFile}, From: []fleet.DiskFrom{fleet.FromUpload},
			Folder: "/home/joe/.local/share/vmrunner-media", Free: 80 << 30,
			Known: []fleet.KnownImage{{Name: "debian/12"}, {Name: "debian/13"}},
		}
	}
	return fleet.NewDisks{
		Kinds: []fleet.VolumeKind{fleet.VirtualDisk, fleet.VirtualImage},
		From:  []fleet.DiskFrom{fleet.FromBlank, fleet.FromURL, fleet.FromUpload, fleet.FromImage, fleet.FromDisk},
		Sized: true, Classes: true,
	}
}

func (d *disks) CreateDisk(_ context.Context, user string, n fleet.NewDisk) error {
	return d.of.record("%s creates %s %s %d %q %q %q %q", user, n.Kind, n.Name, n.Size, n.From, n.Of, n.Checksum,
		n.Class)
}

func (d *disks) GrowDisk(_ context.Context, user string, kind fleet.VolumeKind, name string, size int64) error {
	return d.of.record("%s grows %s %s %d", user, kind, name, size)
}

func (d *disks) DeleteDisk(_ context.Context, user string, kind fleet.VolumeKind, name string) error {
	return d.of.record("%s deletes %s %s", user, kind, name)
}

func (f *stage) record(format string, values ...any) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.done = append(f.done, fmt.Sprintf(format, values...))
	return f.fails
}

func (f *stage) Do(_ context.Context, user, name string, a fleet.Action) error {
	if f.refuse != nil {
		return f.refuse(a, name)
	}
	return f.record("%s %s %s", user, a, name)
}

func (f *stage) Resize(_ context.Context, user, name string, s fleet.Size) error {
	text := ""
	if s.CPUs != nil {
		text += fmt.Sprintf(" cpus %d", *s.CPUs)
	}
	if s.RAM != nil {
		text += fmt.Sprintf(" ram %d", *s.RAM)
	}
	return f.record("%s resize %s%s", user, name, text)
}

func (f *stage) Insert(_ context.Context, user, name, drive, medium string) error {
	return f.record("%s insert %s %s %q", user, name, drive, medium)
}

func (f *stage) Plan(context.Context, string) ([]fleet.Argument, error) {
	return []fleet.Argument{
		{Text: "/usr/bin/qemu-system-x86_64"},
		{Depth: 1, Text: "-m 512M", Origins: []string{"@vmtypes//lib/memory.star:14 memory", "my.star:3 launch"}},
	}, f.fails
}

// Devices returns a disk that the guest has renamed, a card, and a device without a line of the plan.
func (f *stage) Devices(context.Context, string) (hardware.Report, error) {
	return hardware.Report{Devices: []hardware.Device{
		{
			ID: "disk1", Driver: "virtio-blk-pci", PCI: "0000:00:10.0", Serial: "data", Names: []string{"/dev/vdb"},
			Mounts: []string{"/home"}, Field: "vm.drives[1]", Place: "web.yaml:12", Lines: []hardware.Line{
				{
					Text:   "-device virtio-blk-pci,id=disk1,drive=disk1-format",
					Origin: "@vmtypes//lib/disks.star:40 disk, changed at my.star:4 launch",
				},
				{Text: "-blockdev node-name=disk1-format,driver=raw"},
			},
		},
		{
			ID: "nic0", Driver: "virtio-net-pci", PCI: "0000:00:07.0", MAC: "52:54:00:00:00:01", Field: "vm.network[0]",
			Names: []string{"eth0", "enp0s7"},
			Lines: []hardware.Line{{Text: "-device virtio-net-pci", Origin: "my.star:3 launch"}},
		},
		{Driver: "host bridge", PCI: "0000:00:00.0"},
	}}, f.fails
}

func (f *stage) Source(_ context.Context, name, module string) (string, error) {
	if module != "my.star" {
		return "", fleet.ErrNotFound
	}
	return "# <b>\ndef launch(vm, host):\n    return None\n", f.fails
}

func (f *stage) Events(context.Context, string) (<-chan []fleet.Event, error) {
	if f.news != nil || f.told == nil {
		return f.news, f.fails
	}
	told := make(chan []fleet.Event, 1)
	told <- f.told
	return told, f.fails
}

// Usage returns the usage of a VM that becomes busier over an hour.
func (f *stage) Usage(context.Context, string) ([]fleet.Sample, error) {
	var list []fleet.Sample
	began := f.began
	if began.IsZero() {
		began = then
	}
	for i := range 121 {
		n := int64(i)
		in, out := n*n<<12, n<<14
		list = append(list, fleet.Sample{
			At: began.Add(time.Duration(i) * 30 * time.Second), CPUSeconds: float64(20*i + i%9),
			Memory: 400<<20 + n<<19, Read: n * n << 14, Written: n << 16, Received: &in, Sent: &out,
		})
	}
	return list, f.fails
}

func (f *stage) Screenshot(_ context.Context, w io.Writer, name string) error {
	f.mutex.Lock()
	f.shots++
	f.mutex.Unlock()
	if f.picture != nil {
		_, err := w.Write(f.picture)
		return err
	}
	_, err := io.WriteString(w, "\x89PNG of "+name)
	return err
}

// Log implements fleet.Logs.
func (f *stage) Log(_ context.Context, name string) (string, error) {
	if name == "off" {
		return "", fleet.Refusal("it was never started")
	}
	return "level=INFO msg=\"<b>started</b>\"\n", f.fails
}

func (f *stage) stream() (net.Conn, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.fails != nil {
		return nil, f.fails
	}
	if f.dial != nil {
		return f.dial()
	}
	near, far := net.Pipe()
	f.conns <- far
	return near, nil
}

func (f *stage) Screen(context.Context, string, string, fleet.Mode) (net.Conn, error) {
	return f.stream()
}

func (f *stage) SPICE(_ context.Context, user, name, id string, mode fleet.Mode) (net.Conn, error) {
	_ = f.record("%s spice %s %s %d", user, name, mode, len(id))
	return f.stream()
}

func (f *stage) Console(_ context.Context, user, name string, mode fleet.Mode) (net.Conn, error) {
	if f.typed.Load() && mode == fleet.Type {
		return nil, fleet.ErrOccupied
	}
	if err := f.record("%s %s console of %s", user, mode, name); err != nil {
		return nil, err
	}
	return f.stream()
}

func (f *stage) Forward(_ context.Context, user, name string, port int) (net.Conn, error) {
	_ = f.record("%s port %d of %s", user, port, name)
	return f.stream()
}

// machines is a stage that can change its VMs like one computer.
type machines struct {
	of    *stage
	local bool
	notes []string
}

// Attachments implements fleet.Fleet, like the following methods.
func (f *stage) Attachments() fleet.Attachments {
	if f.disks == nil && f.machines == nil {
		return nil
	}
	return f.changes()
}

func (f *stage) Snapshots() fleet.Snapshots {
	if f.disks == nil && f.machines == nil {
		return nil
	}
	return f.changes()
}

func (f *stage) Restores() fleet.Restores {
	if f.machines == nil {
		return nil
	}
	return f.machines
}

func (f *stage) Copies() fleet.Copies {
	if f.machines == nil {
		return nil
	}
	return f.machines
}

func (f *stage) Autostarts() fleet.Autostarts {
	if f.machines == nil {
		return nil
	}
	return f.machines
}

func (f *stage) DataDeletion() fleet.DataDeletion {
	if f.machines == nil {
		return nil
	}
	return f.machines
}

func (f *stage) changes() *machines {
	if f.machines != nil {
		return f.machines
	}
	return &machines{of: f}
}

func (m *machines) Attachable(context.Context, *fleet.VM) fleet.Attachable {
	if m.local {
		return fleet.Attachable{Files: true, Blank: true, Disks: []string{"/media/debian-13.iso"}}
	}
	var a fleet.Attachable
	prefixes := map[fleet.VolumeKind]string{
		fleet.VirtualImage: fleet.ImagePrefix, fleet.ClusterVirtualImage: fleet.ClusterImagePrefix,
	}
	for _, v := range m.of.disks.list {
		if v.State != "Failed" && (v.UsedBy == nil || v.Kind != fleet.VirtualDisk) {
			a.Disks = append(a.Disks, prefixes[v.Kind]+v.Name)
		}
	}
	return a
}

func (m *machines) Media() []fleet.Medium {
	if !m.local {
		return nil
	}
	return []fleet.Medium{{Name: "debian-13.iso", File: "/media/debian-13.iso", Size: 700 << 20}}
}

func (m *machines) Attach(_ context.Context, user, vm string, a fleet.Attachment) error {
	return m.of.record("%s attaches %s to %s", user, strings.TrimSpace(fmt.Sprint(a.Disk, " ", sizeText(a.Size))), vm)
}

func sizeText(size int64) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprint(size)
}

func (m *machines) Detach(_ context.Context, user, vm, disk string) error {
	return m.of.record("%s detaches %s from %s", user, disk, vm)
}

func (m *machines) Grow(_ context.Context, user, vm, disk string, size int64) error {
	return m.of.record("%s grows %s of %s to %d", user, disk, vm, size)
}

func (m *machines) ExportDisk(_ context.Context, user, vm, disk, file, format string) error {
	return m.of.record("%s copies %s of %s to %s as %s", user, disk, vm, file, format)
}

// Networks implements fleet.Cards, like the following methods.
func (f *stage) Networks() []string {
	if f.machines == nil {
		return nil
	}
	return []string{"user", "tap"}
}

func (f *stage) AttachCard(_ context.Context, user, vm string, c fleet.Card) error {
	return f.record("%s attaches a card of %s%s to %s", user, c.Network, c.Bridge, vm)
}

func (f *stage) DetachCard(_ context.Context, user, vm, key string) error {
	return f.record("%s detaches the card %s from %s", user, key, vm)
}

func (f *stage) SetLink(_ context.Context, user, vm, key string, up bool) error {
	return f.record("%s sets the link of %s of %s to %v", user, key, vm, up)
}

func (m *machines) Named() bool { return m.local }

func (m *machines) Snapshot(_ context.Context, user, vm, name string) (string, error) {
	return vm + "-1", m.of.record("%s makes a snapshot of %s%s", user, vm, name)
}

func (m *machines) Restore(_ context.Context, user, vm, snapshot string, definition bool) error {
	return m.of.record("%s restores %s from %s %v", user, vm, snapshot, definition)
}

func (m *machines) DeleteSnapshot(_ context.Context, user, vm, snapshot string) error {
	return m.of.record("%s deletes %s of %s", user, snapshot, vm)
}

func (m *machines) Clone(_ context.Context, user, vm, snapshot, to string) error {
	return m.of.record("%s clones %s %q to %s", user, vm, snapshot, to)
}

func (m *machines) Rename(_ context.Context, user, vm, to string) ([]string, error) {
	return m.notes, m.of.record("%s renames %s to %s", user, vm, to)
}

func (m *machines) SetAutostart(_ context.Context, user, vm string, on bool) error {
	return m.of.record("%s sets the autostart of %s to %v", user, vm, on)
}

func (m *machines) OwnData(context.Context, string) ([]string, error) {
	return []string{"/data/web/disk.img (20 GiB)", "2 snapshots"}, nil
}

func (m *machines) DeleteWithData(_ context.Context, user, vm string) ([]string, error) {
	return []string{"/srv/shared.img"}, m.of.record("%s deletes %s with its data", user, vm)
}

// guests are visitors with a name from a header. "admin" may do everything; others have permissions.
type guests struct {
	mutex       sync.Mutex
	permissions []v1.Permission
	ofPools     []v1.PoolPermission
	conlets     map[string][]string
	ended       chan struct{}
	touched     atomic.Int32
}

func (g *guests) Handler(_ *Server, pages http.Handler) http.Handler { return pages }
func (g *guests) Of(r *http.Request) access.Subject {
	user := r.Header.Get("Test-User")
	if user == "" {
		user = "admin"
	}
	return access.Subject{User: user, Roles: []string{"staff"}}
}

func (g *guests) Decide(_ context.Context, who access.Subject, verb access.Verb, vm *fleet.VM) access.Decision {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	rights := access.VM{Name: vm.Name, Permissions: g.permissions}
	if may, listed := vm.Labels["may"]; listed { // only this permission, for this VM
		rights.Permissions = []v1.Permission{{User: "guest", May: []v1.Action{v1.Action(may)}}}
	}
	rights.ConsoleUser = vm.Labels["used-by"]
	return access.Decide(administered, who, verb, rights)
}

func (g *guests) DecidePool(ctx context.Context, who access.Subject, verb access.Verb, pool string) access.Decision {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	rights := access.Pool{Name: pool, Permissions: g.ofPools}
	return access.Authorizer{Policy: administered}.DecidePool(ctx, who, verb, rights)
}

// administered is the policy of tests.
var administered = access.Policy{Administrators: access.Names{Users: []string{"admin"}}}

func (g *guests) MayUse(who access.Subject, page access.Page) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	policy := administered
	policy.Conlets = g.conlets
	return policy.MayUse(who, page)
}

// roles sets the pages that roles may use, as lists of widgets.
func (g *guests) roles(conlets map[string][]string) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.conlets = conlets
}
func (g *guests) Ended(*http.Request) <-chan struct{} { return g.ended }
func (g *guests) Check(*http.Request)                 {}
func (g *guests) HasPageKey(*http.Request) bool       { return true }
func (g *guests) Scheme(*http.Request) string         { return "http" }
func (g *guests) Touch(*http.Request)                 { g.touched.Add(1) }

func (g *guests) allow(user string, may ...v1.Action) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.permissions = []v1.Permission{{User: user, May: may}}
}

// play is a server with a fleet and visitors that a test sets.
type play struct {
	*stage
	*guests
	t      testing.TB
	server *Server
	http   *httptest.Server
}

func newPlay(t testing.TB, vms ...*fleet.VM) *play {
	t.Helper()
	p := &play{
		stage:  &stage{conns: make(chan net.Conn, 8), defined: newDefined()},
		guests: &guests{ended: make(chan struct{})}, t: t,
	}
	for _, vm := range vms {
		p.Put(vm)
	}
	var err error
	p.server, err = New(Options{
		Fleet: p.stage, Visitors: p.guests, Title: "office", Version: "1.0", Log: slog.New(slog.DiscardHandler),
		FirstStep: "vmrunner create NAME",
	})
	require.NoError(t, err)
	p.http = httptest.NewServer(p.server)
	t.Cleanup(p.http.Close)
	return p
}

// call makes a request, and returns the answer and its body.
func (p *play) call(method, path, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.http.URL+path, stringReader(body))
	require.NoError(p.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return answer, string(text)
}

var then = time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)

// sample returns a VM in a state, with a value in every field.
func sample(name string, state fleet.State) *fleet.VM {
	vm := &fleet.VM{
		Name: name, Type: "standard", State: state, Since: then, Wanted: true, Node: "node-1",
		CPUs: fleet.Amount{Wanted: 2, Maximum: 4}, RAM: fleet.Amount{Wanted: 1 << 30, Maximum: 3 << 29},
		Labels: map[string]string{"team": "sales"}, File: "/etc/opt/vmrunner/" + name + ".yaml",
		Can:    map[fleet.Action]bool{},
		Drives: []fleet.Drive{{Name: "drive 0", Medium: "debian.iso"}},
		Cards: []fleet.Card{
			{Network: "tap", Bridge: "br0", Model: "e1000e", MAC: "52:54:00:00:00:01"}, {Network: "user", Down: true},
		},
		Volumes: []fleet.Volume{
			{
				Kind: fleet.VirtualDisk, Name: name + "-system", Size: 20 << 30, State: "Ready",
				Source: "VirtualImage/debian-12",
			},
			{Kind: fleet.CDDrive, Name: "drive 0", Source: "debian.iso"},
		},
	}
	if state == fleet.Failed || state == fleet.Pending {
		vm.Message, vm.Reason = "no <b>node</b> has the memory", "Unschedulable"
		vm.Volumes[0].State, vm.Volumes[0].Progress = "Provisioning", "45%"
		vm.Volumes[0].Message = "the image of <b>debian</b> is being imported"
	}
	if !state.Up() {
		vm.Can[fleet.Start], vm.Can[fleet.Delete] = true, true
		return vm
	}
	vm.Started, vm.CPUs.Now, vm.RAM.Now = then, 2, 1<<30
	vm.SSH, vm.Addresses = "vmrunner ssh "+name, []fleet.Address{
		{Address: "127.0.0.1", From: "Host", Ports: []fleet.Port{
			{TCP: true, Port: 2222, Guest: 22}, {Port: 53, Guest: 5353},
		}},
		{Address: "fd00::15", From: "Unknown", Claimed: true},
	}
	vm.OS, vm.OSID, vm.User = "Debian GNU/Linux 12", "debian", "alice"
	vm.Viewers = []fleet.Viewer{{Kind: "vnc", Who: "bob", Since: then}}
	vm.Screen, vm.SPICE, vm.Console = true, true, true
	vm.RestartAwaitingChanges = []fleet.Change{{
		Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4, DesiredValue: 8,
	}}
	vm.Operations = []fleet.Operation{{
		Name: name + "-restart-x2b7k", Type: "Restart", By: "alice", Since: then, Phase: "Completed",
		Reason: "OperationCompleted", Message: "the guest is running on node node-1",
	}}
	vm.Problems = []fleet.Problem{{Path: "vm.currentRam", Message: "the balloon has no driver"}}
	vm.Conditions = []fleet.Condition{
		{Type: "Running", Status: "True", Reason: "VmStarted", Since: then},
		{Type: "Ready", Status: "False", Reason: "Paused", Message: "the VM is paused", Since: then.Add(time.Minute)},
	}
	vm.Details = []fleet.Detail{{Key: "qemu", Value: "7.2.22, process 12"}}
	for _, a := range fleet.Actions() {
		vm.Can[a] = a != fleet.Start && a != fleet.Delete && (a == fleet.Resume) == (state == fleet.Paused)
	}
	vm.Can[fleet.Stop], vm.Can[fleet.Migrate] = state != fleet.Stopping, false
	return vm
}

// happened returns the events of a VM up to a time.
func happened(now time.Time) []fleet.Event {
	at := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	events := []fleet.Event{
		{At: at(1), Count: 1, User: "alice", Action: "resize", Reason: "Requested", Text: "2 CPUs, 1536Mi of RAM"},
		{At: at(9), Count: 1, Reason: "ConsoleConnected", Text: "vnc bob"},
		{At: at(13), Count: 1, Reason: "Started", Text: "the guest is running on node node-1"},
		{
			At: at(14), Count: 17, Warning: true, About: "Pod web-0", Reason: "FailedScheduling",
			Text: "0/3 nodes are available: 3 <b>Insufficient</b> memory. preemption: 0/3 nodes are available",
		},
		{At: at(15), Count: 1, User: "alice", Action: "start", Reason: "Requested", Text: "start"},
	}
	for i := range 12 {
		events = append(events, fleet.Event{At: at(60 + i), Count: 1, Reason: "Unheard.of", Text: fmt.Sprint(i)})
	}
	return events
}

// oneOfEach returns a VM in each state.
func oneOfEach() []*fleet.VM {
	var vms []*fleet.VM
	for _, s := range fleet.States() {
		vms = append(vms, sample("vm-"+string(s[0]|32)+string(s[1:]), s))
	}
	return vms
}

func v1Action(s string) v1.Action { return v1.Action(s) }

func stringReader(s string) io.Reader { return strings.NewReader(s) }

// has reports whether an action was recorded.
func (f *stage) has(what string) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Contains(f.done, what)
}

func (f *stage) setFails(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fails = err
}
