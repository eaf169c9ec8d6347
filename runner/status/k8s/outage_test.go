package k8s_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// The API server stops while the VM is running and returns. The newest state is then reported. The test is not parallel
// because all tests here share the server.
func TestFault31TheAPIServerIsAway(t *testing.T) {
	p := newPlace(t)
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	p.eventually("Running", func(s v1.VirtualMachineStatus) bool { return is(s, "Running", metav1.ConditionTrue) })

	require.NoError(t, p.StopServer(t.Context()))
	for i := range 100 {
		tell(t, tracker, status.CPUs(i+2))
	}
	wait.Until(t, func() bool { return strings.Contains(log.String(), "cannot be reached") })
	tell(t, tracker, status.Answered{})
	require.NoError(t, p.StartServer(t.Context()))
	s := p.eventually("what was missed", func(s v1.VirtualMachineStatus) bool {
		return is(s, "Booted", metav1.ConditionTrue)
	})
	require.EqualValues(t, 101, s.CPUs)
	require.True(t, r.Heard())
	require.Equal(t, 1, strings.Count(log.String(), "cannot be reached"), "it is logged once")
	require.Contains(t, log.String(), "the status is reported again")

	// The VM ends during an outage. Its runner waits only briefly, but reports the end if there is time.
	require.NoError(t, p.StopServer(t.Context()))
	tell(t, tracker, status.Ended{Cause: "guest shutdown"})
	select {
	case <-r.Done():
		require.Fail(t, "told to whom?")
	case <-time.After(tick): // the report must wait for the server
	}
	require.NoError(t, p.StartServer(t.Context()))
	<-r.Done()
	require.Equal(t, "guest shutdown", p.vm("web").Status.Runner.Outcome.Cause)
}

// scripted returns a place with a handler as its API server.
func scripted(t *testing.T, handler http.HandlerFunc) *place {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	p := &place{t: t, account: t.TempDir()}
	p.file("token", "x")
	p.file("namespace", "default\n")
	p.file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	var err error
	p.host, p.port, err = net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	return p
}

// After errors of an overloaded or failing API server, everything is eventually reported, and the server's requested
// delays are respected.
func TestFault32TheAPIServerFails(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	answers := []struct {
		code int
		body string
	}{
		{500, "<html>proxy"},
		{429, `{"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slowly", "details": {"retryAfterSeconds": 1}}`},
		{409, `{"kind": "Status", "reason": "Conflict", "message": "changed"}`},
		{200, "no JSON"},
		{503, ""},
	}
	var asked atomic.Int32
	applied := make(chan string, 100)
	p := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "Bearer x", r.Header.Get("Authorization"))
		if n := int(asked.Add(1)); n <= len(answers) {
			w.WriteHeader(answers[n-1].code)
			_, _ = w.Write([]byte(answers[n-1].body)) // the client may have disconnected
			return
		}
		body, _ := io.ReadAll(r.Body) // the body is checked below
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			applied <- string(body)
		}
		_, _ = w.Write([]byte(`{"metadata": {"uid": "u"}}`)) // as above
	})
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	require.Contains(t, <-applied, `"state":"Booting"`)
	tell(t, tracker, status.Ended{Cause: "asked"})
	<-r.Done()
	require.Contains(t, <-applied, `"state":"Stopped"`)
	require.Contains(t, log.String(), "it will be tried again")
	require.Contains(t, log.String(), "the status is reported again")
}

// Replaced certificate authorities are used immediately, and the connection is kept while they stay the same.
func TestTheAuthoritiesAreExchanged(t *testing.T) {
	t.Parallel()
	clients := make(chan string, 100)
	p := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		clients <- r.RemoteAddr
		_, _ = w.Write([]byte(`{"metadata": {"uid": "u"}}`)) // the client may have disconnected
	})
	valid := p.read(p.account + "/ca.crt")
	p.file("ca.crt", "none")
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	wait.Until(t, func() bool {
		return strings.Contains(log.String(), "ca.crt has no certificate")
	})
	p.file("ca.crt", valid)
	first := <-clients
	tell(t, tracker, status.Ended{Cause: "asked"})
	<-r.Done()
	close(clients)
	for client := range clients {
		require.Equal(t, first, client)
	}
}

// An API server that accepts requests but never answers does not delay the tracker or the runner's end.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	asked, over := make(chan struct{}, 100), make(chan struct{})
	p := scripted(t, func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	})
	t.Cleanup(func() { close(over) }) // before the server is closed
	tracker, r, log := p.follow(status.Entered{State: vmstatus.StateBooting})
	<-asked
	tell(t, tracker, status.Ended{Cause: "asked"})
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	r.Close(soon)
	<-r.Done()
	require.Contains(t, log.String(), "final status can't be reported")
}

// If events are not accepted, for example because their webhook is down, the status is still reported, without waiting
// for each event.
func TestEventsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	var events atomic.Int32
	applied := make(chan string, 100)
	p := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			events.Add(1)
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body) // the body is checked below
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			applied <- string(body)
		}
		_, _ = w.Write([]byte(`{"metadata": {"uid": "u"}}`)) // the client may have disconnected
	})
	var updates []status.Update
	for i := range 10 {
		updates = append(updates, status.ConsoleOpened{Kind: status.VNC, Client: fmt.Sprintf("10.0.0.9:%d", i)})
	}
	tracker, r, log := p.follow(append(updates, status.Entered{State: vmstatus.StateBooting})...)
	<-applied
	tell(t, tracker, status.Ended{Cause: "asked"})
	<-r.Done()
	require.LessOrEqual(t, int(events.Load()), len(applied)+1, "one for each report")
	require.Equal(t, 1, strings.Count(log.String(), "an event can't be reported"))
}

// A report that is too large for the resource or a proxy is sent without the text of others.
func TestFault32TheReportIsTooLarge(t *testing.T) {
	t.Parallel()
	const most = 4000
	applied := make(chan string, 100)
	p := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the body is checked below
		if len(body) > most {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			applied <- string(body)
		}
		_, _ = w.Write([]byte(`{"metadata": {"uid": "u"}}`)) // the client may have disconnected
	})
	many := make(status.Interfaces, 30)
	for i := range many {
		many[i] = status.Interface{Name: strings.Repeat("x", 100), Addresses: []string{"10.0.0.1/8"}}
	}
	_, _, log := p.follow(status.Entered{State: vmstatus.StateBooting}, many)
	require.Contains(t, <-applied, `"state":"Booting"`)
	require.Contains(t, log.String(), "a part of the status is not reported")
}
