package guest

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lineTime is the maximum time to wait for a line. Without KVM, on a busy machine, a guest can be a hundred times
// slower than usual.
const lineTime = 4 * time.Minute

// Console is the serial console of a test's guest.
type Console struct {
	t     testing.TB
	conn  io.Writer
	lines chan string
	said  []string // the lines so far
}

// Listen reads a guest's console from a connection until the connection ends.
func Listen(t testing.TB, conn io.ReadWriter) *Console {
	c := &Console{t: t, conn: conn, lines: make(chan string, 8192)}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(conn); scan.Scan(); {
			c.lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	return c
}

// Await returns the submatches of the next line that matches.
func (c *Console) Await(pattern string) []string {
	c.t.Helper()
	expected, late := regexp.MustCompile(pattern), time.After(lineTime)
	for {
		select {
		case line, open := <-c.lines:
			require.True(c.t, open, "the console ended before %q came, with:\n%s", pattern, c.Text())
			c.said = append(c.said, line)
			if match := expected.FindStringSubmatch(line); match != nil {
				return match
			}
		case <-late:
			require.FailNow(c.t, "no line in time", "%q, only:\n%s", pattern, c.Text())
		}
	}
}

// Type types a line.
func (c *Console) Type(line string) {
	c.t.Helper()
	_, err := fmt.Fprintln(c.conn, line)
	require.NoError(c.t, err)
}

// Do runs a command of the tiny guest's shell, and waits for its end.
func (c *Console) Do(command string) {
	c.t.Helper()
	c.Type("sh " + command)
	require.Equal(c.t, "0", c.Await(`^rc=(\d+)`)[1], "%s:\n%s", command, c.Text())
}

// Text returns all lines up to the last match of Await.
func (c *Console) Text() string { return strings.Join(c.said, "\n") }
