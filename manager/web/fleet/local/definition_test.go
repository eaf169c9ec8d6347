package local

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/runner/config"
	"vmop/runner/inventory"
)

// folder is a fleet of the VMs that are configured in a test folder.
type folder struct {
	*Fleet
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	dir := t.TempDir()
	variables := map[string]string{"HOME": dir, "XDG_DATA_HOME": dir + "/data", "XDG_RUNTIME_DIR": dir + "/run"}
	env := config.HostEnv()
	env.Getenv = func(name string) string { return variables[name] }
	env.HomeDir, env.UserName = dir, filepath.Base(dir)
	places := []inventory.Place{{Folder: filepath.Join(dir, "vms"), Detached: true, Env: env}}
	log := slog.New(slog.DiscardHandler)
	inv := inventory.New(inventory.Options{Env: env, Places: places, Log: log})
	return &folder{New(t.Context(), inv, "", log), t, dir}
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.MkdirAll(f.dir+"/vms", 0o700))
	require.NoError(f.t, os.WriteFile(f.file(name), []byte(text), 0o600))
}

func (f *folder) file(name string) string { return f.dir + "/vms/" + name + ".yaml" }

func (f *folder) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(f.file(name))
	require.NoError(f.t, err)
	return string(text)
}

func (f *folder) definition(name string) *fleet.Definition {
	f.t.Helper()
	d, err := f.Definition(f.t.Context(), name)
	require.NoError(f.t, err)
	return d
}

// The form offers the ISO files in VMs, next to them and in the folder of downloads. The sizes are those of the type.
func TestOfferedCDs(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	for _, file := range []string{"Downloads/a.ISO", "Downloads/b.txt", "isos/c.iso", "isos/d.iso"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(f.dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, file), nil, 0o600))
	}
	f.Put(&fleet.VM{Name: "web", Drives: []fleet.Drive{
		{Medium: f.dir + "/isos/d.iso"}, {Medium: "https://x/y.iso"}, {},
	}})
	require.Equal(t, []string{f.dir + "/Downloads/a.ISO", f.dir + "/isos/c.iso", f.dir + "/isos/d.iso"},
		f.knownCDs(f.dir))
	about, err := f.VMType(t.Context(), "windows")
	require.NoError(t, err)
	require.EqualValues(t, 64<<30, about.Disk)
	require.Equal(t, "virtioDrivers", about.Drivers)
	require.Equal(t, "diskBus: sata, networkCard: e1000e", about.Without)
	text, err := f.Draft(t.Context(), &fleet.Draft{
		Name: "win", Type: "windows", CPUs: 2, RAM: 4 << 30, CD: true, Medium: "/isos/win.iso",
		Disks: []fleet.Disk{{Size: 64 << 30}},
	})
	require.NoError(t, err)
	require.Contains(t, text, "diskBus: sata")
	require.Contains(t, text, "networkCard: e1000e")
}

// The log of a VM is shown since its last start, and at most its end.
func TestLog(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("web", "\"/Runner\":\n  vm:\n    name: web\n")
	_, err := f.Log(t.Context(), "web")
	require.ErrorContains(t, err, "it was never started")
	_, err = f.Log(t.Context(), "other")
	require.ErrorIs(t, err, fleet.ErrNotFound)
	vm, err := f.inventory.Find(t.Context(), "web")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(vm.LogFile()), 0o700))
	const start = "time=1 level=INFO msg=\"web initializing state=Initializing pid=1\"\n"
	log := start + "before\n" + start + strings.Repeat("a line\n", longestLog)
	require.NoError(t, os.WriteFile(vm.LogFile(), []byte("one\n"), 0o600))
	text, err := f.Log(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, "one\n", text)
	require.NoError(t, os.WriteFile(vm.LogFile(), []byte(log), 0o600))
	text, err = f.Log(t.Context(), "web")
	require.NoError(t, err)
	require.LessOrEqual(t, len(text), longestLog)
	require.True(t, strings.HasPrefix(text, "a line\n") && strings.HasSuffix(text, "a line\n"))
}

// A size beyond the maximum raises the maximum.
func TestResizeBeyondTheMaximum(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("web", "\"/Runner\":\n  vm:\n    name: web\n    maximumCpus: 4\n    currentCpus: 2\n    maximumRam: 1 GiB\n")
	f.Fleet = New(t.Context(), f.inventory, "", slog.New(slog.DiscardHandler)) // reads the file
	require.NoError(t, f.Resize(t.Context(), "", "web", fleet.Size{CPUs: new(int64(3)), RAM: new(int64(512 << 20))}))
	require.Contains(t, f.read("web"), "    name: web\n    maximumCpus: 4\n    currentCpus: 3\n    maximumRam: 1 GiB\n")
	require.NoError(t, f.Resize(t.Context(), "", "web", fleet.Size{CPUs: new(int64(6)), RAM: new(int64(2 << 30))}))
	require.Contains(t, f.read("web"), "    name: web\n    maximumCpus: 6\n    currentCpus: 6\n    maximumRam: 2048 MiB\n")
	require.Contains(t, f.read("web"), "    currentRam: 2048 MiB\n")
}

func (f *folder) faults(name string, d *fleet.Definition) fleet.Faults {
	f.t.Helper()
	check, err := f.Check(f.t.Context(), name, d)
	require.NoError(f.t, err)
	return check.Faults
}

// A VM is created from a few fields: it is checked, created once, and then listed.
func TestNewVM(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	offer, err := f.Offer(t.Context())
	require.NoError(t, err)
	require.Equal(t, "standard", offer.Type)
	require.Contains(t, offer.Types, "windows")
	require.Equal(t, []string{"user", "passt", "tap", "masquerade", "none"}, offer.Networks)
	require.Contains(t, offer.Known, fleet.KnownImage{Name: "debian/12", Host: "cloud.debian.org"})
	require.Empty(t, offer.User, "there is no key for it")
	key := filepath.Join(f.dir, ".ssh", "id_ed25519.pub")
	require.NoError(t, os.MkdirAll(filepath.Dir(key), 0o700))
	require.NoError(t, os.WriteFile(key, []byte("ssh-ed25519 AAAA joe\n"), 0o600))
	offer, err = f.Offer(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"ssh-ed25519 AAAA joe"}, offer.Keys)
	image, err := f.Draft(t.Context(), &fleet.Draft{Name: "db", CPUs: 1, RAM: 1 << 30, Image: "debian/12"})
	require.NoError(t, err)
	require.Contains(t, image, "source: debian/12\n")
	about, err := f.VMType(t.Context(), "windows")
	require.NoError(t, err)
	require.NotEmpty(t, about.Options)
	_, err = f.VMType(t.Context(), "windos")
	require.ErrorAs(t, err, new(fleet.Refusal))

	text, err := f.Draft(t.Context(), &fleet.Draft{
		Name: "web", Type: "windows", CPUs: 2, RAM: 1 << 30, Network: "user", Screen: true, CD: true,
		Disks: []fleet.Disk{{Size: 20 << 30}, {Image: f.dir + "/a.qcow2"}}, User: "joe",
		Keys: []string{"ssh-ed25519 AAAA a", "ssh-ed25519 AAAA b"}, Password: true,
		Options: map[string]string{"tpm": "false", "diskBus": `"sata"`},
	})
	require.NoError(t, err)
	for _, part := range []string{
		"name: web", "currentCpus: 2", "maximumRam: 1 GiB", "size: 20 GiB", "format: qcow2", "- type: ide-cd\n",
		`passwd: "` + fleet.NewPassword + `"`, "lock_passwd: false", `- "ssh-ed25519 AAAA b"`, "tpm: false",
		"diskBus: sata",
		"vnc: {}", f.dir + "/data/vmrunner/web/disk.img",
	} {
		require.Contains(t, text, part)
	}
	check, err := f.Check(t.Context(), "web", &fleet.Definition{Text: text})
	require.NoError(t, err)
	require.Len(t, check.Faults, 1)
	require.Equal(t, "vm.drives[1].file", check.Faults[0].Path, "the image that isn't there")
	require.Equal(t, check.Faults, f.Create(t.Context(), "joe", "web", text, ""))
	require.NoError(t, os.WriteFile(f.dir+"/a.qcow2", nil, 0o600))
	check, err = f.Check(t.Context(), "web", &fleet.Definition{Text: text})
	require.NoError(t, err)
	require.Empty(t, check.Faults)
	require.NotEmpty(t, check.Plan)
	require.NoFileExists(t, f.file("web"), "nothing was written")

	require.NoError(t, f.Create(t.Context(), "joe", "web", text, ""))
	vm, err := f.Get("web")
	require.NoError(t, err, "it is known at once")
	require.Equal(t, fleet.Stopped, vm.State)
	require.ErrorIs(t, f.Create(t.Context(), "joe", "web", text, ""), fleet.ErrExists)
	_, err = f.Check(t.Context(), "web", &fleet.Definition{Text: text})
	require.ErrorIs(t, err, fleet.ErrExists)

	require.NoError(t, os.MkdirAll(f.dir+"/data/vmrunner/web", 0o700))
	left, err := f.Left(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, []string{f.dir + "/data/vmrunner/web", f.dir + "/a.qcow2"}, left)
}

// All errors are found together, each with its field.
func TestFaultsOfANewVM(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	_, err := f.Draft(t.Context(), &fleet.Draft{
		Name: "web", CPUs: -1, Network: "token-ring", Disks: []fleet.Disk{{Size: 3}},
		Options: map[string]string{"tpm": "[}"},
	})
	var faults fleet.Faults
	require.ErrorAs(t, err, &faults)
	var paths []string
	for _, fault := range faults {
		paths = append(paths, fault.Path)
		require.Zero(t, fault.Line, "%+v", fault)
	}
	require.Subset(t, paths, []string{"vm.network[0].type", "vm.drives[0].size", "vm.currentCpus"}, "%v", faults)
	_, err = f.Draft(t.Context(), &fleet.Draft{Name: "../x"})
	require.ErrorAs(t, err, &faults)
	require.Equal(t, "vm.name", faults[0].Path)
	_, err = f.Draft(t.Context(), &fleet.Draft{Name: "web", Disks: []fleet.Disk{{Size: 1 << 30}, {Image: "a.img"}}})
	require.ErrorAs(t, err, &faults)
	require.Equal(t, "vm.drives[1].file", faults[0].Path)

	require.Equal(t, "vm.options.tmp", f.faults("web", &fleet.Definition{
		Text: "/Runner:\n  vmType: windows\n  vm:\n    name: web\n    options: {tmp: true}\n",
	})[0].Path)
	require.Equal(t, fleet.Faults{{Path: "vm.nam", Line: 3, Message: "unknown key (did you mean name?)"}},
		f.faults("web", &fleet.Definition{Text: "/Runner:\n  vm:\n    nam: web\n"})[:1])
	require.Equal(t, "vm.name", f.faults("web", &fleet.Definition{Text: "/Runner:\n  vm:\n    name: db\n"})[0].Path)
	require.NotEmpty(t, f.faults("web", &fleet.Definition{Text: "a: ["}))
	require.Equal(t, "vm.display", f.faults("web", &fleet.Definition{
		Text: "/Runner:\n  vmType: cloud\n  vm:\n    name: web\n    display: {vnc: {}}\n",
	})[0].Path)
}

const withSecrets = `# of the office
"/Runner":
  cloudInit:
    userData:
      password: canary # of joe
    metaData: {key: canary}
  vm:
    name: web   # the first
    maximumCpus: 2
    drives:
      - {type: ide-cd, file: "https://me:canary@x/y.iso"}
`

// Secrets are not shown, and stay when the rest of the definition is changed.
func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("web", withSecrets)
	d := f.definition("web")
	require.NotContains(t, d.Text, "canary")
	d.Text = strings.Replace(d.Text, "maximumCpus: 2", "maximumCpus: 3", 1)
	require.Empty(t, f.faults("web", d))
	require.NoError(t, f.Replace(t.Context(), "joe", "web", d))
	saved := f.read("web")
	require.Equal(t, strings.Replace(withSecrets, "maximumCpus: 2", "maximumCpus: 3", 1), saved,
		"all else is as it was")

	require.ErrorIs(t, f.Replace(t.Context(), "joe", "web", d), fleet.ErrChanged, "it was changed meanwhile")
	d = f.definition("web")
	d.Text = strings.Replace(d.Text, "x/y.iso", "evil.example/y.iso", 1)
	require.Contains(t, f.faults("web", d).Error(), "the password of https://…@evil.example/y.iso is not known")
	require.ErrorAs(t, f.Replace(t.Context(), "joe", "web", d), new(fleet.Faults))
	d = f.definition("web")
	d.Text = strings.Replace(d.Text, "metaData:", "vendorData:", 1)
	require.Equal(t, "cloudInit.vendorData", f.faults("web", d)[0].Path)
	d.Text = strings.Replace(f.definition("web").Text, "name: web", `name: "`+fleet.Kept+`"`, 1)
	require.NotEmpty(t, f.faults("web", d))
	require.Equal(t, saved, f.read("web"), "a definition with faults is not saved")

	_, err := f.Definition(t.Context(), "other")
	require.ErrorIs(t, err, fleet.ErrNotFound)
	f.write("bad", strings.Replace(withSecrets, "cloudInit", "cloudInt", 1))
	_, err = f.Definition(t.Context(), "bad")
	require.ErrorAs(t, err, new(fleet.Refusal))
	require.NotContains(t, err.Error(), "canary")
}
