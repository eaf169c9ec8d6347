package vmop_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrongSubject returns what is wrong with the subject of a commit, or "". CONTRIBUTING.md describes the form.
func wrongSubject(subject string) string {
	form := regexp.MustCompile(`^[a-z0-9_./-]+(, [a-z0-9_./-]+)*: [a-z]`)
	switch {
	case len(subject) > 72:
		return "more than 72 characters"
	case strings.HasSuffix(subject, "."):
		return "a full stop at the end"
	case !form.MatchString(subject) || regexp.MustCompile(`(?i)\b(wip|fixup!|squash!)`).MatchString(subject):
		return `write "package: imperative, what it now does"`
	}
	return ""
}

// The subjects of the commits that a branch adds to the cloned branch have the form in CONTRIBUTING.md.
func TestCommitSubjects(t *testing.T) {
	t.Parallel()
	_, _ = os.ReadFile(".git/logs/HEAD") // a new commit, or another message, makes go test run this again
	// A clone knows the branch that it was cloned from as origin/HEAD. Other copies have no subjects to check.
	out, _ := exec.CommandContext(t.Context(), "git", "log", "--format=%s", "origin/HEAD..HEAD").Output()
	for subject := range strings.Lines(string(out)) {
		require.Empty(t, wrongSubject(strings.TrimSpace(subject)), subject)
	}
}

func TestWrongSubjects(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"disk: ignore claims of other products":                 "",
		"authoring/lint, vmtypes: name the line":                "",
		"ARCHITECTURE: name places":                             "package: imperative",
		"Merge branch 'x'":                                      "package: imperative",
		"wip: try this":                                         "package: imperative",
		"disk: Ignore claims":                                   "package: imperative",
		"disk: ignore claims.":                                  "a full stop",
		"disk: ignore claims" + strings.Repeat(" of others", 6): "more than 72",
	} {
		got := wrongSubject(subject)
		require.Equal(t, want == "", got == "", subject)
		require.Contains(t, got, want, subject)
	}
}
