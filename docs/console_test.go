package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/program"
)

// What the pages call the reader's home and runtime directory.
const (
	readersHome    = "/home/you"
	readersRuntime = "/run/user/1000"
)

// A reader does what a page says, from top to bottom: saves the examples that
// have a name, and types the commands of console blocks.
type reader struct {
	t    *testing.T
	root string // holds the home and the runtime directory
	dir  string // where the shell is
}

// TestCommandsInDocuments reads each page that has console blocks as its reader
// would, in a home of its own with the project built in ~/vmop, and compares
// what the commands print with what the page says they do.
//
// A line that is "…" stands for lines that don't matter, and "…" within a line for
// any text. When something was, how long it took, and at which line of the library it
// was made, is not compared. With -update the pages get what the commands print now.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	vmrunner := filepath.Join(dir, "vmrunner")
	require.NoError(t, program.Build(t.Context(), vmrunner, "vmop/cmd/vmrunner"))
	require.NoError(t, program.Build(t.Context(), filepath.Join(dir, "vmtype"), "vmop/cmd/vmtype"))
	var pages []string
	for _, file := range documents(t) {
		if slices.ContainsFunc(blocks(t, file), func(b block) bool { return b.language == "console" }) {
			pages = append(pages, file)
		}
	}
	require.NotEmpty(t, pages)
	for _, file := range pages {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			newReader(t, vmrunner).follow(file)
		})
	}
}

// newReader moves a reader in: ~/vmop is the project after make build guest.
func newReader(t *testing.T, program string) *reader {
	t.Helper()
	root, err := os.MkdirTemp("", "d") // short, for the paths of sockets
	require.NoError(t, err)
	t.Cleanup(func() {
		invariants.NoProcess(t, root)
		require.NoError(t, os.RemoveAll(root))
	})
	r := &reader{t: t, root: root, dir: filepath.Join(root, "home")}
	project := filepath.Join(r.dir, "vmop")
	for _, dir := range []string{
		filepath.Join(project, "bin"), filepath.Join(project, "build", "guest"),
		filepath.Join(root, "run"),
	} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	image := guest.Tiny(t)
	examples, err := filepath.Abs("../examples")
	require.NoError(t, err)
	for to, from := range map[string]string{
		"bin/vmrunner": program, "examples": examples,
		"build/guest/vmlinuz": image.Kernel, "build/guest/initrd.gz": image.Initrd,
	} {
		require.NoError(t, os.Symlink(from, filepath.Join(project, to)))
	}
	return r
}

// follow does what a page says. Faults don't stop it: one run tells them all.
func (r *reader) follow(file string) {
	r.t.Helper()
	text := read(r.t, file)
	var page strings.Builder
	end := 0
	for _, at := range blockPattern().FindAllStringSubmatchIndex(text, -1) {
		page.WriteString(text[end:at[6]])
		body := text[at[6]:at[7]]
		if at[2] >= 0 {
			path := filepath.Join(r.dir, text[at[2]:at[3]])
			require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(r.t, os.WriteFile(path, []byte(body), 0o644))
		}
		if text[at[4]:at[5]] == "console" {
			body = r.work(file, body)
		}
		page.WriteString(body)
		end = at[7]
	}
	page.WriteString(text[end:])
	if *update && page.String() != text {
		require.NoError(r.t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
}

// work types the commands of a block and returns the block as it should be.
func (r *reader) work(file, block string) string {
	var should strings.Builder
	lines := strings.SplitAfter(block, "\n")
	lines = lines[:len(lines)-1] // nothing follows the last newline
	require.True(r.t, strings.HasPrefix(block, "$ "), "%s: this block doesn't begin with a command:\n%s", file, block)
	for len(lines) > 0 {
		count := 1
		for count < len(lines) && strings.HasPrefix(lines[count], "> ") {
			count++
		}
		typed := strings.Join(lines[:count], "")
		lines = lines[count:]
		answer := len(lines)
		if next := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "$ ") }); next >= 0 {
			answer = next
		}
		want := strings.Join(lines[:answer], "")
		lines = lines[answer:]
		got := r.enter(strings.ReplaceAll(strings.TrimPrefix(typed, "$ "), "\n> ", "\n"))
		if !says(want, got) {
			if !*update {
				r.t.Errorf(
					"%s:\n%s%s\n--- but the page says (go test ./docs -run TestCommands -update takes it over)\n%s",
					file, typed, got, want)
			}
			want = got
		}
		should.WriteString(typed + want)
	}
	return should.String()
}

// enter runs a command in the reader's shell, which keeps its directory and
// variables from one command to the next, and returns all that it printed, in whole
// lines. Those of a guest's console end in CR LF.
func (r *reader) enter(command string) string {
	r.t.Helper()
	state, here := filepath.Join(r.root, "state"), filepath.Join(r.root, "here")
	script := "test ! -e " + state + " || . " + state + "\n" + command + "\nexport -p > " + state + "\npwd > " + here
	shell := exec.CommandContext(r.t.Context(), "bash", "-c", script)
	shell.Dir = r.dir
	home := filepath.Join(r.root, "home")
	shell.Env = []string{
		"HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(r.root, "run"), "USER=you", "LANG=C.UTF-8", "TZ=UTC",
		"PATH=" + filepath.Join(home, "vmop", "bin") + ":" + os.Getenv("PATH"),
	}
	out, err := shell.CombinedOutput()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		require.NoError(r.t, err)
	}
	r.dir = strings.TrimSpace(read(r.t, here))
	text := strings.NewReplacer(home, readersHome, filepath.Join(r.root, "run"), readersRuntime, "\r\n",
		"\n").Replace(string(out))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// says reports whether an output is what a page says it is.
func says(want, got string) bool {
	pattern := regexp.QuoteMeta(steady(want))
	pattern = regexp.MustCompile(`(?m)^ *…\n`).ReplaceAllString(pattern, `(?:.*\n)+?`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(steady(got))
}

// steady leaves out of an output what means nothing to a reader.
func steady(text string) string {
	times := regexp.MustCompile(`[ \t]*\b([0-9]+(\.[0-9]+)?[ ]?(ms|s)\b|[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)`)
	places := regexp.MustCompile(`(@vmtypes//[a-z0-9/]+\.star):[0-9:]+`)
	lines := regexp.MustCompile(`(?m)^ +[0-9]+ \|`)
	text = times.ReplaceAllString(text, " TIME")
	return lines.ReplaceAllString(places.ReplaceAllString(text, "$1:LINE"), " LINE |")
}
