package vmtype_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"vmop/authoring/vmtypestest"
	"vmop/test/program"
	"vmop/vmtypes/evaluate"
)

var update = flag.Bool("update", false, "rewrite what scripts expect")

// The program is built once and is on the PATH of scripts.
func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), vmtypestest.Serve) // in the process of an evaluation
	flag.Parse()
	dir, err := os.MkdirTemp("", "vmrunner")
	if err == nil {
		err = errors.Join(program.Build(context.Background(), dir, "vmop/cmd/vmrunner"),
			program.Build(context.Background(), dir, "vmop/cmd/vmtype"),
			os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache")),
			os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")))
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The scripts contain the commands and output for authors of VM types.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			path, err := exec.LookPath("vmrunner")
			env.Setenv("VMRUNNER", path)
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/xdg")
			env.Setenv("XDG_CACHE_HOME", env.WorkDir+"/cache")
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "junit": junitReport, "registry": serveRegistry,
		},
	})
}

// exits implements the script command "exits CODE ARGUMENTS…", which requires that vmrunner vmtype exits with a code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("vmrunner", append([]string{"vmtype"}, args[1:]...)...)
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("vmrunner vmtype %q: %v, want exit code %s", args[1:], err, args[0])
	}
}
