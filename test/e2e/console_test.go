package e2e_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// console is the serial console of a guest, through kubectl exec.
type console struct {
	t     testing.TB
	input io.Writer

	mu   sync.Mutex
	text strings.Builder
	read int // offset after the last awaited line
}

// console opens the console of a running VM.
func (v *clusterVM) console() *console {
	v.t.Helper()
	return v.consoleOf(v.t, namespace, v.podName())
}

// consoleOf opens the console of the VM in a pod.
func (l *lab) consoleOf(t testing.TB, namespace, pod string) *console {
	t.Helper()
	c := &console{t: t}
	command := l.KubectlCommand(t.Context(), "-n", namespace, "exec", "-i", pod, "--", "vmrunner", "console",
		"--take-over")
	var err error
	c.input, err = command.StdinPipe()
	require.NoError(t, err)
	command.Stdout, command.Stderr = c, c
	require.NoError(t, command.Start())
	t.Cleanup(func() { finish(command) })
	return c
}

// finish ends a command. Its guest may have ended before.
func finish(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait()
}

// Write receives the guest's output.
func (c *console) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(text)
}

// await waits for a line after the lines that were already awaited, and returns its submatches.
func (c *console) await(pattern string) []string {
	c.t.Helper()
	expected := regexp.MustCompile("(?m)" + pattern)
	var match []string
	wait.For(c.t, "a line like "+pattern, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		rest := c.text.String()[c.read:]
		rest = rest[:strings.LastIndex(rest, "\n")+1] // complete lines
		if match = expected.FindStringSubmatch(rest); match == nil {
			return fmt.Errorf("there is:\n%s", rest)
		}
		c.read += expected.FindStringIndex(rest)[1]
		return nil
	})
	return match
}

// booted waits until the guest has booted.
func (c *console) booted() *console {
	c.t.Helper()
	c.await(`^TINY .* READY`)
	return c
}

// tell types a line.
func (c *console) tell(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.input, line+"\n")
	require.NoError(c.t, err)
}

// ask runs a shell command in the guest, and returns its output. Earlier output and the guest's own reports may appear
// before, and even while the command is typed.
func (c *console) ask(command string) string {
	c.t.Helper()
	mark := fmt.Sprintf("%08x", rand.Uint32())
	c.tell("sh echo begin " + mark + "; " + command + "; echo; echo end " + mark)
	said := c.await(`(?s)^begin ` + mark + `\r?\n(.*?)^end ` + mark + `\r?$`)[1]
	return strings.TrimSpace(strings.ReplaceAll(report.ReplaceAllString(said, ""), "\r", ""))
}

// report matches a line that the guest prints on its own.
var report = regexp.MustCompile(`(?m)^TINY .*\n`)
