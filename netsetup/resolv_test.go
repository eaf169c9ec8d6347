package netsetup

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestReadResolver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		files   map[string]string
		servers string
		search  string
	}{
		{
			"a pod's",
			map[string]string{
				"etc/resolv.conf": "search ns.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions " +
					"ndots:5\n",
			},
			"[10.96.0.10]", "[ns.svc.cluster.local svc.cluster.local]",
		},
		{
			"order is kept; comments, IPv6 and loopback servers are not",
			map[string]string{
				"etc/resolv.conf": "# nameserver 1.2.3.4\nnameserver 192.0.2.2\nnameserver 2001:db8::1\n" +
					"nameserver 127.0.0.1\nnameserver fe80::1%eth0\n\tnameserver 192.0.2.1 \n",
			},
			"[192.0.2.2 192.0.2.1]", "[]",
		},
		{
			"systemd-resolved: the servers behind its own",
			map[string]string{
				"etc/resolv.conf":                 "nameserver 127.0.0.53\nsearch stub.example.org\n",
				"run/systemd/resolve/resolv.conf": "nameserver 192.0.2.53\nsearch example.org.\n",
			},
			"[192.0.2.53]", "[example.org]",
		},
		{
			"the last search or domain counts",
			map[string]string{
				"etc/resolv.conf": "search a b\ndomain c\nsearch .\nnameserver 192.0.2.1",
			},
			"[192.0.2.1]", "[]",
		},
		{"none", nil, "[]", "[]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			found, err := readResolver(root)
			require.NoError(t, err)
			require.Equal(t, test.servers, fmt.Sprint(found.servers))
			require.Equal(t, test.search, fmt.Sprint(found.search))
		})
	}
}
