package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// played is a runner with scripted answers.
type played struct {
	answer chan error
	status status.Status
	fails  error // of Invitation and Status
}

func (p *played) Invitation(context.Context) (json.RawMessage, error) {
	return json.RawMessage(`"key"`), p.fails
}

func (p *played) Migrate(
	ctx context.Context, r control.MigrationRequest, tell func(vmstatus.Progress),
) error {
	if string(r.Invitation) != `"key"` {
		return errors.New("another invitation")
	}
	for _, left := range []int64{100, 97, 42, 90} { // memory that the guest has changed is sent again
		tell(vmstatus.Progress{Transferred: 7, Remaining: left, Total: 100})
	}
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", control.ErrMigrationUnknown, ctx.Err()) // like a client
	}
}

func (p *played) Status(context.Context) (status.Status, error) { return p.status, p.fails }

func TestCalls(t *testing.T) {
	t.Parallel()
	of := &played{answer: make(chan error)}
	changed := make(chan string, 2)
	find := func(*v1.VirtualMachine, *corev1.Pod) (Runner, error) { return of, nil }
	c := &Calls{
		Source: find, Target: find, Changed: func(vm string) { changed <- vm },
		Now: func() time.Time { return noon },
	}
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	require.Equal(t, Call{}, c.Of("web"))
	progressed := func() {
		require.Equal(t, "web", <-changed)
		require.Equal(t, int32(58), c.Of("web").Progress)
	}
	ended := func() Call {
		require.Equal(t, "web", <-changed)
		return c.Of("web")
	}

	c.Begin(t.Context(), vm, nil, nil)
	require.True(t, c.Of("web").Running)
	c.Begin(t.Context(), vm, nil, nil) // starts no second request
	of.answer <- nil
	progressed()
	require.Equal(t, Call{Result: Moved, Transferred: 7, Progress: 58, At: noon}, ended())

	c.Begin(t.Context(), vm, nil, nil)
	progressed()
	c.Cancel("web")
	require.Equal(t, Unknown, ended().Result, "it may have been released before")

	c.Begin(t.Context(), vm, nil, nil)
	progressed()
	of.answer <- fmt.Errorf("%w: the connection has ended", control.ErrMigrationUnknown)
	require.Equal(t, Unknown, ended().Result)
	c.Forget("web")
	require.Equal(t, Call{}, c.Of("web"))

	for want, is := range map[Result]status.Status{
		Stayed:  {},
		Unknown: {Migration: &status.Migration{Progress: vmstatus.Progress{Stage: "Copying"}}},
		Moved:   {Outcome: &status.Outcome{Cause: vmstatus.CauseMoved}},
	} {
		of.status = is
		c.Query(t.Context(), vm, nil)
		require.Equal(t, want, ended().Result)
	}
	of.fails = errors.New("it doesn't answer")
	c.Query(t.Context(), vm, nil)
	require.Equal(t, Unknown, ended().Result)
	c.Begin(t.Context(), vm, nil, nil)
	require.Equal(t, Stayed, ended().Result, "the source was not asked")
	c.Gone("web")
	require.Equal(t, Call{}, c.Of("web"))
}

// Copied disks count toward the progress like the guest's memory, which follows them.
func TestProgressOfCopies(t *testing.T) {
	t.Parallel()
	c, is := &Calls{}, &call{}
	for _, p := range []struct {
		is   vmstatus.Progress
		want int32
	}{
		{vmstatus.Progress{DiskCopied: 300, DiskTotal: 1000}, 30},
		{vmstatus.Progress{DiskCopied: 1100, DiskTotal: 1100}, 99},
		{vmstatus.Progress{DiskCopied: 1100, DiskTotal: 1100, Total: 100, Remaining: 100}, 99},
		{vmstatus.Progress{}, 99},
	} {
		c.noteProgress(is, p.is)
		require.Equal(t, p.want, is.Progress)
	}
}
