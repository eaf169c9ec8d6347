package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// A port is found by the socket that is its other end, whatever it is called.
func TestThePortOfASocket(t *testing.T) {
	t.Parallel()
	option := func(flag, value string, properties ...string) plan.Option {
		o := plan.Option{Flag: flag, Value: value, List: true}
		for i := 0; i < len(properties); i += 2 {
			o.Properties = append(o.Properties, plan.Property{Key: properties[i], Value: properties[i+1]})
		}
		return o
	}
	args := []plan.Option{
		option("-device", "virtio-serial-pci", "id", "bus"),
		option("-chardev", "socket", "id", "one", "path", "/run/a,b", "server", "on"),
		option("-device", "virtserialport", "id", "channel7", "chardev", "one", "name", "x"),
		option("-chardev", "socket", "id", "two", "path", "/run/c"),
		option("-device", "virtserialport", "chardev", "two", "name", "y"),
		option("-chardev", "socket", "id", "three", "path", "/run/d"),
		option("-chardev", "pty"),
		option("-device", "virtserialport", "id", "channel9"),
	}
	require.Equal(t, "channel7", portDevice(args, "/run/a,b"))
	require.Empty(t, portDevice(args, "/run/c"), "without an id QEMU tells nothing of it")
	require.Empty(t, portDevice(args, "/run/d"), "no port")
	require.Empty(t, portDevice(args, "/run/e"), "no socket")
}

func TestHowOftenTheGuestIsAsked(t *testing.T) {
	t.Parallel()
	var r rounds
	var pauses []time.Duration
	for _, answered := range []bool{false, false, false, true, true, true, true, false, false, true} {
		pauses = append(pauses, r.next(answered)/time.Second)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 5, 15, 60, 60, 1, 2, 60}, pauses)
	for range 100 {
		require.LessOrEqual(t, r.next(false), longPause)
	}
	require.Equal(t, longPause, r.next(false))
}
