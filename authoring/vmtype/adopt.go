package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/adopt"
	"vmop/authoring/sample"
	"vmop/authoring/scaffold"
	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmtypes"
)

func newAdopt(f Flags) *cobra.Command {
	a := adoption{folder: f.Folder}
	cmd := &cobra.Command{
		Use:   "adopt [TYPE] --argv FILE",
		Short: "Change a VM type so that it produces a given command line",
		Long: "Read a command line of QEMU, and propose changes of a VM type and of a sample VM, so that\n" +
			"the plan contains what the command line wants. TYPE is a file TYPE.star, or the name of a\n" +
			"type in --vmtypes. Without TYPE, the proposal is a new type that builds on the stock type\n" +
			"that needs the fewest changes.\n\n" +
			"FILE is a shell command, the output of \"virsh domxml-to-native\", a copy of\n" +
			"/proc/PID/cmdline, or a plan that \"vmrunner vmtype render\" printed and you have edited; -\n" +
			"reads standard input. Nothing in it is executed.\n\n" +
			"The output shows the changes, and everything that isn't part of the proposal, with the\n" +
			"reason. Nothing is written without --write.",
		Example: "  vmrunner vmtype adopt --argv start.sh\n" +
			"  vmrunner vmtype render -f asset.txtar > plan.txt; $EDITOR plan.txt\n" +
			"  vmrunner vmtype adopt asset.star --argv plan.txt --sample asset --write",
		Args: atMostOne("adopt", "a VM type"), ValidArgsFunction: completeTypes(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.in, a.out = cmd.InOrStdin(), cmd.OutOrStdout()
			if err := a.readArguments(args); err != nil {
				return err
			}
			return a.adoptCommand(cmd.Context())
		},
	}
	cli.OutputFlag(cmd, &a.form, "text", "json")
	cmd.Flags().StringVar(&a.argv, "argv", "", "`FILE` with the command line; - is standard input")
	cmd.Flags().StringVar(&a.sampleName, "sample", "", "`NAME` or file of the sample VM, if there are several")
	cmd.Flags().StringVar(&a.newName, "name", "", "`NAME` of a new type (default the name of FILE)")
	cmd.Flags().StringVar(&a.dir, "dir", ".", "`DIR` for a new type")
	cmd.Flags().BoolVar(&a.exact, "exact", false,
		"also remove what the command line lacks; always on for a plan")
	cmd.Flags().BoolVar(&a.write, "write", false, "write the files")
	cli.CompleteFile(cmd, "argv", "sh", "txt", "args")
	cli.CompleteFile(cmd, "sample", "txtar", "yaml")
	cli.CompleteFolder(cmd, "dir")
	return cmd
}

// adoption is the state of one call of the verb.
type adoption struct {
	form, argv, sampleName, newName, dir string
	exact, write                         bool
	folder                               *string // value of --vmtypes
	in                                   io.Reader
	out                                  io.Writer

	typeName string         // "" for a new type
	sample   *sample.Sample // nil for a new VM
	request  adopt.Request
}

// readArguments reads everything that the arguments name.
func (a *adoption) readArguments(args []string) error {
	text, err := a.readCommand()
	if err != nil {
		return err
	}
	if a.request.Command, err = adopt.Parse(text); err != nil {
		return cli.UsageError{Err: fmt.Errorf("cannot read the command line in %s: %w", a.argv, err)}
	}
	if len(args) > 0 {
		if err := a.findType(args[0]); err != nil {
			return err
		}
	} else if err := a.nameType(); err != nil {
		return err
	}
	if a.request.Source, err = vmtypes.ReadSource(a.dir); err != nil {
		return err
	}
	if err := a.findSample(); err != nil {
		return err
	}
	a.request.Type, a.request.New, a.request.Exact = a.typeName, a.newName, a.exact
	a.request.Bases = append([]string{config.DefaultVMType}, (vmtypes.Source{}).Library().Names()...)
	a.request.Evaluator = bounded{}
	return nil
}

func (a *adoption) readCommand() ([]byte, error) {
	switch a.argv {
	case "":
		return nil,
			cli.UsageError{Err: errors.New("a command line is required: --argv FILE, or --argv - for standard input")}
	case "-":
		return io.ReadAll(io.LimitReader(a.in, adopt.LargestText+1))
	}
	if err := requireFile("--argv", "file", a.argv); err != nil {
		return nil, err
	}
	file, err := os.Open(a.argv)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, adopt.LargestText+1))
	return text, errors.Join(err, file.Close())
}

// findType finds the file of the type to change.
func (a *adoption) findType(name string) error {
	if vmtypes.IsStock(name) {
		return cli.UsageError{Err: fmt.Errorf("adopt: %s is a stock type, which can't be changed; leave out TYPE to "+
			"create "+
			"your own type", name)}
	}
	path := name
	if filepath.Ext(name) != ".star" {
		path = name + ".star"
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(*a.folder, path)
		}
	}
	if err := requireFile("adopt", "file", path); err != nil {
		return err
	}
	a.dir, a.typeName = filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".star")
	return nil
}

// nameType chooses the name of a new type.
func (a *adoption) nameType() error {
	if a.newName == "" {
		base := filepath.Base(a.argv)
		a.newName = strings.TrimSuffix(base, filepath.Ext(base))
		if a.argv == "-" {
			a.newName = "adopted"
		}
	}
	if why := scaffold.BadName(a.newName); why != "" {
		return cli.UsageError{Err: fmt.Errorf("%q cannot be the name of a VM type: %s; choose another name with --name",
			a.newName,
			why)}
	}
	if path := filepath.Join(a.dir, a.newName+".star"); a.write {
		if _, err := os.Stat(path); err == nil {
			return cli.UsageError{Err: fmt.Errorf("%s exists already; give another name with --name, or change the "+
				"type "+
				"with: adopt %s", path, path)}
		}
	}
	return nil
}

// findSample finds the VM that the command line describes.
func (a *adoption) findSample() error {
	path := a.sampleName
	if _, err := os.Stat(path); path == "" || err != nil {
		found, err := a.chooseSample()
		if err != nil {
			return err
		}
		path = found
	}
	if path == "" {
		return nil
	}
	s, err := sample.Read(path)
	if err != nil {
		return err
	}
	if a.typeName != "" && s.Type != a.typeName {
		return cli.UsageError{Err: fmt.Errorf("--sample %s: it is a VM of the type %s, not of %s", path, s.Type,
			a.typeName)}
	}
	if a.request.Section, err = sectionOf(s); err != nil {
		return err
	}
	a.sample, a.request.Host = s, s.Host
	return nil
}

// chooseSample returns the path of the sample with the given name, or of the only sample of the type; "" if there is
// none.
func (a *adoption) chooseSample() (string, error) {
	if a.typeName == "" && a.sampleName == "" {
		return "", nil
	}
	paths, err := sample.Find(a.dir)
	if err != nil {
		return "", err
	}
	var names, own []string
	for _, path := range paths {
		s, err := sample.Read(path)
		if err != nil {
			continue // the tests report it
		}
		if names = append(names, s.Name()); s.Name() == a.sampleName {
			return path, nil
		}
		if s.Type == a.typeName {
			own = append(own, path)
		}
	}
	switch {
	case a.sampleName != "":
		hint := ""
		if near := spelling.Nearest(a.sampleName, names); near != "" {
			hint = " (did you mean " + near + "?)"
		}
		return "", cli.UsageError{Err: fmt.Errorf("--sample: there is no sample %s in %s%s", a.sampleName, a.dir, hint)}
	case len(own) > 1:
		return "", cli.UsageError{Err: fmt.Errorf("the type %s has several samples; choose one with --sample: %s",
			a.typeName,
			strings.Join(own, ", "))}
	case len(own) == 1:
		return own[0], nil
	}
	return "", nil
}

// sectionOf returns the vm section of a sample as its author wrote it.
func sectionOf(s *sample.Sample) (string, error) {
	if s.Keeps() {
		text, err := sample.SectionOf(s.Path)
		return firstText(text, "name: vm\n"), err
	}
	text, err := os.ReadFile(s.Path)
	if err != nil {
		return "", err
	}
	for _, key := range []string{"/Runner", "_Runner"} {
		section, found, err := yamlfile.Value(text, key, "vm")
		if err != nil || found {
			return section, err
		}
	}
	return "", fmt.Errorf("%s: there is no vm section", s.Path)
}

func firstText(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}

func (a *adoption) adoptCommand(ctx context.Context) error {
	if a.write && a.typeName != "" {
		if err := a.requireClean(ctx); err != nil {
			return err
		}
	}
	p, err := adopt.Propose(ctx, a.request)
	if err != nil {
		return fmt.Errorf("cannot propose a change: %w", err)
	}
	files := a.filesOf(p)
	broken := a.brokenSamples(ctx, p)
	if a.form == "json" {
		err = cli.PrintValue(a.out, a.form, proposalValue(p, files, broken))
	} else {
		err = a.printProposal(p, files, broken)
	}
	if err != nil || !a.write {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("nothing was written: with this change, other samples have no plan: %s",
			strings.Join(broken, "; "))
	}
	return a.writeProposal(ctx, p, files)
}

// requireClean refuses to change a type in which lint finds mistakes.
func (a *adoption) requireClean(ctx context.Context) error {
	path := filepath.Join(a.dir, a.typeName+".star")
	check := &linting{out: io.Discard, notes: io.Discard, form: "text"}
	found, err := check.lintPath(ctx, path)
	if err != nil {
		return fmt.Errorf("cannot change %s: %w", path, err)
	}
	if len(found) > 0 {
		return fmt.Errorf("cannot change %s: lint has %s; correct them first: vmrunner vmtype lint %s", path,
			countOf(len(found), "finding"), path)
	}
	return nil
}

// brokenSamples returns the other samples of the type that have a plan now, but not with the proposal.
func (a *adoption) brokenSamples(ctx context.Context, p *adopt.Proposal) (list []string) {
	if a.typeName == "" || p.After == p.Before {
		return nil
	}
	paths, err := sample.Find(a.dir)
	if err != nil {
		return []string{err.Error()}
	}
	changed := a.request.Source
	changed.Modules = map[string]string{}
	for name, text := range a.request.Source.Modules {
		changed.Modules[name] = text
	}
	changed.Modules[a.typeName+".star"] = p.After
	for _, path := range paths {
		s, err := sample.Read(path)
		if err != nil || s.Type != a.typeName || a.sample != nil && path == a.sample.Path {
			continue
		}
		if _, err := (bounded{}).Launch(ctx, a.request.Source, s.Type, s.VM, s.Host.Host()); err != nil {
			continue
		}
		if _, err := (bounded{}).Launch(ctx, changed, s.Type, s.VM, s.Host.Host()); err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			list = append(list, s.Name()+": "+first)
		}
	}
	slices.Sort(list)
	return list
}
