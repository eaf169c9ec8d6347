package inventory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		"":                                       "",
		"userData: {users: [{name: joe}, root]}": "joe",
		"userData: {users: [default, joe]}":      "joe",
		"userData: {user: {name: joe}}":          "joe",
		"userData: {user: joe, users: [root]}":   "joe",
		"userData: {users: [default]}":           "",
		"userData: {users: [{gecos: Joe}]}":      "",
		"userData: '#!/bin/sh'":                  "",
		"metaData: {}":                           "",
	} {
		cfg, _, err := config.Parse("vm.yaml", []byte("\"/Runner\":\n  cloudInit: {"+data+"}\n  vm: {name: x}\n"))
		require.NoError(t, err, data)
		require.Equal(t, want, (&VM{Config: cfg}).Login(), data)
	}
	require.Empty(t, (&VM{}).Login())
}
