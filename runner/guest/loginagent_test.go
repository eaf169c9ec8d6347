package guest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/guest"
	"vmop/test/wait"
)

// talk is a conversation with a log-in agent played by the test.
type talk struct {
	t      *testing.T
	agent  *guest.LoginAgent
	guest  net.Conn
	in     *bufio.Reader
	states chan guest.LoginState
	ended  chan error
	end    context.CancelFunc
}

func converse(t *testing.T, greeted bool) *talk {
	host, peer := net.Pipe()
	c := &talk{
		t: t, agent: guest.NewLoginAgent(), guest: peer, in: bufio.NewReader(peer),
		states: make(chan guest.LoginState, 100), ended: make(chan error, 1),
	}
	ctx, end := context.WithCancel(timeout(t))
	c.end = end
	go func() { c.ended <- c.agent.Converse(ctx, host, greeted, func(s guest.LoginState) { c.states <- s }) }()
	t.Cleanup(func() { peer.Close(); end() })
	return c
}

func (c *talk) says(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.guest, text)
	require.NoError(c.t, err)
}

func (c *talk) hears(line string) {
	c.t.Helper()
	heard, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line+"\n", heard)
}

func (c *talk) is(state guest.LoginState) {
	c.t.Helper()
	s := wait.Receive(c.t, c.states, "no state is published", "want %v", state)
	require.Equal(c.t, state, s)
}

func TestAConversation(t *testing.T) {
	t.Parallel()
	c := converse(t, false)
	c.agent.Want("alice")
	c.says("220 Hel")
	c.says("lo\r\n")
	c.hears("login alice")
	c.is(guest.LoginState{Connected: true})
	c.says("201 in\n")
	c.is(guest.LoginState{Connected: true, User: "alice"})
	c.says(strings.Repeat("x", 3000) + "\n202 out\n504 no\n201 in\n")
	c.is(guest.LoginState{Connected: true})
	c.agent.Want("")
	c.hears("logout")
	c.says("202\n")
	c.agent.Want("bob")
	c.hears("login bob")
	c.says("504 never heard of him\n")
	c.is(guest.LoginState{Connected: true, Failure: "504 never heard of him"})
	c.agent.Reopened()
	c.is(guest.LoginState{})
	c.hears("login bob")
	c.says("201 here he is\n")
	c.is(guest.LoginState{Connected: true, User: "bob"})
	c.end()
	require.ErrorIs(t, <-c.ended, context.Canceled)
	_, err := c.in.ReadString('\n')
	require.ErrorIs(t, err, io.EOF, "the socket is closed")
}

func TestAConversationEndsWithTheSocket(t *testing.T) {
	t.Parallel()
	c := converse(t, true)
	c.hears("logout")
	c.says("202\n")
	c.is(guest.LoginState{Connected: true})
	require.NoError(t, c.guest.Close())
	require.ErrorIs(t, <-c.ended, io.EOF)
}

// An agent that accepts no line is given up, without delaying other agents.
func TestAnAgentThatDoesNotListen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		host, peer := net.Pipe()
		defer peer.Close()
		err := guest.NewLoginAgent().Converse(t.Context(), host, true, func(guest.LoginState) {})
		var late net.Error
		require.True(t, errors.As(err, &late) && late.Timeout(), "%v", err)
	})
}

// A flood from the guest is read at the host's pace.
func TestAFlood(t *testing.T) {
	t.Parallel()
	const minutes = 10
	for name, flood := range map[string]string{
		"of answers":     "201\n",
		"of greetings":   "220\n",
		"back and forth": strings.Repeat("220\n", 200) + strings.Repeat("201\n", 200),
		"without end":    "201",
		"of nothing":     "\n\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				host, peer := net.Pipe()
				var bytes, told, commands atomic.Int64
				go func() {
					for {
						n, err := io.WriteString(peer, strings.Repeat(flood, 1000))
						bytes.Add(int64(n))
						if err != nil {
							return
						}
					}
				}()
				go func() {
					for in := bufio.NewScanner(peer); in.Scan(); {
						commands.Add(1)
					}
				}()
				ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
				defer cancel()
				agent := guest.NewLoginAgent()
				agent.Want("alice")
				err := agent.Converse(ctx, host, false, func(guest.LoginState) { told.Add(1) })
				require.ErrorIs(t, err, context.DeadlineExceeded)
				peer.Close()
				synctest.Wait()
				const pieces = minutes*60*4 + 32
				const drained = 1 << 20 // the unread rest at the end
				require.LessOrEqual(t, bytes.Load(), int64(pieces*512+drained))
				require.LessOrEqual(t, told.Load(), int64(pieces))
				require.LessOrEqual(t, commands.Load(), int64(pieces))
				if name == "of answers" {
					require.Zero(t, told.Load(), "no agent greeted")
					require.Zero(t, commands.Load())
				}
			})
		})
	}
}
