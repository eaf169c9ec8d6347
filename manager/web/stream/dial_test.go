package stream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	v1 "vmop/api/v1"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/control/remote"
	"vmop/runner/status"
	"vmop/test/deaf"
	"vmop/test/logbook"
	"vmop/test/wait"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// vm is a simulated VM.
type vm struct {
	plan  plan.Plan
	asked chan string
}

func (v *vm) Act(_ context.Context, what control.Action, by string) error {
	v.asked <- string(what) + " by " + by
	return nil
}

func (v *vm) Run(context.Context, qmp.Command) (json.RawMessage, error) { return nil, nil }
func (v *vm) Plan() *plan.Plan                                          { return &v.plan }
func (v *vm) Dropped() uint64                                           { return 0 }

// lab is a runner and a manager.
type lab struct {
	*vm
	keys    *Keys
	file    string // the runner's file with the authorities
	target  Target
	server  *control.Server
	tracker *status.Tracker
	log     *logbook.Logbook
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "stream")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	l := &lab{vm: &vm{asked: make(chan string, 1)}, keys: newKeys(fake.NewClientset()), log: &logbook.Logbook{}}
	l.plan.Sockets = []plan.Socket{{Role: "console", Path: filepath.Join(dir, "console")}}
	require.NoError(t, l.keys.Refresh(t.Context()))
	l.file = filepath.Join(dir, "manager-ca.crt")
	require.NoError(t, os.WriteFile(l.file, l.keys.all.publicPEM(), 0o600))
	log := slog.New(slog.NewTextHandler(l.log, nil))
	l.tracker = status.NewTracker(time.Now, status.Described{Name: "web"}, status.Entered{State: vmstatus.StateBooting})
	l.server, err = control.Start(t.Context(), control.Options{Dir: dir, Backend: l.vm, Tracker: l.tracker, Log: log})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.server.Close(context.WithoutCancel(t.Context()))) })
	listener, err := remote.Listen(t.Context(), remote.Options{Authorities: l.file, Log: log})
	require.NoError(t, err)
	l.server.ServeRemote(listener)
	l.target = Target{"127.0.0.1:" + strconv.Itoa(listener.Port()), listener.Key()}
	return l
}

func TestManagerReachesARunner(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	alice, bob := l.keys.Client(l.target, "alice"), l.keys.Client(l.target, "bob")
	s, err := alice.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "web", s.Name)
	require.NoError(t, alice.Act(ctx, control.Pause))
	require.Equal(t, "pause by alice", <-l.asked)
	_, err = alice.QMP(ctx, qmp.Command{Execute: "quit"})
	var refused *control.AnswerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 404, refused.Code)

	ours, theirs := net.Pipe()
	l.server.Console().Attach(theirs)
	first, err := alice.Console(ctx, control.Type)
	require.NoError(t, err)
	_, err = bob.Console(ctx, control.Type)
	require.EqualError(t, err, "the console is in use by alice")
	watching, err := bob.Console(ctx, control.Watch)
	require.NoError(t, err)
	again, err := alice.Console(ctx, control.Type)
	require.NoError(t, err, "the same user takes over")
	end, err := io.ReadAll(first)
	require.NoError(t, err)
	require.True(t, control.TakenOver(end), "%q", end)
	go func() { _, _ = io.WriteString(again, "ls\r") }()
	typed := make([]byte, 3)
	_, err = io.ReadFull(ours, typed)
	require.NoError(t, err)
	require.Equal(t, "ls\r", string(typed))
	wait.Until(t, func() bool {
		c := l.tracker.Status().Consoles
		return len(c) == 2 && c[0].User == "bob" && c[0].Mode == status.ModeWatch &&
			c[1].User == "alice" && c[1].Mode == status.ModeType && strings.HasPrefix(c[1].Client, "manager 127.0.0.1")
	})
	require.NoError(t, again.Close())
	require.NoError(t, watching.Close())
	wait.Until(t, func() bool { return len(l.tracker.Status().Consoles) == 0 })
	var metrics strings.Builder
	require.NoError(t, bob.Metrics(ctx, &metrics))
	require.NotContains(t, metrics.String(), "alice")
}

// An answer that exceeds the limit is an error.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var text strings.Builder
	require.NoError(t, l.keys.Bounded(l.target, 64<<10).Metrics(t.Context(), &text))
	require.Greater(t, text.Len(), 2000)
	const few = 1000
	var cut strings.Builder
	require.ErrorContains(t, l.keys.Bounded(l.target, few).Metrics(t.Context(), &cut), "longer than 1000 bytes")
	require.Less(t, cut.Len(), few)
}

// Clients other than the manager are refused, and the log shows the reason.
func TestOnlyTheManagerIsLetIn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	foreign := newKeys(fake.NewClientset())
	require.NoError(t, foreign.Refresh(t.Context()))
	expired := &Keys{all: l.keys.all, now: func() time.Time { return time.Now().Add(-certificateLife - 2*skew) }}
	for why, intruder := range map[string]*Keys{
		"unknown authority": foreign, "certificate has expired": expired,
		"its names lack vmop://manager": nameless(t, l.keys),
	} {
		_, err := intruder.Client(l.target, "").Status(t.Context())
		require.ErrorContains(t, err, "tls: ", why)
		l.logs(t, why)
	}
	for why, config := range map[string]*tls.Config{
		"client didn't provide a certificate": {InsecureSkipVerify: true},
		"client offered only unsupported":     {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12},
	} {
		conn, err := tls.Dial("tcp", l.target.Address, config)
		if err == nil {
			require.NoError(t, conn.SetDeadline(wait.Deadline()))
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		require.Error(t, err, why)
		l.logs(t, why)
	}
	_, err := l.keys.Client(l.target, "").Status(t.Context())
	require.NoError(t, err)
}

func (l *lab) logs(t *testing.T, text string) {
	t.Helper()
	wait.Until(t, func() bool {
		return strings.Contains(l.log.String(), text)
	}, text)
}

// nameless returns keys with a certificate that the manager's authority signed, but not for a manager.
func nameless(t *testing.T, of *Keys) *Keys {
	t.Helper()
	leaf, err := of.all.issueCertificate(time.Now())
	require.NoError(t, err)
	template := *leaf.Leaf
	template.URIs, template.Extensions, template.ExtraExtensions = []*url.URL{{Scheme: "vmop", Host: "other"}}, nil, nil
	key := of.all[0].key
	made, err := signCertificate(&template, of.all[0].certificate, key, key)
	require.NoError(t, err)
	return &Keys{now: time.Now, leaf: &tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key, Leaf: made}}
}

// The manager refuses a runner with a different key from the VM's status.
func TestRunnerThatLies(t *testing.T) {
	t.Parallel()
	l, other := newLab(t), newLab(t)
	lie := Target{Address: other.target.Address, Key: l.target.Key}
	_, err := l.keys.Client(lie, "").Status(t.Context())
	require.ErrorIs(t, err, ErrOther)
	_, err = l.keys.Client(Target{Address: l.target.Address}, "").Status(t.Context())
	require.ErrorIs(t, err, ErrOther, "without a key there is no runner")
	l.keys.Connect = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
	_, err = l.keys.Dial(t.Context(), l.target)
	require.ErrorContains(t, err, "connect to the runner at "+l.target.Address+": no route")
}

// Authorities change without a restart of either side.
func TestAuthoritiesChangeMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	status := func(k *Keys) error {
		_, err := k.Client(l.target, "").Status(t.Context())
		return err
	}
	require.NoError(t, status(l.keys))
	next := newKeys(fake.NewClientset())
	require.NoError(t, next.Refresh(t.Context()))
	require.NoError(t, os.WriteFile(l.file, append(l.keys.all.publicPEM(), next.all.publicPEM()...), 0o600))
	require.NoError(t, status(l.keys))
	require.NoError(t, status(next))
	require.NoError(t, os.WriteFile(l.file, next.all.publicPEM(), 0o600))
	require.Error(t, status(l.keys))
	require.NoError(t, status(next))
	require.NoError(t, os.Remove(l.file))
	require.Error(t, status(next))
}

// Silent strangers can't lock out the manager, and are disconnected to make room for others.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var conns []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", l.target.Address)
		require.NoError(t, err)
		conns = append(conns, conn)
		t.Cleanup(func() { conn.Close() })
	}
	_, err := l.keys.Client(l.target, "").Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, conns[0].SetDeadline(wait.Deadline()))
	_, err = conns[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A manager or runner that has vanished, for example with its node, is noticed within a minute.
func TestVanishedManagersAndRunners(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	listener, err := remote.Listen(t.Context(), remote.Options{Authorities: l.file, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer listener.Close()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(listener.Port()))
	manager, err := l.keys.Dial(t.Context(), Target{address, listener.Key()})
	require.NoError(t, err)
	defer manager.Close()
	runner, err := listener.Accept()
	require.NoError(t, err)
	defer runner.Close()
	require.Equal(t, time.Minute, deaf.Limit(t, manager))
	require.Equal(t, time.Minute, deaf.Limit(t, runner))
}

// The guest's runner and the waiting runner are identified by the pod that reported them.
func TestTargetOf(t *testing.T) {
	t.Parallel()
	reached := &v1.RunnerControl{Port: 7443, Key: "ab"}
	has := func(pod types.UID, control *v1.RunnerControl) *v1.VirtualMachine {
		return &v1.VirtualMachine{Status: v1.VirtualMachineStatus{
			Runner:   &v1.RunnerStatus{PodUID: pod, Control: control},
			Arriving: &v1.Arriving{PodUID: pod, Control: control},
		}}
	}
	for _, row := range []struct {
		vm         *v1.VirtualMachine
		ip, reason string
	}{
		{has("u1", reached), "fd00::7", ""},
		{has("u1", reached), "", "its pod has no address yet"},
		{&v1.VirtualMachine{}, "fd00::7", "it has not reported yet"},
		{has("u2", reached), "fd00::7", "it has not reported yet"},
		{has("u1", nil), "fd00::7", "it has no port for the manager"},
	} {
		arriving, late := ArrivingOf(row.vm, "u1", row.ip)
		target, err := TargetOf(row.vm, "u1", row.ip)
		if row.reason == "" {
			require.NoError(t, errors.Join(err, late))
			require.Equal(t, []Target{{"[fd00::7]:7443", "ab"}, {"[fd00::7]:7443", "ab"}}, []Target{target, arriving})
			continue
		}
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, row.reason)
		require.ErrorIs(t, late, ErrUnreachable)
	}
}

// Kill ends a machine in the name of a user, once its pod is reachable.
func TestKill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	port, err := strconv.Atoi(strings.TrimPrefix(l.target.Address, "127.0.0.1:"))
	require.NoError(t, err)
	vm, pod := &v1.VirtualMachine{}, &corev1.Pod{}
	pod.UID = "u1"
	vm.Status.Runner = &v1.RunnerStatus{PodUID: "u1", Control: &v1.RunnerControl{Port: int32(port), Key: l.target.Key}}
	require.ErrorIs(t, l.keys.Kill(t.Context(), vm, pod, "alice"), ErrUnreachable)
	pod.Status.PodIP = "127.0.0.1"
	require.NoError(t, l.keys.Kill(t.Context(), vm, pod, "alice"))
	require.Equal(t, "kill by alice", <-l.asked)
}
