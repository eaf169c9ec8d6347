package inventory

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/vmspec"
)

func TestDraft(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	text, err := h.Draft(Draft{
		Name: "web.1", Type: "standard", CPUs: 2, RAM: "2GiB",
		Disks: []string{"20 GiB", "/images/data.qcow2", "1 GiB"},
		CD:    "/images/debian.iso", Network: "user", Display: "vnc", User: "joe",
		SSHKeys:  []string{"ssh-ed25519 AAAA joe@here"},
		Settings: []string{"vm.powerdownTimeout=60", "vm.drives[3].bus=scsi"},
	})
	require.NoError(t, err)
	data := filepath.Join(h.dir, "data/vmrunner/web.1")
	require.Equal(t, `/Runner:
  cloudInit:
    userData:
      users:
        - name: "joe"
          sudo: "ALL=(ALL) NOPASSWD:ALL"
          shell: "/bin/bash"
          ssh_authorized_keys:
            - "ssh-ed25519 AAAA joe@here"
  vmType: standard
  vm:
    name: web.1
    maximumCpus: `+strconv.Itoa(max(2, runtime.NumCPU()))+`
    currentCpus: 2
    maximumRam: 2 GiB
    powerdownTimeout: 60
    network:
      - type: user
    drives:
      - file: `+data+`/disk.img
        size: 20 GiB
      - file: /images/data.qcow2
        format: qcow2
      - file: `+data+`/disk3.img
        size: 1 GiB
      - type: ide-cd
        file: /images/debian.iso
        bus: scsi
    display:
      vnc: {}
`, string(text))
	_, _, err = h.Create(t.Context(), "web.1", false, text, "")
	require.ErrorContains(t, err, `"/images/data.qcow2" does not exist`)
	require.ErrorContains(t, err, `"/images/debian.iso" does not exist`)

	text, err = h.Draft(Draft{Name: "web", Image: "debian/12", Network: "none"})
	require.NoError(t, err)
	require.Contains(t, string(text), "/vmrunner/web/disk.img\n        source: debian/12\n")
	require.NotContains(t, string(text), "size:")
	text, err = h.Draft(Draft{Name: "small", Network: "none"})
	require.NoError(t, err)
	require.Equal(t, "/Runner:\n  vmType: standard\n  vm:\n    name: small\n    network: []\n", string(text))
	_, err = h.Draft(Draft{Name: "small", RAM: "much", CPUs: -1, Settings: []string{"vm.maximumCpu=1"}})
	var faults yamlfile.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 3, "%v", err)
}

func TestCopy(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	source := []byte("# Mine.\n" + string(text("web", quick, "drives: [{file: /images/a.img}]")))
	copied, err := Copy("/some/web.yaml", source, "web")
	require.NoError(t, err)
	require.Equal(t, string(source), string(copied), "nothing has to be changed")

	source = []byte("\"/Runner\":\n  dataDir: data\n  vm:\n    name: web\n    drives: [{file: a.img}]\n")
	copied, err = Copy("/some/web.yaml", source, "db", "vm.maximumCpus=3")
	require.NoError(t, err)
	require.Equal(t, "/Runner:\n  vmType: standard\n  vm:\n    name: db\n    maximumCpus: 3\n    drives:\n"+
		"      - file: /some/a.img\n", string(copied))
	_, _, err = h.Create(t.Context(), "db", false, copied, "")
	require.ErrorContains(t, err, `"/some/a.img" does not exist`)
}

// The command line, --dry-run, the web pages and the JSON interface refuse a new VM with the same messages. Each of
// them calls Draft and ReviewNew, or Create.
func TestOneCheckOfNewVMs(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	image := filepath.Join(h.dir, "image.qcow2")
	require.NoError(t, exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", image, "2G").Run())
	raw := h.write("raw.img", make([]byte, 2<<20))
	for name, c := range map[string]struct {
		draft Draft
		want  string
	}{
		"a CD that is missing":         {Draft{CD: "/nowhere/a.iso"}, `vm.drives[0].file: "/nowhere/a.iso" does not`},
		"a CD without a folder":        {Draft{CD: "nofile.iso"}, `/nofile.iso" does not exist`},
		"a disk that is missing":       {Draft{Disks: []string{"/nowhere/a.img"}}, `"/nowhere/a.img" does not exist`},
		"an image that is missing":     {Draft{Image: "/nowhere/a.qcow2", Disks: []string{"2GiB"}}, "/nowhere/"},
		"a disk less than its image":   {Draft{Image: image, Disks: []string{"1 GiB"}}, "needs 2 GiB; use at least"},
		"a disk less than a raw image": {Draft{Image: raw, Disks: []string{"1 MiB"}}, "needs 2 MiB; use at least"},
		"a name of two words":          {Draft{Name: "My VM"}, "use letters, digits"},
		"a VM type that there is not":  {Draft{Type: "windoze"}, "windoze"},
		"more RAM than there is":       {Draft{RAM: "900 TiB"}, "900"},
		"a CD of a cloud's metadata":   {Draft{CD: "http://169.254.169.254/a"}, "file: cannot read the medium: 169"},
		"a CD at 127.1":                {Draft{CD: "http://127.1/a.iso"}, "file: cannot read the medium: 127.1"},
		"an image at such an address":  {Draft{Image: "http://[fe80::1]/a"}, "vm.drives[0].source: fe80"},
		"a CD by the name of a server": {Draft{CD: "http://cds.invalid/a.iso"}, ""},
		"a CD of this computer":        {Draft{CD: "http://127.0.0.1:8000/a.iso"}, ""},
		"nothing wrong":                {Draft{Image: image, Disks: []string{"2 GiB"}}, ""},
		"the image's size":             {Draft{Image: image}, ""},
	} {
		d := c.draft
		if d.Name == "" {
			d.Name = "web"
		}
		d.Network = "none"
		text, err := h.Draft(d)
		if err == nil {
			_, err = h.ReviewNew(t.Context(), d.Name, false, text)
		}
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		if text == nil {
			continue
		}
		_, _, made := h.Create(t.Context(), d.Name, false, text, "")
		require.EqualError(t, made, err.Error(), name)
	}
	require.NoDirExists(t, filepath.Join(h.dir, "user"), "nothing is written")
}

// Web pages and command line refuse a disk smaller than its image.
func TestADiskIsSmallerThanItsImage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "disk.raw")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Truncate(file, int64(2*vmspec.MiB)))
	inv := newHere(t)
	_, err := inv.Draft(Draft{Name: "web", Image: file, Disks: []string{"1MiB"}})
	require.ErrorAs(t, err, new(SmallDisk))
	require.ErrorContains(t, err, "needs 2 MiB; use at least that size")
	_, err = inv.Draft(Draft{Name: "web", Image: file, Disks: []string{"2MiB"}})
	require.NoError(t, err)
}
