package guest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/guest"
	"vmop/test/wait"
)

func timeout(t testing.TB) context.Context {
	ctx, cancel := wait.Context(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// listenForLines returns a listening agent socket and its path.
func listenForLines(t testing.TB) (*net.UnixListener, string) {
	dir, err := os.MkdirTemp("", "ga")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, path
}

// question is a command that a scripted agent receives. Name is "" for the bare sentinel.
type question struct {
	Execute   string `json:"execute"`
	Arguments struct {
		ID   int64  `json:"id"`
		Mode string `json:"mode"`
	} `json:"arguments"`
	ID int64 `json:"id"`
}

// answer returns a reply with the question's id.
func (q question) answer(value string) string {
	return fmt.Sprintf(`{"return": %s, "id": %d}`+"\n", value, q.ID)
}

// sync returns the correct answer to guest-sync-delimited.
func (q question) sync() string { return "\xff" + q.answer(fmt.Sprint(q.Arguments.ID)) }

// agentThat serves one client at a time and answers each question with the result of answer. "hang up" closes the
// connection.
func agentThat(t testing.TB, answer func(n int, q question) string) string {
	l, path := listenForLines(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		n := 0
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewScanner(conn)
			for in.Scan() {
				var q question
				text := strings.TrimPrefix(in.Text(), "\xff")
				if err := json.Unmarshal([]byte(text), &q); err != nil {
					t.Errorf("the agent hears %q: %v", in.Text(), err)
				}
				said := answer(n, q)
				n++
				if said == "hang up" {
					break
				}
				if _, err := conn.Write([]byte(said)); err != nil {
					break
				}
			}
			conn.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return path
}

// sensible answers synchronization requests itself and passes other commands to the function then.
func sensible(then func(q question) string) func(int, question) string {
	return func(_ int, q question) string {
		if q.Execute == "guest-sync-delimited" {
			return q.sync()
		}
		return then(q)
	}
}

func dial(t testing.TB, path string) *guest.Agent {
	a, err := guest.Dial(timeout(t), path)
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

func TestDialSkipsEverythingBeforeItsOwnSynchronisation(t *testing.T) {
	t.Parallel()
	for name, junk := range map[string]string{
		"nothing":                          "",
		"an error for half a line":         `{"error": {"class": "GenericError", "desc": "JSON parse error"}}` + "\n",
		"a late answer":                    `{"return": {}, "id": 7}` + "\n",
		"half an answer":                   `{"return": {"a": [`,
		"two megabytes":                    strings.Repeat("x", 2<<20),
		"an older synchronisation":         "\xff" + `{"return": 5, "id": 5}` + "\n",
		"a synchronisation cut off":        "\xff" + `{"retu`,
		"sentinels":                        strings.Repeat("\xff", 100_000),
		"NULs":                             "\x00\x00\xff\x00\n",
		"an endless line after a sentinel": "\xff" + strings.Repeat("[", 2<<20),
		"a refusal":                        "\xff" + `{"error": {"class": "CommandNotFound", "desc": "x"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := dial(t, agentThat(t, func(n int, q question) string {
				if n == 0 {
					require.Equal(t, "guest-sync-delimited", q.Execute)
					return junk + q.sync()
				}
				return q.answer("{}")
			}))
			require.NoError(t, a.Ping(timeout(t)))
		})
	}
}

func TestACallThatEndedEarlyIsFollowedBySynchronisation(t *testing.T) {
	t.Parallel()
	impatient, cancel := context.WithCancel(t.Context())
	var late string
	var heard []string
	a := dial(t, agentThat(t, func(_ int, q question) string {
		heard = append(heard, q.Execute)
		switch q.Execute {
		case "guest-ping": // a late answer
			late = q.answer("{}")
			cancel()
			return ""
		case "guest-sync-delimited":
			return late + q.sync()
		default:
			return q.answer(`{"version": "7.2.0"}`)
		}
	}))
	require.ErrorIs(t, a.Ping(impatient), context.Canceled)
	info, err := a.Info(timeout(t))
	require.NoError(t, err)
	require.Equal(t, "7.2.0", info.Version)
	require.Equal(t, []string{"guest-sync-delimited", "guest-ping", "guest-sync-delimited", "guest-info"}, heard)
}

func TestRepliesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ said, because string }{
		"too large": {
			`{"return": "` + strings.Repeat("x", 2<<20) + `"}` + "\n",
			"the reply has more than 1048576 bytes",
		},
		"without end": {strings.Repeat("x", 2<<20), "the reply has more than 1048576 bytes"},
		"nested too deep": {
			`{"return": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}\n",
			"nested more than 32 deep",
		},
		"a NUL":             {"\x00\n", "the reply is not JSON"},
		"escape codes":      {"\x1b[2J\n", "the reply is not JSON: invalid character '\\x1b'"},
		"a sentinel inside": {"{\"return\xff\": 1}\n", "a new reply begins inside the reply"},
		"of another kind":   {`{"return": 7}` + "\n", "read the reply"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := true
			a := dial(t, agentThat(t, sensible(func(q question) string {
				if first {
					first = false
					return c.said
				}
				return q.answer(`{"id": "debian"}`)
			})))
			_, err := a.OSInfo(timeout(t))
			require.ErrorContains(t, err, "guest agent guest-get-osinfo: ")
			require.ErrorContains(t, err, c.because)
			require.Less(t, len(err.Error()), 500)
			info, err := a.OSInfo(timeout(t))
			require.NoError(t, err, "the next call finds its way")
			require.Equal(t, "debian", info.ID)
		})
	}
}

func TestRepliesWithAnotherIDAreNotOurs(t *testing.T) {
	t.Parallel()
	a := dial(t, agentThat(t, sensible(func(q question) string {
		return `{"return": {"version": "a lie"}, "id": 1}` + "\n\n" +
			`{"return": {"version": "a lie"}, "id": "text"}` + "\n" +
			`{"surprise": 1}` + "\n" +
			q.answer(`{"version": "the truth", "supported_commands": [{"name": "guest-exec", "enabled": false}]}`)
	})))
	info, err := a.Info(timeout(t))
	require.NoError(t, err)
	require.Equal(t, guest.Info{Version: "the truth", Commands: map[string]bool{"guest-exec": false}}, info)
}

func TestTheGuestsWordsArePrintable(t *testing.T) {
	t.Parallel()
	a := dial(t, agentThat(t, sensible(func(q question) string {
		if q.Execute == "guest-ping" {
			return fmt.Sprintf(`{"error": {"class": "\u001b[31m", "desc": "a\nb"}, "id": %d}`+"\n", q.ID)
		}
		return q.answer(`{"pretty-name": "` + strings.Repeat("ä", 300) + `", "name": "\u001b]0;x\u0007` + "\xfe" +
			`\u202eevil"}`)
	})))
	info, err := a.OSInfo(timeout(t))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ä", guest.MaxText-1)+"…", info.PrettyName)
	require.Equal(t, "\ufffd]0;x\ufffd\ufffd\ufffdevil", info.Name)
	require.EqualError(t, a.Ping(timeout(t)), "guest agent guest-ping: a b (\ufffd[31m)")
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shutdown func(question) string // the agent's answer to guest-shutdown
		then     func(question) string // the agent's answer to the synchronization after it
		err      string
	}{
		"succeeds in silence": {
			func(question) string { return "" },
			question.sync, "",
		},
		"succeeds by taking the agent away": {
			func(question) string { return "hang up" },
			question.sync, "",
		},
		"is refused": {
			func(q question) string {
				return fmt.Sprintf(`{"error": {"class": "CommandNotFound", "desc": "Command guest-shutdown has been `+
					`disabled"}, "id": %d}`+"\n", q.ID)
			},
			question.sync, "guest agent guest-shutdown: Command guest-shutdown has been disabled (CommandNotFound)",
		},
		"is refused amid noise": {
			func(q question) string {
				return "noise\n" + fmt.Sprintf(`{"error": {"class": "GenericError", "desc": "no"}, "id": %d}`+"\n",
					q.ID) + "noise"
			},
			question.sync, "guest agent guest-shutdown: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			a := dial(t, agentThat(t, func(_ int, q question) string {
				switch {
				case q.Execute == "guest-shutdown":
					asked = true
					require.Equal(t, "powerdown", q.Arguments.Mode)
					return c.shutdown(q)
				case asked:
					return c.then(q)
				}
				return q.sync()
			}))
			err := a.Shutdown(timeout(t), guest.PowerDown)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.err)
			}
			require.True(t, asked)
		})
	}
}

func TestAnAgentThatNeverAnswers(t *testing.T) {
	t.Parallel()
	path := agentThat(t, func(int, question) string { return "" })
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := guest.Dial(short, path)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "synchronise with guest agent "+path+": no reply: context deadline exceeded")
}

func TestAClosedSocket(t *testing.T) {
	t.Parallel()
	a := dial(t, agentThat(t, sensible(func(question) string { return "hang up" })))
	require.ErrorIs(t, a.Ping(timeout(t)), guest.ErrClosed)
	require.ErrorIs(t, a.Ping(timeout(t)), guest.ErrClosed)
	require.ErrorIs(t, a.Shutdown(timeout(t), guest.Halt), guest.ErrClosed, "nothing was sent")

	_, path := listenForLines(t)
	require.NoError(t, os.Remove(path))
	_, err := guest.Dial(timeout(t), path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCloseEndsACallUnderWay(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	a := dial(t, agentThat(t, sensible(func(question) string {
		close(asked)
		return ""
	})))
	go func() {
		<-asked
		a.Close()
	}()
	require.ErrorIs(t, a.Ping(timeout(t)), guest.ErrClosed)
}

func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	a := dial(t, agentThat(t, sensible(func(q question) string { return q.answer(fmt.Sprint(q.Arguments.ID)) })))
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for range 20 {
				got, err := a.Run(timeout(t), qmp.Command{Execute: "echo", Arguments: map[string]int{"id": g}})
				if err != nil || string(got) != fmt.Sprint(g) {
					t.Errorf("%d got %s, %v", g, got, err)
				}
			}
		})
	}
	wg.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Ping(ended), context.Canceled)
	require.NoError(t, a.Ping(timeout(t)))
}
