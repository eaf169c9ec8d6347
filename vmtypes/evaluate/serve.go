package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/sandbox"
)

// A Tester runs the tests with matching names in a file of a library. Its results are sent to the parent as JSON.
type Tester func(ctx context.Context, library *vmtypes.Library, file string, match *regexp.Regexp) (results any)

// Serve must be the first call in main. In a separate process for a request, it evaluates the request and exits. tests
// runs the tests of VM types. A program that never calls [Test] passes nil, and then links no test code.
func Serve(ctx context.Context, tests Tester) {
	sandbox.Serve(ctx, func(ctx context.Context, text json.RawMessage, ask sandbox.Ask) (any, error) {
		return serveRequest(ctx, text, ask, tests)
	})
}

// serveRequest processes one request in the separate process.
func serveRequest(ctx context.Context, text json.RawMessage, ask sandbox.Ask, tests Tester) (any, error) {
	var q request
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	t := Type{Source: q.Source, Name: q.Name, file: q.File}
	if q.Cover {
		ctx = vmtypes.WithCoverage(ctx, &vmtypes.Coverage{})
	}
	switch {
	case q.Launch != nil:
		return q.Launch.serveLaunch(ctx, t, ask), nil
	case q.Texts != nil:
		specs := make([]vmspec.Spec, len(q.Texts.VMs))
		for i, vm := range q.Texts.VMs {
			specs[i] = vm.Spec
		}
		list, err := launchAll(ctx, t, specs, hostByQuestions(q.Texts.Host, ask))
		return reply{Texts: list, Failure: newFailure(err)}, nil
	case q.Sizes != nil:
		loaded, err := t.loadType(ctx)
		var r reply
		if err == nil {
			r.Sizes, err = sizesOf(ctx, loaded, q.Sizes)
		}
		r.Failure = newFailure(err)
		return r, nil
	case q.Input != nil:
		return q.Input.serveInput(ctx, t, ask), nil
	case q.Describe:
		return describeType(ctx, t), nil
	case q.Test != nil && tests != nil:
		return q.Test.serveTest(ctx, q.Source.Library(), tests)
	case q.Group:
		return serveGroup(ctx, ask)
	case q.Diagnose != "":
		return reply{Failure: newFailure(diagnoseModule(ctx, q.Source.Library(), q.Diagnose))}, nil
	}
	return nil, errors.New("unknown request")
}

func (l *launch) serveLaunch(ctx context.Context, t Type, ask sandbox.Ask) reply {
	loaded, err := t.loadType(ctx)
	if err != nil {
		return reply{Failure: newFailure(err)}
	}
	p, err := loaded.Launch(ctx, l.VM.Spec, hostByQuestions(l.Host, ask))
	return reply{Plan: p, Failure: newFailure(err), Covered: vmtypes.CoverageOf(ctx).Take()}
}

// hostByQuestions returns the host with functions that ask the parent.
func hostByQuestions(host vmtypes.Host, ask sandbox.Ask) vmtypes.Host {
	host.Exists = func(path string) bool {
		var is bool
		mustAsk(ask(question{Exists: path}, &is))
		return is
	}
	host.DirectIO = func(path, format string) (is *bool) {
		mustAsk(ask(question{DirectIO: path, Format: format}, &is))
		return is
	}
	host.AIO = func(program string) (names []string) {
		mustAsk(ask(question{AIO: program}, &names))
		return names
	}
	host.Firmware = func() (list []vmtypes.FirmwareDescriptor) {
		mustAsk(ask(question{Firmware: true}, &list))
		return list
	}
	host.Topology = func() (t vmtypes.Topology) {
		mustAsk(ask(question{Topology: true}, &t))
		return t
	}
	host.Processors = func() (list []vmtypes.Processor) {
		mustAsk(ask(question{Processors: true}, &list))
		return list
	}
	host.PCI = func(address string) (d *vmtypes.PCIDevice) {
		mustAsk(ask(question{PCI: address}, &d))
		return d
	}
	host.Confidential = func() (c vmtypes.Confidential) {
		mustAsk(ask(question{Confidential: true}, &c))
		return c
	}
	return host
}

// launchAll returns the plans of several VMs as texts, evaluated in the current process. A text is "" if there is
// no plan for its VM.
func launchAll(ctx context.Context, t Type, specs []vmspec.Spec, host vmtypes.Host) ([]string, error) {
	loaded, err := t.loadType(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]string, len(specs))
	for i, spec := range specs {
		if p, _ := loaded.Launch(ctx, spec, host); p != nil { // even a plan with errors has a text
			list[i] = p.Text()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return list, nil
}

// mustAsk ends the evaluation if the parent does not answer a question, because the parent has ended.
func mustAsk(err error) {
	if err != nil {
		panic(err)
	}
}

func describeType(ctx context.Context, t Type) reply {
	loaded, err := t.loadType(ctx)
	if err != nil {
		return reply{Failure: newFailure(err)}
	}
	d := loaded.Describe()
	return reply{Description: &d}
}

func (r *test) serveTest(ctx context.Context, library *vmtypes.Library, tests Tester) (any, error) {
	match, err := regexp.Compile(r.Match)
	if err != nil {
		return nil, err
	}
	results, err := json.Marshal(tests(ctx, library, r.File, match))
	return reply{Results: results, Covered: vmtypes.CoverageOf(ctx).Take()}, err
}

// diagnoseModule loads a module. If the module defines launch, diagnoseModule also loads it as a type.
func diagnoseModule(ctx context.Context, library *vmtypes.Library, file string) error {
	script, err := library.Script(ctx, file, nil)
	if err != nil {
		return err
	}
	for _, fn := range script.Functions() {
		if fn.Name() == "launch" && !strings.HasSuffix(file, "_test.star") {
			_, err = library.LoadFile(ctx, file)
			return err
		}
	}
	return nil
}
