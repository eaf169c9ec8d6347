package sample

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/internal/spelling"
	"vmop/internal/yamlfile"
)

// The sections of an archive.
const (
	vmSection   = "vm.yaml"
	hostSection = "host.json"
	typeSection = "type"
	planSection = "plan.txt"
)

// readArchive reads an archive with a plan (a golden). A comment is mandatory: it must explain why the plan of this
// machine is worth keeping.
func readArchive(path string, data []byte, settings []string) (*Sample, error) {
	archive := txtar.Parse(data)
	s := &Sample{Path: path, Type: typeFor(path), keeps: true}
	all := excerpt{file: path, lines: strings.Split(string(data), "\n"), first: 1}
	var faults yamlfile.Faults
	if strings.TrimSpace(string(archive.Comment)) == "" {
		faults = append(faults, all.faultAt(1, 1, "the comment is missing",
			"begin with a line that describes what is special about this machine"))
	}
	needs, wrong := all.readNeeds("", strings.Count(string(archive.Comment), "\n"))
	s.NeedsQEMU, faults = needs, append(faults, wrong...)
	vm := ""
	line := 1 + strings.Count(string(archive.Comment), "\n")
	s.within, s.marker = all, 1
	for _, f := range archive.Files {
		section := all.startingAt(line + 1)
		switch f.Name {
		case vmSection:
			vm, s.within, s.marker = string(f.Data), section, line
		case hostSection:
			facts, fault := parseHost(f.Data)
			s.Host = facts
			if fault != nil {
				faults = append(faults, section.faultAt(fault.line, fault.column, fault.message, ""))
			}
		case typeSection:
			s.Type = strings.TrimSpace(string(f.Data))
		case planSection:
			s.Text, s.TextLine = string(f.Data), line+1
		default:
			faults = append(faults, all.faultAt(line, 1, "unknown section "+f.Name, suggestSection(f.Name)))
		}
		line += 1 + strings.Count(string(f.Data), "\n")
	}
	s.config, wrong = parseVM(vm, settings...)
	for _, f := range wrong {
		faults = append(faults, s.within.faultInFile(f, s.marker))
	}
	if faults != nil {
		slices.SortStableFunc(faults, func(a, b yamlfile.Fault) int { return cmp.Compare(a.Line, b.Line) })
		return nil, faults
	}
	s.VM = s.config.VM.WithOtherDefaults()
	if slices.ContainsFunc(settings, func(set string) bool { return strings.HasPrefix(set, "vmType=") }) {
		s.Type = s.config.VMType
	}
	return s, nil
}

func suggestSection(name string) string {
	known := []string{vmSection, hostSection, typeSection, planSection}
	if near := spelling.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "known are " + strings.Join(known, ", ")
}

// An excerpt is a part of a file.
type excerpt struct {
	file  string
	lines []string // lines of the whole file
	first int      // number of the excerpt's first line, counted from 1
}

// startingAt returns the excerpt that begins at a line of the file.
func (e excerpt) startingAt(line int) excerpt {
	e.first = line
	return e
}

// faultAt returns an error at a line of the excerpt.
func (e excerpt) faultAt(line, column int, message, hint string) yamlfile.Fault {
	line += e.first - 1
	return yamlfile.Fault{
		File: e.file, Line: line, Column: column, Message: message, Hint: hint,
		Source: e.sourceLine(line),
	}
}

func (e excerpt) sourceLine(line int) string {
	if line < 1 || line > len(e.lines) {
		return ""
	}
	return strings.TrimSuffix(e.lines[line-1], "\r")
}

// faultInFile converts an error in the vm section to an error in the file. Errors in the added lines are placed at the
// line marker.
func (e excerpt) faultInFile(f yamlfile.Fault, marker int) yamlfile.Fault {
	if f.File == yamlfile.SetFile {
		return f
	}
	line := f.Line - addedLines
	f.File, f.Column = e.file, max(1, f.Column-len(indentation))
	if f.Line = e.first - 1 + line; line < 1 {
		f.Line, f.Column = marker, 1
	}
	f.Line = min(f.Line, len(e.lines))
	f.Source = e.sourceLine(f.Line)
	return f
}

// TypeOf returns the name of the VM type of the sample with this path and content, without checking the rest.
func TypeOf(path string, data []byte) (string, error) {
	if filepath.Ext(path) == configSuffix {
		s, err := readConfig(path, data, nil)
		if err != nil {
			return "", err
		}
		return s.Type, nil
	}
	for _, f := range txtar.Parse(data).Files {
		if f.Name == typeSection {
			return strings.TrimSpace(string(f.Data)), nil
		}
	}
	return typeFor(path), nil
}

// SectionOf returns the vm section of an archive as its author wrote it, or "".
func SectionOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read sample: %w", err)
	}
	for _, f := range txtar.Parse(data).Files {
		if f.Name == vmSection {
			return string(f.Data), nil
		}
	}
	return "", nil
}

// WithSection returns an archive with another vm section and another plan.
func WithSection(archive []byte, section, plan string) []byte {
	a := txtar.Parse(archive)
	for _, part := range []struct{ name, text string }{{vmSection, section}, {planSection, plan}} {
		at := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == part.name })
		if at < 0 {
			at = len(a.Files)
			a.Files = append(a.Files, txtar.File{Name: part.name})
		}
		a.Files[at].Data = []byte(part.text)
	}
	return txtar.Format(a)
}
