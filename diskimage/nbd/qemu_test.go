package nbd_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/qmp"
	"vmop/test/paused"
)

// A vm is a QEMU without a guest.
type vm struct {
	*testing.T
	*qmp.Session
}

func startVM(t *testing.T) vm {
	t.Helper()
	q := paused.Start(t, "-m", "64", "-device", "virtio-scsi-pci,id=scsi",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
	require.NoError(t, q.Ready(t.Context()))
	return vm{t, q.Session}
}

// do runs a command with JSON arguments.
func (v vm) do(command, arguments string) string {
	v.Helper()
	reply, err := v.Session.Run(v.Context(), qmp.Command{Execute: command, Arguments: json.RawMessage(arguments)})
	require.NoError(v, err, "%s %s", command, arguments)
	return string(reply)
}

// attach attaches an export as the disk data and returns the duration.
func (v vm) attach(s *served, tls string) time.Duration {
	v.Helper()
	begin := time.Now()
	v.do("object-add", `{"qom-type": "tls-creds-x509", "id": "tls", "endpoint": "client", "dir": "`+tls+`"}`)
	_, port, _ := strings.Cut(s.address(), ":")
	v.do("blockdev-add", `{"driver": "nbd", "node-name": "data", "export": "data", "tls-creds": "tls",
		"server": {"type": "inet", "host": "127.0.0.1", "port": "`+port+`"}, "reconnect-delay": 60, "discard": "unmap"}`)
	v.do("device_add", `{"driver": "scsi-hd", "bus": "scsi.0", "drive": "data", "id": "disk", "serial": "data"}`)
	return time.Since(begin)
}

// detach detaches the disk and returns the duration.
func (v vm) detach() time.Duration {
	v.Helper()
	begin := time.Now()
	v.do("device_del", `{"id": "disk"}`)
	for e := range v.Events() {
		if e.Name == "DEVICE_DELETED" && strings.Contains(string(e.Data), `"disk"`) {
			break
		}
	}
	v.do("blockdev-del", `{"node-name": "data"}`)
	v.do("object-del", `{"id": "tls"}`)
	return time.Since(begin)
}

// A VM attaches a disk and detaches it again. After the server's loss the monitor still answers, but detaching the disk
// would block QEMU's main loop until the reconnect-delay expires.
func TestADiskIsAttachedAndDetached(t *testing.T) {
	t.Parallel()
	certs, image := certificates(t), disk(t)
	s := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	v := startVM(t)
	t.Logf("attached in %s", v.attach(s, certs.client))
	require.Contains(t, v.do("query-block", `{}`), `"node-name": "data"`)
	t.Logf("detached in %s", v.detach())
	require.Contains(t, said(t, s.client(certs.client, "", "write 0 64k")), "wrote", "the disk is free")

	v.attach(s, certs.client)
	s.end(t)
	require.Contains(t, v.do("query-status", `{}`), "running")
	require.Contains(t, v.do("query-block", `{}`), `"node-name": "data"`)
}
