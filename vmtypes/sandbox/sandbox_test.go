package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/sandbox"
)

// The test program is also the child, which executes the request.
func TestMain(m *testing.M) {
	sandbox.Serve(context.Background(), work)
	os.Exit(m.Run())
}

// job is a request of these tests.
type job struct{ Do, Text string }

func work(ctx context.Context, request json.RawMessage, ask sandbox.Ask) (any, error) {
	var j job
	if err := json.Unmarshal(request, &j); err != nil {
		return nil, err
	}
	switch j.Do {
	case "echo":
		return j.Text, nil
	case "ask":
		var said string
		err := ask(j.Text, &said)
		return said, err
	case "fail":
		return nil, errors.New(j.Text)
	case "environment":
		return os.Environ(), nil
	case "endless":
		for {
			runtime.Gosched()
		}
	case "gentle":
		for ctx.Err() == nil {
			runtime.Gosched()
		}
		return nil, context.Cause(ctx)
	case "memory":
		return len(fill(1 << 30)), nil
	case "heap":
		return grow(), nil
	case "stack":
		return descend(1), nil
	case "long":
		return strings.Repeat("x", sandbox.Largest), nil
	case "endless text":
		for {
			fmt.Print(strings.Repeat(" ", 1<<20)) // JSON ignores blanks
		}
	case "nonsense":
		fmt.Println("Segmentation fault")
		os.Exit(0)
	case "complain":
		fmt.Fprint(os.Stderr, "all is \x1b[31mlost"+strings.Repeat("!", 1<<20))
		os.Exit(7)
	}
	return attempt(j)
}

// attempt tries actions that the sandbox must prevent.
func attempt(j job) (any, error) {
	var err error
	switch j.Do {
	case "read a file":
		_, err = os.ReadFile("/etc/passwd")
	case "list a folder":
		_, err = os.ReadDir("/")
	case "ask for a file":
		_, err = os.Stat("/etc/passwd")
	case "write a file":
		err = os.WriteFile(j.Text, nil, 0o600)
	case "remove a file":
		err = os.Remove(j.Text)
	case "start a program":
		err = exec.Command("/bin/true").Run()
	case "become a program":
		err = syscall.Exec("/bin/true", nil, nil)
	case "open a socket":
		_, err = net.Dial("udp", "127.0.0.1:9")
	case "end its parent":
		err = syscall.Kill(os.Getppid(), syscall.SIGTERM)
	case "raise a limit":
		err = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: 1 << 40, Max: 1 << 40})
	default:
		return nil, fmt.Errorf("no such job: %s", j.Do)
	}
	if err == nil {
		return "done", nil
	}
	return "refused", nil
}

func fill(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 1
	}
	return b
}

// grow allocates memory in small steps.
func grow() int {
	var all [][]byte
	for range 1 << 20 {
		all = append(all, fill(1<<12))
	}
	return len(all)
}

func descend(n int) int {
	if n < 0 {
		return n
	}
	return descend(n+1) + 1
}

func run(t *testing.T, j job) (string, error) {
	t.Helper()
	var result any
	usage, err := sandbox.Run(t.Context(), j, nil, &result)
	require.LessOrEqual(t, usage.Peak, int64(300e6), "memory that was resident")
	return fmt.Sprint(result), err
}

func TestResult(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("täxt\x00\n", 1<<18)
	got, err := run(t, job{"echo", text})
	require.NoError(t, err)
	require.Equal(t, text, got)
}

func TestErrorOfTheWork(t *testing.T) {
	t.Parallel()
	_, err := run(t, job{"fail", "no \x1b[2J such thing"})
	require.EqualError(t, err, "no �[2J such thing")
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	var got string
	_, err := sandbox.Run(t.Context(), job{"ask", "why?"}, func(question json.RawMessage) (any, error) {
		return "because of " + string(question), nil
	}, &got)
	require.NoError(t, err)
	require.Equal(t, `because of "why?"`, got)
	_, err = sandbox.Run(t.Context(), job{"ask", "why?"}, func(json.RawMessage) (any, error) {
		return nil, errors.New("no idea")
	}, &got)
	require.EqualError(t, err, "answer a question: no idea")
	_, err = sandbox.Run(t.Context(), job{"ask", "why?"}, nil, &got)
	require.ErrorContains(t, err, "unknown message")
}

// Every limit ends the child, and Run returns its error.
func TestLimits(t *testing.T) {
	t.Parallel()
	for do, limits := range map[string][]error{
		"endless": {sandbox.ErrCPU}, "memory": {sandbox.ErrMemory}, "heap": {sandbox.ErrMemory},
		"stack":        {sandbox.ErrDepth, sandbox.ErrMemory}, // growing a stack copies it
		"endless text": {sandbox.ErrAnswer},
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, job{Do: do})
			reached := slices.ContainsFunc(limits, func(limit error) bool { return errors.Is(err, limit) })
			require.True(t, reached, "%v, want one of %v", err, limits)
		})
	}
	_, err := run(t, job{Do: "long"})
	require.Error(t, err)
	limits := []string{sandbox.ErrAnswer.Error(), sandbox.ErrMemory.Error()} // encoding needs memory as well
	require.Contains(t, limits, err.Error())
	_, err = run(t, job{Do: "gentle"})
	require.EqualError(t, err, "there are 5 s of processor time")
}

func TestContextEndsTheChild(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the result is no longer wanted")
	_, err := sandbox.Run(ctx, job{"ask", ""}, func(json.RawMessage) (any, error) {
		cancel(cause)
		<-ctx.Done()
		return "too late", nil
	}, new(string))
	require.ErrorIs(t, err, cause)
}

func TestNothingCanBeDone(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, do := range []string{
		"read a file", "list a folder", "ask for a file", "start a program", "become a program", "open a socket",
		"end its parent", "raise a limit", "remove a file",
	} {
		got, err := run(t, job{do, file})
		require.NoError(t, err, do)
		require.Equal(t, "refused", got, do)
	}
	got, err := run(t, job{"write a file", file + "2"})
	require.NoError(t, err)
	require.Equal(t, "refused", got)
	require.FileExists(t, file)
	require.NoFileExists(t, file+"2")
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Parallel()
	got, err := run(t, job{Do: "environment"})
	require.NoError(t, err)
	require.Equal(t, "[VMOP_SANDBOX=1 GOMAXPROCS=1 GOMEMLIMIT=201326592 GOTRACEBACK=none]", got)
}

func TestWhatADyingChildSaysIsBounded(t *testing.T) {
	t.Parallel()
	_, err := run(t, job{Do: "complain"})
	require.ErrorContains(t, err, "exit status 7: all is �[31mlost!!!")
	require.Less(t, len(err.Error()), 5000)
	_, err = run(t, job{Do: "nonsense"})
	require.ErrorContains(t, err, "read the result: ")
}

// A child must not start children, because a program without Serve would start itself endlessly.
func TestAChildHasNoChildren(t *testing.T) {
	t.Setenv("VMOP_SANDBOX", "1")
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{args[0], "sandbox"}
	_, err := run(t, job{Do: "echo"})
	require.ErrorContains(t, err, "its main must begin with Serve")
}

// The exported variable alone does not make a process a child.
func TestTheVariableAloneIsNotEnough(t *testing.T) {
	t.Setenv("VMOP_SANDBOX", "1")
	got, err := run(t, job{"echo", "x"})
	require.NoError(t, err)
	require.Equal(t, "x", got)
}

// BenchmarkRun measures the cost of a separate process.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		var got string
		_, err := sandbox.Run(b.Context(), job{"echo", "x"}, nil, &got)
		require.NoError(b, err)
	}
}
