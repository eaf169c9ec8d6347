package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/cli"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/access/login/logintest"
	"vmop/manager/web"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/hardware"
	"vmop/test/logbook"

	v1 "vmop/api/v1"
)

// vms is a fleet with the test's VMs. Operations on them take effect immediately.
type vms struct {
	fleet.Fleet
	table fleet.Table

	mu       sync.Mutex
	done     []string
	occupied bool
}

func (f *vms) List() []*fleet.VM                  { return f.table.List() }
func (f *vms) Outline() []*fleet.VM               { return f.table.List() }
func (f *vms) Whole(vms []*fleet.VM) []*fleet.VM  { return vms }
func (f *vms) Get(name string) (*fleet.VM, error) { return f.table.Get(name) }
func (f *vms) Changed() <-chan struct{}           { return f.table.Changed() }
func (f *vms) Used() fleet.Use                    { return fleet.UseOf(f.table.List()) }
func (f *vms) Storage() fleet.Storage             { return nil }
func (f *vms) Attachments() fleet.Attachments     { return nil }
func (f *vms) Snapshots() fleet.Snapshots         { return nil }
func (f *vms) Restores() fleet.Restores           { return nil }
func (f *vms) Copies() fleet.Copies               { return nil }
func (f *vms) Autostarts() fleet.Autostarts       { return nil }
func (f *vms) DataDeletion() fleet.DataDeletion   { return nil }
func (f *vms) Pools() fleet.Pools                 { return onePool{f} }

// onePool contains a pool with the VM d1, which any user can claim.
type onePool struct{ of *vms }

func (p onePool) Pools() []*fleet.Pool {
	one := &fleet.Pool{Name: "desktops", Available: 1}
	if vm, err := p.of.Get("d1"); err == nil {
		one.Available = 0
		one.Members = []fleet.PoolMember{{VM: "d1", State: "retained", Assigned: vm.Assigned}}
	}
	return []*fleet.Pool{one}
}

func (p onePool) Claim(_ context.Context, user, name string) (string, error) {
	p.of.record("%s claim %s", user, name)
	p.of.put("d1", fleet.Running, func(vm *fleet.VM) { vm.Assigned = &fleet.Assigned{Pool: name, User: user} })
	return "d1", nil
}

func (p onePool) Release(_ context.Context, user, vm string) error {
	p.of.record("%s release %s", user, vm)
	p.of.table.Remove(vm)
	return nil
}

func (f *vms) put(name string, state fleet.State, change ...func(*fleet.VM)) {
	up := state.Up()
	vm := &fleet.VM{
		Name: name, UID: "uid-" + name, State: state, Reason: "Because", Message: "it is so", Wanted: up,
		CPUs:   fleet.Amount{Now: 1, Wanted: 1, Maximum: 4},
		RAM:    fleet.Amount{Now: 1 << 30, Wanted: 1 << 30, Maximum: 4 << 30},
		Drives: []fleet.Drive{{Name: "drive 1"}}, Screen: up, SPICE: up, Console: up, Started: time.Now(),
		RestartAwaitingChanges: []fleet.Change{{
			Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4, DesiredValue: 8,
		}},
		Can: map[fleet.Action]bool{
			fleet.Start: !up, fleet.Delete: true, fleet.Stop: up, fleet.Kill: up, fleet.Restart: up, fleet.Reset: up,
			fleet.ForceRestart: up,
			fleet.Pause:        state == fleet.Running, fleet.Resume: state == fleet.Paused,
		},
	}
	for _, c := range change {
		c(vm)
	}
	f.table.Put(vm)
}

func (f *vms) record(format string, values ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, fmt.Sprintf(format, values...))
}

// took returns the operations since the last call.
func (f *vms) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.done
	f.done = nil
	return done
}

func (f *vms) Do(_ context.Context, user, name string, a fleet.Action) error {
	f.record("%s %s %s", user, a, name)
	switch a {
	case fleet.Delete:
		f.table.Remove(name)
	case fleet.Stop, fleet.Kill:
		f.put(name, fleet.Stopped)
	case fleet.Pause:
		f.put(name, fleet.Paused)
	default:
		f.put(name, fleet.Running)
	}
	return nil
}

func (f *vms) Resize(_ context.Context, user, name string, s fleet.Size) error {
	f.record("%s resize %s %d %d", user, name, *s.CPUs, *s.RAM)
	f.put(name, fleet.Running, func(vm *fleet.VM) { vm.CPUs.Now, vm.RAM.Now = *s.CPUs, *s.RAM })
	return nil
}

func (f *vms) Insert(_ context.Context, user, name, drive, medium string) error {
	f.record("%s insert %s %s %q", user, name, drive, medium)
	return nil
}

func (f *vms) Check(context.Context, string, *fleet.Definition) (*fleet.Check, error) {
	return &fleet.Check{Faults: fleet.Faults{{Path: "spec.vm.maximumCpus", Line: 7, Message: "want fewer"}}}, nil
}

func (f *vms) Create(_ context.Context, user, name, text string, _ fleet.Data) error {
	f.record("%s create %s %v", user, name, strings.Contains(text, "state: Stopped"))
	f.put(name, fleet.Stopped)
	return nil
}

func (f *vms) Left(context.Context, string) ([]string, error) { return []string{"a disk"}, nil }

func (f *vms) Plan(context.Context, string) ([]fleet.Argument, error) {
	return []fleet.Argument{
		{Text: "qemu"}, {Depth: 1, Text: "-m 512M", Origins: []string{"memory.star:14 memory"}},
	}, nil
}

func (f *vms) Devices(_ context.Context, name string) (hardware.Report, error) {
	if vm, err := f.Get(name); err != nil || !vm.State.Up() {
		return hardware.Report{}, describe.NoDevices
	}
	return hardware.Report{Devices: []hardware.Device{{
		ID: "disk1", Driver: "virtio-blk-pci", PCI: "0000:00:10.0", Names: []string{"/dev/vdb"},
		Field: "spec.vm.disks[1]",
		Lines: []hardware.Line{{Text: "-device virtio-blk-pci,id=disk1", Origin: "disks.star:40 disk"}},
	}}}, nil
}

func (f *vms) Screenshot(_ context.Context, w io.Writer, _ string) error {
	_, err := io.WriteString(w, "\x89PNG")
	return err
}

// Console returns a connection that prints the user and the mode, and ends.
func (f *vms) Console(_ context.Context, user, _ string, mode fleet.Mode) (net.Conn, error) {
	if f.occupied && mode == fleet.Type {
		return nil, fleet.ErrOccupied
	}
	near, far := net.Pipe()
	go func() {
		_, _ = fmt.Fprintf(far, "hello %s, you %s\n", user, mode)
		_ = far.Close()
	}()
	return near, nil
}

// Forward connects to a server that answers after its client has sent everything.
func (f *vms) Forward(ctx context.Context, _, _ string, port int) (net.Conn, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question, _ := io.ReadAll(conn)
		_, _ = fmt.Fprintf(conn, "port %d has got %q", port, question)
	}()
	return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
}

// place is a manager that serves vms to users of a provider.
type place struct {
	*vms
	t        *testing.T
	provider *logintest.Provider
	log      *logbook.Logbook
	flags    []string
	token    string // path of the token file
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{vms: &vms{}, t: t, log: &logbook.Logbook{}}
	var err error
	p.provider, err = logintest.New(map[string]any{"preferred_username": "ann"})
	require.NoError(t, err)
	t.Cleanup(p.provider.Close)
	log := slog.New(slog.NewTextHandler(p.log, nil))
	service, err := login.New(login.Options{Log: log, Now: time.Now, Sleep: login.Sleep})
	require.NoError(t, err)
	service.Configure(login.Config{Providers: []login.Provider{{
		Name: "corp", ConfigurationEndpoint: p.provider.URL + login.WellKnown, ClientID: p.provider.ClientID,
	}}})
	pages, err := web.New(web.Options{Fleet: p.vms, Log: log, Visitors: &web.Guard{
		Login: service, Access: func() access.Authorizer { return access.Authorizer{} },
		Rights: func(vm *fleet.VM) access.VM {
			may := v1.Action("*")
			if vm.Name == "poor" {
				may = "start"
			}
			return access.VM{Name: vm.Name, Permissions: []v1.Permission{{User: "ann", May: []v1.Action{may}}}}
		},
		PoolRights: func(name string) access.Pool {
			may := []v1.PoolPermission{{User: "ann", May: []v1.PoolAction{"start"}}}
			return access.Pool{Name: name, Permissions: may}
		},
	}})
	require.NoError(t, err)
	server := httptest.NewTLSServer(pages)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(block), 0o600))
	p.token = filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(p.token, []byte(p.provider.IDToken()+"\n"), 0o600))
	p.flags = []string{
		"--manager=" + server.URL, "--manager-ca=" + authority, "--token-file=" + p.token,
		"--kubeconfig=" + filepath.Join(dir, "nothing"),
	}
	return p
}

// run runs a verb, and returns its output.
func (p *place) run(in string, args ...string) (out string, err error) {
	p.t.Helper()
	cmd := newPluginCommand()
	var text bytes.Buffer
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	cmd.SetArgs(append(args, p.flags...))
	err = cmd.ExecuteContext(p.t.Context())
	return text.String(), err
}

// Every verb for the guest works through the manager, without permissions in a cluster and without a kubeconfig, as the
// user of the token.
func TestVerbsThroughTheManager(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put("web", fleet.Stopped)
	for _, c := range []struct{ line, in, out, done string }{
		{"start web --wait", "", "web started", "ann start web"},
		{"start web", "", "web started", ""},
		{"restart web --wait", "", "web restarted", "ann restart web"},
		{"restart web --force --wait", "", "web restarted", "ann force-restart web"},
		{"reset web", "", "web reset", "ann reset web"},
		{"pause web", "", "web paused", "ann pause web"},
		{"resume web", "", "web resumed", "ann resume web"},
		{"resize web --cpus 3 --ram 2Gi --wait", "", "web resized", "ann resize web 3 2147483648"},
		{"cd insert web a.iso", "", "web inserted", `ann insert web drive 1 "a.iso"`},
		{"cd eject web --drive 1", "", "web ejected", `ann insert web drive 1 ""`},
		{"console web --watch", "", "hello ann, you watch\n", ""},
		{"console web --log", "", "hello ann, you watch\n", ""},
		{"screenshot web -f -", "", "\x89PNG", ""},
		{"plan web --why", "", "qemu\n    -m 512M   # memory.star:14 memory\n", ""},
		{"plan web -o json", "", `"text":"-m 512M"`, ""},
		{"why web", "", "vm.maximumCpus   4 -> 8", ""},
		{"why web memory", "", "-m 512M   # memory.star:14 memory\n", ""},
		{"why web m memory", "", "-m 512M   # memory.star:14 memory\n", ""},
		{"why web --devices", "", "/dev/vdb   00:10.0   virtio-blk-pci   disk1   spec.vm.disks[1]\n", ""},
		{"why web vdb", "", "  configuration       spec.vm.disks[1]\n  -device virtio-blk-pci,id=disk1\n    # disks.star:40", ""},
		{"why web 00:10.0 -o json", "", `"field": "spec.vm.disks[1]"`, ""},
		{"port-forward web 22 --stdio", "hello", `port 22 has got "hello"`, ""},
		{"stop web --wait", "", "web stopped", "ann stop web"},
		{"create new", "", "new created", "ann create new true"},
		{"create other --start --wait -o json", "", `"state": "Running"`, "ann create other true; ann start other"},
		{"stop other --force", "", "other stopped", "ann kill other"},
		{"delete new --wait", "", "stays: a disk\n", "ann delete new"},
	} {
		out, err := p.run(c.in, strings.Fields(c.line)...)
		require.NoError(t, err, c.line)
		require.Contains(t, out, c.out, c.line)
		require.Equal(t, c.done, strings.Join(p.took(), "; "), c.line)
	}
	require.Contains(t, p.log.String(), `msg=action user=ann vm=web action=start`)
	token, err := os.ReadFile(p.token)
	require.NoError(t, err)
	require.NotContains(t, p.log.String(), strings.TrimSpace(string(token)))
}

// Refusals of the manager lead to the same exit codes and hints as other refusals.
func TestRefusalsOfTheManager(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put("poor", fleet.Running)
	p.put("web", fleet.Running)
	p.put("off", fleet.Stopped)
	p.occupied = true
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"start nothing":                 {3, "This virtual machine does not exist."},
		"stop poor":                     {4, "you do not have the permission stop"},
		"console poor":                  {4, "you do not have the permission accessConsole"},
		"console web":                   {1, "use --watch to only watch, or --take-over"},
		"console off":                   {1, "VM off: the VM is not running: it is Stopped"},
		"resume web":                    {0, ""}, // unchanged
		"evict web":                     {2, "leave --manager out"},
		"cd insert web a.iso --drive 7": {2, "which drive? --drive 1"},
		"plan web -o argv":              {2, "must be text or json"},
		"delete web --disks":            {2, "the manager keeps disks"},
		"why off --devices":             {1, "cannot list the devices: the VM is not running; start it"},
		"why off vdb":                   {1, "no argument contains vdb, and cannot list the devices: the VM is not"},
		"why web vdx":                   {1, `no argument contains vdx, and the machine has no device "vdx"; list the`},
		"why web m -o json":             {1, `the machine has no device "m"`},
		"why poor --devices":            {4, "you do not have the permission edit"},
		"why web vdb --devices":         {2, "omit DEVICE"},
		"why web -o json":               {2, "only with --devices or one DEVICE"},
		"create web2 --dry-run=server":  {1, "line 7: spec.vm.maximumCpus: want fewer"},
	} {
		_, err := p.run("", strings.Fields(line)...)
		require.Equal(t, want.code, exitCode(err), "%s: %v", line, err)
		if err != nil {
			require.Contains(t, errorText(err), want.text, line)
		}
	}
	require.Empty(t, p.took())
	p.provider.Tamper(func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Hour).Unix() })
	require.NoError(t, os.WriteFile(p.token, []byte(p.provider.IDToken()), 0o600))
	_, err := p.run("", "start", "web")
	require.Equal(t, exitForbidden, exitCode(err))
	require.Contains(t, errorText(err), "it has expired")
}

// A token is sent only over TLS, only to the named manager, and not if it is meant for the API server.
func TestTokensStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.put("web", fleet.Stopped)
	usual := p.flags
	for url, want := range map[string]string{
		"http://vms.example.com": "must be https", "ftp://127.0.0.1": "must be https",
		"vms.example.com":      "must be an address",
		"https://ann:secret@x": "must be an address", "http://127.0.0.1:1": "connection refused",
	} {
		p.flags = append([]string{"--manager=" + url}, usual[2:]...)
		_, err := p.run("", "start", "web")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
	p.flags = append([]string{usual[0]}, usual[2:]...)
	_, err := p.run("", "start", "web")
	require.ErrorContains(t, err, "certificate", "of an authority that isn't known")

	elsewhere := httptest.NewServer(http.RedirectHandler(strings.TrimPrefix(usual[0], "--manager="), http.StatusFound))
	defer elsewhere.Close()
	p.flags = append([]string{"--manager=" + elsewhere.URL}, usual[2:]...)
	_, err = p.run("", "start", "web")
	require.ErrorContains(t, err, "302")
	require.Empty(t, p.took())

	foreign := "e30." + "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIn0" + ".c2ln" // sub: system:serviceaccount:a:b
	for user, want := range map[string]string{
		"token: " + foreign:        "is not sent elsewhere",
		"username: a, password: b": "has no token for the manager",
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [-c, " +
			`'printf "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%s\"}}" ` +
			`"$(cat ` + p.token + `)"']}`: "",
	} {
		file := filepath.Join(t.TempDir(), "config")
		text := "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {" + user + "}}]\n"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		p.flags = []string{usual[0], usual[1], "--kubeconfig=" + file, "--as=other"}
		_, err := p.run("", "start", "web")
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, []string{"ann start web"}, p.took())
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotErrorAs(t, err, new(cli.UsageError))
	}
}

// Pools work through the manager, with the permissions of the pool, for the user of the token.
func TestPoolsThroughTheManager(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, c := range []struct{ line, out, done string }{
		{"pool list", `desktops   0     1           0          0        0`, ""},
		{"pool claim desktops", "d1 assigned to you\n", "ann claim desktops"},
		{"pool get desktops", `d1   retained   ann`, ""},
		{"pool release d1", "d1 released\n", "ann release d1"},
	} {
		out, err := p.run("", strings.Fields(c.line)...)
		require.NoError(t, err, c.line)
		require.Contains(t, out, c.out, c.line)
		require.Equal(t, c.done, strings.Join(p.took(), "; "), c.line)
	}
	for line, code := range map[string]int{
		"pool claim servers": exitNotFound, "pool get servers": exitNotFound, "pool release d9": exitNotFound,
	} {
		_, err := p.run("", strings.Fields(line)...)
		require.Error(t, err, line)
		require.Equal(t, code, exitCode(err), line)
	}
	require.Empty(t, p.took())
}
