package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// Only a swtpm with the arguments of the stock types is allowed.
func TestSwtpmAsTheStockTypesStartIt(t *testing.T) {
	t.Parallel()
	word := func(flag string) plan.Option { return plan.Option{Flag: flag} }
	list := func(flag string, properties ...string) plan.Option {
		o := plan.Option{Flag: flag, List: true}
		for i := 0; i+1 < len(properties); i += 2 {
			o.Properties = append(o.Properties, plan.Property{Key: properties[i], Value: properties[i+1]})
		}
		return o
	}
	state, ctrl := list("--tpmstate", "dir", ".", "mode", "0600"), list("--ctrl", "type", "unixio")
	ctrl.Properties = append(ctrl.Properties, plan.Property{Key: "fd", Descriptor: "tpm"})
	valued := func(o plan.Option) plan.Option { o.Value = "x"; return o }
	text := func(o plan.Option) plan.Option { o.List = false; return o }
	all := []plan.Option{word("socket"), word("--tpm2"), word("--terminate"), state, ctrl}
	for what, change := range map[string]func(h *plan.Process){
		"":                    func(h *plan.Process) { h.Args = all },
		"little":              func(h *plan.Process) { h.Args = all[:1] },
		"another folder":      func(h *plan.Process) { h.Dir = "/data" },
		"no confinement":      func(h *plan.Process) { h.Exempt = true },
		"an unknown argument": func(h *plan.Process) { h.Args = []plan.Option{word("--daemon")} },
		"a value":             func(h *plan.Process) { h.Args = []plan.Option{valued(word("--tpm2"))} },
		"a property":          func(h *plan.Process) { h.Args = []plan.Option{list("--terminate", "a", "b")} },
		"another state":       func(h *plan.Process) { h.Args = []plan.Option{list("--tpmstate", "dir", "/etc")} },
		"a key of the state": func(h *plan.Process) {
			h.Args = []plan.Option{list("--tpmstate", "dir", ".", "x", ".")}
		},
		"the state as a text":  func(h *plan.Process) { h.Args = []plan.Option{text(state)} },
		"a value of the state": func(h *plan.Process) { h.Args = []plan.Option{valued(state)} },
		"control of a type":    func(h *plan.Process) { h.Args = []plan.Option{list("--ctrl", "type", "tcp")} },
		"control by a path":    func(h *plan.Process) { h.Args = []plan.Option{list("--ctrl", "path", "unixio")} },
		"control as a text":    func(h *plan.Process) { h.Args = []plan.Option{text(ctrl)} },
		"a value of control":   func(h *plan.Process) { h.Args = []plan.Option{valued(ctrl)} },
	} {
		made := planOf(t, "part()", "network: []\nuseTpm: true\n")
		require.Len(t, made.Helpers, 1)
		helper := &made.Helpers[0]
		helper.Args = all
		change(helper)
		if err := read(t, strict).Check(made, subject()); what == "" || what == "little" {
			require.NoError(t, err, what)
		} else {
			require.ErrorContains(t, err, "which is not in its list helpers", what)
		}
	}
}

// The policy judges a block node with all its inner nodes.
func TestBlockNodes(t *testing.T) {
	t.Parallel()
	for want, properties := range map[string][]plan.Property{
		"it names two drivers": {
			{Key: "driver", Value: "file"}, {Key: "driver", Value: "null-co"}, {Key: "filename", Value: "/images/a"},
		},
		"the block node has no driver": {{Key: "filename", Value: "/images/a"}},
		"writing /etc/data is not allowed": {
			{Key: "driver", Value: "qcow2"},
			{Key: "file.driver", Value: "file"},
			{Key: "file.filename", Value: "/images/a"},
			{Key: "data-file.driver", Value: "file"},
			{Key: "data-file.filename", Value: "/etc/data"},
		},
		"reading /etc/base is not allowed": {
			{Key: "driver", Value: "qcow2"},
			{Key: "read-only", Value: "on"},
			{Key: "file.driver", Value: "file"},
			{Key: "file.filename", Value: "/boot/a"},
			{Key: "backing.driver", Value: "file"},
			{Key: "backing.filename", Value: "/etc/base"},
		},
	} {
		made := planOf(t, "part()", "network: []\n")
		made.QEMU.Args = append(made.QEMU.Args, plan.Option{Flag: "-blockdev", List: true, Properties: properties})
		require.ErrorContains(t, read(t, strict).Check(made, subject()), want)
	}
}
