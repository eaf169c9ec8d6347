package runner_test

import (
	"bytes"
	"testing"
)

// After an invalid message the runner reconnects, and the guest does not notice.
func TestFault12TheMonitorsConnectionIsRuined(t *testing.T) {
	t.Parallel()
	v, p, answers := talkative(t)
	for what, text := range map[string][]byte{
		"no JSON":         []byte("no JSON\r\n"),
		"no object":       []byte("[1, 2]\r\n"),
		"a line of 64 MB": bytes.Repeat([]byte{'x'}, 64<<20),
	} {
		t.Log(what)
		p.say(text)
		p.reconnected()
		answers()
	}
	p.say([]byte(`{"return": `)) // an incomplete line
	p.hangUp()
	p.reconnected()
	answers()
	v.ends()
}

// hangUp ends the runner's connection.
func (p *interposer) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runner.Close()
}
