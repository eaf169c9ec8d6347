package e2e_test

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/test/program"
)

func quantity(text string) resource.Quantity {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// types applies a ConfigMap with a VM type.
func (l *lab) types(t *testing.T, name, module, text string) {
	t.Helper()
	l.applyText(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  %s: |\n    %s\n",
		name, module, strings.ReplaceAll(text, "\n", "\n    ")))
}

// assetType is a user's VM type: the standard type with an asset tag, which the guest can read.
const assetType = `load("@vmtypes//standard.star", standard = "launch")

api_version = 1

def launch(vm, host):
    """Returns the standard machine with an asset tag."""
    return combine(standard(vm, host), part(options = [option("-smbios", None, {"type": 3, "asset": "ASSET"})]))
`

// A user's VM type comes from a ConfigMap. When it changes, running VMs report the changes that need a restart.
func customType(t *testing.T, l *lab) {
	l.types(t, "asset-types", "asset.star", strings.ReplaceAll(assetType, "ASSET", "one"))
	v := l.create(t, tiny("custom", func(s *v1.VirtualMachineSpec) {
		s.VMType = v1.VMType{Source: "asset", ConfigMap: "asset-types"}
	}))
	v.runs()
	require.Equal(t, "one", v.console().await(`asset=(\S+)`)[1])
	v.condition(v1.ConditionVMTypeAccepted, metav1.ConditionTrue)
	v.condition(v1.ConditionRestartRequired, metav1.ConditionFalse)
	require.Equal(t, "asset", v.now().Status.VMType)

	l.types(t, "asset-types", "asset.star", strings.ReplaceAll(assetType, "ASSET", "two"))
	v.condition(v1.ConditionRestartRequired, metav1.ConditionTrue)
	require.Equal(t, "vmType.source", v.now().Status.RestartAwaitingChanges[0].Path)
	l.kubectl(t, "delete", "pod", v.podName())
	v.runs()
	require.Equal(t, "two", v.console().await(`asset=(\S+)`)[1])
	v.condition(v1.ConditionRestartRequired, metav1.ConditionFalse)
}

// A VM with an invalid type is not started, and reports the error. When the type is fixed, the VM starts.
func faultyType(t *testing.T, l *lab) {
	l.types(t, "faulty-types", "faulty.star", "def launch(vm, host):\n    return 1 / 0\n")
	v := l.create(t, tiny("faulty", func(s *v1.VirtualMachineSpec) {
		s.VMType = v1.VMType{Source: "faulty", ConfigMap: "faulty-types"}
	}))
	// the ConfigMap may arrive a moment later than the VM
	v.until("to tell the fault", func(now *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(now.Status.Conditions, v1.ConditionVMTypeAccepted)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "division by zero")
	})
	v.phase(v1.PhaseFailed)
	require.Nil(t, v.pod())

	l.types(t, "faulty-types", "faulty.star", strings.ReplaceAll(assetType, "ASSET", "repaired"))
	v.runs()
	require.Equal(t, "repaired", v.console().await(`asset=(\S+)`)[1])
}

// A user pushes a VM type to a registry with a password, and a VM uses it. When the tag points to another type, the VM
// uses that type at its next start.
func registryType(t *testing.T, l *lab) {
	u := newUser(t, l)
	author := &user{lab: l, t: t, home: u.home, env: u.env, outside: true}
	require.NoError(t, program.Build(t.Context(), filepath.Join(u.home, "vmtype"), "vmop/cmd/vmtype"))
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	here := httptest.NewServer(store) // pods reach the same registry over TLS
	t.Cleanup(here.Close)
	host, authority := registryWithPassword(t, l, store)
	push := func(asset string) (digest string) {
		file := filepath.Join(u.home, "shared.star")
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(assetType, "ASSET", asset)), 0o600))
		to := here.Listener.Addr().String() + "/types/shared:1"
		pushed := author.types("vmtype vmtype push "+to+" shared --vmtypes "+u.home, "")
		_, digest, _ = strings.Cut(strings.TrimSpace(pushed), "@")
		return digest
	}
	first := push("first")
	v := l.create(t, tiny("shared-type", func(s *v1.VirtualMachineSpec) {
		s.VMType = v1.VMType{
			Source: "shared", Image: host + "/types/shared:1",
			ImagePullSecret: &v1.LocalSecretRef{Name: "types"}, CABundle: authority,
		}
	}))
	v.until("to miss the secret", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseFailed && strings.Contains(now.Status.Message, "imagePullSecret types")
	})
	u.types("kubectl create secret docker-registry types --docker-server="+host+
		" --docker-username=me --docker-password=canary-registry-5c02", "")
	v.runs()
	require.Equal(t, "first", v.console().await(`asset=(\S+)`)[1])
	require.Equal(t, first, v.now().Status.VMTypeImage.Digest)
	second := push("second")
	u.types("kubectl vmop restart shared-type --wait --timeout 4m", "")
	v.runs()
	require.Equal(t, "second", v.console().await(`asset=(\S+)`)[1])
	require.Equal(t, second, v.now().Status.VMTypeImage.Digest)
	require.NotContains(t, v.managerLog(t.Context()), "canary-registry")
}
