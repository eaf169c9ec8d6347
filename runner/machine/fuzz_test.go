package machine

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

// mostCommands is the maximum number of commands to QEMU per second.
const mostCommands = 100

// FuzzQEMU lets QEMU send anything. Each line is an event of the script:
//
//	NAME {…}   an event
//	={…}       the answer to the oldest command
//	!          the answer is lost
//	?TEXT      QEMU refuses
//	-          the connection breaks
//	.          it is restored
//	+          the time of the next wake comes
//
// The runner never panics or loops, sends a limited number of commands to QEMU, and publishes only valid
// statuses.
func FuzzQEMU(f *testing.F) {
	for _, script := range []string{
		"BLOCK_IO_ERROR {\"action\": \"stop\", \"nospace\": true, \"device\": \"\", \"node-name\": \"x\"}\nSTOP\n={\"status\": \"io-error\"}\n+",
		"STOP {}\n={\"status\": \"paused\"}\n+\nRESUME {}\n={\"status\": \"running\"}\n+\n={}\n+\n!",
		"SHUTDOWN {\"guest\": true, \"reason\": \"guest-panic\"}\n={\"status\": \"shutdown\"}\n-\n+\n.\n={}\n+",
		"VSERPORT_CHANGE {\"id\": \"port0\", \"open\": true}\n=[{\"label\": \"x\", \"frontend-open\": true}]\n+",
		"SPICE_INITIALIZED {\"client\": {\"host\": \"\\u001b[2J\", \"port\": \"1\"}}\nSPICE_DISCONNECTED {\"client\": null}\n=[{}]\n+",
		"VNC_CONNECTED {\"client\": {\"host\": \"a\", \"service\": \"1\", \"websocket\": 5}}\n=[{\"clients\": [{}]}]\n+",
		"GUEST_PANICKED {\"action\": \"pause\"}\nWATCHDOG {\"action\": 7}\nMEMORY_FAILURE {\"flags\": 1}\n?\x1b[2J\n+",
		"DEVICE_TRAY_MOVED []\nRESET null\nPOWERDOWN 1e999\n=" + strings.Repeat("[", 200) + "\n?\n.\n-\n+\n+",
	} {
		f.Add(byte(3), script)
	}
	f.Fuzz(func(t *testing.T, seed byte, script string) {
		var with []func(*Config)
		for bit, change := range []func(*Config){withTPM, withAgent} {
			if seed>>bit&1 == 1 {
				with = append(with, change)
			}
		}
		k := newTalk(t, with...)
		var said []time.Time // times of the commands sent in the last second
		for line := range strings.SplitSeq(script, "\n") {
			k.happens(line)
			if k.nextStep(); k.ended != nil {
				return
			}
			for range k.sent() {
				said = append(said, k.now)
			}
			said = slices.DeleteFunc(said, func(at time.Time) bool { return k.now.Sub(at) >= time.Second })
			require.LessOrEqual(t, len(said), mostCommands, "commands in a second")
			for _, p := range k.known.Problems {
				require.NotEmpty(t, p.Message)
			}
		}
	})
}

// happens executes a line of a script.
func (k *talk) happens(line string) {
	k.passes(time.Millisecond)
	dialed := slices.Contains(k.other, "Dial")
	k.other = nil
	switch {
	case line == "":
	case line == "+":
		if k.wake.After(k.now) {
			k.passes(k.wake.Sub(k.now))
		}
	case line == "-":
		k.loses()
	case line == ".":
		if dialed {
			k.state.Connected(k.now)
			k.state.Greeted("7.2.22")
		}
	case line[0] == '=':
		k.reply(json.RawMessage(line[1:]), nil)
	case line[0] == '!':
		k.reply(nil, errors.New("no reply"))
	case line[0] == '?':
		k.reply(nil, &qmp.Error{Class: qmp.GenericError, Desc: line[1:]})
	default:
		name, data, _ := strings.Cut(line, " ")
		k.event(name, data)
	}
}

// reply answers the oldest open command.
func (k *talk) reply(reply json.RawMessage, err error) {
	if len(k.open) > 0 {
		s := k.open[0]
		k.open = k.open[1:]
		k.state.Reply(s.ID, reply, err, k.now)
	}
}

// sent returns the commands of the last step.
func (k *talk) sent() (sent []Send) {
	for _, s := range k.open {
		if s.ID > k.seen {
			k.seen, sent = s.ID, append(sent, s)
		}
	}
	return sent
}
