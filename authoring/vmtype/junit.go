package vmtype

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vmop/authoring/vmtypestest"
	"vmop/internal/printable"
)

// The elements of a JUnit report in the form for Jenkins, GitLab and GitHub Actions (github.com/testmoapp/junitxml).
// Each file is a suite.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Time     seconds      `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     seconds     `xml:"time,attr"`
		File     string      `xml:"file,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		ClassName string        `xml:"classname,attr"`
		File      string        `xml:"file,attr"`
		Line      int           `xml:"line,attr,omitempty"`
		Time      seconds       `xml:"time,attr"`
		Failure   *junitFailure `xml:"failure"`
		Skipped   *junitSkipped `xml:"skipped"`
		Output    *junitText    `xml:"system-out"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitText struct {
		Text string `xml:",chardata"`
	}
	seconds time.Duration
)

// MarshalText implements encoding.TextMarshaler.
func (s seconds) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", time.Duration(s).Seconds()), nil
}

// writeJUnit writes a report to a file.
func writeJUnit(path string, results []vmtypestest.Result) error {
	text, err := xml.MarshalIndent(junitReport(results), "", "  ")
	if err != nil {
		return fmt.Errorf("encode the JUnit report: %w", err)
	}
	if err := os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o666); err != nil {
		return fmt.Errorf("write the JUnit report: %w", err)
	}
	return nil
}

// junitReport converts results to a report. Results of the same file must be adjacent.
func junitReport(results []vmtypestest.Result) junitSuites {
	all := junitSuites{Name: "vmrunner vmtype"}
	for _, r := range results {
		if n := len(all.Suites); n == 0 || all.Suites[n-1].File != r.File {
			all.Suites = append(all.Suites, junitSuite{Name: printable.Text(r.File), File: r.File})
		}
		suite := &all.Suites[len(all.Suites)-1]
		c := junitCase{
			Name:      r.Function,
			ClassName: printable.Text(strings.TrimSuffix(filepath.Base(r.File), filepath.Ext(r.File))),
			File:      r.File, Line: r.Line, Time: seconds(r.Time),
		}
		if c.Name == "" {
			c.Name = printable.Text(filepath.Base(r.File))
		}
		if r.Output != "" {
			c.Output = &junitText{printable.Text(r.Output)}
		}
		if r.Skipped != "" {
			c.Skipped = &junitSkipped{printable.Text(r.Skipped)}
			suite.Skipped++
		}
		if len(r.Failures) > 0 {
			texts := make([]string, len(r.Failures))
			for i, f := range r.Failures {
				texts[i] = f.Error()
			}
			first, _, _ := strings.Cut(r.Failures[0].Message, "\n")
			c.Failure = &junitFailure{
				Message: printable.Text(first), Type: "failure",
				Text: printable.Text(strings.Join(texts, "\n\n")),
			}
			suite.Failures++
			all.Failures++
		}
		suite.Cases = append(suite.Cases, c)
		suite.Tests++
		all.Tests++
		suite.Time += c.Time
		all.Time += c.Time
	}
	return all
}
