package inventory

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/test/wait"
)

// insert changes the medium of the second drive of the VM web.
func (h *here) insert(file string, limit time.Duration) (MediumChange, error) {
	h.t.Helper()
	return h.ChangeMedium(h.t.Context(), MediumRequest{
		VM: "web", Drive: 1, File: file, Limit: limit, Tell: func(string, string) {},
	})
}

// The medium of a stopped VM is for its next start. A file is compared with the configuration, and only CD drives have
// media.
func TestMediaOfAStoppedVM(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	first := h.write("user/vmrunner/a.iso", []byte("a"))
	h.bare("drives: [{file: " + h.disk("root", 1) + "}, {type: ide-cd}, {file: " + h.disk("other", 1) + "}]")
	for _, file := range []string{first, "a.iso"} { // relative to the configuration
		c, err := h.insert(file, wait.Longest)
		require.NoError(t, err)
		require.Equal(t, MediumChange{Unchanged: file != first, Warnings: c.Warnings}, c)
		require.Contains(t, h.configured(), `file: "`+first+`"`)
	}
	_, err := h.insert("", wait.Longest)
	require.NoError(t, err)
	require.NotContains(t, h.configured(), first)
	_, err = h.ChangeMedium(t.Context(), MediumRequest{VM: "web", Drive: 2, File: first})
	require.EqualError(t, err, "insert "+first+" into web: vm.drives[2] is not a CD drive")
}

// A guest that uses a medium keeps it. The new medium stays configured, and is inserted when the guest releases the
// tray.
func TestAMediumThatTheGuestUses(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	h := newHere(t).withProgram()
	first := h.write("cds/a.iso", append([]byte("first"), make([]byte, 64<<10)...))
	second := h.write("cds/b.iso", append([]byte("second"), make([]byte, 64<<10)...))
	lines := strings.TrimRight(boots(t, h.disk("root", 1)), "\n")
	h.write("user/vmrunner/web.yaml", text("web", lines+"\n- {type: ide-cd, bus: scsi, file: "+first+"}"))
	require.NoError(t, h.Start(t.Context(), "web"))
	c := h.console("web")
	c.Do(`until [ "$(head -c 5 /dev/sr0)" = first ]; do usleep 100000; done 2>/dev/null`)
	c.Do("sleep 1000 </dev/sr0 >/dev/null 2>&1 & echo $! >/pid; until [ -b /proc/$!/fd/0 ]; do usleep 10000; done")
	_, err := h.insert(second, 3*time.Second)
	require.ErrorIs(t, err, ErrTray)
	require.Contains(t, h.configured(), filepath.Base(second))
	c.Do("kill $(cat /pid)")
	got, err := h.insert(second, wait.Longest)
	require.NoError(t, err)
	require.True(t, got.Unchanged)
	c.Do(`until [ "$(head -c 6 /dev/sr0)" = second ]; do usleep 100000; done 2>/dev/null`)
	require.NoError(t, h.End(t.Context(), "web", true))
}
