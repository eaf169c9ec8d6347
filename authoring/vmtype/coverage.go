package vmtype

import (
	"fmt"
	"os"
	"strings"

	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/vmtypes"
)

// onlyPrinted is the value of --coverage without a file.
const onlyPrinted = "-"

// A coverageRun is the coverage of the folders of one run.
type coverageRun struct {
	// file is the value of --coverage; "" without the flag.
	file  string
	files []vmtypestest.FileCoverage
	lcov  strings.Builder
}

// addFolder adds the modules of a folder.
func (c *coverageRun) addFolder(dir string, source vmtypes.Source, counts vmtypes.CoverageCounts) {
	if c.file == "" {
		return
	}
	files := vmtypestest.CoverageReport(source, counts)
	c.lcov.WriteString(vmtypestest.LCOV(dir, files))
	c.files = append(c.files, files...)
}

// writeFile writes the file of --coverage, if any.
func (c *coverageRun) writeFile() error {
	if c.file == "" || c.file == onlyPrinted {
		return nil
	}
	if err := os.WriteFile(c.file, []byte(c.lcov.String()), 0o666); err != nil {
		return fmt.Errorf("write the coverage: %w", err)
	}
	return nil
}

// printCoverage prints the percentage of each module, and the lines and branches that were not reached.
func (p *page) printCoverage(files []vmtypestest.FileCoverage) {
	width := len("total")
	for _, f := range files {
		width = max(width, len(cli.Printable(f.File)))
	}
	line := func(f vmtypestest.FileCoverage) string {
		return fmt.Sprintf("%-*s  %5.1f %%  %d of %d lines, %d of %d branches", width, cli.Printable(f.File),
			f.Percent(), f.CoveredLines, f.Lines, f.CoveredBranches, f.Branches)
	}
	for _, f := range files {
		p.printLine("%s", line(f))
		shown := 0
		for _, m := range f.Missing {
			if m.Line != shown {
				p.printLine("    %s", p.Yellow(fmt.Sprintf("%4d | %s", m.Line, cli.Printable(m.Text))))
				shown = m.Line
			}
			if m.Why != "" {
				p.printLine("         | %s", p.Faint(m.Why))
			}
		}
	}
	if len(files) > 1 {
		p.printLine("%s", line(vmtypestest.TotalCoverage(files)))
	}
}
