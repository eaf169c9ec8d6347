package vmtype_test

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// junitElements returns the elements of a JUnit report: the mandatory and optional attributes, and the parent element
// (github.com/testmoapp/junitxml, which describes what CI systems read).
func junitElements() map[string]struct{ must, may, within string } {
	return map[string]struct{ must, may, within string }{
		"testsuites": {"name tests failures time", "errors skipped", ""},
		"testsuite":  {"name tests failures errors skipped time", "file timestamp", "testsuites"},
		"testcase":   {"name classname time", "file line", "testsuite"},
		"failure":    {"message type", "", "testcase"},
		"skipped":    {"message", "", "testcase"},
		"system-out": {"", "", "testcase"},
	}
}

// junitReport implements the script command "junitReport FILE", which requires that a file is a JUnit report.
func junitReport(ts *testscript.TestScript, _ bool, args []string) {
	decoder := xml.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	stack := []string{""}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		ts.Check(err)
		switch t := token.(type) {
		case xml.StartElement:
			known, ok := junitElements()[t.Name.Local]
			if !ok || known.within != stack[len(stack)-1] {
				ts.Fatalf("%s within %v", t.Name.Local, stack)
			}
			missing := strings.Fields(known.must)
			for _, a := range t.Attr {
				if !slices.Contains(strings.Fields(known.must+" "+known.may), a.Name.Local) {
					ts.Fatalf("%s has an attribute %s", t.Name.Local, a.Name.Local)
				}
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == a.Name.Local })
			}
			if len(missing) > 0 {
				ts.Fatalf("%s has no %v", t.Name.Local, missing)
			}
			stack = append(stack, t.Name.Local)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}
