package confine

import (
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain lets this program act as a stage.
func TestMain(m *testing.M) {
	Serve(func() (*os.File, error) {
		r, _, err := os.Pipe()
		return r, err
	})
	os.Exit(m.Run())
}

// inStage starts a program in a stage, and returns its output and its result.
func inStage(t *testing.T, s Stage) (printed string, held Held, calls *os.File, err error) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, held, calls, err := s.Start(os.ProcAttr{Files: []*os.File{nil, w, w}, Env: os.Environ()})
	require.NoError(t, w.Close())
	if err != nil {
		return "", held, nil, err
	}
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	return string(text), held, calls, nil
}

func programPaths() []Path {
	return []Path{
		{Name: "/usr", Access: Read},
		{Name: "/bin", Access: Read},
		{Name: "/lib", Access: Read},
		{Name: "/lib64", Access: Read},
	}
}

// A stage executes its program in a root folder that contains the paths of the rules, where it cannot create user
// namespaces.
func TestAStageHasItsOwnRoot(t *testing.T) {
	t.Parallel()
	at := tree(t, "mine/a", "other/b")
	s := Stage{
		Rules: Rules{Paths: append(programPaths(), Path{Name: at("mine"), Access: Write})},
		Path:  "/bin/sh", Dir: at("mine"),
		Args: []string{
			"sh", "-c", "pwd; echo new >new; cat a; echo; test -e " + at("other") + "; echo $?; unshare -U true 2>&1 | grep -c unshare",
		},
	}
	printed, held, calls, err := inStage(t, s)
	require.NoError(t, err)
	require.Nil(t, calls)
	require.True(t, held.Root, held.Lacks)
	require.Equal(t, at("mine")+"\nmine/a\n1\n1\n", printed)
	require.True(t, canRead(at("mine/new")))
}

// The stage provides the file of Hold, and the program's errors are the same as without a stage.
func TestAStageReportsWhatHappens(t *testing.T) {
	t.Parallel()
	s := Stage{Rules: Rules{Paths: programPaths(), NoLoopback: true}, Path: "/bin/true", Args: []string{"true"}}
	_, _, calls, err := inStage(t, s)
	require.NoError(t, err)
	require.NotNil(t, calls)
	require.NoError(t, calls.Close())
	s.Path = "/bin/absent"
	_, _, _, err = inStage(t, s)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "fork/exec /bin/absent")
	s.Path, s.Dir = "/bin/true", "/absent"
	_, _, _, err = inStage(t, s)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "chdir")
	s.Dir, s.Rules.Capabilities = "", []string{"absent"}
	_, _, _, err = inStage(t, s)
	require.ErrorContains(t, err, "keep the capability absent")
}

// A stage is for users without CAP_SYS_ADMIN, unless the process needs one of the user's capabilities: capabilities of
// a namespace do not count on the host.
func TestWhoNeedsAStage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		has, needs []string
		want       bool
	}{
		{[]string{"dac_override"}, nil, true},
		{[]string{"dac_override"}, []string{"dac_override"}, false},
		{[]string{"dac_override"}, []string{"ipc_lock"}, true},
		{[]string{"ipc_lock"}, []string{"ipc_lock"}, false},
		{nil, []string{"unknown"}, false},
		{nil, nil, true},
	} {
		can := make(chan bool)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := keepOnly(c.has); err != nil {
				panic(err)
			}
			can <- (&Rules{Capabilities: c.needs}).CanStage()
		}()
		require.Equal(t, c.want, <-can, "%v, needs %v", c.has, c.needs)
	}
	require.Equal(t, unix.Geteuid() == 0, !(&Rules{}).CanStage(), "root has CAP_SYS_ADMIN")
}
