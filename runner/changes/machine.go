package changes

import (
	"context"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Machine is all that is configured of a VM and that its plan may depend on.
// The tags are the paths of changes.
type Machine struct {
	// DataDir and RuntimeDir are absolute.
	DataDir    string `yaml:"dataDir"`
	RuntimeDir string `yaml:"runtimeDir"`
	// CloudInit stands for the data that the guest gets by cloud-init: two texts
	// are the same if and only if the data are. Empty means none. It is shown to
	// people, so it should be a digest.
	CloudInit string `yaml:"cloudInit"`
	// Sysprep stands for the answer files of Windows Setup in the same way.
	Sysprep string `yaml:"sysprep"`
	// VMType stands for the VM type: two texts are the same if and only if all
	// modules are. It is shown to people: "standard", or with a digest if the
	// type is to be updated.
	VMType string `yaml:"vmType"`
	// NBDCertificates is a folder that QEMU may read, absolute; empty: none.
	NBDCertificates string `yaml:"nbdCertificates"`
	// DisplayPassword reports whether there is one.
	DisplayPassword bool `yaml:"display-password"`
	// VM is the vm section as VM types get it: with defaults, uuid, absolute
	// paths and without resources and drives of NBD servers.
	VM vmspec.Spec `yaml:"vm"`
}

// Launch computes the plan of a machine. It is called with machines of which
// each value is that of the running or that of the wanted one, so it knows how
// to load both VM types. It is pure: calls with the same machine return the
// same plan. The plan may be kept by the caller, the machine not changed.
type Launch func(ctx context.Context, m Machine) (*plan.Plan, error)

// effect is what starting a machine comes to: the plan, without the name of the
// type and the lines that made it, what the runner does in addition before the
// guest runs, and where all that is kept, also the VM's uuid.
func effect(p *plan.Plan, m Machine) string {
	anonymous := *p
	anonymous.Type = ""
	text := anonymous.Text() + "cloud-init " + m.CloudInit + "\nsysprep " + m.Sysprep + "\ndata " + m.DataDir +
		"\nnbd " + m.NBDCertificates + "\nloopback " + shown(m.VM.ReachesLoopback(vmspec.NetworkUser)) + "\n"
	for _, r := range p.Rules {
		switch r.(type) {
		case plan.CPUs:
			text += "plug " + shown(m.VM.CurrentCPUs) + "\n"
		case plan.Balloon, plan.Memory:
			text += "memory " + shown(m.VM.CurrentRAM) + "\n"
		}
	}
	return text
}
