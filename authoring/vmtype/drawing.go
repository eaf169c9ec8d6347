package vmtype

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/authoring/draw"
	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/internal/atomicfile"
	"vmop/internal/cli"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// drawing contains the flags for drawn VMs.
type drawing struct {
	number int
	seed   uint64
	save   bool
}

// checkFlags rejects flags that have no effect.
func (d drawing) checkFlags(cmd *cobra.Command) error {
	if d.number < 0 {
		return cli.UsageError{Err: fmt.Errorf("--draw %d: must not be negative", d.number)}
	}
	for _, name := range []string{"seed", "save"} {
		if d.number == 0 && cmd.Flags().Changed(name) {
			return cli.UsageError{Err: fmt.Errorf("--%s is for drawn VMs; give their number, such as --draw 100", name)}
		}
	}
	return nil
}

// drawFolder tries the types of a folder with drawn VMs, several types at a time.
func (d drawing) drawFolder(
	ctx context.Context, folder *vmtypestest.Folder, in contained, options vmtypestest.Options,
	each func([]vmtypestest.Result),
) error {
	if d.number <= 0 {
		return nil
	}
	var work []func() []vmtypestest.Result
	for _, file := range moduleNames(in.source) {
		r := vmtypestest.Result{File: file, Function: "drawn"}
		if !strings.HasSuffix(file, "_test.star") && isType(file, in.source.Modules[file]) && options.Select(file) &&
			(options.Match == nil || options.Match.MatchString(r.Name())) {
			work = append(work, func() []vmtypestest.Result {
				start := time.Now()
				if err := d.drawType(ctx, folder, in, &r); err != nil {
					r.Failures = append(r.Failures, vmtypestest.FailuresOf(err)...)
				}
				r.Time = time.Since(start)
				return []vmtypestest.Result{r}
			})
		}
	}
	vmtypestest.InOrder(work, func(results []vmtypestest.Result) {
		if ctx.Err() == nil {
			each(results)
		}
	})
	return context.Cause(ctx)
}

// drawType tries a type with drawn VMs, and adds the errors to the result.
func (d drawing) drawType(
	ctx context.Context, folder *vmtypestest.Folder, in contained, r *vmtypestest.Result,
) error {
	name := strings.TrimSuffix(r.File, ".star")
	description, err := evaluate.Type{Source: in.source, Name: name}.Describe(ctx)
	if err != nil {
		return err
	}
	from := draw.NewSource(d.seed, description.Options)
	for _, s := range folder.Samples {
		path := filepath.Join(folder.Dir, s)
		if text, err := os.ReadFile(path); err != nil {
			continue // its own test fails
		} else if vmType, err := sample.TypeOf(path, text); err != nil || vmType != name {
			continue
		}
		if vm, err := draw.FromSample(path); err == nil {
			from.Accept(vm)
		}
	}
	report, err := draw.Run(ctx, from, d.number,
		func(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
			return in.Launch(ctx, name, spec, host)
		})
	if err != nil {
		return err
	}
	for _, found := range report.Found {
		failure := vmtypestest.FailuresOf(found.Err)[0]
		failure.Text = found.Error()
		if d.save {
			file, text := found.Archive(name)
			if err := saveSample(filepath.Join(folder.Dir, sample.Folder, file), text); err != nil {
				return err
			}
			failure.Text += "\nsaved as " + filepath.Join(sample.Folder, file) +
				"; when the type is repaired, -u adds its plan"
		}
		r.Failures = append(r.Failures, failure)
	}
	r.Note = fmt.Sprintf("%d VMs drawn, %d refused", report.Drawn, report.Refused)
	if report.Refused == report.Drawn && report.Reason != nil {
		r.Skipped = "the type refuses all drawn VMs, the last one because: " + report.Reason.Error()
	}
	return nil
}

// saveSample writes a sample, unless it exists.
func saveSample(path string, text []byte) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("save a drawn VM: %w", err)
	}
	if err := atomicfile.Write(path, text, 0o666, atomicfile.Synced); err != nil {
		return fmt.Errorf("save a drawn VM: %w", err)
	}
	return nil
}
