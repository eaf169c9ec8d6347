package runner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/invariants"
)

// Row 12 of the fault matrix: messages of QEMU's monitor.

// talkative returns a running VM with a monitor that sends the test's messages.
func talkative(t *testing.T) (v *vm, p *interposer, answers func()) {
	t.Helper()
	v = newVM(t, "bare")
	p, line := v.interposed()
	v.configure("bare", nil, line, "powerdownTimeout: 0")
	v.runs()
	p.reconnected()
	pid := invariants.OneQEMU(t, v.dir)
	return v, p, func() {
		t.Helper()
		reply, err := v.client().QMP(t.Context(), qmp.Command{Execute: "query-status"})
		require.NoError(t, err)
		require.Contains(t, string(reply), `"running"`)
		v.lives(pid)
	}
}

// The runner ignores messages without meaning.
func TestFault12TheMonitorTalksNonsense(t *testing.T) {
	t.Parallel()
	v, p, answers := talkative(t)
	for _, text := range []string{
		`{"return": {}, "id": 123456789}`, `{"return": {}, "id": "mine"}`, `{"return": {}}`, `{"return": {}, "id": -1}`,
		`{"error": {"class": "GenericError", "desc": "no"}}`,
		`{"error": {"class": "GenericError", "desc": "no"}, "id": 99999}`,
		`{"something": "new"}`, ``, `{}`,
		"{\"event\": \"\xff\xfe\\u001b[31m\", \"data\": {\"text\": \"\xc3\x28\"}}",
		`{"event": "SHUTDOWN_NOT", "data": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		p.say([]byte(text + "\r\n"))
		answers()
	}
	require.NotContains(t, v.log.text(), "\x1b")
	v.ends()
}
