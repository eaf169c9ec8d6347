package vmtypes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Secret is a password from the configuration that QEMU reads from a file. All users of the host can see QEMU's
// command line, so it must not contain a password.
type Secret struct {
	// ID is the name of QEMU's object.
	ID string
	// Path is the file with the value, in the runtime directory.
	Path string
	// Value is the password.
	Value string
}

// Secrets returns the passwords in the web addresses of a VM's drives. The caller must write their files before
// QEMU starts.
func Secrets(spec vmspec.Spec, runtimeDir string) []Secret {
	var list []Secret
	for i, d := range spec.Drives {
		if _, _, password := vmspec.Credentials(d.File); password != "" {
			id := fmt.Sprintf("%s%d", SecretPrefix, i)
			list = append(list, Secret{id, filepath.Join(runtimeDir, id), password})
		}
	}
	return list
}

// SecretPrefix is the prefix of the names of files with a Secret.
const SecretPrefix = "password-of-drive"

// hideCredentials removes users and passwords from the web addresses in QEMU's options. It works for all types,
// including pinned types.
func hideCredentials(p *plan.Plan, spec vmspec.Spec, host Host) {
	secrets := Secrets(spec, host.RuntimeDir)
	var objects []plan.Option
	for i := range p.QEMU.Args {
		o := &p.QEMU.Args[i]
		at := slices.IndexFunc(o.Properties, func(p plan.Property) bool {
			return p.Key == "url" || strings.HasSuffix(p.Key, ".url")
		})
		if at < 0 {
			continue
		}
		bare, user, password := vmspec.Credentials(o.Properties[at].Value)
		n := slices.IndexFunc(secrets, func(s Secret) bool { return s.Value == password })
		if bare == o.Properties[at].Value || password != "" && n < 0 { // the type's own password: an error in the plan
			continue
		}
		prefix := strings.TrimSuffix(o.Properties[at].Key, "url")
		properties := slices.Clone(o.Properties)
		properties[at].Value = bare
		if user != "" {
			properties = append(properties, plan.Property{Key: prefix + "username", Value: user})
		}
		if n >= 0 {
			properties = append(properties, plan.Property{Key: prefix + "password-secret", Value: secrets[n].ID})
			if !slices.ContainsFunc(objects, func(o plan.Option) bool { return o.ID() == secrets[n].ID }) {
				objects = append(objects, secrets[n].secretOption(o.Origin))
			}
		}
		o.Properties = properties
	}
	p.QEMU.Args = append(p.QEMU.Args, objects...)
}

// secretOption returns QEMU's option that reads the secret.
func (s Secret) secretOption(origin plan.Origin) plan.Option {
	return plan.Option{Flag: "-object", Value: "secret", List: true, Origin: origin, Properties: []plan.Property{
		{Key: "id", Value: s.ID}, {Key: "file", Value: s.Path},
	}}
}
