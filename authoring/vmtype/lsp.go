package vmtype

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"vmop/authoring/format"
	"vmop/authoring/introspect"
	"vmop/authoring/lsp"
	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

func newLSP(Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Run the language server for an editor",
		Long: "Speak the Language Server Protocol with an editor on standard input and output. The\n" +
			"editor starts it; docs/vm-types/editors.md shows the settings. Mistakes in a folder of VM\n" +
			"types are shown in place: at each pause in typing, each type is evaluated with its samples\n" +
			"and tests, in a process with limits.",
		Example: "  vmrunner vmtype lsp",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			known := &installed{ctx: cmd.Context(), opened: map[string]*introspect.QEMU{}}
			library, err := os.UserCacheDir()
			if err == nil {
				library = filepath.Join(library, "vmrunner", "library")
			}
			shared := &editorLaunches{}
			defer shared.close()
			err = lsp.Serve(cmd.Context(), os.Stdin, os.Stdout, lsp.Options{
				Evaluator: shared, Format: format.Source, QEMU: known.qemuFor,
				Library: library, // without a cache, the copy is temporary
			})
			err = errors.Join(err, known.closeAll())
			if errors.Is(err, lsp.ErrNoShutdown) {
				return cli.ExitError{Code: 1} // required by the protocol
			}
			return err
		},
	}
}

// bounded evaluates types in limited processes.
type bounded struct{}

// Launch implements lsp.Evaluator.
func (bounded) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	return evaluate.Type{Source: source, Name: name}.Launch(ctx, vm, host)
}

// editorLaunches evaluates the types of an editor. The launches of an unchanged folder share processes, because an
// evaluation tries many samples.
type editorLaunches struct {
	bounded
	mu      sync.Mutex
	current contained
}

// Launch implements lsp.Evaluator.
func (l *editorLaunches) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	return l.launchesOf(source).Launch(ctx, name, vm, host)
}

// launchesOf returns the processes for a version of the modules, and ends the processes of the previous version.
func (l *editorLaunches) launchesOf(source vmtypes.Source) contained {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.current.source
	if l.current.idle == nil || is.Dir != source.Dir || !maps.Equal(is.Modules, source.Modules) ||
		!maps.Equal(is.Refused, source.Refused) {
		l.closeCurrent()
		l.current = contained{source, &policyCheck{given: func() bool { return false }}, &idleProcesses{}}
	}
	return l.current
}

func (l *editorLaunches) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeCurrent()
}

func (l *editorLaunches) closeCurrent() {
	if l.current.idle != nil {
		l.current.close()
	}
}

// Diagnose implements lsp.Evaluator.
func (bounded) Diagnose(ctx context.Context, source vmtypes.Source, file string) error {
	return evaluate.Diagnose(ctx, source, file)
}

// Describe implements lsp.Evaluator.
func (bounded) Describe(ctx context.Context, source vmtypes.Source, name string) (vmtypes.Description, error) {
	return evaluate.Type{Source: source, Name: name}.Describe(ctx)
}

// Test implements lsp.Evaluator.
func (bounded) Test(ctx context.Context, source vmtypes.Source, file string) ([]vmtypestest.Result, error) {
	return runTests(ctx, source, file, nil)
}

// installed contains the queried QEMUs of a session.
type installed struct {
	ctx    context.Context // of the session
	mu     sync.Mutex
	opened map[string]*introspect.QEMU // nil means that querying failed
}

// qemuFor returns the QEMU on the PATH with the base name of a program. It never starts the program at the path in the
// type, because opening an untrusted folder must not run programs from it.
func (m *installed) qemuFor(program string) lsp.QEMU {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := filepath.Base(program)
	if !strings.HasPrefix(name, "qemu-system-") {
		return nil
	}
	q, asked := m.opened[name]
	if !asked {
		q = openMachine(m.ctx, name)
		m.opened[name] = q
	}
	if q == nil {
		return nil
	}
	return q
}

// openMachine opens a QEMU. It returns nil if the QEMU isn't installed or doesn't answer.
func openMachine(ctx context.Context, name string) *introspect.QEMU {
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "vmrunner", "qemu")
	}
	q, err := introspect.Open(ctx, name, cache) // without a cache, each session queries QEMU
	if err != nil {
		return nil
	}
	return q
}

func (m *installed) closeAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, q := range m.opened {
		if q != nil {
			errs = append(errs, q.Close())
		}
	}
	return errors.Join(errs...)
}
