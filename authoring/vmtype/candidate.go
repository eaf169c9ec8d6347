package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/sample"
	"vmop/internal/cli"
	"vmop/runner/prepare"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/distribution"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// A trial contains the flags that select the VM for which a type is evaluated. Several verbs use it.
type trial struct {
	verb       string
	file, host string
	settings   []string
	folder     *string     // value of --vmtypes
	given      func() bool // whether --vmtypes was given
}

// trialHelp is for the help of these verbs.
const trialHelp = "The VM is defined by a configuration (-f vm.yaml), on this computer or, with --host, on a\n" +
	"described one; or it is a sample (-f NAME.txtar), which includes a description of its\n" +
	"computer. The type is looked for next to the file, then in the folder --vmtypes; the type\n" +
	"that a running VM has pinned is ignored. --set changes the VM first; an empty value removes\n" +
	"a key."

func newTrial(f Flags, cmd *cobra.Command) *trial {
	t := &trial{verb: cmd.Name(), folder: f.Folder, given: func() bool { return cmd.Flags().Changed("vmtypes") }}
	cmd.Flags().StringVarP(&t.file, "file", "f", "", "configuration or sample `FILE` of the VM")
	cmd.Flags().StringArrayVar(&t.settings, "set", nil,
		"set `PATH=VALUE` in the VM, such as vm.maximumCpus=8; may be repeated")
	cmd.Flags().StringVar(&t.host, "host", "", "another `HOST`: fedora, debian-12 …, or a file that describes one")
	cli.CompleteFile(cmd, "file", "yaml", "yml", "json", "txtar")
	cli.CompleteFlag(cmd, "host", distribution.Names()...)
	return t
}

// A candidate is a type with the VM to evaluate it for.
type candidate struct {
	vmType   evaluate.Type
	spec     vmspec.Spec
	host     vmtypes.Host
	warnings []string
	locate   func(error) error
	// refusedAt are the places in the type that refuse fields of the VM.
	refusedAt []plan.Origin
}

// launchPlan returns the plan. Errors in the VM's options have their places in the file.
func (c *candidate) launchPlan(ctx context.Context) (*plan.Plan, error) {
	p, err := c.vmType.Launch(ctx, c.spec, c.host)
	if fields := (*vmtypes.FieldsError)(nil); errors.As(err, &fields) {
		c.refusedAt = fields.Origins
	}
	if p != nil {
		if secret := prepare.HideSecrets(p); secret != nil {
			return p, secret
		}
	}
	return p, c.locate(err)
}

// printWarnings prints the warnings about the VM, and about options in its plan p. p may be nil.
func (c *candidate) printWarnings(w io.Writer, p *plan.Plan) {
	for _, warning := range c.warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	if p == nil {
		return
	}
	for _, warning := range p.Warnings {
		fault := vmspec.Fault{Path: warning.Path, Message: warning.Message, Key: true}
		fmt.Fprintln(w, "warning:", c.locate(&vmtypes.FieldsError{Type: p.Type, Faults: []vmspec.Fault{fault}}))
	}
}

// readFiles reads the VM and finds its type.
func (t *trial) readFiles(ctx context.Context) (*candidate, error) {
	if t.file == "" {
		return nil, cli.UsageError{Err: errors.New("a VM is required: -f vm.yaml, or -f NAME.txtar for a sample")}
	}
	if err := requireFile(t.verb, "file", t.file); err != nil {
		return nil, err
	}
	c, name, err := t.readVM()
	if err != nil {
		return nil, err
	}
	if c.vmType, err = evaluate.Find(t.typeFolder(name), name); err != nil {
		return nil, err
	}
	sizes, err := c.vmType.Sizes(ctx, c.spec, c.host.Files)
	c.spec = c.spec.FillSizes(sizes).WithSize()
	return c, c.locate(err)
}

// readVM reads the VM and the name of its type.
func (t *trial) readVM() (*candidate, string, error) {
	isSample := filepath.Ext(t.file) == sample.Suffix
	if !isSample && t.host == "" {
		in, err := prepare.ReadInput(t.file, t.settings...)
		if err != nil {
			return nil, "", err
		}
		return &candidate{spec: in.Spec, host: in.Host, warnings: in.Warnings, locate: in.Locate}, in.VMType, nil
	}
	s, err := sample.Read(t.file, t.settings...)
	if err != nil {
		return nil, "", err
	}
	if t.host != "" {
		if s.Host, err = describedHost(t.host); err != nil {
			return nil, "", err
		}
	}
	return &candidate{spec: s.VM, host: s.Host.Host(), locate: s.Locate}, s.Type, nil
}

// describedHost returns the computer that --host selects.
func describedHost(name string) (sample.HostFacts, error) {
	if filepath.Ext(name) != ".json" {
		facts, err := sample.ParseHost([]byte(fmt.Sprintf(`{"files": [%q]}`, name)))
		if err != nil {
			err = cli.UsageError{Err: fmt.Errorf("--host %s: must be a file NAME.json, or one of %s", name,
				strings.Join(distribution.Names(), ", "))}
		}
		return facts, err
	}
	if err := requireFile("--host", "file", name); err != nil {
		return sample.HostFacts{}, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return sample.HostFacts{}, fmt.Errorf("read the description of a computer: %w", err)
	}
	facts, err := sample.ParseHost(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return facts, err
}

// typeFolder returns the folder that contains a type.
func (t *trial) typeFolder(name string) string {
	if !t.given() {
		folder := filepath.Dir(t.file)
		for _, dir := range []string{folder, filepath.Dir(folder)} {
			if dir != folder && filepath.Base(folder) != sample.Folder {
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, strings.TrimSuffix(name, ".star")+".star")); err == nil {
				return dir
			}
		}
	}
	return *t.folder
}
