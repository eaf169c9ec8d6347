package runner_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error of a VM that cannot start is as exact as QEMU and the VM type permit, and everything is cleaned up.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	standard := func(lines ...string) []string {
		return append([]string{"accelerator: tcg", "firmware: bios", "network: []"}, lines...)
	}
	tests := []struct {
		what    string
		vmType  string
		section []string
		want    []string // parts of the error
	}{
		{
			"a QEMU that ends in silence", "bare",
			[]string{"options: {qemu: /bin/false}"},
			[]string{"qemu ended while the VM was being started: exit status 1"},
		},
		{
			"no program for a helper", "bare",
			[]string{"options: {helper: {program: PATH/absent}}"},
			[]string{"start helper: stat PATH/absent: no such file or directory"},
		},
		{
			"a helper that ends before it is ready", "bare",
			[]string{"options: {helper: {program: /bin/ls, arguments: [PATH/absent], ready: PATH/never}}"},
			[]string{
				"helper ended before it was ready: exit status 2\n", "PATH/absent': No such file or directory",
			},
		},
		{
			"a template that is missing", "bare",
			[]string{"options: {copy: {source: PATH/absent, to: vars}}"},
			[]string{"make PATH/data/vars: ", "open PATH/absent: no such file or directory"},
		},
		{"a port of VNC that is taken", "standard", standard("display: {vnc: {port: PORT}}"), []string{
			"qemu ended while the VM was being started: exit status 1", "Address already in use", "-vnc vnc=127.0.0.1:",
			"lib/display.star:",
			"\nvm.display.vnc.port: another program has the port PORT of the host, or this user may not listen there: choose " +
				"another; \"ss -ltnup\" shows who listens\n",
		}},
		{
			"a forwarded port that is taken", "standard",
			[]string{
				"accelerator: tcg", "firmware: bios",
				"network: [{type: user, ports: [{host: PORT, guest: 22}]}]",
			},
			[]string{
				"\nvm.network[].ports: another program has the port PORT of the host, or this user may not listen there (below " +
					"1024 only root may): choose another; \"ss -ltnup\" shows who listens",
			},
		},
		{
			"a kernel that is none", "standard", standard("kernel: {image: PATH/config.yaml, initrd: PATH/config.yaml}"),
			[]string{"\nvm.kernel.image: PATH/config.yaml is not a Linux kernel for this machine (use a kernel such as "},
		},
		{
			"a port of SPICE that is taken", "standard", standard("display: {spice: {port: PORT, address: 127.0.0.1}}"),
			[]string{
				"qemu ended while the VM was being started: exit status 1", "initialize spice server",
				"\nvm.display.spice.port: another program has the port PORT of the host, or this user may not listen there: " +
					"choose another; \"ss -ltnup\" shows who listens",
			},
		},
		{"a bridge that is missing", "standard", []string{
			"accelerator: tcg", "firmware: bios",
			"network: [{bridge: br-absent}]",
		}, []string{"br-absent"}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			port := strconv.Itoa(listenTCP(t, "127.0.0.1:0")) // is taken
			for i := range tt.section {
				tt.section[i] = strings.ReplaceAll(tt.section[i], "PORT", port)
			}
			v := newVM(t, tt.vmType, tt.section...)
			v.start()
			_, err := v.wait()
			for _, part := range tt.want {
				require.ErrorContains(t, err, strings.NewReplacer("PATH", v.dir, "PORT", port).Replace(part))
			}
			require.NotContains(t, err.Error(), "clean up")
			v.nothingLeft()
			v.notLogged("cleaning up")
			require.NoFileExists(t, v.path("data", "vmtype.txtar"), "only a VM that has proved to start is pinned")
		})
	}
}

// The runner gives up if a running helper does not become ready.
func TestHelperIsNeverReady(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {helper: {program: /bin/sleep, arguments: ['1000'], ready: PATH/never}}")
	v.start()
	_, err := v.wait()
	require.ErrorContains(t, err, "helper is not ready after 10s: "+v.path("never")+" does not exist")
	v.nothingLeft()
}
