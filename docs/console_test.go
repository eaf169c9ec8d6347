package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/pages"
	"vmop/test/program"
	"vmop/test/tier"
)

// The reader's home and runtime directory, as the pages name them.
const (
	readersHome    = "/home/you"
	readersRuntime = "/run/user/1000"
	registryName   = "registry.example.org"
)

// reader follows a page from top to bottom: it saves the examples that have a name, and types the commands.
type reader struct {
	t    *testing.T
	root string // contains the home and the runtime directory
	// server is the address of the images and the registry.
	server string
	dir    string // the shell's working directory
	walk   walk
	done   map[string]bool // exceptions that have been used
}

// TestCommandsInDocuments follows each page that has commands, as a reader would: in a new home with the project built
// in ~/vmop, or as its walk describes. The output of console blocks must match the page, and the commands of other
// blocks must succeed.
//
// In expected output, a line "…" matches any lines, and "…" within a line matches any text. Times, durations and line
// numbers of the library are not compared. With -update, the test writes the current output into the pages.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	bin, all, count := built(t), walks(t), 0
	for _, file := range documents(t) {
		has := func(language string) bool {
			return slices.ContainsFunc(blocks(t, file), func(b pages.Block) bool { return b.Language == language })
		}
		w, known := all[file]
		delete(all, file)
		switch {
		case has(pages.Shell) && !known:
			t.Errorf("%s has commands: say in testdata/walks.yaml how they are run, or why not", file)
		case has(pages.Shell), has("console"):
			require.False(t, w.Elsewhere != "" && has("console"), "%s: its console blocks are run", file)
		case known:
			t.Errorf("%s has no commands", file)
		default:
			continue
		}
		if w.Elsewhere != "" {
			continue
		}
		count++
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			if w.Deep {
				tier.Deep(t)
			}
			newReader(t, bin, w).follow(file)
		})
	}
	require.Empty(t, all, "there are no such pages")
	require.Greater(t, count, 20)
}

// built returns a folder with the programs and the tiny guest.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // readers use it
	for _, name := range []string{"vmrunner", "vmtype", "vmmanager", "vmimport"} {
		require.NoError(t, program.Build(t.Context(), filepath.Join(dir, name), "vmop/cmd/"+name))
	}
	image := guest.Tiny(t)
	for name, from := range map[string]string{"vmlinuz": image.Kernel, "initrd.gz": image.Initrd} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(read(t, from)), 0o644))
	}
	return dir
}

// newReader prepares a reader's home: ~/vmop looks like the project after make build guest.
func newReader(t *testing.T, bin string, w walk) *reader {
	t.Helper()
	if w.boots() {
		guest.TakePlace(t)
	}
	root, err := os.MkdirTemp("", "d") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() {
		invariants.NoProcess(t, root)
		require.NoError(t, os.RemoveAll(root))
	})
	r := &reader{t: t, root: root, dir: filepath.Join(root, "home"), walk: w, done: map[string]bool{}}
	project := filepath.Join(r.dir, "vmop")
	for _, dir := range []string{filepath.Join(project, "build"), filepath.Join(root, "run")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.CopyFS(filepath.Join(project, "examples"), os.DirFS("../examples")))
	require.NoError(t, os.Symlink(bin, filepath.Join(project, "bin")))
	require.NoError(t, os.Symlink(bin, filepath.Join(project, "build", "guest")))
	r.publish()
	r.own()
	return r
}

// unprivileged is the readers' user ID when root runs the tests: the commands that a page runs as root would change the
// computer. See docs/decisions/0157-commands-of-documents.md.
const unprivileged = 64101

// demoted reports whether the reader runs as another user than the test.
func (r *reader) demoted() bool { return os.Getuid() == 0 && !r.walk.Root }

// own changes the owner of everything in the home to the reader.
func (r *reader) own() {
	if !r.demoted() {
		return
	}
	require.NoError(r.t, filepath.WalkDir(r.root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, unprivileged, unprivileged))
	}))
}

// follow executes a page. It continues after errors, so that a single run reports all errors.
func (r *reader) follow(file string) {
	r.t.Helper()
	text := read(r.t, file)
	var page strings.Builder
	end := 0
	r.succeed(file, r.walk.functions+r.walk.Before)
	for _, b := range blocks(r.t, file) {
		if b.Name != "" {
			path := filepath.Join(r.dir, b.Name)
			require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(r.t, os.WriteFile(path, []byte(b.Text), 0o644))
			r.own()
		}
		switch b.Language {
		case pages.Shell:
			statements, err := b.Statements()
			require.NoError(r.t, err, file)
			for _, s := range statements {
				r.carryOut(file, s)
			}
		case "console":
			page.WriteString(text[end:b.Start] + r.work(file, b))
			end = b.End
		}
	}
	r.succeed(file, "for dir in $XDG_RUNTIME_DIR/vmrunner/*/ $XDG_RUNTIME_DIR/other/vmrunner/*/; do\n"+
		"test ! -e $dir/control.sock || vmrunner stop --runtime-dir $dir --force --wait\ndone")
	for _, e := range r.walk.Except {
		if !r.done[e.Command] {
			r.t.Errorf("%s does not contain the command %q", file, e.Command)
		}
	}
	page.WriteString(text[end:])
	if *update && page.String() != text {
		require.NoError(r.t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
}

// work types the commands of a block and returns the block with the actual output.
func (r *reader) work(file string, b pages.Block) string {
	var should strings.Builder
	require.True(r.t, strings.HasPrefix(b.Text, "$ "), "%s: this block doesn't begin with a command:\n%s", file, b.Text)
	for _, call := range b.Calls() {
		want := call.Answer
		got, _ := r.enter(call.Command())
		if !says(want, got) {
			if !*update {
				r.t.Errorf(
					"%s:\n%s%s\n--- but the page says (go test ./docs -run TestCommands -update takes it over)\n%s",
					file, call.Typed, got, want)
			}
			want = got
		}
		should.WriteString(call.Typed + want)
	}
	return should.String()
}

// carryOut types a command that must succeed, or its replacement from the walk.
func (r *reader) carryOut(file, command string) {
	for _, e := range r.walk.Except {
		if !strings.HasPrefix(command, e.Command) {
			continue
		}
		r.done[e.Command] = true
		if e.Until != "" {
			r.interrupt(file, command, e.Until)
		} else {
			r.succeed(file, e.Instead)
		}
		return
	}
	r.succeed(file, command)
}

// succeed types a command that must exit with 0.
func (r *reader) succeed(file, command string) {
	if text, code := r.enter(command); code != 0 {
		r.t.Errorf("%s: this ends with %d: %s\n%s", file, code, command, text)
	}
}

// shell returns the reader's shell and the file that receives its output.
func (r *reader) shell(script string) (*exec.Cmd, *os.File) {
	out, err := os.Create(filepath.Join(r.root, "out"))
	require.NoError(r.t, err)
	home := filepath.Join(r.root, "home")
	others := []string{
		readersHome, home, readersRuntime, filepath.Join(r.root, "run"), registryName, r.server, "https://example.org",
		"http://" + r.server,
	}
	for from, to := range r.walk.Replace {
		others = append(others, from, to)
	}
	script = strings.NewReplacer(others...).Replace(script)
	shell := exec.CommandContext(r.t.Context(), "bash", "-c", script)
	shell.Dir, shell.Stdout, shell.Stderr = r.dir, out, out
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.demoted() {
		shell.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	shell.Env = []string{
		"HOME=" + home, "XDG_RUNTIME_DIR=" + filepath.Join(r.root, "run"), "USER=you", "LANG=C.UTF-8", "TZ=UTC",
		"TMPDIR=" + r.root, "PATH=" + filepath.Join(r.root, "played") + ":" + filepath.Join(home, "vmop", "bin") + ":" +
			os.Getenv("PATH"),
	}
	return shell, out
}

// enter runs a command in the reader's shell. It returns the complete output, which ends with a line end, and the exit
// code. Directory and variables persist from one command to the next. Line ends of a guest's console (CR LF) become LF.
func (r *reader) enter(command string) (string, int) {
	r.t.Helper()
	state, here := filepath.Join(r.root, "state"), filepath.Join(r.root, "here")
	shell, out := r.shell("test ! -e " + state + " || . " + state + "\n" + command + "\ncode=$?\nexport -p > " +
		state + "\npwd > " + here + "\nexit $code")
	defer out.Close()
	err := shell.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		require.NoError(r.t, err)
	}
	r.dir = strings.TrimSpace(read(r.t, here))
	text := strings.NewReplacer(filepath.Join(r.root, "home"), readersHome, filepath.Join(r.root, "run"),
		readersRuntime, r.server, registryName, "\r\n", "\n").Replace(read(r.t, out.Name()))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text, shell.ProcessState.ExitCode()
}

// interrupt types a long-running command, and presses Ctrl-C when the output contains a text.
func (r *reader) interrupt(file, command, until string) {
	shell, out := r.shell(command)
	defer out.Close()
	require.NoError(r.t, shell.Start())
	ended := make(chan error, 1)
	go func() { ended <- shell.Wait() }()
	for !strings.Contains(read(r.t, out.Name()), until) {
		select {
		case err := <-ended:
			text := read(r.t, out.Name())
			r.t.Errorf("%s: %s ended before it has written %q: %v\n%s", file, command, until, err, text)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	require.NoError(r.t, syscall.Kill(-shell.Process.Pid, syscall.SIGINT))
	<-ended
}

// says reports whether the output matches the page.
func says(want, got string) bool {
	pattern := regexp.QuoteMeta(steady(want))
	pattern = regexp.MustCompile(`(?m)^ *…\n`).ReplaceAllString(pattern, `(?:.*\n)+?`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(steady(got))
}

// steady replaces times, durations and line numbers, which change from run to run.
func steady(text string) string {
	times := regexp.MustCompile(`[ \t]*\b([0-9]+(\.[0-9]+)?[ ]?(ms|s)\b|[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?)`)
	places := regexp.MustCompile(`(@vmtypes//[a-z0-9/]+\.star):[0-9:]+`)
	lines := regexp.MustCompile(`(?m)^ +[0-9]+ \|`)
	text = times.ReplaceAllString(text, " TIME")
	return lines.ReplaceAllString(places.ReplaceAllString(text, "$1:LINE"), " LINE |")
}
