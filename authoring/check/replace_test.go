package check_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/check"
	"vmop/authoring/sample"
)

// A check does not affect the computer, even while the VM is running: it opens no images, uses none of the VM's ports,
// and writes no files.
func TestNothingIsTouched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ports := []any{dir}
	for range 4 {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		ports = append(ports, max(taken.Addr().(*net.TCPAddr).Port, 5900))
	}
	disk := filepath.Join(dir, "disk.img")
	require.NoError(t, os.WriteFile(disk, []byte("what the guest has written"), 0o400))
	path := filepath.Join(dir, "vm.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
"/Runner":
  dataDir: %[1]s/data
  runtimeDir: %[1]s/run
  vm:
    name: a
    useTpm: true
    drives:
    - {file: disk.img, format: qcow2} # which it is not
    - {device: /dev/no-such-device}
    - {type: ide-cd, file: "nbd.iso"}
    - {type: ide-cd, file: "http://127.0.0.1:%[2]d/a.iso"}
    network:
    - {type: user, ports: [{host: %[2]d, guest: 22}, {address: 127.0.0.1, host: 1, guest: 23, protocol: udp}]}
    - {type: masquerade, ports: [{host: %[3]d, guest: 22}]}
    - {bridge: no-such-bridge}
    display: {spice: {port: %[4]d}, vnc: {port: %[5]d}}
    serialConsole: {log: console.log}
`, ports...), 0o600))
	s, err := sample.Read(path)
	require.NoError(t, err)
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	r, err := (&check.Checker{}).Sample(t.Context(), s, from(t, ""))
	require.NoError(t, err)
	require.Empty(t, r.Failures)
	require.Empty(t, r.Untried)
	require.NotEmpty(t, r.Machine)
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, after, len(before))
	text, err := os.ReadFile(disk)
	require.NoError(t, err)
	require.Equal(t, "what the guest has written", string(text))
}

// Other notations are replaced as well: single texts, memory of the host, sockets, and files to read or write.
func TestOtherOptionsAreReplaced(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string]string{
		"drive in one word": `def more(host): return [option("-drive", ` +
			`"file=/images/a.qcow2,format=qcow2,if=none,id=d"), option("-drive", "if=ide,file=nbd://server/x,format=raw")]`,
		"URL as a block node": `def more(host): return [blockdev("d", "https", {"url": "https://server/a.img"}), ` +
			`blockdev("f", "raw", {"file": "d"})]`,
		"JSON": `def more(host): return [option("-blockdev", ` +
			`'{"driver": "file", "node-name": "a", "filename": "/images/a.img", "cache": {"direct": false}}'), ` +
			`option("-device", '{"driver": "virtio-blk-pci", "drive": "a"}')]`,
		"capture": `def more(host): return [netdev("n", "user"), ` +
			`object("filter-dump", "f", {"netdev": "n", "file": "/var/log/no-such-folder/f.pcap"})]`,
		"huge pages": "def machine(): return {\"memory-backend\": \"m\"}\n" +
			`def more(host): return [option("-m", "64"), object("memory-backend-file", "m", {"size": 64 << 20, ` +
			`"mem-path": "/dev/hugepages", "prealloc": True, "share": True})]`,
		"huge pages of memfd": "def machine(): return {\"memory-backend\": \"m\"}\n" +
			`def more(host): return [option("-m", "64"), object("memory-backend-memfd", "m", {"size": 64 << 20, ` +
			`"hugetlb": True, "hugetlbsize": "1G", "prealloc": True})]`,
		"window and sound": `def more(host): return [option("-display", "gtk,gl=on"), option("-audiodev", "pa", ` +
			`{"id": "a"}), device("ich9-intel-hda", {"id": "h"}), device("hda-duplex", {"audiodev": "a", "bus": "h.0"})]`,
		"KVM in the machine": "def machine(): return {\"accel\": \"kvm\", \"kernel-irqchip\": \"split\"}\n" +
			`def more(host): return [option("-cpu", "host,migratable=off")]`,
		"KVM by itself":       `def more(host): return [option("-enable-kvm"), option("-cpu", "host")]`,
		"KVM with a property": `def more(host): return [option("-accel", "kvm", {"dirty-ring-size": 1024})]`,
		"serial to a file": `def more(host): return [option("-serial", ` +
			`"file:/var/log/no-such-folder/console.log"), chardev("c", "file", {"path": "/var/log/no-such-folder/c"})]`,
		"server on a port": `def more(host): return [chardev("c", "socket", {"host": "0.0.0.0", "port": 22, ` +
			`"server": True, "wait": False})]`,
		"firmware and tables": `def more(host): return [option("-fw_cfg", None, {"name": "opt/a/b", "file": ` +
			`"/etc/no-such-file"}), option("-smbios", None, {"file": "/etc/no-such-file"}), option("-kernel", "/boot/no-such-kernel"), option("-initrd", "/boot/no-such-initrd"), option("-append", "console=ttyS0")]`,
		"shared folder": `def more(host): return [option("-fsdev", "local", {"id": "f", "path": ` +
			`"/srv/no-such-folder", "security_model": "none"}), device("virtio-9p-pci", {"fsdev": "f", "mount_tag": "t"})]`,
		"more networks": `def more(host): return [netdev("n", "vhost-user", {"chardev": "c"}), chardev("c", ` +
			`"socket", {"path": "/run/n.sock", "server": True, "wait": False}), device("virtio-net-pci", {"netdev": "n", "mq": True}), netdev("b", "bridge", {"br": "br7"}), device("e1000", {"netdev": "b"})]`,
		"VNC": `def more(host): return [option("-vnc", ":0,websocket=on,to=9"), option("-vnc", ` +
			`"none")]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := try(t, launching(parts), "")
			require.Empty(t, r.Failures)
			if r.Untried != "" { // on a computer without KVM
				require.Contains(t, parts, "kvm")
			}
		})
	}
}

// BenchmarkSample measures the check of one sample of the standard type, from reading its file to QEMU's end.
func BenchmarkSample(b *testing.B) {
	s, err := sample.Read("../../vmtypes/testdata/golden/minimal.txtar")
	require.NoError(b, err)
	launch := from(b, "")
	checker := &check.Checker{}
	for b.Loop() {
		r, err := checker.Sample(b.Context(), s, launch)
		require.NoError(b, err)
		require.Empty(b, r.Failures)
	}
}
