package vmtypestest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vmop/authoring/sample"
	"vmop/authoring/textdiff"
)

// testSample tests a type with one sample of the folder dir. There must be a plan, and a golden must contain the same
// plan. With Update, testSample writes a missing or different plan into the archive.
func testSample(ctx context.Context, in Evaluator, dir, name string, options Options) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, testTime, fmt.Errorf("a sample has %s", testTime))
	defer cancel()
	start := time.Now()
	r := Result{File: name}
	missed, err := trySample(ctx, in, filepath.Join(dir, name), options, &r)
	if err != nil {
		r.Failures = FailuresOf(err)
		for i := range r.Failures {
			r.Failures[i] = r.Failures[i].relativeTo(dir)
		}
		if last := len(r.Failures) - 1; missed != "" {
			r.Failures[last].Text = strings.TrimSuffix(r.Failures[last].Text, "\n") + "\n" + missed
		}
	}
	r.Time = time.Since(start)
	return r
}

// relativeTo changes the file names in a failure to paths relative to a folder.
func (f Failure) relativeTo(dir string) Failure {
	prefix := filepath.Clean(dir) + string(filepath.Separator)
	f.File, f.Text = strings.TrimPrefix(f.File, prefix), strings.TrimPrefix(f.Text, prefix)
	return f
}

// trySample tests a sample. If the type returns an error, missed describes the file that was missing on the host; see
// sample.HostFacts.Missing.
func trySample(
	ctx context.Context, in Evaluator, path string, options Options, r *Result,
) (missed string, err error) {
	s, err := sample.Read(path)
	if err != nil {
		return "", err
	}
	s.UseHost(options.Host)
	host, missing := s.Host.Missing()
	p, err := in.Launch(ctx, s.Type, s.VM, host)
	if err != nil {
		return missing(), s.Locate(err)
	}
	got := p.Text()
	switch {
	case !s.Keeps() || got == s.Text:
	case options.Update:
		r.Updated, r.Changes = true, goldenDiff(r.File, s, got)
		return "", s.Write(got)
	case s.TextLine == 0:
		const text = "the archive has no plan yet; -u adds it"
		r.Failures = []Failure{{File: r.File, Message: text, Text: r.File + ": " + text}}
	default:
		const text = "the plan differs from the golden; -u updates it"
		diff := goldenDiff(r.File, s, got)
		r.Failures = []Failure{{File: r.File, Line: s.TextLine, Message: text, Text: r.File + ": " + text, Diff: diff}}
	}
	return "", nil
}

// goldenDiff returns the difference between the golden and a plan; see Failure.Diff.
func goldenDiff(file string, s *sample.Sample, got string) string {
	if s.TextLine == 0 {
		return ""
	}
	kept := strings.Split(s.Text, "\n")
	var b strings.Builder
	for _, h := range textdiff.Hunks(s.Text, got) {
		first := slices.IndexFunc(h.Lines, func(l textdiff.Line) bool { return l.Sign != ' ' })
		at := max(1, h.Old) + first
		where := processOf(kept, at)
		if h.Lines[first].Sign == '+' {
			where = processOf(kept, at-1) // the line before the added line
		}
		fmt.Fprintf(&b, "@ %s:%d%s\n", file, s.TextLine+at-1, where)
		writeLines(&b, pairLines(h.Lines))
	}
	return b.String()
}

func writeLines(b *strings.Builder, lines []textdiff.Line) {
	for _, l := range lines {
		fmt.Fprintf(b, "%c%s\n", l.Sign, l.Text)
	}
}

// processOf returns the process of a plan that a line belongs to: " in qemu".
func processOf(plan []string, line int) string {
	for i := min(line, len(plan)) - 1; i >= 0; i-- {
		if words := strings.Fields(plan[i]); len(words) > 0 && !strings.HasPrefix(plan[i], " ") {
			switch words[0] {
			case "qemu":
				return " in qemu"
			case "helper":
				return " in helper " + words[1]
			}
			return ""
		}
	}
	return ""
}

// pairLines moves the new version of a line right after the old version if both have the same subject.
func pairLines(lines []textdiff.Line) []textdiff.Line {
	var ordered []textdiff.Line
	for len(lines) > 0 {
		if lines[0].Sign == ' ' {
			ordered, lines = append(ordered, lines[0]), lines[1:]
			continue
		}
		end := slices.IndexFunc(lines, func(l textdiff.Line) bool { return l.Sign == ' ' })
		if end < 0 {
			end = len(lines)
		}
		ordered, lines = append(ordered, pairChanged(slices.Clone(lines[:end]))...), lines[end:]
	}
	return ordered
}

// pairChanged orders removed and added lines.
func pairChanged(changed []textdiff.Line) []textdiff.Line {
	var ordered []textdiff.Line
	for len(changed) > 0 {
		first := changed[0]
		ordered, changed = append(ordered, first), changed[1:]
		if first.Sign != '-' {
			continue
		}
		other := slices.IndexFunc(changed,
			func(l textdiff.Line) bool { return l.Sign == '+' && subjectOf(l.Text) == subjectOf(first.Text) })
		if other >= 0 {
			ordered = append(ordered, changed[other])
			changed = slices.Delete(changed, other, other+1)
		}
	}
	return ordered
}

// subjectOf returns the subject of a plan's line: an option's flag with the id, or with a device's driver.
func subjectOf(line string) string {
	flag, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	properties := strings.Split(rest, ",")
	for _, property := range properties {
		if strings.HasPrefix(property, "id=") || strings.HasPrefix(property, "node-name=") {
			return flag + " " + property
		}
	}
	if flag == "-device" {
		return flag + " " + properties[0]
	}
	return flag
}
