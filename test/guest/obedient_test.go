package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
)

// bootObedient starts an obedient guest, and waits until it is ready.
func bootObedient(t *testing.T, machine string, counts bool) *plainVM {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(disk, guest.Obedient(counts), 0o600))
	v := start(t, "-machine", machine, "-m", "32", "-device", "pvpanic", "-action", "panic=none",
		"-drive", "if=virtio,format=raw,file="+disk)
	v.qmp("query-status", nil, nil)
	await(t, v.lines, `^`+guest.ObedientSays+`$`)
	return v
}

// event waits for an event of QEMU, and returns its data.
func (v *plainVM) event(name string) (data string) {
	v.t.Helper()
	for {
		var message struct {
			Event string
			Data  json.RawMessage
		}
		require.NoError(v.t, v.replies.Decode(&message), name)
		if message.Event == name {
			return string(message.Data)
		}
	}
}

func (v *plainVM) typeLetters(text string) {
	v.t.Helper()
	_, err := fmt.Fprint(v.console, text)
	require.NoError(v.t, err)
}

func TestObedientGuest(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{"q35", "pc"} {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			v := bootObedient(t, machine, false)
			v.typeLetters("what is said 2 it\r")
			_, before := await(t, v.lines, `^WHAT IS SAID 2 IT$`)
			require.Empty(t, before)
			for _, letter := range []string{"R", "X"} {
				v.typeLetters(letter)
				require.JSONEq(t, `{"guest": true, "reason": "guest-reset"}`, v.event("RESET"))
				_, before = await(t, v.lines, `^`+guest.ObedientSays+`$`)
				require.Empty(t, before)
			}
			v.typeLetters("K")
			v.event("GUEST_PANICKED")

			v.typeLetters("D\n")
			await(t, v.lines, `^D$`)
			v.qmp("system_powerdown", nil, nil)
			await(t, v.lines, `^`+guest.ObedientHears+`$`)
			v.typeLetters("P")
			require.JSONEq(t, `{"guest": true, "reason": "guest-shutdown"}`, v.event("SHUTDOWN"))
			_, before = await(t, v.lines, `^`+guest.ObedientLeaves+`$`)
			require.Empty(t, before)
			v.gone()
		})
	}
}

func TestObedientGuestCounts(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{"q35", "pc"} {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			v := bootObedient(t, machine, true)
			_, before := await(t, v.lines, fmt.Sprintf(`^%0*x$`, guest.CounterLength, 11))
			require.Len(t, before, 10)
			require.Equal(t, "0000000a", before[9])
			v.qmp("system_powerdown", nil, nil)
			require.JSONEq(t, `{"guest": true, "reason": "guest-shutdown"}`, v.event("SHUTDOWN"))
			await(t, v.lines, `^`+guest.ObedientHears+`$`)
			await(t, v.lines, `^`+guest.ObedientLeaves+`$`)
			v.gone()
		})
	}
}
