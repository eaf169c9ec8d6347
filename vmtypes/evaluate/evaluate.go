package evaluate

import (
	"cmp"
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

// A Type identifies a VM type: a stock type by its name, or a type among the modules of a source.
type Type struct {
	Source vmtypes.Source
	Name   string
	// file is set if the type is identified by its file, even if there is a stock type with this name.
	file string
}

// Find returns the type with a name from a configuration: a stock type, a type in the folder dir, or, if name is
// an absolute path, a type in any file. A missing type is an error at the first use.
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

// isStock reports whether the type is evaluated in this process.
func (t Type) isStock() bool { return t.file == "" && vmtypes.IsStock(t.Name) }

// loadType loads the type in the current process.
func (t Type) loadType(ctx context.Context) (*vmtypes.Type, error) {
	if t.file != "" {
		return t.Source.Library().LoadFile(ctx, t.file)
	}
	return t.Source.Library().Load(ctx, t.Name)
}

// Launch returns the plan for a VM on a host. spec must contain its defaults. The errors are the errors of
// [vmtypes.Type.Launch] and, if a limit was reached, of package sandbox. If the plan cannot work, Launch returns
// it together with a *vmtypes.FaultsError.
func (t Type) Launch(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	if t.isStock() {
		loaded, err := t.loadType(ctx)
		if err != nil {
			return nil, err
		}
		return loaded.Launch(ctx, spec, host)
	}
	var r reply
	if _, err := t.sendRequest(ctx, request{Launch: &launch{VM: newWireSpec(spec), Host: host}}, &host,
		&r); err != nil {
		return nil, err
	}
	if r.Plan == nil {
		return nil, orMissing(r.Failure.asError())
	}
	return r.Plan, orFaults(r.Plan, host.Files.CheckFiles(r.Plan, spec.Options), r.Failure.asError())
}

// Sizes returns the sizes that the type decides, as vmtypes.Type.Sizes does.
func (t Type) Sizes(ctx context.Context, spec vmspec.Spec, files vmtypes.Files) (vmspec.Sizes, error) {
	if t.isStock() {
		loaded, err := t.loadType(ctx)
		if err != nil {
			return vmspec.Sizes{}, err
		}
		return loaded.Sizes(ctx, spec, files)
	}
	if !t.MayDecideSizes() || spec.Sizes().AreComplete() {
		return vmspec.Sizes{}, nil // without a process
	}
	var r reply
	_, err := t.sendRequest(ctx, request{Sizes: &options{VM: newWireSpec(spec), Files: files}}, nil, &r)
	return r.decidedSizes(), cmp.Or(err, r.Failure.asError())
}

// MayDecideSizes reports whether the type can define defaults. It does not evaluate the type.
func (t Type) MayDecideSizes() bool {
	return !t.isStock() && vmtypes.MayDecideSizes(t.Source.Modules[cmp.Or(t.file, t.Name+".star")])
}

// Texts returns the plans of several VMs on one host as texts. A text is "" if there is no plan for its VM. All
// VMs share the limits of one process.
func (t Type) Texts(ctx context.Context, specs []vmspec.Spec, host vmtypes.Host) ([]string, error) {
	if t.isStock() {
		return launchAll(ctx, t, specs, host)
	}
	q := texts{Host: host}
	for _, spec := range specs {
		q.VMs = append(q.VMs, newWireSpec(spec))
	}
	var r reply
	if _, err := t.sendRequest(ctx, request{Texts: &q}, &host, &r); err != nil {
		return nil, err
	}
	if err := r.Failure.asError(); err != nil {
		return nil, err
	}
	if len(r.Texts) != len(specs) {
		return nil, orMissing(nil)
	}
	return r.Texts, nil
}

// orFaults checks a plan again, because a type may have taken over the process that sent it.
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

// Describe returns the type's description.
func (t Type) Describe(ctx context.Context) (vmtypes.Description, error) {
	if t.isStock() {
		loaded, err := t.loadType(ctx)
		if err != nil {
			return vmtypes.Description{}, err
		}
		return loaded.Describe(), nil
	}
	var r reply
	if _, err := t.sendRequest(ctx, request{Describe: true}, nil, &r); err != nil {
		return vmtypes.Description{}, err
	}
	if r.Description == nil {
		return vmtypes.Description{}, orMissing(r.Failure.asError())
	}
	return *r.Description, nil
}

// Test runs the tests in a file of a source and decodes the results of the program's [Tester] into results. It
// only runs tests with matching names; nil matches all. The tests of a file share the limits of one process.
func Test(ctx context.Context, source vmtypes.Source, file string, match *regexp.Regexp, results any) error {
	q := request{Source: source, Test: &test{File: file}, Cover: vmtypes.CoverageOf(ctx) != nil}
	if match != nil {
		q.Test.Match = match.String()
	}
	var r reply
	if _, err := sandbox.Run(ctx, q, hostAnswerer(nil), &r); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	vmtypes.CoverageOf(ctx).Add(r.Covered)
	if err := json.Unmarshal(r.Results, results); err != nil {
		return fmt.Errorf("%s: read the results of the tests: %w", file, err)
	}
	return nil
}

// Diagnose returns the errors in a module of a source, as far as loading it detects them. It returns all errors
// that it finds in one pass. nil means that the module can be loaded and, if it defines launch, that it is a
// valid type.
func Diagnose(ctx context.Context, source vmtypes.Source, file string) error {
	var r reply
	t := Type{Source: source, Name: strings.TrimSuffix(file, ".star")}
	if _, err := t.sendRequest(ctx, request{Diagnose: file}, nil, &r); err != nil {
		return err
	}
	return r.Failure.asError()
}

// sendRequest processes a request in a separate process.
func (t Type) sendRequest(ctx context.Context, q request, host *vmtypes.Host, r *reply) (sandbox.Usage, error) {
	q.Source, q.Name, q.File = t.Source, t.Name, t.file
	q.Cover = vmtypes.CoverageOf(ctx) != nil
	usage, err := sandbox.Run(ctx, q, hostAnswerer(host), r)
	vmtypes.CoverageOf(ctx).Add(r.Covered)
	if err != nil {
		err = fmt.Errorf("VM type %s: %w", t.Name, err)
	}
	return usage, err
}

// hostAnswerer returns the function that answers a type's questions about the host.
func hostAnswerer(host *vmtypes.Host) func(json.RawMessage) (any, error) {
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
		case q.Processors || q.Confidential || q.PCI != "":
			return answerHardware(q, host), nil
		case q.AIO != "" || q.DirectIO != "":
			return q.answerStorage(host), nil
		case len(q.Exists) > longestPath:
			return false, nil
		}
		return host.Exists(q.Exists), nil
	}
}

// answerHardware answers a question about the hardware of the host. The address in the question is untrusted.
func answerHardware(q question, host *vmtypes.Host) any {
	switch {
	case q.Processors && host.Processors != nil:
		return host.Processors()
	case q.Processors && host.Topology != nil:
		return host.Topology().SeparateCores()
	case q.Processors:
		return vmtypes.SomeTopology().SeparateCores()
	case q.Confidential && host.Confidential != nil:
		return host.Confidential()
	case q.Confidential:
		return vmtypes.Confidential{}
	}
	if address, ok := vmtypes.PCIAddress(q.PCI); ok && host.PCI != nil {
		return host.PCI(address)
	}
	return nil
}

// answerStorage answers a question about the host's storage. null means that the answer is unknown.
func (q question) answerStorage(host *vmtypes.Host) any {
	switch {
	case len(q.AIO)+len(q.DirectIO)+len(q.Format) > longestPath:
		return nil
	case q.AIO != "" && host.AIO != nil:
		return host.AIO(q.AIO)
	case q.DirectIO != "" && host.DirectIO != nil:
		return host.DirectIO(q.DirectIO, q.Format)
	}
	return nil
}

// longestPath is the maximum length of a path on Linux (PATH_MAX).
const longestPath = 4096
