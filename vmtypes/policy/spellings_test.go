package policy_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shorthands are the first words of lines in testdata/spellings.txt. The rest of a line replaces the braces.
var shorthands = strings.NewReplacer(
	"SANDBOX ", `replace(standard(vm, host), option("-sandbox", "on", {}))`,
	"STREAM ", `option("-netdev", "stream", {"id": "x"} | {})`,
	"SOCKET ", `option("-chardev", "socket", {"id": "x"} | {})`,
	"DRIVEWITH ", `option("-drive", None, {"if": "none", "id": "x", "format": "raw"} | {})`,
	"DRIVE ", `option("-drive", None, {"if": "none", "id": "x", "format": "raw", "file": {}})`,
	"NODE ", `option("-blockdev", None, {"node-name": "x"} | {})`,
	"DEVICE ", `option("-device", {})`,
	"OBJECT ", `option("-object", {})`,
	"HELPER ", `part(helpers = [process("x", {})])`,
)

// twoWords matches a backend with its properties, which the lists of shorthands write without a comma.
var twoWords = regexp.MustCompile(`^"([^"]+)" \{(.*)\}$`)

// spelled returns the spellings in testdata/spellings.txt, each with all notations of its switches.
func spelled(t *testing.T) (list []attack) {
	t.Helper()
	text, err := os.ReadFile("testdata/spellings.txt")
	require.NoError(t, err)
	kind := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		spelling, want, isSpelling := strings.Cut(line, " => ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !isSpelling:
			kind = strings.Trim(line, "[]")
		default:
			for _, each := range switches(spelling) {
				list = append(list, attack{kind + ": " + each, starlark(each), want})
			}
		}
	}
	return list
}

// starlark returns the Starlark part for a spelling.
func starlark(spelling string) string {
	word, rest, _ := strings.Cut(spelling, " ")
	if call := shorthands.Replace(word + " "); call != word+" " {
		if m := twoWords.FindStringSubmatch(rest); m != nil {
			rest = `"` + m[1] + `", {"id": "x"} | {` + m[2] + "}"
		}
		at := strings.LastIndex(call, "{}")
		spelling = call[:at] + rest + call[at+2:]
	}
	switch {
	case strings.HasPrefix(spelling, "["):
		return "part(options = " + spelling + ")"
	case strings.HasPrefix(spelling, "option("):
		return "part(options = [" + spelling + "])"
	}
	return spelling
}

// switches returns a spelling with all of QEMU's notations for OFF and ON.
func switches(spelling string) []string {
	if !strings.Contains(spelling, "OFF") && !strings.Contains(spelling, "ON") {
		return []string{spelling}
	}
	off, on := []string{"off", "no", "false", "n"}, []string{"on", "yes", "true", "y"}
	var list []string
	for i := range off {
		list = append(list, strings.NewReplacer(`OFF`, off[i], `"ON`, `"`+on[i]).Replace(spelling))
	}
	return list
}
