package vmtypestest

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vmop/vmtypes"
)

// A FileCoverage is the part of a module that tests and samples have executed.
type FileCoverage struct {
	// File is the module, relative to the folder of types.
	File string `json:"file"`
	// Lines is the number of lines with a statement, and CoveredLines how many of them were executed.
	Lines        int `json:"lines"`
	CoveredLines int `json:"coveredLines"`
	// Branches is the number of outcomes of conditions, two for each, and CoveredBranches how many of them occurred.
	Branches        int `json:"branches"`
	CoveredBranches int `json:"coveredBranches"`
	// Missing are the lines and branches that were not reached, in their order.
	Missing []MissingCode `json:"missing,omitempty"`

	points []vmtypes.CoveragePoint
	counts []int
}

// MissingCode is a line or a branch that was not reached.
type MissingCode struct {
	// Line is the line, counted from 1.
	Line int `json:"line"`
	// Why describes a branch or lambda; empty if the whole line was not executed.
	Why string `json:"why,omitempty"`
	// Text is the text of the line, without its indentation.
	Text string `json:"text"`
}

// Percent returns the percentage of lines and branches that were executed; 100 if there are none.
func (f FileCoverage) Percent() float64 {
	return percentOf(f.CoveredLines+f.CoveredBranches, f.Lines+f.Branches)
}

func percentOf(part, all int) float64 {
	if all == 0 {
		return 100
	}
	return 100 * float64(part) / float64(all)
}

// CoverageReport returns the coverage of the modules of a source, except tests, sorted by name. It omits modules with
// syntax errors.
func CoverageReport(source vmtypes.Source, counts vmtypes.CoverageCounts) []FileCoverage {
	var list []FileCoverage
	for name, text := range source.Modules {
		points := vmtypes.CoveragePoints(name, text)
		if strings.HasSuffix(name, testSuffix) || points == nil {
			continue
		}
		f := FileCoverage{File: name, points: points, counts: counts[name]}
		if len(f.counts) != 2*len(points) { // the module was never loaded
			f.counts = make([]int, 2*len(points))
		}
		f.evaluate(strings.Split(text, "\n"))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b FileCoverage) int { return cmp.Compare(a.File, b.File) })
	return list
}

// evaluate computes the exported fields.
func (f *FileCoverage) evaluate(text []string) {
	missing := func(line int, why string) {
		f.Missing = append(f.Missing, MissingCode{line, why, strings.TrimSpace(text[line-1])})
	}
	executed := f.executedLines()
	for line, times := range executed {
		f.Lines++
		if times > 0 {
			f.CoveredLines++
		} else {
			missing(line, "")
		}
	}
	for i, p := range f.points {
		for _, o := range f.outcomesOf(i) {
			f.Branches++
			switch {
			case o.times > 0:
				f.CoveredBranches++
			case p.Kind == vmtypes.PointLambda || f.counts[2*i]+f.counts[2*i+1] > 0: // otherwise the line is missing
				missing(p.Line, fmt.Sprintf("%s in column %d %s", subjectOfPoint(p.Kind), p.Column, o.why))
			}
		}
	}
	slices.SortStableFunc(f.Missing, func(a, b MissingCode) int { return cmp.Compare(a.Line, b.Line) })
}

// An outcome is a branch: how often it was taken, and what it means if it never was.
type outcome struct {
	times int
	why   string
}

// outcomesOf returns the branches of a point. A statement has no branches.
func (f *FileCoverage) outcomesOf(point int) []outcome {
	first, second := f.counts[2*point], f.counts[2*point+1]
	switch kind := f.points[point].Kind; {
	case kind == vmtypes.PointLambda:
		return []outcome{{first, "is never called"}}
	case kind.IsCondition():
		return []outcome{{first, "is never true"}, {second, "is never false"}}
	}
	return nil
}

// subjectOfPoint returns a description of a condition or lambda.
func subjectOfPoint(kind vmtypes.PointKind) string {
	switch kind {
	case vmtypes.PointIf:
		return "the condition"
	case vmtypes.PointLambda:
		return "the lambda"
	}
	return "the left side of " + string(kind)
}

// executedLines returns how often the statement at the beginning of each line was executed.
func (f *FileCoverage) executedLines() map[int]int {
	lines := map[int]int{}
	for i, p := range f.points {
		if p.Kind == vmtypes.PointStatement {
			lines[p.Line] = max(lines[p.Line], f.counts[2*i])
		}
	}
	return lines
}

// TotalCoverage returns the sums of the numbers of files.
func TotalCoverage(files []FileCoverage) FileCoverage {
	total := FileCoverage{File: "total"}
	for _, f := range files {
		total.Lines, total.CoveredLines = total.Lines+f.Lines, total.CoveredLines+f.CoveredLines
		total.Branches, total.CoveredBranches = total.Branches+f.Branches, total.CoveredBranches+f.CoveredBranches
	}
	return total
}

// LCOV returns the coverage of the modules of the folder dir in the format of LCOV (man 1 geninfo), for editors and
// services.
func LCOV(dir string, files []FileCoverage) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "TN:\nSF:%s\n", filepath.Join(dir, f.File))
		f.writeFunctions(&b)
		for i, p := range f.points {
			for n, o := range f.outcomesOf(i) {
				taken := fmt.Sprint(o.times)
				if f.counts[2*i]+f.counts[2*i+1] == 0 {
					taken = "-" // the condition was never evaluated
				}
				fmt.Fprintf(&b, "BRDA:%d,%d,%d,%s\n", p.Line, i, n, taken)
			}
		}
		fmt.Fprintf(&b, "BRF:%d\nBRH:%d\n", f.Branches, f.CoveredBranches)
		lines := f.executedLines()
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			fmt.Fprintf(&b, "DA:%d,%d\n", line, lines[line])
		}
		fmt.Fprintf(&b, "LF:%d\nLH:%d\nend_of_record\n", f.Lines, f.CoveredLines)
	}
	return b.String()
}

// writeFunctions writes the records of functions.
func (f *FileCoverage) writeFunctions(b *strings.Builder) {
	found, hit := 0, 0
	for i, p := range f.points {
		if p.Function == "" {
			continue
		}
		found++
		hit += min(1, f.counts[2*i])
		fmt.Fprintf(b, "FN:%d,%s\nFNDA:%d,%s\n", p.Line, p.Function, f.counts[2*i], p.Function)
	}
	fmt.Fprintf(b, "FNF:%d\nFNH:%d\n", found, hit)
}
