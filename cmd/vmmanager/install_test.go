package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/program"
	"vmop/test/tier"
)

// One file installs a manager with the user's own images, and the API server accepts the complete file.
func TestInstallYAML(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	n := shared.Namespace(t)
	script := "../../tools/scripts/install-yaml"
	require.NoError(t, program.LookInto("../../deploy"))
	require.NoError(t, program.LookInto(script))
	out, err := exec.CommandContext(t.Context(), script, "registry.example:5000/vmop", "v1.2.3", n.Name).Output()
	require.NoError(t, err)
	text := string(out)
	require.True(t, strings.HasPrefix(text, "apiVersion: v1\nkind: Namespace\n"), "it comes before what is in it")
	require.Contains(t, text, "image: registry.example:5000/vmop/manager:v1.2.3\n")
	require.Contains(t, text, "name: VMOP_RUNNER_IMAGE\n          value: registry.example:5000/vmop/runner:v1.2.3\n")
	require.NotContains(t, text, "vmop/runner:devel")
	cmd := n.KubectlCommand(t.Context(), "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "deployment.apps/vm-operator serverside-applied (server dry run)")

	out, err = exec.CommandContext(t.Context(), script).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the registry of the images")
}
