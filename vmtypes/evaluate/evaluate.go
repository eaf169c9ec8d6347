package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/sandbox"
)

// A Type says which VM type is meant: its name among the stock types and the
// modules of a source.
type Type struct {
	Source vmtypes.Source
	Name   string
	// file is set for a type that is meant by its file, even if there is a stock
	// type of this name.
	file string
}

// Find returns the type that a configuration means by name: a stock type, one of
// the folder dir, or, if name is an absolute path, a file anywhere. Whether
// there is one shows when it is used.
func Find(dir, name string) (Type, error) {
	if filepath.IsAbs(name) {
		return inFile(name)
	}
	if vmtypes.IsStock(name) {
		return Type{Source: vmtypes.Source{Dir: dir}, Name: strings.TrimSuffix(name, ".star")}, nil
	}
	source, err := vmtypes.ReadSource(dir)
	return Type{Source: source, Name: name}, err
}

func inFile(path string) (Type, error) {
	folder, file := filepath.Split(path)
	source, err := vmtypes.ReadSource(filepath.Clean(folder))
	return Type{Source: source, Name: strings.TrimSuffix(file, ".star"), file: file}, err
}

// stock reports whether a type is evaluated in this process.
func (t Type) stock() bool { return t.file == "" && vmtypes.IsStock(t.Name) }

// load loads the type, in whatever process this is.
func (t Type) load(ctx context.Context) (*vmtypes.Type, error) {
	if t.file != "" {
		return t.Source.Library().LoadFile(ctx, t.file)
	}
	return t.Source.Library().Load(ctx, t.Name)
}

// Launch returns the plan for a VM, spec with its defaults, on host. The errors
// are those of vmtypes.Type's Launch, and those of package sandbox when a limit
// was reached. The plan is returned together with a *vmtypes.FaultsError if it
// cannot work.
func (t Type) Launch(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	if t.stock() {
		loaded, err := t.load(ctx)
		if err != nil {
			return nil, err
		}
		return loaded.Launch(ctx, spec, host)
	}
	var r reply
	if _, err := t.send(ctx, request{Launch: &launch{VM: newWireSpec(spec), Host: host}}, &host, &r); err != nil {
		return nil, err
	}
	if r.Plan == nil {
		return nil, orMissing(r.Failure.error())
	}
	return r.Plan, orFaults(r.Plan, host.Files.CheckFiles(r.Plan, spec.Options), r.Failure.error())
}

// Texts returns the plans of several VMs on one host as texts; "" is that of a VM
// for which there is none. All of them share the limits of one process.
func (t Type) Texts(ctx context.Context, specs []vmspec.Spec, host vmtypes.Host) ([]string, error) {
	if t.stock() {
		return launchAll(ctx, t, specs, host)
	}
	q := texts{Host: host}
	for _, spec := range specs {
		q.VMs = append(q.VMs, newWireSpec(spec))
	}
	var r reply
	if _, err := t.send(ctx, request{Texts: &q}, &host, &r); err != nil {
		return nil, err
	}
	if err := r.Failure.error(); err != nil {
		return nil, err
	}
	if len(r.Texts) != len(specs) {
		return nil, orMissing(nil)
	}
	return r.Texts, nil
}

// orFaults checks a plan again: a type may have taken over the process that made it.
func orFaults(p *plan.Plan, misplaced []plan.Fault, err error) error {
	if err != nil {
		return err
	}
	if faults := append(p.Check(), misplaced...); len(faults) > 0 {
		return &vmtypes.FaultsError{Type: p.Type, Faults: faults}
	}
	return nil
}

func orMissing(err error) error {
	if err == nil {
		return errors.New("evaluate a VM type: got neither a result nor an error")
	}
	return err
}

// Describe returns what the type says of itself.
func (t Type) Describe(ctx context.Context) (vmtypes.Description, error) {
	if t.stock() {
		loaded, err := t.load(ctx)
		if err != nil {
			return vmtypes.Description{}, err
		}
		return loaded.Describe(), nil
	}
	var r reply
	if _, err := t.send(ctx, request{Describe: true}, nil, &r); err != nil {
		return vmtypes.Description{}, err
	}
	if r.Description == nil {
		return vmtypes.Description{}, orMissing(r.Failure.error())
	}
	return *r.Description, nil
}

// Test runs the tests of a file of a source whose names match, and decodes what the
// [Tester] of this program returned into results; nil matches all. The tests of a
// file share the limits of one process.
func Test(ctx context.Context, source vmtypes.Source, file string, match *regexp.Regexp, results any) error {
	q := request{Source: source, Test: &test{File: file}}
	if match != nil {
		q.Test.Match = match.String()
	}
	var r reply
	if _, err := sandbox.Run(ctx, q, answerer(nil), &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := json.Unmarshal(r.Results, results); err != nil {
		return fmt.Errorf("%s: read the results of the tests: %w", file, err)
	}
	return nil
}

// Diagnose returns what is wrong with the module file of a source, as far as
// loading it shows: all of its mistakes that are found at once. A nil error
// means that it can be loaded, and is a type if it defines launch.
func Diagnose(ctx context.Context, source vmtypes.Source, file string) error {
	var r reply
	t := Type{Source: source, Name: strings.TrimSuffix(file, ".star")}
	if _, err := t.send(ctx, request{Diagnose: file}, nil, &r); err != nil {
		return err
	}
	return r.Failure.error()
}

// send has a request worked on in a process of its own.
func (t Type) send(ctx context.Context, q request, host *vmtypes.Host, r *reply) (sandbox.Usage, error) {
	q.Source, q.Name, q.File = t.Source, t.Name, t.file
	usage, err := sandbox.Run(ctx, q, answerer(host), r)
	if err != nil {
		err = fmt.Errorf("VM type %s: %w", t.Name, err)
	}
	return usage, err
}

// answerer answers what a type asks about the host.
func answerer(host *vmtypes.Host) func(json.RawMessage) (any, error) {
	return func(text json.RawMessage) (any, error) {
		var q question
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, err
		}
		switch {
		case host == nil:
			return nil, errors.New("there is no host to ask about")
		case q.Firmware && host.Firmware != nil:
			return host.Firmware(), nil
		case q.Firmware:
			return []vmtypes.FirmwareDescriptor{}, nil
		case q.Topology && host.Topology != nil:
			return host.Topology(), nil
		case q.Topology:
			return vmtypes.SomeTopology(), nil
		case len(q.Exists) > longestPath:
			return false, nil
		}
		return host.Exists(q.Exists), nil
	}
}

// longestPath is the longest that Linux takes (PATH_MAX).
const longestPath = 4096
