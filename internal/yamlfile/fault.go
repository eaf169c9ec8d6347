package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"vmop/internal/printable"
)

// A Fault is an error in a file, with its place.
type Fault struct {
	// File is the name of the file.
	File string
	// Line and Column count from 1, columns in characters. Line is 0 if File is a flag instead of a file.
	Line, Column int
	// Path is the path of the key, below the section if the file has one: "vm.network[0].mac". "" stands for the
	// whole file.
	Path string
	// Message describes the error.
	Message string
	// Hint describes the correct value; may be empty.
	Hint string
	// Source is the line of the file; empty if it may contain a secret.
	Source string
}

// Error returns the Fault on one line, "file:line:column: path: message (hint)", or "file: path: message (hint)" if
// Line is 0.
func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text()
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Text())
}

// Text returns the Fault without its place, "path: message (hint)".
func (f Fault) Text() string {
	text := f.Message
	if f.Path != "" {
		text = f.Path + ": " + text
	}
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

// widestExcerpt is the maximum number of characters of a source line in an Excerpt.
const widestExcerpt = 96

// Excerpt returns the Fault for a terminal: Error, the line of the file and a caret below the place.
//
//	config.yaml:7:3: vm.maximumRm: unknown key (did you mean maximumRam?)
//	   7 |   maximumRm: 8Gi
//	     |   ^
func (f Fault) Excerpt() string {
	if f.Source == "" {
		return f.Error() + "\n"
	}
	line, column := []rune(f.Source), f.Column-1
	if column > widestExcerpt-16 {
		cut := min(column-widestExcerpt/2, len(line))
		line, column = append([]rune("…"), line[cut:]...), column-cut+1
	}
	if len(line) > widestExcerpt {
		line = append(line[:widestExcerpt:widestExcerpt], '…')
	}
	indent := make([]rune, 0, column)
	for i := range column {
		if i < len(line) && line[i] == '\t' {
			indent = append(indent, '\t')
		} else {
			indent = append(indent, ' ')
		}
	}
	return fmt.Sprintf("%s\n%4d | %s\n     | %s^\n", f.Error(), f.Line, printable.Text(string(line)), string(indent))
}

// Faults are all errors of a file, sorted by their places.
type Faults []Fault

// Error returns one line for each Fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Excerpts returns the excerpts of all Faults; see Fault.Excerpt.
func (f Faults) Excerpts() string {
	var text strings.Builder
	for _, fault := range f {
		text.WriteString(fault.Excerpt())
	}
	return text.String()
}

// Unwrap returns the individual Faults, for errors.As.
func (f Faults) Unwrap() []error {
	all := make([]error, len(f))
	for i, fault := range f {
		all[i] = fault
	}
	return all
}

// A Warning describes something that works but that the user should know.
type Warning Fault

// String returns the warning on one line, as Fault.Error does.
func (w Warning) String() string { return Fault(w).Error() }

// mostFaults is the maximum number of reported errors. A reader repairs these first.
const mostFaults = 100

// A report collects the errors of one file.
type report struct {
	doc      *Document
	faults   Faults
	warnings []Warning
	more     int
}

// addFault records an error at a place. A place outside the file is moved to the nearest end, because the parser places
// missing values after the last line.
func (r *report) addFault(line, column int, path, message, hint string) {
	if len(r.faults) == mostFaults {
		r.more++
		return
	}
	r.faults = append(r.faults, r.faultAt(line, column, path, message, hint))
}

func (r *report) addWarning(line, column int, path, message, hint string) {
	r.warnings = append(r.warnings, Warning(r.faultAt(line, column, path, message, hint)))
}

func (r *report) faultAt(line, column int, path, message, hint string) Fault {
	doc := r.doc
	line = max(1, min(line, len(doc.lines)))
	source := doc.lines[line-1]
	column = max(1, min(column, utf8.RuneCountInString(source)+1))
	if doc.secret != "" && isWithin(path, doc.secret) || secretLine(source) {
		source = ""
	}
	file := doc.name
	if doc.inFile > 0 && line > doc.inFile {
		file, line = SetFile, line-doc.inFile
	}
	return Fault{File: file, Line: line, Column: column, Path: path, Message: message, Hint: hint, Source: source}
}

// secretLine reports whether a line of a file contains the key of a secret: "password:", "clientSecret:", "ticket:"
// (of SPICE).
func secretLine(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "secret:") || strings.Contains(line, "password:") || strings.Contains(line, "ticket:")
}

// asError returns the errors, sorted, as Faults, or nil if there are no errors.
func (r *report) asError() error {
	if len(r.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(r.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if r.more > 0 {
		last := r.faults[len(r.faults)-1]
		last.Path, last.Message, last.Hint, last.Source = "", fmt.Sprintf("%d more errors", r.more), "", ""
		r.faults = append(r.faults, last)
	}
	return r.faults
}
