package main

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// Connections before the guest's SSH server is up are refused, end, or stay silent.
func TestAnSSHServerIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		start := time.Now()
		dial := func(context.Context) (net.Conn, error) {
			begun = append(begun, time.Since(start))
			here, there := net.Pipe()
			t.Cleanup(func() { _ = there.Close() })
			switch len(begun) {
			case 1:
				return nil, errors.New("refused")
			case 2:
				_ = there.Close()
			case 3: // slirp accepts connections for a guest that has no address yet
			case 4:
				go func() { _, _ = there.Write([]byte("HTTP/1.0 400 no\r\n")); _ = there.Close() }()
			default:
				go func() { _, _ = there.Write([]byte("Welcome\r\nSSH-2.0-OpenSSH_9.2p1 Debian\r\n")) }()
			}
			return here, nil
		}
		require.NoError(t, awaitSSHServer(t.Context(), dial))
		second := time.Second
		require.Equal(t, []time.Duration{0, second, 2 * second, 23 * second, 24 * second}, begun)
	})
}

func TestTheWaitForAnSSHServerEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, reason)
		defer cancel()
		require.ErrorIs(t, awaitSSHServer(ctx, func(context.Context) (net.Conn, error) { return nil, reason }), reason)
	})
}

func TestLinesOfAConsoleAreShown(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"[  OK  ] Reached target\r\n": "[  OK  ] Reached target", "\x1b[0;32m  OK \x1b[0m\x1b[K done": "OK  done",
		"\r\n": "", "\x1b[": "", "\x1b[2J\x1b[1;1Hlogin: ": "login:", "a\x07b": "a�b",
	} {
		require.Equal(t, want, shownLine([]byte(line)), "%q", line)
	}
}

// A guest without a network or a user can't be reached by ssh, so that up doesn't wait for it.
func TestUpWaitsOnlyForAGuestWithSSH(t *testing.T) {
	t.Parallel()
	of := func(networks []vmspec.Network, users string) *inventory.VM {
		text := "/Runner: {vm: {name: web}, cloudInit: {userData: {users: [" + users + "]}}}\n"
		cfg, _, err := config.Parse("c.yaml", []byte(text))
		require.NoError(t, err)
		cfg.VM.Network = networks
		return &inventory.VM{Name: "web", Config: cfg}
	}
	require.True(t, canLogIn(of(nil, "{name: joe}")))
	require.Equal(t, []string{"vmrunner ssh web", "vmrunner console web"}, waysIn(of(nil, "{name: joe}")))
	require.False(t, canLogIn(of([]vmspec.Network{}, "{name: joe}")))
	require.False(t, canLogIn(of(nil, "")))
	require.Equal(t, []string{"vmrunner console web"}, waysIn(of(nil, "")))
}
