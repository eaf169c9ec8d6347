package prepare

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"vmop/internal/readfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// OptionWarnings returns the plan's warnings about options, such as deprecated options, with their places in the
// configuration.
func (vm *VM) OptionWarnings() (texts []string) {
	if vm.Plan == nil {
		return nil
	}
	var about []vmspec.Fault
	for _, w := range vm.Plan.Warnings {
		about = append(about, vmspec.Fault{Path: w.Path, Message: w.Message, Key: true})
	}
	for _, w := range vm.Config.LocateWarnings(about) {
		texts = append(texts, w.String())
	}
	return texts
}

// largestSecret is the maximum size of a file with a secret, in bytes.
const largestSecret = 64 << 10

// shortestSecret is the minimum length of a secret that is searched for in the plan, in bytes. Shorter texts occur by
// chance.
const shortestSecret = 4

// HideSecrets refuses a plan that contains the content of a file with a secret, because all users of the host can see
// QEMU's command line. It replaces the secrets in the plan, and returns a *vmtypes.FaultsError without them. It ignores
// missing files, which are errors of StartFaults.
func HideSecrets(p *plan.Plan) error {
	var faults []plan.Fault
	for _, s := range p.SecretFiles {
		text, err := readfile.ReadFile(s.File, largestSecret)
		switch secret := strings.TrimSpace(string(text)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("read the secret of %s: %w", s.Path, err)
		case len(secret) >= shortestSecret:
			faults = append(faults, hideSecret(p, s.Path, secret)...)
		}
	}
	if faults != nil {
		return &vmtypes.FaultsError{Type: p.Type, Faults: faults}
	}
	return nil
}

// hideSecret replaces the secret of the option at a path in a plan. It returns an error for each place.
func hideSecret(p *plan.Plan, path, secret string) (faults []plan.Fault) {
	hide := func(text *string) (found bool) {
		found = strings.Contains(*text, secret)
		*text = strings.ReplaceAll(*text, secret, "…")
		return found
	}
	refuse := func(process plan.Process, what string, origin plan.Origin) {
		message := fmt.Sprintf("%s of %s contains the secret of %s, and all users of the host can see it; give QEMU the "+
			"name of the file, for example with -object secret,file=…", what, process.Name, path)
		faults = append(faults, plan.Fault{Message: message, Origin: origin})
	}
	for _, process := range p.Processes() {
		for i := range process.Args {
			o := &process.Args[i]
			found := hide(&o.Flag)
			found = hide(&o.Value) || found
			for j := range o.Properties {
				found = hide(&o.Properties[j].Value) || found
			}
			if found {
				refuse(process, "an argument", o.Origin)
			}
		}
		for i := range process.Env {
			if hide(&process.Env[i].Value) {
				refuse(process, "the environment variable "+process.Env[i].Name, nil)
			}
		}
	}
	return faults
}

// missingSecrets returns errors about missing files with secrets. They don't contain the names of the files: a user may
// have set the secret itself.
func (vm *VM) missingSecrets() (faults []vmspec.Fault) {
	if vm.Plan == nil {
		return nil
	}
	for _, s := range vm.Plan.SecretFiles {
		if _, err := readfile.Stat(s.File); errors.Is(err, fs.ErrNotExist) {
			faults = append(faults, vmspec.Fault{
				Path: s.Path, Message: "there is no such file", Hint: "set the name of a file that contains the secret",
			})
		}
	}
	return faults
}
