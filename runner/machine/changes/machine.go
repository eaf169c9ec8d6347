package changes

import (
	"context"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Machine is the part of a VM's configuration that its plan may depend on. The tags are the paths of changes.
type Machine struct {
	// DataDir and RuntimeDir are absolute.
	DataDir    string `yaml:"dataDir"`
	RuntimeDir string `yaml:"runtimeDir"`
	// CloudInit represents the guest's cloud-init data. Two values are equal if and only if the data are equal.
	// Empty means no data. Users see it, so it should be a digest.
	CloudInit string `yaml:"cloudInit"`
	// Sysprep represents the answer files of Windows Setup in the same way.
	Sysprep string `yaml:"sysprep"`
	// VMType represents the VM type. Two values are equal if and only if all modules are equal. Users see it:
	// "standard", or with a digest if the type will be updated.
	VMType string `yaml:"vmType"`
	// NBDCertificates is the absolute path of a folder that QEMU may read; empty means no folder.
	NBDCertificates string `yaml:"nbdCertificates"`
	// DisplayPassword reports whether there is a password.
	DisplayPassword bool `yaml:"display-password"`
	// VM is the vm section as VM types receive it: with defaults, UUID and absolute paths, and without resources
	// and drives of NBD servers.
	VM vmspec.Spec `yaml:"vm"`
}

// Launch computes the plan of a machine. Each value of the machine is from the running or the wanted machine, so
// Launch must be able to load both VM types. It must be pure: calls with equal machines return equal plans. The
// caller may keep the plan, and Launch must not change the machine.
type Launch func(ctx context.Context, m Machine) (*plan.Plan, error)

// startEffect describes the effect of starting a machine. It contains the plan without the type's name and source
// lines, what the runner does in addition before the guest runs, and where it keeps the data, including the VM's
// UUID.
func startEffect(p *plan.Plan, m Machine) string {
	anonymous := *p
	anonymous.Type = ""
	text := anonymous.Text() + "cloud-init " + m.CloudInit + "\nsysprep " + m.Sysprep + "\ndata " + m.DataDir +
		"\nnbd " + m.NBDCertificates + "\nloopback " + valueText(m.VM.ReachesLoopback(vmspec.NetworkUser)) + "\n"
	for _, r := range p.Rules {
		switch r := r.(type) {
		case plan.CPUs:
			text += "plug " + valueText(m.VM.CurrentCPUs) + "\n"
		case plan.Limits:
			if r.Drive >= 0 && r.Drive < len(m.VM.Drives) {
				text += "limits " + r.Device + " " + valueText(m.VM.Drives[r.Drive].WantedLimits()) + "\n"
			}
		case plan.Balloon, plan.Memory:
			text += "memory " + valueText(m.VM.CurrentRAM) + "\n"
		}
	}
	return text
}
