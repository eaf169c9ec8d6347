package handover

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
)

// A data directory of a guest that has left keeps this fact after another failed migration, and clears it when the
// guest returns.
func TestAGuestThatHasLeft(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*trial){
		"comes back":      func(*trial) {},
		"is refused":      func(r *trial) { r.refusal = errors.New("it has 3 CPUs") },
		"is not recorded": func(r *trial) { r.takeFault = errors.New("the disk is full") },
		"is gone at the end": func(r *trial) {
			r.at = func(side string, p Progress) {
				if side == "target" && p.Stage == string(migrate.Resuming) {
					r.there().kill()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBare(t)
			left := Note{Record: migrate.Moved, Keys: link.Keys{Address: "192.0.2.7:7444"}}
			require.NoError(t, left.Write(r.toDir))
			prepare(r)
			target, receiving := r.asTarget()
			sent, received := get(t, r.asSource().ended), get(t, target.Decided())
			require.NoError(t, get(t, receiving.ended))
			if name == "comes back" {
				require.NoError(t, errors.Join(sent, received))
				unrecorded(t, r.toDir)
				return
			}
			require.Error(t, sent)
			require.Error(t, received)
			exactlyOne(t, r.from, r.there())
			now, err := Read(r.toDir)
			require.NoError(t, err)
			require.Equal(t, left, now)
		})
	}
}
