package inventory

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/yamlfile"
)

func TestDraft(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	text, err := h.Draft(Draft{
		Name: "web: 1", Type: "standard", CPUs: 2, RAM: "2GiB",
		Disks: []string{"20 GiB", "/images/data.qcow2", "1 GiB"},
		CD:    "/images/debian.iso", Network: "user", Display: "vnc", User: "joe",
		SSHKeys:  []string{"ssh-ed25519 AAAA joe@here"},
		Settings: []string{"vm.powerdownTimeout=60", "vm.drives[3].bus=scsi"},
	})
	require.NoError(t, err)
	data := filepath.Join(h.dir, "data/vmrunner/web: 1")
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
    name: 'web: 1'
    maximumCpus: 2
    maximumRam: 2 GiB
    powerdownTimeout: 60
    network:
      - type: user
    drives:
      - file: '`+data+`/disk.img'
        size: 20 GiB
      - file: /images/data.qcow2
        format: qcow2
      - file: '`+data+`/disk3.img'
        size: 1 GiB
      - type: ide-cd
        file: /images/debian.iso
        bus: scsi
    display:
      vnc: {}
`, string(text))
	_, warnings, err := h.Create(t.Context(), "web: 1", false, text, "")
	require.NoError(t, err)
	require.Len(t, warnings, 1, "images that aren't there")

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
	require.NoError(t, err)
}
