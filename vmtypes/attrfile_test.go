package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

const (
	repository = "/var/local/vmop-image-repository"
	podToken   = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

// windowsVM returns a VM of the type windows with a driver CD, and a host on which every file exists.
func windowsVM(files vmtypes.Files, drivers string) (vmspec.Spec, vmtypes.Host) {
	spec := vmspec.Spec{
		Name: "test", UUID: "1b4e28ba-2fa1-4d2b-883f-0016d3cca427", MaximumRAM: vmspec.GiB,
		Network: []vmspec.Network{{Type: vmspec.NetworkUser}}, Options: map[string]any{"virtioDrivers": drivers},
	}
	host := emptyHost()
	host.Files, host.Exists = files, func(string) bool { return true }
	return spec.WithDefaults(), host
}

// With confined files, vm.options can only name files in the folder, in any notation.
func TestFilesOfOptionsAreConfined(t *testing.T) {
	t.Parallel()
	windows, err := vmtypes.Source{}.Library().Load(t.Context(), "windows")
	require.NoError(t, err)
	confined := vmtypes.Files{Folder: repository, Only: true}
	for _, file := range []string{
		podToken, "../../../" + podToken, repository, repository + "/../x", repository + "-2/a", "/", "..", ".",
		"https://example.org/a.iso", "file://" + podToken, "/dev/sda",
	} {
		spec, host := windowsVM(confined, file)
		var refused *vmtypes.FieldsError
		_, err := windows.Launch(t.Context(), spec, host)
		require.ErrorAs(t, err, &refused, file)
		require.Equal(t, "vm.options.virtioDrivers", refused.Faults[0].Path)
		require.ErrorAs(t, windows.CheckOptions(t.Context(), spec, host.Files), &refused, file)
	}
	for file, want := range map[string]string{
		"win.iso": repository + "/win.iso", repository + "/sub/win.iso": repository + "/sub/win.iso",
	} {
		spec, host := windowsVM(confined, file)
		p, err := windows.Launch(t.Context(), spec, host)
		require.NoError(t, err)
		require.Contains(t, p.Text(), "file.filename="+want)
	}
	spec, host := windowsVM(vmtypes.Files{Folder: "/etc/vms"}, "win.iso")
	p, err := windows.Launch(t.Context(), spec, host)
	require.NoError(t, err)
	require.Contains(t, p.Text(), "file.filename=/etc/vms/win.iso")
	spec, host = windowsVM(vmtypes.Files{Folder: "/etc/vms"}, podToken)
	_, err = windows.Launch(t.Context(), spec, host)
	require.NoError(t, err, "who runs a VM chooses among his own files")
}

// Files in lists, dicts and records are confined as well. A text that is only passed to the guest is not a file.
func TestFilesWithinOptions(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Source{Modules: map[string]string{"shared.star": `
options = {
    "all": attr.list(attr.record({"source": attr.file(mandatory = True)}), default = []),
    "by": attr.dict(attr.file(), default = {}),
    "asset": attr.string(default = ""),
    "own": attr.file(default = "/usr/share/own.iso"),
}
def launch(vm, host):
    return part(executable = "/q", options = [
        option("-smbios", None, {"type": 3, "asset": vm.options.asset}),
        option("-fw_cfg", None, {"name": "opt/x", "string": repr(vm.options.all[0].source if vm.options.all else "")}),
    ])
`}}.Library().Load(t.Context(), "shared")
	require.NoError(t, err)
	for name, row := range map[string]struct {
		options map[string]any
		fault   string
	}{
		"a list":   {map[string]any{"all": []any{map[string]any{"source": "/etc"}}}, "vm.options.all[0].source: "},
		"a dict":   {map[string]any{"by": map[string]any{"a": "b", "x": "/etc"}}, "vm.options.by.x: "},
		"no files": {map[string]any{"all": "x"}, "vm.options.all: must be a list, not the text"},
		"good":     {map[string]any{"all": []any{map[string]any{"source": "a"}}, "asset": "/etc"}, ""},
		"default":  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, host := windowsVM(vmtypes.Files{Folder: repository, Only: true}, "")
			spec.Options = row.options
			_, err := library.Launch(t.Context(), spec, host)
			if row.fault == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, row.fault)
		})
	}
}

// A type can't name files with secrets that the configuration may not name, even if it computes them.
func TestSecretFilesAreRestricted(t *testing.T) {
	t.Parallel()
	files := vmtypes.Files{Folder: "/images", Only: true}
	p := &plan.Plan{SecretFiles: []plan.SecretFile{
		{Path: "vm.options.key", File: "/etc/shadow"}, {Path: "vm.options.other", File: "/images/key"},
	}}
	faults := files.CheckFiles(p, nil)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Message, `vm.options.key: "/etc/shadow" is not in the image repository`)
	require.Empty(t, vmtypes.Files{Folder: "/images"}.CheckFiles(p, nil))
}
