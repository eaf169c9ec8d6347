package runner_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/tier"
)

// mount writes a folder of VM types as the kubelet does: its files are links into a folder that is replaced as a whole.
func mount(t *testing.T, folder, version string, modules map[string]string) {
	t.Helper()
	data := filepath.Join(folder, "..data")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, version), 0o700))
	for name, text := range modules {
		require.NoError(t, os.WriteFile(filepath.Join(folder, version, name), []byte(text), 0o600))
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)))
		}
	}
	require.NoError(t, os.Symlink(version, data+"_tmp"))
	require.NoError(t, os.Rename(data+"_tmp", data))
}

// ownType returns a machine type with one more device.
func ownType(device string) string {
	return `load("@vmtypes//standard.star", standard = "launch", standard_options = "options")

options = standard_options | {"qemu": attr.string(mandatory = True)}

def launch(vm, host):
    mine = part(
        options = [option("-device", "` + device + `")],
        access = [access(vm.options.qemu.rpartition("/")[0], "write")],
    )
    return combine(replace(standard(vm, host), executable = vm.options.qemu), mine)
`
}

// A changed module of the VM's type is shown as a pending change, if a restart would use it and if it makes a
// difference.
func TestAChangedTypeAwaitsARestart(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	v.types = v.path("types")
	text := ownType("usb-tablet")
	mount(t, v.types, "1", map[string]string{"own.star": text})
	v.configure("own", []string{"updateVmType: true"}, v.section()...)
	v.runs()
	pending := func() string {
		var all []string
		for _, c := range v.status().RestartAwaitingChanges {
			all = append(all, fmt.Sprintf("%s %s", c.Operation, c.Path))
		}
		return strings.Join(all, ", ")
	}
	require.Empty(t, pending())
	mount(t, v.types, "2", map[string]string{"own.star": ownType("usb-mouse")})
	eventually(t, "replace vmType", pending)
	mount(t, v.types, "3", map[string]string{"own.star": "# another comment\n" + text})
	eventually(t, "", pending)
	mount(t, v.types, "4", map[string]string{"own.star": ownType("usb-kbd")})
	eventually(t, "replace vmType", pending)
	problem := func() string {
		for _, p := range v.status().Problems {
			return p.Path + ": " + p.Message
		}
		return ""
	}
	mount(t, v.types, "5", map[string]string{"own.star": "def launch(vm, host)\n"})
	eventually(t, "vmType: the VM could not be started again, and what a restart would change is not known: "+
		"VM type own: own.star:1:21: got newline, want ':'\n    1 | def launch(vm, host)\n      |                     ^", problem)
	require.Equal(t, "replace vmType", pending(), "what was known before")
	mount(t, v.types, "6", map[string]string{"own.star": ownType("usb-kbd")})
	eventually(t, "", problem)
	v.configure("own", nil, v.section()...)
	eventually(t, "", pending)
	v.ends()
}

// A type that does not end does not block the VM or the next configuration: it is evaluated in a separate process, and
// canceled at a time limit or when another evaluation is requested.
func TestATypeThatDoesNotEnd(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	v := changeable(t)
	v.types = v.path("types")
	mount(t, v.types, "1", map[string]string{"own.star": ownType("usb-tablet")})
	v.configure("own", []string{"updateVmType: true"}, v.section()...)
	v.runs()
	endless := `load("@vmtypes//standard.star", standard_options = "options")

options = standard_options | {"qemu": attr.string(mandatory = True)}

def launch(vm, host):
    l = [0] * 1000000
    for i in range(1000000):
        if 1 in l:
            pass
    return part()
`
	mount(t, v.types, "2", map[string]string{"own.star": endless})
	eventually(t, true, func() bool {
		problems := v.status().Problems
		return len(problems) == 1 && problems[0].Path == "vmType" && strings.Contains(problems[0].Message,
			"5 s of processor time")
	})
	v.log.await(t, v.ended, "evaluation finished")
	v.log.forget()
	files := []string{"a.iso", "b.iso", "a.iso", "b.iso"}
	for n, file := range files {
		v.configure("own", []string{"updateVmType: true"},
			v.section("drives: [{type: ide-cd, file: PATH/"+file+"}]")...)
		eventually(t, n+1, func() int { return len(v.log.find("configuration read")) })
		require.NoError(t, v.client().Act(t.Context(), control.Pause))
		require.NoError(t, v.client().Act(t.Context(), control.Resume))
	}
	v.notLogged("QEMU does not answer; waiting for it")
	started := len(v.log.find("evaluation started"))
	finished, givenUp := len(v.log.find("evaluation finished")), len(v.log.find("evaluation given up"))
	require.GreaterOrEqual(t, started, len(files))
	require.Positive(t, givenUp, "of %d evaluations, %d finished: the next configuration waits for them", started, finished)
	mount(t, v.types, "3", map[string]string{"own.star": ownType("usb-tablet")})
	eventually(t, 0, func() int { return len(v.status().Problems) })
	v.ends()
}
