package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Launch returns the plan of a VM type for a VM on a host, like vmtypes.Type.Launch.
type Launch func(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error)

// A Checker tests plans. It is safe for concurrent use.
type Checker struct {
	// QEMU is the absolute path of a QEMU program, or of a folder with several QEMU programs. "" means the programs
	// that the plans name, or the programs on the path.
	QEMU string

	lock sync.Mutex
	kvm  map[string]bool // whether a program can use KVM
	// versions contains the versions of QEMU programs, by path.
	versions map[string]string
}

// A Result is the result of checking a sample. docs/decisions/0187-untried-is-not-green.md explains which parts of a
// plan count as tried.
type Result struct {
	// Time is the duration of the check.
	Time time.Duration `json:"nanoseconds"`
	// Program is the path of QEMU; Version is its version.
	Program string `json:"program,omitempty"`
	Version string `json:"version,omitempty"`
	// Machine is the machine type that QEMU has created, "pc-q35-7.2".
	Machine string `json:"machine,omitempty"`
	// Failures is empty if QEMU has created the machine.
	Failures []Failure `json:"failures,omitempty"`
	// Untried is the reason why QEMU was not started; "" if it was started.
	Untried string `json:"untried,omitempty"`
	// Missing means that a program is not installed, so the sample or some of its options were not tried.
	Missing bool `json:"missing,omitempty"`
	// Without contains the omitted options and processes with the reasons.
	Without []string `json:"without,omitempty"`
	// Replaced contains the parts of the plan that depend on the memory and the NUMA nodes of a computer, and were
	// replaced: "in -object memory-backend-ram,id=pc.ram: host-nodes=0".
	Replaced []string `json:"replaced,omitempty"`
	// Warnings are QEMU's warnings about a machine that it created, without warnings about CPU features that TCG lacks.
	Warnings []string `json:"warnings,omitempty"`
}

// A Failure is an error in a plan.
type Failure struct {
	// Message is QEMU's message, or the violated requirement of a rule.
	Message string `json:"message"`
	// Option is the option that caused the failure, as QEMU received it. Origin is the place that created the option.
	// Both are empty if the option is unknown.
	Option string      `json:"option,omitempty"`
	Origin plan.Origin `json:"origin,omitempty"`
}

// patience is the time limit for QEMU to create a machine; QEMU normally needs far less.
const patience = time.Minute

// Sample tests the plan of a sample. The error is the error of launch.
func (c *Checker) Sample(ctx context.Context, s *sample.Sample, launch Launch) (Result, error) {
	start := time.Now()
	dir, err := newFolder(c.qemuImg())
	defer func() { _ = dir.removeAll() }() // leftovers are in a temporary folder
	if err != nil {
		return Result{}, err
	}
	facts := s.Host
	host := facts.Host()
	data, runtime := host.DataDir, host.RuntimeDir
	facts.DataDir, facts.RuntimeDir = dir.dataDir(), dir.runtimeDir()
	p, err := launch(ctx, s.Type, s.VM, facts.Host())
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("QEMU has %s", patience))
	defer cancel()
	r := c.tryPlan(ctx, p, dir, s.NeedsQEMU)
	for i, f := range r.Failures {
		r.Failures[i].Message = dir.restoreNames(f.Message, data, runtime)
		r.Failures[i].Option = dir.restoreNames(f.Option, data, runtime)
	}
	for _, list := range [][]string{r.Without, r.Replaced, r.Warnings} {
		for i := range list {
			list[i] = dir.restoreNames(list[i], data, runtime)
		}
	}
	r.Untried = dir.restoreNames(r.Untried, data, runtime)
	r.Time = time.Since(start)
	return r, nil
}

// tryPlan tests a plan, which needs the QEMU version least or newer. If QEMU refuses something that only this computer
// lacks, tryPlan omits or replaces it and tests again.
func (c *Checker) tryPlan(ctx context.Context, p *plan.Plan, dir folder, least string) Result {
	r := Result{}
	program, err := c.programFor(p.QEMU.Executable)
	if err != nil {
		r.Untried, r.Missing = err.Error(), true
		return r
	}
	r.Program = program
	if least != "" {
		if version := c.versionOf(ctx, program); sample.IsOlder(version, least) {
			r.Untried = "needs QEMU " + least + ", this is " + cmp.Or(version, "an unknown version")
			return r
		}
	}
	wanted := slices.ContainsFunc(p.QEMU.Args, wantsKVM)
	t := &trial{dir: dir, plan: p, without: map[int]bool{}, absent: map[string]bool{}, answered: map[string]bool{}}
	t.kvm = wanted && c.canUseKVM(ctx, program)
	t.withoutKVM = wanted && !t.kvm
	t.omitAbsentHelpers(&r)
	for _, file := range p.Files {
		if err := dir.copyOnce(file.From, file.To); err != nil {
			return r.untestable(fmt.Errorf("copy %s: %w", file.From, err))
		}
	}
	for {
		replaced, err := t.replaceOptions()
		if err != nil {
			return r.untestable(err)
		}
		r.Replaced = replaced.replaced
		a := &attempt{trial: t, args: replaced.args}
		lost, again := a.startAndInspect(ctx, program, &r)
		switch {
		case lost >= 0:
			at := replaced.from[lost]
			t.without[at] = true
			r.Without = append(r.Without, optionText(p.QEMU.Args[at])+": "+a.reason)
		case !again:
			for i := range r.Failures {
				r.Failures[i].locateOptions(p, a, replaced.from)
			}
			return r
		}
	}
}

// untestable records the reason why a plan cannot be tested.
func (r Result) untestable(err error) Result {
	var needs needsError
	if errors.As(err, &needs) {
		r.Untried, r.Missing = needs.Error(), needs.Program
	} else {
		r.Failures = append(r.Failures, Failure{Message: err.Error()})
	}
	return r
}

// locateOptions adds the plan's option that caused a failure.
func (f *Failure) locateOptions(p *plan.Plan, a *attempt, from []int) {
	blamed := a.runningProcess().Blame(f.Message)
	if blamed == nil || len(f.Origin) > 0 {
		return
	}
	i := slices.IndexFunc(a.args, func(o plan.Option) bool { return optionText(o) == optionText(*blamed) })
	if i >= 0 {
		f.Option, f.Origin = optionText(p.QEMU.Args[from[i]]), p.QEMU.Args[from[i]].Origin
	}
}

func optionText(o plan.Option) string {
	return strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), " ")
}

// programFor returns the QEMU program to use for the program in a plan.
func (c *Checker) programFor(planned string) (string, error) {
	base := filepath.Base(planned)
	if c.QEMU != "" {
		info, err := os.Stat(c.QEMU)
		switch {
		case err != nil:
			return "", err
		case !info.IsDir() && (filepath.Base(c.QEMU) == base || !strings.HasPrefix(base, "qemu-system-") ||
			!strings.HasPrefix(filepath.Base(c.QEMU), "qemu-system-")):
			return c.QEMU, nil
		case !info.IsDir():
			return findProgram(base, filepath.Join(filepath.Dir(c.QEMU), base))
		}
		return findProgram(base, filepath.Join(c.QEMU, base))
	}
	for _, path := range []string{planned, "/usr/libexec/qemu-kvm"} {
		if found, err := findProgram(base, path); err == nil {
			return found, nil
		}
	}
	if found, err := exec.LookPath(base); err == nil {
		return found, nil
	}
	if base == "qemu-kvm" {
		if found, err := exec.LookPath("qemu-system-x86_64"); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("it needs the program %s, which is not installed", base)
}

func findProgram(name, path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("it needs the program %s: %w", name, err)
	}
	return found, nil
}

// qemuImg returns the path of qemu-img, or "".
func (c *Checker) qemuImg() string {
	candidates := []string{"qemu-img"}
	if c.QEMU != "" {
		candidates = []string{
			filepath.Join(c.QEMU, "qemu-img"), filepath.Join(filepath.Dir(c.QEMU), "qemu-img"),
			"qemu-img",
		}
	}
	for _, path := range candidates {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	return ""
}

// wantsKVM reports whether an option requires KVM.
func wantsKVM(o plan.Option) bool {
	accel, _ := o.Get("accel")
	return o.Flag == "-accel" && strings.HasPrefix(o.Value, "kvm") || strings.HasPrefix(accel, "kvm") ||
		o.Flag == "-enable-kvm"
}

// canUseKVM reports whether QEMU can use KVM. It starts QEMU once to find out, because a nested /dev/kvm may open but
// reject a CPU's registers.
func (c *Checker) canUseKVM(ctx context.Context, program string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	can, known := c.kvm[program]
	if !known {
		args := []string{"-accel", "kvm", "-cpu", "host", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio"}
		if strings.HasSuffix(program, "aarch64") {
			args = append(args, "-machine", "virt") // it has no default machine
		}
		probe := exec.CommandContext(ctx, program, args...)
		probe.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"quit"}`)
		can = probe.Run() == nil
		if c.kvm == nil {
			c.kvm = map[string]bool{}
		}
		c.kvm[program] = can
	}
	return can
}
