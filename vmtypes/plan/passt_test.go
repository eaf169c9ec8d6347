package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// Only a complete option forwards a port, because the policy judges its address and ports.
func TestPasstForwardReadsOnlyCompleteOptions(t *testing.T) {
	t.Parallel()
	f, is := plan.PasstForward(plan.Option{Flag: "--tcp-ports", Value: "127.0.0.1/8022:22"})
	require.True(t, is)
	require.Equal(t, plan.Forward{Protocol: "tcp", Address: "127.0.0.1", Host: 8022, Guest: 22}, f)
	f, is = plan.PasstForward(plan.Option{Flag: "--udp-ports", Value: "0.0.0.0/65535:1"})
	require.True(t, is)
	require.Equal(t, plan.Forward{Protocol: "udp", Address: "0.0.0.0", Host: 65535, Guest: 1}, f)

	const ports = "127.0.0.1/8022:22"
	for what, o := range map[string]plan.Option{
		"another option":          {Flag: "--tcp", Value: ports},
		"another protocol":        {Flag: "--sctp-ports", Value: ports},
		"no protocol":             {Flag: "---ports", Value: ports},
		"a list":                  {Flag: "--tcp-ports", Value: ports, List: true},
		"no ports":                {Flag: "--tcp-ports", Value: "127.0.0.1"},
		"all ports":               {Flag: "--tcp-ports", Value: "all"},
		"no host port":            {Flag: "--tcp-ports", Value: "127.0.0.1/:22"},
		"no guest port":           {Flag: "--tcp-ports", Value: "127.0.0.1/8022"},
		"a host port of 17 bits":  {Flag: "--tcp-ports", Value: "127.0.0.1/65536:22"},
		"a guest port of 17 bits": {Flag: "--tcp-ports", Value: "127.0.0.1/8022:65536"},
		"a range":                 {Flag: "--tcp-ports", Value: "127.0.0.1/8022-8023:22"},
	} {
		f, is := plan.PasstForward(o)
		require.False(t, is, what)
		require.Zero(t, f, what)
	}
}
