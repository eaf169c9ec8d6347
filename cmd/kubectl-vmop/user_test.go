package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/test/tier"
)

// The user's name comes from the API server: from the certificate, or from impersonation.
func TestTheAPIServerNamesTheUser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	k := shared.Get(t)
	namespace := k.Namespace(t)
	for as, want := range map[string]string{"": "admin", "ann": "ann"} {
		var f flags
		root := &cobra.Command{}
		f.addTo(root)
		require.NoError(t, root.ParseFlags([]string{"--kubeconfig", k.Kubeconfig, "--as", as}))
		c, err := f.connectTo(root)
		require.NoError(t, err)
		c.config.Dial = namespace.Config.Dial
		require.Equal(t, want, c.userName(t.Context()))
	}
}
