package describe_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
)

func TestSSH(t *testing.T) {
	t.Parallel()
	at := func(from string, ports ...fleet.Port) fleet.Address {
		return fleet.Address{Address: "192.0.2.7", From: from, Ports: ports}
	}
	web, names, ssh := fleet.Port{TCP: true, Port: 80, Guest: 80}, fleet.Port{Port: 22, Guest: 22},
		fleet.Port{TCP: true, Port: 2222, Guest: 22}
	for _, c := range []struct {
		want      string
		addresses []fleet.Address
	}{
		{"ssh 192.0.2.7", []fleet.Address{at("Network")}},
		{"ssh -p 2222 192.0.2.7", []fleet.Address{at("Network", names, ssh)}},
		{"vmrunner ssh web", []fleet.Address{at("Network", names, web), at("Host"), at("Unknown")}},
		{"vmrunner ssh web", []fleet.Address{{Address: "-oProxyCommand=reboot", From: "Network"}}},
		{"vmrunner ssh web", []fleet.Address{{Address: "fe80::1%;reboot", From: "Network"}}},
		{"vmrunner ssh web", nil},
	} {
		require.Equal(t, c.want, describe.SSH(c.addresses, "vmrunner ssh web"))
	}
}
